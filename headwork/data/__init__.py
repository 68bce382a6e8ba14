"""Where data comes from, verified and cached; images and texts in memory; tokens and batches.

    data = load_images("fashion-mnist", seed=0)       # Images: train, validation, and test, read when first touched
    images, labels = data.train.tensors()             # uint8 (image, channel, height, width) and int64 (image)
    for chosen in batches(len(data.train), 128, seed=0, epoch=3):
        inputs = data.normalised(images[chosen])      # float32, by the mean and std of the training images

    texts = load_texts("imdb")                        # or "reviews.csv", columns=("review", "stars")
    tokenizer = train_tokenizer(texts.train.texts)    # or read_tokenizer(fetch("minilm") / "tokenizer.json")
    encoded = tokenizer.encoded(texts.train)
    for chosen in batches(len(encoded), 64, seed=0, epoch=3, lengths=encoded.lengths):
        tokens, mask, labels = encoded.tensors(chosen)

The order of the batches is a function of (seed, epoch) and nothing else: to resume in mid-epoch, ask for the
same list again and go on at the next place. Only ``tensors`` and ``normalised`` need torch.
"""

from headwork.data.fetching import cache_folder, fetch
from headwork.data.images import Images, ImageSplit
from headwork.data.known import KNOWN, Known
from headwork.data.loading import load, load_images, load_texts
from headwork.data.pictures import read_image
from headwork.data.splits import batches, batches_in_order
from headwork.data.texts import Texts, TextSplit
from headwork.data.tokens import Encoded, Tokenizer, read_tokenizer, train_tokenizer

__all__ = [
    "KNOWN",
    "Encoded",
    "ImageSplit",
    "Images",
    "Known",
    "TextSplit",
    "Texts",
    "Tokenizer",
    "batches",
    "batches_in_order",
    "cache_folder",
    "fetch",
    "load",
    "load_images",
    "load_texts",
    "read_image",
    "read_tokenizer",
    "train_tokenizer",
]

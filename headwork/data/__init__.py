"""Where data comes from, verified and cached; images and texts in memory; tokens and batches.

    data = load_images("fashion-mnist", seed=0)       # .train, .validation, .test (read when first used)
    images, labels = data.train.tensors()             # uint8 (image, channel, height, width), int64 (image)
    for indices in batches(len(data.train), 128, seed=0, epoch=3):
        inputs = data.normalise(images[indices])      # float32, by the mean and std of the training images

    texts = load_texts("imdb")                        # or "reviews.csv", columns=("review", "stars")
    tokenizer = train_tokenizer(texts.train.texts)    # or read_tokenizer(fetch("minilm") / "tokenizer.json")
    encoded = tokenizer.encode(texts.train)
    for indices in batches(len(encoded), 64, seed=0, epoch=3, lengths=encoded.lengths):
        tokens, mask, labels = encoded.tensors(indices)

The order of the batches is a function of (seed, epoch) and nothing else: to resume in mid-epoch, ask for the
same list again and continue with the next one. Only ``tensors`` and ``normalise`` need torch.
"""

from headwork.data.catalog import CATALOG, Entry
from headwork.data.datasets import Images, ImageSplit, Texts, TextSplit
from headwork.data.fetching import cache_folder, fetch
from headwork.data.image_files import read_image
from headwork.data.loading import load, load_images, load_texts
from headwork.data.splits import batches, batches_in_order
from headwork.data.tokens import EncodedTexts, Tokenizer, read_tokenizer, train_tokenizer

"""Tokens of texts: a tokenizer trained on the training part alone, or a pretrained encoder's; padded batches.

Ours is byte-pair encoding (Sennrich et al. 2016, arXiv 1508.07909) on the bytes of lower-cased text, so no
text has an unknown token; [PAD] is 0, every text begins with [CLS], 1. A mask is True for tokens, else False.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from headwork.data.datasets import TextSplit
from headwork.data.splits import Indices
from headwork.errors import InputError
from headwork.files import read_bytes, write_atomic
from headwork.tokenizer_files import MAX_TOKENIZER_BYTES, library_errors, read_tokenizer_json

if TYPE_CHECKING:
    from torch import Tensor

Item = TypeVar("Item")
PADDING_NAMES = ("[PAD]", "<pad>", "<|padding|>")
CHUNK_SIZE = 1000  # texts encoded together
MIN_VOCABULARY = 258  # the bytes, [PAD] and [CLS]


@dataclass(frozen=True)
class EncodedTexts:
    """Texts as tokens, one after another in one array, with their labels.

    >>> ids, starts = np.array([1, 7, 1, 8, 9], np.int32), np.array([0, 2, 5])
    >>> tokens, mask = EncodedTexts(ids, starts, labels=np.array([0, 1]), padding=0).pad(np.array([0, 1]))
    >>> tokens.tolist(), mask.tolist()
    ([[1, 7, 0], [1, 8, 9]], [[True, True, False], [True, True, True]])
    """

    ids: NDArray[np.int32] = field(repr=False)
    starts: NDArray[np.int64] = field(repr=False)  # where each text begins, and the end
    labels: NDArray[np.int64] = field(repr=False)
    padding: int

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each text."""
        return np.diff(self.starts)

    def pad(self, indices: Indices) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Tokens and mask (text, token) of the texts at those indices, as long as the longest."""
        starts = self.starts[indices]
        lengths = self.starts[indices + 1] - starts
        across = np.arange(int(lengths.max(initial=1)))
        mask = across < lengths[:, None]
        tokens = np.full(mask.shape, self.padding, np.int64)
        tokens[mask] = self.ids[(starts[:, None] + across)[mask]]
        return tokens, mask

    def tensors(self, indices: Indices) -> "tuple[Tensor, Tensor, Tensor]":
        """Tokens (text, token; int64), mask (text, token; bool) and labels (text; int64) as torch tensors."""
        import torch

        tokens, mask = self.pad(indices)
        return torch.from_numpy(tokens), torch.from_numpy(mask), torch.from_numpy(self.labels[indices])


class Tokenizer:
    """Splits texts into at most ``max_length`` tokens; longer ones lose their middle: the end often sums up.

    ``inner`` is the library's own, which by itself would cut off the end.
    """

    def __init__(self, inner: Any, max_length: int) -> None:
        if max_length < 2:
            raise InputError(f"max_length {max_length}: expected at least 2 tokens.")
        padding = next((name for name in PADDING_NAMES if inner.token_to_id(name) is not None), None)
        if padding is None:
            raise InputError(f"the tokenizer has no token for padding ({', '.join(PADDING_NAMES)}).")
        # A pretrained tokenizer.json may pad and cut by itself, to lengths of its own.
        inner.no_padding()
        inner.no_truncation()
        self.uncut = copy.deepcopy(inner)
        inner.enable_truncation(max_length)
        self.inner, self.max_length = inner, max_length
        self.padding: int = inner.token_to_id(padding)

    @property
    def vocabulary(self) -> int:
        """The number of tokens."""
        return int(self.inner.get_vocab_size())

    def encode(self, texts: TextSplit | Sequence[str]) -> EncodedTexts:
        """All the texts as tokens; the labels of bare texts are 0."""
        split = texts if isinstance(texts, TextSplit) else TextSplit(texts, np.zeros(len(texts), np.int64))
        pieces = [np.zeros(0, np.int32)]
        for start in range(0, len(split), CHUNK_SIZE):
            with library_errors("tokenizer"):
                encodings = self.uncut.encode_batch_fast(list(split.texts[start : start + CHUNK_SIZE]))
                pieces += [np.array(_without_middle(one.ids, self.max_length), np.int32) for one in encodings]
        lengths = [len(piece) for piece in pieces]
        starts = np.cumsum(lengths, dtype=np.int64)
        return EncodedTexts(np.concatenate(pieces), starts, split.labels, self.padding)

    def tokens(self, text: str) -> list[str]:
        """The tokens of one text as words to show.

        >>> train_tokenizer(["low lower", "low"], vocabulary=261).tokens("Lower")
        ['[CLS]', 'low', 'e', 'r']
        """
        with library_errors("tokenizer"):
            encoding = self.uncut.encode(text)
        pairs = _without_middle(list(zip(encoding.ids, encoding.tokens, strict=True)), self.max_length)
        return [
            self.inner.decode([number], skip_special_tokens=False).strip() or token for number, token in pairs
        ]

    def save(self, path: str | Path) -> Path:
        """Write it as a tokenizer.json."""
        return write_atomic(path, self.inner.to_str(pretty=True))


def _without_middle(items: list[Item], max_length: int) -> list[Item]:
    """Both ends of what is too long.

    >>> _without_middle([1, 2, 3, 4, 5], 4)
    [1, 2, 4, 5]
    """
    half = max_length // 2
    return items if len(items) <= max_length else items[: max_length - half] + items[-half:]


def train_tokenizer(texts: Sequence[str], *, vocabulary: int = 8000, max_length: int = 256) -> Tokenizer:
    """A tokenizer for these texts, the training part's alone; the same texts give the same tokenizer.

    >>> train_tokenizer(["low lower lowest", "low"], vocabulary=260).vocabulary
    260
    """
    tokenizers = _library()
    if vocabulary < MIN_VOCABULARY:
        raise InputError(
            f"vocabulary {vocabulary}: expected at least {MIN_VOCABULARY}: the bytes, [PAD] and [CLS]."
        )
    inner = tokenizers.Tokenizer(tokenizers.models.BPE())
    inner.normalizer = tokenizers.normalizers.Sequence(
        [tokenizers.normalizers.NFC(), tokenizers.normalizers.Lowercase()]
    )
    inner.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=True)
    inner.decoder = tokenizers.decoders.ByteLevel()
    inner.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A", special_tokens=[("[CLS]", 1)]
    )
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=["[PAD]", "[CLS]"],
        min_frequency=2,
        show_progress=False,
        initial_alphabet=sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()),
    )
    inner.train_from_iterator(iter(texts), trainer)
    return Tokenizer(inner, max_length)


def read_tokenizer(path: str | Path, *, max_length: int = 256) -> Tokenizer:
    """A tokenizer.json: one that was saved, or a pretrained encoder's."""
    _library()
    inner = read_tokenizer_json(read_bytes(path, max_bytes=MAX_TOKENIZER_BYTES), path)
    return Tokenizer(inner, max_length)


def _library() -> Any:
    try:
        import tokenizers
    except ImportError:
        raise InputError('texts need the tokenizers library: pip install ".[train]".') from None
    return tokenizers

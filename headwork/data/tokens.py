"""Tokens of texts: a tokenizer trained on the training part alone, or a pretrained encoder's; padded batches.

Ours is byte-pair encoding (Sennrich et al. 2016, arXiv 1508.07909) on the bytes of lower-cased text, so no
text has an unknown token; [PAD] is 0, every text begins with [CLS], 1. A mask is True for tokens, else False.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headwork.data.datasets import TextSplit
from headwork.data.splits import Indices
from headwork.errors import InputError
from headwork.files import read_bytes
from headwork.tokenizer_files import MAX_TOKENIZER_BYTES, PythonTokenizer, read_tokenizer_json

if TYPE_CHECKING:
    from torch import Tensor

PADDING_NAMES = ("[PAD]", "<pad>", "<|padding|>")
MIN_VOCABULARY = 258  # the bytes, [PAD] and [CLS]
LONG_END = 100  # letters for each token that is kept: the middle of a longer text is not read
# What pairs are learned from is the beginning of such a word: each merge goes through all of a word again.
LONG_WORD = re.compile(r"(\S{200})\S+|(\s{200})\s+")


@dataclass(frozen=True)
class EncodedTexts:
    """Texts as tokens, one after another in one array, with their labels.

    >>> ids, starts = np.array([1, 7, 1, 8, 9], np.int32), np.array([0, 2, 5])
    >>> tokens, mask = EncodedTexts(ids, starts, labels=np.array([0, 1]), padding_id=0).pad(np.array([0, 1]))
    >>> tokens.tolist(), mask.tolist()
    ([[1, 7, 0], [1, 8, 9]], [[True, True, False], [True, True, True]])
    """

    ids: NDArray[np.int32] = field(repr=False)
    starts: NDArray[np.int64] = field(repr=False)  # where each text begins, and the end
    labels: NDArray[np.int64] = field(repr=False)
    padding_id: int

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
        offsets = np.arange(int(lengths.max(initial=1)))
        mask = offsets < lengths[:, None]
        tokens = np.full(mask.shape, self.padding_id, np.int64)
        tokens[mask] = self.ids[(starts[:, None] + offsets)[mask]]
        return tokens, mask

    def tensors(self, indices: Indices) -> "tuple[Tensor, Tensor, Tensor]":
        """Tokens (text, token; int64), mask (text, token; bool) and labels (text; int64) as torch tensors."""
        import torch

        tokens, mask = self.pad(indices)
        return torch.from_numpy(tokens), torch.from_numpy(mask), torch.from_numpy(self.labels[indices])


class Tokenizer:
    """Splits texts into at most ``max_length`` tokens; longer ones lose their middle: the end often sums up.

    ``inner`` is that of a tokenizer.json, which by itself would cut off the end.
    """

    def __init__(self, inner: PythonTokenizer, max_length: int) -> None:
        if max_length < 2:
            raise InputError(f"max_length {max_length}: expected at least 2 tokens.")
        padding_name = next((name for name in PADDING_NAMES if name in inner.token_ids), None)
        if padding_name is None:
            raise InputError(f"the tokenizer has no token for padding ({', '.join(PADDING_NAMES)}).")
        self.inner, self.max_length = inner, max_length
        inner.max_length = max_length  # a pretrained tokenizer.json may have one of its own
        self.padding_id = inner.token_ids[padding_name]

    @property
    def vocabulary_size(self) -> int:
        """The number of tokens."""
        return len(self.inner.token_ids)

    def encode(self, texts: TextSplit | Sequence[str]) -> EncodedTexts:
        """All the texts as tokens; the labels of bare texts are 0."""
        split = texts if isinstance(texts, TextSplit) else TextSplit(texts, np.zeros(len(texts), np.int64))
        pieces = [np.zeros(0, np.int32), *(np.array(self._encoded(text), np.int32) for text in split.texts)]
        starts = np.cumsum([len(piece) for piece in pieces], dtype=np.int64)
        return EncodedTexts(np.concatenate(pieces), starts, split.labels, self.padding_id)

    def tokens(self, text: str) -> list[str]:
        """The tokens of one text as words to show.

        >>> train_tokenizer(["low lower", "low"], vocabulary=261).tokens("Lower")
        ['[CLS]', 'low', 'e', 'r']
        """
        inner = self.inner
        return [inner.token_text(n).strip() or inner.token_names[n] for n in self._encoded(text)]

    def _encoded(self, text: str) -> list[int]:
        """Both ends of what is too long."""
        if len(text) > 2 * (end := LONG_END * self.max_length):
            text = f"{text[:end]} {text[-end:]}"
        ids, half = self.inner.encode(text, all_tokens=True), self.max_length // 2
        return ids if len(ids) <= self.max_length else ids[: self.max_length - half] + ids[-half:]

    def to_bytes(self) -> bytes:
        """The content of its tokenizer.json."""
        return self.inner.to_str(pretty=True).encode()


def train_tokenizer(texts: Sequence[str], *, vocabulary: int = 8000, max_length: int = 256) -> Tokenizer:
    """A tokenizer for these texts, the training part's alone; the same texts give the same tokenizer.

    >>> train_tokenizer(["low lower lowest", "low"], vocabulary=260).vocabulary_size
    260
    """
    try:
        import tokenizers
    except ImportError:
        raise InputError('training a tokenizer needs tokenizers: pip install ".[train]".') from None
    if vocabulary < MIN_VOCABULARY:
        raise InputError(
            f"vocabulary {vocabulary}: expected at least {MIN_VOCABULARY}: the bytes, [PAD] and [CLS]."
        )
    inner = tokenizers.ByteLevelBPETokenizer(add_prefix_space=True, lowercase=True, unicode_normalizer="nfc")
    cut = (LONG_WORD.sub(r"\1\2", text) for text in texts)
    inner.train_from_iterator(
        cut, vocabulary, min_frequency=2, show_progress=False, special_tokens=["[PAD]", "[CLS]"]
    )
    start = tokenizers.processors.TemplateProcessing(single="[CLS] $A", special_tokens=[("[CLS]", 1)])
    inner.post_processor = start
    return parse_tokenizer(inner.to_str().encode(), max_length)


def read_tokenizer(path: str | Path, *, max_length: int = 256) -> Tokenizer:
    """A tokenizer.json: one that was saved, or a pretrained encoder's."""
    return parse_tokenizer(read_bytes(path, max_bytes=MAX_TOKENIZER_BYTES), max_length, path)


def parse_tokenizer(data: bytes, max_length: int, where: str | Path = "tokenizer.json") -> Tokenizer:
    """The tokenizer of a tokenizer.json's content."""
    return Tokenizer(read_tokenizer_json(data, where), max_length)

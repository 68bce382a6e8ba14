"""A tokenizer.json in plain Python gives the tokens that the library gives, or is refused by name."""

from __future__ import annotations

import itertools
import json
import random
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import pytest
import tokenizers
from tokenizers import models, normalizers, pre_tokenizers, processors, trainers

from headwork.data import fetch, load_texts, train_tokenizer
from headwork.errors import InputError
from headwork.tokenizer_files import MAX_MEMOISED, PythonTokenizer, read_tokenizer_json

TEXTS = [
    "The film isn't good, it's great: 10/10! We'll see it again.",
    "Naïve café, résumé, Ångström; ΟΔΥΣΣΕΥΣ, İstanbul, ﬁne, Straße",
    "日本語 and 中文 and 한국어 in 2024, ½ of ⅷ, ١٢٣",
    "emoji 😀👩‍👩‍👧 and \t tabs\r\n\n and  spaces   .",
]
PIECES = [
    "a",
    "B",
    " ",
    "  ",
    "'s",
    "'LL",
    "é",
    "\u0301",
    "[CLS]",
    "[UNK]",
    "[cls]",
    "\n",
    "\t",
    "1",
    "中",
    "Σ",
    "İ",
]
PIECES += [
    "😀",
    "\u200d",
    "##a",
    "the",
    "\x00",
    "\x85",
    "\xa0",
    "\u3000",
    "\ufffd",
    "\u0345",
    "ﷺ",
    "$",
    "—",
    "𝒳",
]
PIECES += ["\u166d", "\u1734", "\U000111c9", "\U0001171e", "\u2e43"]  # something else in Unicode 8
BLOCKS = [(32, 127), (0, 32), (128, 592), (768, 880), (880, 1328), (1424, 1792), (8192, 8304), (19968, 40960)]
BLOCKS += [(0xAC00, 0xD7A4), (0x1F300, 0x1F700), (0x20000, 0x2A6E0)]


@cache
def known() -> list[str]:
    """The characters that Python knows."""
    return [chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) not in ("Cs", "Cn")]


def random_texts(count: int) -> Iterator[str]:
    """Any characters, those of one block, hard pieces, and very long words."""
    draw = random.Random(0)
    for _ in range(count):
        length, kind = draw.choice([0, 1, 3, 10, 40, 200]), draw.randrange(4)
        if kind == 0:
            yield "".join(draw.choices(known(), k=length))
        elif kind == 1:
            yield "".join(chr(draw.randrange(*draw.choice(BLOCKS))) for _ in range(length))
        elif kind == 2:
            yield "".join(draw.choices(PIECES, k=length))
        else:
            yield draw.choice(["a", "ab", "é", "中", "1", "!", "Σ"]) * draw.choice(
                [1, 99, 100, 101, 1000, 4000]
            )


def word_pieces(**options: Any) -> str:
    inner = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    inner.normalizer = normalizers.BertNormalizer(**options)
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[CLS"]  # the longest counts
    inner.train_from_iterator(
        TEXTS * 3, trainers.WordPieceTrainer(special_tokens=special, show_progress=False)
    )
    inner.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return inner.to_str()


def byte_pairs() -> str:
    return train_tokenizer(TEXTS * 3, vocabulary=400).inner.to_str()


def words_of_a_list() -> str:
    names = ["[UNK]", *["the", "film", "good", "ab", "a", "1"]]
    inner = tokenizers.Tokenizer(
        models.WordLevel({name: k for k, name in enumerate(names)}, unk_token="[UNK]")
    )
    inner.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return inner.to_str()


def check_equal(data: str, texts: Sequence[str]) -> None:
    theirs, ours = tokenizers.Tokenizer.from_str(data), read_tokenizer_json(data.encode(), "here")
    theirs.no_padding()
    for max_length in (None, 7):
        ours.max_length = max_length
        theirs.no_truncation() if max_length is None else theirs.enable_truncation(max_length)
        for text, encoding in zip(texts, theirs.encode_batch_fast(list(texts)), strict=True):
            assert ours.encode(text) == encoding.ids, ascii(text)
    assert len(ours.token_ids) == theirs.get_vocab_size()
    for number, name in ours.token_names.items():
        assert theirs.id_to_token(number) == name
        assert theirs.decode([number], skip_special_tokens=False) == ours.token_text(number)


OPTIONS = [
    dict(zip(("clean_text", "handle_chinese_chars", "strip_accents", "lowercase"), values, strict=True))
    for values in itertools.product((True, False), (True, False), (None, True, False), (True, False))
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_word_pieces_are_the_librarys(options: dict[str, Any]) -> None:
    check_equal(word_pieces(**options), [*TEXTS, *random_texts(300)])


def test_the_librarys_normal_forms_are_of_an_older_unicode() -> None:
    """The one known difference in characters that Python knows: marks that came later keep their order."""
    text = "a\u1df6\u0301"
    assert unicodedata.normalize("NFC", text) == "á\u1df6"
    assert normalizers.NFC().normalize_str(text) == text


def test_byte_pairs_and_words_are_the_librarys() -> None:
    for data in (byte_pairs(), words_of_a_list()):
        check_equal(data, [*TEXTS, *random_texts(1000)])


def check_each_character(data: str) -> set[str]:
    """The characters whose tokens are not the library's."""
    theirs, ours = tokenizers.Tokenizer.from_str(data), PythonTokenizer(json.loads(data))
    characters = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    texts = [f"a{character}a 1{character}1 !{character}!" for character in characters]
    pairs = zip(characters, texts, theirs.encode_batch_fast(texts), strict=True)
    return {character for character, text, encoding in pairs if ours.encode(text) != encoding.ids}


@pytest.mark.soak
def test_each_character_is_read_as_the_library_reads_it() -> None:
    for data in (word_pieces(), byte_pairs()):
        # Rust knows more letters and digits than Python does yet. One character decomposes only in Python.
        other = check_each_character(data)
        assert {c for c in other if unicodedata.category(c) != "Cn" and c.lower() == c} <= {"\U00011938"}


@pytest.mark.soak
@pytest.mark.real("minilm", "imdb")
@pytest.mark.parametrize("name", ["minilm", "ours"])
def test_real_texts_are_read_as_the_library_reads_them(name: str) -> None:
    sets = [load_texts(name).train.texts[:2500] for name in ("imdb", "rotten-tomatoes")]
    if name == "minilm":
        data = (fetch("minilm") / "tokenizer.json").read_text()
    else:
        data = train_tokenizer(load_texts("imdb").train.texts[:5000]).inner.to_str()
    check_equal(data, [*sets[0], *sets[1], *random_texts(10_000)])


def test_a_file_is_written_as_the_library_writes_it() -> None:
    for data in (byte_pairs(), word_pieces()):
        theirs, ours = tokenizers.Tokenizer.from_str(data), read_tokenizer_json(data.encode(), "here")
        theirs.enable_truncation(9)
        ours.max_length = 9
        for pretty in (True, False):
            assert ours.to_str(pretty=pretty) == theirs.to_str(pretty=pretty)
        assert read_tokenizer_json(ours.to_str().encode(), "here").max_length == 9


@pytest.mark.parametrize("data", [byte_pairs(), word_pieces()], ids=["bytes", "pieces"])
@pytest.mark.parametrize(
    "text", ["a" * 300_000, "ab" * 150_000, " " * 300_000, "é" * 300_000, "中!" * 150_000]
)
def test_a_long_word_ends_at_once_and_is_not_remembered(data: str, text: str) -> None:
    ours = read_tokenizer_json(data.encode(), "here")
    ours.encode(text)  # at once; in quadratic time it would take minutes
    assert all(len(word) <= 100 for word in ours.ids_of_word)


def test_no_more_words_are_remembered_than_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_MEMOISED < 200_000
    monkeypatch.setattr("headwork.tokenizer_files.MAX_MEMOISED", 10)
    ours = read_tokenizer_json(byte_pairs().encode(), "here")
    ours.encode(" ".join(map(str, range(100))))
    assert len(ours.ids_of_word) == 10


def test_half_a_character_is_refused() -> None:
    for data in (byte_pairs(), word_pieces()):
        with pytest.raises(InputError, match=r"'a\\udc80' holds half a character"):
            read_tokenizer_json(data.encode(), "here").encode("a\udc80")


ROW = {"id": 1, "content": "x", "special": True, "normalized": False}
UNKNOWN = {
    "the normalizer 'Replace' is unknown": {"normalizer": {"type": "Replace"}},
    "the normalizer 'Precompiled' is unknown": {
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Precompiled"}]}
    },
    "the normalizer has more than 16 steps": {
        "normalizer": {
            "type": "Sequence",
            "normalizers": [{"type": "Sequence", "normalizers": [{"type": "NFC"}] * 9}] * 2,
        }
    },
    "clean_text is None, expected bool": {"normalizer": {"type": "BertNormalizer"}},
    "the pre_tokenizer 'Metaspace' is unknown": {"pre_tokenizer": {"type": "Metaspace"}},
    "the pre_tokenizer 'null' is unknown": {"pre_tokenizer": None},
    "ByteLevel with use_regex False": {
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True, "use_regex": False}
    },
    "the post_processor 'Sequence' is unknown": {"post_processor": {"type": "Sequence"}},
    "the post_processor has the text 2 times": {
        "post_processor": {"type": "TemplateProcessing", "single": [{"Sequence": {}}, {"Sequence": {}}]}
    },
    "'special_tokens' is missing": {
        "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "x"}}]}
    },
    "the decoder 'Strip' is unknown": {"decoder": {"type": "Strip"}},
    "the added token 'x' with lstrip True": {"added_tokens": [{**ROW, "lstrip": True}]},
    "the added token 'x' has the id 5, expected 1": {"added_tokens": [{**ROW, "id": 5}]},
    "added_tokens has 2,000 parts": {"added_tokens": [ROW] * 2000},
    "truncation with direction 'Left'": {"truncation": {"max_length": 3, "direction": "Left"}},
    "model is 3, expected dict": {"model": 3},
    "the model 'Unigram' is unknown": {"model": {"type": "Unigram", "vocab": {}}},
    "vocab is .*, expected dict": {"model": {"type": "WordLevel", "vocab": [["a", 1.0]]}},
    "the number of a token is not a whole number": {
        "model": {"type": "WordLevel", "unk_token": "a", "vocab": {"a": "0"}}
    },
    "'b' is missing": {"model": {"type": "WordLevel", "unk_token": "b", "vocab": {"a": 0}}},
    "BPE with dropout 0.5": {"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [], "dropout": 0.5}},
    "'ab' is missing": {"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": ["a b"]}},
    "unpack": {"model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["a a a"]}},
}


@pytest.mark.parametrize("told", UNKNOWN)
def test_an_unknown_part_is_refused_by_name(told: str) -> None:
    plain = {
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "model": {"type": "WordLevel", "unk_token": "a", "vocab": {"a": 0}},
    }
    read_tokenizer_json(json.dumps(plain).encode(), "here")
    with pytest.raises(InputError, match=rf"^here: not a tokenizer that can be read here \(.*{told}"):
        read_tokenizer_json(json.dumps({**plain, **UNKNOWN[told]}).encode(), "here")


def test_a_damaged_file_is_refused_or_read() -> None:
    draw, data = random.Random(1), byte_pairs().encode()
    for _ in range(500):
        changed = bytearray(data)
        for place in draw.sample(range(len(data)), 3):
            changed[place] = draw.choice(b' 0123456789{}[],:"xytrue')
        try:
            ours = read_tokenizer_json(bytes(changed), "here")
        except InputError as error:
            told = str(error)
        else:
            told = "here: read" if ours.encode(TEXTS[0]) else ""
        assert told.startswith("here: ")

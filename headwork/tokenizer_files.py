"""A tokenizer.json, read and used in plain Python: BERT's word pieces, and the byte pairs that ours train.

Token by token as the tokenizers library does it, and faster, since each word is worked out once. A part that
is not written here is refused by its name. The two differ only where their Unicode does: in letters and
digits that Python's ``unicodedata`` does not know yet, and in the normal forms (NFC, NFD) of characters that
came after the library's tables for these, such as the order of two marks.
"""

import json
import re
import unicodedata
from bisect import bisect
from collections.abc import Callable
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

from headwork.errors import InputError, truncate
from headwork.files import load_package_toml

MAX_TOKENIZER_BYTES = 100_000_000
MAX_LENGTHS = {"vocab": 300_000, "merges": 300_000, "added_tokens": 1000}  # may be long; other lists:
MAX_LIST, MAX_STRING = 16, 1000
MAX_WORD = 100_000  # bytes that are merged with each other; a longer word is taken in parts
MAX_MEMOISED = 2**17  # words, and characters, whose answer is kept
WHITE_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(8192, 8203)))
UNICODE = load_package_toml(__file__, "tokenizer_unicode.toml")
# Bytes as letters, so that each can be seen: most as themselves, the others from 256 on.
_PRINTABLE = {*range(33, 127), *range(161, 173), *range(174, 256)}
BYTE_TO_CHAR = {byte: chr(byte) for byte in _PRINTABLE}
BYTE_TO_CHAR |= {byte: chr(256 + n) for n, byte in enumerate(sorted({*range(256)} - _PRINTABLE))}
CHAR_TO_BYTE = {letter: byte for byte, letter in BYTE_TO_CHAR.items()}

Json = dict[str, Any]
Normalizer = Callable[[str], str]
Ids = tuple[int, ...]
Merges = dict[tuple[int, int], tuple[int, int]]  # two tokens, to the rank of the merge and what they become


def read_tokenizer_json(data: bytes, where: str | Path) -> "PythonTokenizer":
    """The tokenizer of a tokenizer.json, without the padding that its author's last script set."""
    try:
        return PythonTokenizer(json.loads(data, object_hook=_check_lengths))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else error
        raise InputError(f"{where}: not a tokenizer that can be read here ({reason}).") from None


def _check_lengths(node: Json) -> Json:
    """Refuse what would take much more time or memory than its file and its texts."""
    for name, value in node.items():
        strings = [name, *([value] if isinstance(value, str) else [])]
        if name in MAX_LENGTHS and isinstance(value, (dict, list)):
            strings += map(str, value)
        if isinstance(value, (dict, list)) and len(value) > MAX_LENGTHS.get(name, MAX_LIST):
            raise ValueError(f"{truncate(name, 100)} has {len(value):,} parts")
        if (longest := max(map(len, strings))) > MAX_STRING:
            raise ValueError(f"{truncate(name, 100)} has {longest:,} characters")
    return node


class Memoised(dict[Any, Any]):
    """The answers of a rule, each worked out once; also a table for ``str.translate``."""

    def __init__(self, rule: Callable[[Any], Any]) -> None:
        super().__init__()
        self.rule = rule

    def __missing__(self, key: Any) -> Any:
        value = self.rule(key)
        if len(self) < MAX_MEMOISED and len(str(key)) <= 100:
            self[key] = value
        return value


class PythonTokenizer:
    """The tokenizer that a tokenizer.json describes; a text loses what comes after ``max_length`` tokens."""

    def __init__(self, data: Json) -> None:
        self.data, model = data, _get(data, "model", dict)
        vocabulary: dict[str, int] = _get(model, "vocab", dict)
        added = _added_tokens(data.get("added_tokens") or [], vocabulary)
        self.token_ids = {**vocabulary, **added}
        self.token_names = {token_id: name for name, token_id in self.token_ids.items()}
        self.prefix, self.suffix = _special_tokens(data.get("post_processor"))
        if not all(
            type(n) is int and 0 <= n < 2**31 for n in (*self.token_names, *self.prefix, *self.suffix)
        ):
            raise ValueError("the number of a token is not a whole number")
        longest_first = sorted(added, key=len, reverse=True)
        self.added_pattern = re.compile(f"({'|'.join(map(re.escape, longest_first))})") if added else None
        self.normalizers = _normalizers(data.get("normalizer"))
        self.split, in_bytes = _pre_tokenizer(data.get("pre_tokenizer"))
        word_to_ids, char = _subword_model(model, vocabulary), BYTE_TO_CHAR.__getitem__
        self.ids_of_word = Memoised(lambda w: word_to_ids("".join(map(char, w.encode())) if in_bytes else w))
        decoder = _type("decoder", data.get("decoder"), "null", "WordPiece", "ByteLevel")
        self.byte_level = decoder == "ByteLevel"
        truncation = data.get("truncation")
        self.max_length: int | None = None if truncation is None else _get(truncation, "max_length", int)
        _expect(truncation or {}, "truncation", direction=("Right",), strategy=("LongestFirst", "OnlyFirst"))

    def encode(self, text: str, *, all_tokens: bool = False) -> list[int]:
        """The tokens of a text, special ones included; all of them if ``all_tokens``."""
        if any("\ud800" <= character <= "\udfff" for character in ("" if text.isascii() else set(text))):
            raise InputError(
                f"the text {truncate(ascii(text), 100)} holds half a character. Save it as UTF-8."
            )
        ids: list[int] = []
        for index, piece in enumerate(self.added_pattern.split(text) if self.added_pattern else (text,)):
            if index % 2:
                ids.append(self.token_ids[piece])
                continue
            for change in self.normalizers:
                piece = change(piece)
            ids.extend(chain.from_iterable(map(self.ids_of_word.__getitem__, self.split(piece))))
        if self.max_length is not None and not all_tokens:
            del ids[max(0, self.max_length - len(self.prefix) - len(self.suffix)) :]
        return [*self.prefix, *ids, *self.suffix]

    def token_text(self, token_id: int) -> str:
        """What a token stands for."""
        name = self.token_names[token_id]
        if not self.byte_level or not set(name) <= CHAR_TO_BYTE.keys():
            return name
        return bytes(CHAR_TO_BYTE[letter] for letter in name).decode(errors="replace")

    def to_str(self, pretty: bool = False) -> str:
        """The tokenizer.json, as the library writes it."""
        how = {"direction": "Right", "max_length": self.max_length, "strategy": "LongestFirst", "stride": 0}
        data = {**self.data, "truncation": how if self.max_length else None, "padding": None}
        style: Any = {"indent": 2} if pretty else {"separators": (",", ":")}
        return json.dumps(data, ensure_ascii=False, **style)


# --- what a file may say --------------------------------------------------------------------------------
def _get(part: Any, name: str, kind: type) -> Any:
    value = part.get(name) if isinstance(part, dict) else None
    if type(value) is not kind:
        raise ValueError(f"{name} is {truncate(repr(value), 100)}, expected {kind.__name__}")
    return value


def _type(name: str, part: Any, *known_types: str) -> str:
    """The type of a part, which must be a known one."""
    kind: str = "null" if part is None else _get(part, "type", str)
    if kind not in known_types:
        raise ValueError(f"the {name} '{truncate(kind, 100)}' is unknown; known are {', '.join(known_types)}")
    return kind


def _expect(part: Json, what: str, **allowed: tuple[Any, ...]) -> None:
    """Refuse an option whose value is not a known one; the first is the default."""
    for name, values in allowed.items():
        if part.get(name, values[0]) not in values:
            raise ValueError(f"{what} with {name} {truncate(repr(part[name]), 100)} is unknown")


def _added_tokens(tokens: list[Json], vocabulary: dict[str, int]) -> dict[str, int]:
    """The tokens that are looked for before anything else, with their numbers."""
    result: dict[str, int] = {}
    for token in tokens:
        name = _get(token, "content", str)
        what = f"the added token {truncate(repr(name), 100)}"
        _expect(token, what, **dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), (False,)))
        number = vocabulary.get(name, max(len(vocabulary), 1 + max(result.values(), default=-1)))
        if not name or token.get("id") != number:
            raise ValueError(f"{what} has the id {token.get('id')}, expected {number}")
        result[name] = number
    return result


def _special_tokens(part: Any) -> tuple[list[int], list[int]]:
    """Those before and after each text."""
    kind = _type("post_processor", part, "null", "TemplateProcessing", "BertProcessing", "ByteLevel")
    if kind == "BertProcessing":
        return [part["cls"][1]], [part["sep"][1]]
    sides: list[list[int]] = [[]] if kind == "TemplateProcessing" else [[], []]
    for item in part["single"] if kind == "TemplateProcessing" else ():
        if "SpecialToken" in item:
            sides[-1] += part["special_tokens"][item["SpecialToken"]["id"]]["ids"]
        else:
            sides.append([])
    if len(sides) != 2:
        raise ValueError(f"the post_processor has the text {len(sides) - 1} times, expected once")
    return sides[0], sides[1]


# --- from a text to words -------------------------------------------------------------------------------
def _normalizers(part: Any) -> list[Normalizer]:
    forms = ("NFC", "NFD", "NFKC", "NFKD")
    kind: Any = _type("normalizer", part, "null", "Sequence", "BertNormalizer", "Lowercase", *forms)
    if kind == "Sequence":
        steps = [step for each in _get(part, "normalizers", list) for step in _normalizers(each)]
        if len(steps) > MAX_LIST:
            raise ValueError(f"the normalizer has more than {MAX_LIST} steps")
        return steps
    if kind == "BertNormalizer":
        return _bert_normalizers(part)
    plain: list[Normalizer] = [_lower_case if kind == "Lowercase" else partial(unicodedata.normalize, kind)]
    return [] if kind == "null" else plain


def _lower_case(text: str) -> str:
    # Python writes the sigma at the end of a word in another way; the library goes letter by letter.
    return text.replace("Σ", "σ").lower()


def _bert_normalizers(part: Json) -> list[Normalizer]:
    clean, spaced, lower = (_get(part, n, bool) for n in ("clean_text", "handle_chinese_chars", "lowercase"))

    def clean_character(code: int) -> str:
        char = chr(code)
        if clean and (char in "\0\ufffd" or (_category(char)[0] == "C" and char not in "\t\n\r")):
            return ""
        char = " " if clean and char in WHITE_SPACE else char
        return f" {char} " if spaced and bisect(UNICODE["ideographs"], code) % 2 else char

    table = Memoised(clean_character)
    unaccented = Memoised(lambda code: "" if _category(chr(code)) == "Mn" else chr(code))
    steps: list[Normalizer] = [lambda text: text.translate(table)]
    if lower if part.get("strip_accents") is None else part["strip_accents"]:
        steps.append(lambda text: unicodedata.normalize("NFD", text).translate(unaccented))
    return [*steps, _lower_case] if lower else steps


def _category(character: str) -> str:
    """The category of a character in Unicode 8, where it matters to BERT: C, Mn or P."""
    later = bisect(UNICODE["after_unicode_8"], ord(character)) % 2
    category = UNICODE["unicode_8"].get(character) or ("-" if later else unicodedata.category(character))
    return "-" if category == "Cn" else category


# How each pre-tokenizer cuts: a pattern on a text with plain characters in place of all others.
GPT = r"'s|'t|'re|'ve|'m|'ll|'d| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+"
PATTERNS = {"BertPreTokenizer": r"x+|!", "WhitespaceSplit": r"x+", "ByteLevel": GPT}


def _split_class(character: str, kind: str) -> str:
    if character in WHITE_SPACE:
        return " " if character == " " else "\t"
    if kind == "ByteLevel":
        other = {"L": "x", "N": "0"}.get(unicodedata.category(character)[0], "!")
        return character if character.isascii() else other
    mark = kind == "BertPreTokenizer" and (_category(character)[0] == "P" or character in "$+<=>^`|~")
    return "!" if mark else "x"


def _pre_tokenizer(part: Any) -> tuple[Callable[[str], list[str]], bool]:
    """What cuts a text, and whether it then takes bytes for letters."""
    kind = _type("pre_tokenizer", part, *PATTERNS)
    _expect(part, kind, use_regex=(True,))
    prefix = " " if kind == "ByteLevel" and _get(part, "add_prefix_space", bool) else ""
    pattern = re.compile(PATTERNS[kind], re.ASCII)
    table = Memoised(lambda code: _split_class(chr(code), kind))

    def words(text: str) -> list[str]:
        text = prefix + text if text and not text.startswith(" ") else text
        return [text[match.start() : match.end()] for match in pattern.finditer(text.translate(table))]

    return words, kind == "ByteLevel"


# --- from a word to tokens ------------------------------------------------------------------------------
def _subword_model(part: Json, vocabulary: dict[str, int]) -> Callable[[str], Ids]:
    kind = _type("model", part, "WordPiece", "BPE", "WordLevel")
    if kind == "BPE":
        null_options = ("unk_token", "continuing_subword_prefix", "end_of_word_suffix", "dropout")
        flags = ("fuse_unk", "byte_fallback", "ignore_merges")
        _expect(part, "BPE", **dict.fromkeys(null_options, (None,)), **dict.fromkeys(flags, (False,)))
        pairs = [pair.split(" ") if isinstance(pair, str) else pair for pair in _get(part, "merges", list)]
        merges = {
            (vocabulary[left], vocabulary[right]): (rank, vocabulary[left + right])
            for rank, (left, right) in enumerate(pairs)
        }

        def merged(word: str) -> Ids:
            parts = (word[i : i + MAX_WORD] for i in range(0, len(word), MAX_WORD))
            known = ([vocabulary[x] for x in part if x in vocabulary] for part in parts)
            return tuple(chain.from_iterable(_apply_merges(ids, merges) for ids in known))

        return merged
    unknown = (vocabulary[_get(part, "unk_token", str)],)
    if kind == "WordLevel":
        return lambda word: (vocabulary[word],) if word in vocabulary else unknown
    limit = _get(part, "max_input_chars_per_word", int)
    prefix = _get(part, "continuing_subword_prefix", str)
    longest = max(map(len, vocabulary))

    def pieces(word: str) -> Ids:
        """The longest piece that is known, again and again."""
        ids, start = [], 0
        while start < len(word) <= min(limit, MAX_STRING):
            before = prefix if start else ""
            ends = range(min(len(word), start + longest), start, -1)
            end = next((end for end in ends if before + word[start:end] in vocabulary), None)
            if end is None:
                return unknown
            ids.append(vocabulary[before + word[start:end]])
            start = end
        return tuple(ids) or unknown

    return pieces


def _apply_merges(ids: list[int], merges: Merges) -> Ids:
    """Pairs become one token, the first merge first, the leftmost of equals; by a heap, so n log n."""
    after, before = [*range(1, len(ids)), -1], [*range(-1, len(ids) - 1)]
    neighbours = enumerate(pairwise(ids))
    heap = [(merges[pair][0], position, merges[pair][1]) for position, pair in neighbours if pair in merges]
    heapify(heap)
    while heap:
        _, position, merged = heappop(heap)
        right = after[position]
        # Since it was found, one of the two may have been merged with another.
        if ids[position] < 0 or right < 0 or merges.get((ids[position], ids[right]), (0, -1))[1] != merged:
            continue
        ids[position], ids[right], after[position] = merged, -1, after[right]
        if after[right] >= 0:
            before[after[right]] = position
        for left in (before[position], position):
            if left >= 0 and after[left] >= 0 and (ids[left], ids[after[left]]) in merges:
                rank, token = merges[ids[left], ids[after[left]]]
                heappush(heap, (rank, left, token))
    return tuple(number for number in ids if number >= 0)

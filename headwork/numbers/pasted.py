r"""What people paste, in the plain notation: LaTeX, Unicode signs, Python reprs, tuples, Markdown tables.

``\frac{1}{4}\begin{bmatrix}1 & 1\end{bmatrix}`` becomes ``((1)/(4))[1 , 1]``, ``array([(1, 2)])`` becomes
``[[1, 2]]``, a table its rows. Text is only ever turned into other text, in linear time; ``entries`` parses
what is left.
"""

import re
import unicodedata
from collections.abc import Callable

from headwork.errors import InputError, truncate
from headwork.files import load_package_toml

MAX_TEXT_LENGTH = 300_000
MAX_NESTING = 30
MIXED_SIGN = "\u2064"  # INVISIBLE PLUS, for which Unicode has a sign: 1 and a half is 1 MIXED 1/2
GREEK = (
    "alpha|beta|gamma|delta|epsilon|zeta|eta|theta|iota|kappa|lambda|mu|nu|xi|rho|sigma|tau|upsilon|phi|chi|"
    "psi|omega"
)
FUNCTIONS = ("sqrt", "exp", "ln", "log", "sin", "cos", "tanh", "erf", "max", "abs", "floor", "ceil")
PASTED = load_package_toml(__file__, "pasted.toml")
LOOKALIKES = str.maketrans(PASTED["lookalikes"])
SUPERSCRIPTS = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻", "0123456789+-", strict=True))
SUPERSCRIPT_RUN = re.compile(f"[{''.join(SUPERSCRIPTS)}]+")
FRACTION_SIGN = re.compile(r"([0-9][ \t]*)?([\u00bc-\u00be\u2150-\u215e])")
ROOT_SIGN = re.compile(r"√\s*(?:([0-9]+(?:\.[0-9]+)?|[A-Za-z])|(?=\())")
MATRIX = re.compile(r"\s*\{((?:[a-zA-Z]?matrix|smallmatrix|array|equation|align|aligned)\*?)\}")
COLUMNS, ROW_SPACING = re.compile(r"\s*\{[^{}]*\}"), re.compile(r"[ \t]*\[[^\[\]]{0,20}\]")
ASSIGNMENT = re.compile(
    r"[\s$]*+(?:\\[\[(]\s*+)?[A-Za-z\\\u0391-\u03c9][^=≈\[\];:,&|\n\"'<>!]{0,80}[=≈](?![=>])"
)
WRAPPER = re.compile(
    r"\b(?:(?:np|numpy|torch|sp|sympy)\s?\.\s?)?"
    r"(?:array|asarray|tensor|matrix|Matrix|(?<=\.)(?:Size|float(?:16|32|64)|int(?:32|64)))(?=\s?\()"
)
NAME = re.compile(r"[A-Za-z][\w ]*")
KEYWORD = re.compile(r",\s?(?:dtype|device|requires_grad|grad_fn)\s?=\s?[^,()\[\]]*")


def unreadable(text: str, why: str) -> InputError:
    return InputError(f"cannot read {truncate(text, 60)!r}: {why}")


def plain_text(text: str) -> str:
    r"""Unicode signs and LaTeX as plain text.

    >>> plain_text("2√2"), plain_text("3²"), plain_text("⅓"), plain_text(r"\tfrac13")
    ('2sqrt(2)', '3^(2)', '(1/3)', '((1)/(3))')
    """
    if len(text) > MAX_TEXT_LENGTH:
        raise InputError(f"cannot read the text: {len(text)} characters; at most {MAX_TEXT_LENGTH}.")
    if not text.isascii():
        text = FRACTION_SIGN.sub(_fraction_sign, text)
        text = SUPERSCRIPT_RUN.sub(lambda run: f"^({''.join(SUPERSCRIPTS[c] for c in run[0])})", text)
        text = ROOT_SIGN.sub(lambda root: f"sqrt({root[1]})" if root[1] else "sqrt", text)
        text = text.translate(LOOKALIKES)
    if any(mark in text for mark in "\\{$"):
        text = _LatexParser(text).convert()
    return text


def _fraction_sign(match: re.Match[str]) -> str:
    fraction = unicodedata.normalize("NFKC", match[2]).replace("⁄", "/")
    whole = match[1] or ""
    return f"{whole}{MIXED_SIGN}{fraction}" if whole and whole[-1].isdigit() else f"{whole}({fraction})"


def strip_wrappers(text: str) -> str:
    """The numbers alone: without ``Q =``, ``array(...)``, the bars of a table; tuples as lists.

    >>> strip_wrappers("Q = array([(1, 2), (3, 4)], dtype=float32)")
    '[[1, 2], [3, 4]]'
    """
    for _ in range(3):
        if assigned := ASSIGNMENT.match(text):
            text = text[assigned.end() :]
    text = plain_text(text).strip()
    if "|" in text and (text.count("|") > 2 or "\n" in text):
        return _table_rows(text)
    return _tuples_to_lists(KEYWORD.sub("", WRAPPER.sub("", text))).strip() if "(" in text else text


def _table_rows(text: str) -> str:
    """A Markdown table as rows; a header of names goes, and a first column of names below an empty corner."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    is_rule = ["-" in line and set(line) <= set("|:- \t") for line in lines]
    rows = [
        [cell.strip() for cell in line.removeprefix("|").removesuffix("|").split("|")]
        for line, rule in zip(lines, is_rule, strict=True)
        if not rule
    ]
    if is_rule[1:2] == [True] and len(rows) > 1 and all(map(_is_name, rows[0])):
        named = not rows[0][0] and all(_is_name(row[0]) for row in rows[1:])
        rows = [row[1:] if named else row for row in rows[1:]]
    return ";".join(",".join(row) for row in rows) + (";" if len(rows) == 1 else "")


def _is_name(cell: str) -> bool:
    """Nothing, or words that are no number."""
    return not cell or (NAME.fullmatch(cell) is not None and cell not in ("e", "E", "pi", "oo", "inf"))


def _tuples_to_lists(text: str) -> str:
    """Parentheses around several entries become square brackets; around a list they are dropped.

    Calls and products are left alone.
    """
    chars = list(text)
    # For each open bracket: its index, whether it stays, and whether it holds several entries or lists.
    stack: list[tuple[int, bool, list[bool]]] = []
    last, before = "", ""  # the last sign that is no space, and the sign just before
    for index, char in enumerate(text):
        if char == "(":
            stays = last.isalpha() or before.isalnum() or before in (")", "]", "^", "_")
            stack.append((index, stays, [False, False]))
        elif char == ")" and stack:
            start, stays, (several, lists) = stack.pop()
            if not stays and (several or lists):
                chars[start], chars[index] = ("[", "]") if several else (" ", " ")
                if stack:
                    stack[-1][2][1] = True
        elif stack:
            stack[-1][2][0] |= char in ",;\n"
            stack[-1][2][1] |= char == "["
        if char == "[":  # what is inside separates entries of the list, not of the round bracket
            stack.append((-1, True, [False, False]))
        elif char == "]" and stack and stack[-1][0] == -1:
            stack.pop()
        last, before = last if char.isspace() else char, char
    return "".join(chars)


# --- LaTeX ------------------------------------------------------------------------------------------------
SPACES: dict[str, str] = PASTED["spaces"]
COMMANDS: dict[str, str] = PASTED["commands"] | {name: name for name in (*GREEK.split("|"), *FUNCTIONS)}
TOKEN = re.compile(r"\\([A-Za-z]+|.)|[{}^_&$~]|[^\\{}^_&$~]+", re.DOTALL)
NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")


class _LatexParser:
    """One pass over the text; ``matrices`` is how many matrix environments are open."""

    def __init__(self, text: str) -> None:
        self.text, self.position, self.depth, self.matrices = text, 0, 0, 0

    def convert(self, end: str = "") -> str:
        """All of it, or up to the brace that closes."""
        parts: list[str] = []
        while (char := self.text[self.position : self.position + 1]) not in ("", "}"):
            parts.append(self.convert_token("".join(parts[-1:])))
        if char != end:
            raise unreadable(self.text, "a '}' is missing." if end else "a '{' is missing.")
        self.position += len(end)
        return "".join(parts)

    def convert_token(self, before: str) -> str:
        """The next token in plain text; ``before`` is the one before it."""
        token = TOKEN.match(self.text, self.position)
        if token is None:
            raise unreadable(self.text, "it ends in a backslash.")
        self.position = token.end()
        char, word = token[0], token[1] or ""
        if word:
            return self.command(word, before)
        if char in "^_" and self.text[self.position : self.position + 1] in ("{", "\\"):
            return f"^({self.argument()})" if char == "^" else f"_{self.argument()}"
        if char == "{":
            inside = self.nested(lambda: self.convert("}"))
            if before[-1:].isalnum() or set(inside) & set(",;\n"):
                raise unreadable(self.text, "braces cannot be used for a list. Write [1, 2].")
            return inside
        return {"&": ",", "$": " ", "~": " "}.get(char, char)

    def nested(self, read: Callable[[], str]) -> str:
        self.depth += 1
        if self.depth > MAX_NESTING:
            raise unreadable(self.text, f"nested more than {MAX_NESTING} deep.")
        text = read()
        self.depth -= 1
        return text

    def argument(self, *, number: bool = False) -> str:
        """A group, a command or one sign, which is what LaTeX takes; or a whole number of several digits."""
        while self.text[self.position : self.position + 1].isspace():
            self.position += 1
        char = self.text[self.position : self.position + 1]
        if char in ("", "}"):
            raise unreadable(self.text, "it ends where a number is expected.")
        if char in "{\\":
            return self.nested(lambda: self.convert_token(""))
        match = NUMBER.match(self.text, self.position) if number else None
        self.position += len(match[0]) if match else 1
        return match[0] if match else char

    def command(self, word: str, before: str) -> str:
        if word in PASTED["fractions"]:
            upper, lower = self.argument(), self.argument()
            if re.search(r"[0-9]\Z", before) and upper.isdecimal() and lower.isdecimal():
                return self.mixed(upper, lower)
            return f"(({upper})/({lower}))"
        if word == "sqrt":
            return self.root()
        if word in ("begin", "end"):
            return self.environment(word)
        if word == "\\":
            if skip := ROW_SPACING.match(self.text, self.position):
                self.position = skip.end()
            return ",;" if self.matrices else "\n"
        if word in PASTED["styles"]:
            return self.argument()
        if word in FUNCTIONS and not re.match(
            r"\s{0,9}(?:\(|\\left)", self.text[self.position : self.position + 20]
        ):
            return f"{word}({self.argument(number=True)})"
        if word in COMMANDS:
            dot = word in ("left", "right") and self.text[self.position : self.position + 1] in (".", "|")
            self.position += dot
            return COMMANDS[word]
        if word in SPACES:
            return SPACES[word]
        raise unreadable(self.text, f"the LaTeX command \\{truncate(word, 20)} is not known here.")

    def mixed(self, upper: str, lower: str) -> str:
        if int(upper) >= int(lower):
            raise unreadable(
                self.text, f"a number before {upper}/{lower}: write + between for a sum, * for a product."
            )
        return f"{MIXED_SIGN}{upper}/{lower}"

    def root(self) -> str:
        order = re.compile(r"\s*\[\s*([0-9]{1,2})\s*\]").match(self.text, self.position)
        if order:
            self.position = order.end()
            return f"(({self.argument()})^(1/{order[1]}))"
        return f"sqrt({self.argument()})"

    def environment(self, word: str) -> str:
        named = MATRIX.match(self.text, self.position)
        if named is None:
            raise unreadable(self.text, f"\\{word} of something that is not a matrix.")
        self.position = named.end()
        matrix = "matrix" in named[1] or named[1] == "array"
        if named[1] == "array" and word == "begin" and (columns := COLUMNS.match(self.text, self.position)):
            self.position = columns.end()
        self.matrices += (1 if word == "begin" else -1) * matrix
        return ("[" if word == "begin" else ",]") if matrix else " "  # commas: a space ends no cell here

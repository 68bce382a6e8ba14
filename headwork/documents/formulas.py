r"""Formulas: the cards' LaTeX as MathML, which browsers draw by themselves, and as one line of text."""

import re
from collections.abc import Collection, Mapping
from functools import lru_cache
from html.entities import codepoint2name

from markupsafe import Markup

from headwork.files import load_package_toml
from headwork.note import LAST_TAKEN, MATRIX, Step

# The converter passes these three through as they are, so that text could become markup.
MARKUP_SIGNS = str.maketrans({"<": r"\lt ", ">": r"\gt ", "&": " "})
# Brackets round something low need not stretch, and sit better if they do not.
LOW_BRACKETS = re.compile(r"\\left\(((?:(?!\\left|\\right|\\frac).)*)\\right\)")


@lru_cache(maxsize=4096)
def mathml(latex: str) -> Markup:
    r"""LaTeX as a MathML element.

    >>> mathml(r"\frac{1}{2}")
    Markup('<math><mrow><mfrac><mrow><mn>1</mn></mrow><mrow><mn>2</mn></mrow></mfrac></mrow></math>')
    """
    from latex2mathml.converter import convert

    # The converter reads letters in an operator's name, and nothing else.
    plain = re.sub(r"\\operatorname\{([^{}]*[^{}A-Za-z][^{}]*)\}", r"\\text{\1}", latex).replace(r"\_", "_")
    text = convert(LOW_BRACKETS.sub(r"(\1)", plain).translate(MARKUP_SIGNS))
    text = re.sub(r"^<math[^>]*>", "<math>", text)
    text = re.sub(r"&#x([0-9A-Fa-f]+);", _unescape, text)
    # A thin space around a function, except before its bracket; a minus after words or a bracket is a sign.
    text = re.sub(r"<(m[io])>([A-Za-z-]{2,})</\1>", r'<mo lspace="0.17em" rspace="0.17em">\2</mo>', text)
    text = re.sub(r' rspace="0.17em">([A-Za-z-]+</mo>(?:<mrow>)*<mo[^>]*>\()', r' rspace="0">\1', text)
    return Markup(re.sub(r"(</mtext>|\(</mo>)<mo>−</mo>", r'\1<mo form="prefix">−</mo>', text))


def _unescape(reference: re.Match[str]) -> str:
    """A character in place of its number, but for those that mean something in HTML."""
    sign = chr(int(reference[1], 16))
    return reference[0] if sign in "<>&" else sign


# LaTeX commands as plain text; any other command is its own name.
COMMAND_TEXTS = {codepoint2name[ord(letter)]: letter for letter in "αβγδεθλμσφωΦΣ"}
COMMAND_TEXTS |= load_package_toml(__file__, "formulas.toml")["commands"]


@lru_cache(maxsize=4096)
def plain_formula(latex: str) -> str:
    r"""A card's formula as one line of text.

    >>> plain_formula(r"\beta\, Q K^\top"), plain_formula(r"\tfrac{1}{d} \textstyle\sum_j x_j")
    ('β Q K^T', '(1)/(d) sum_j x_j')
    >>> plain_formula("w_h^{T-t} x_{12}")
    'w_h^(T-t) x_12'
    """
    text = re.sub(r"\\[,;! ]", " ", latex)
    text = re.sub(r"\^\{(\(\w+\))(\\top|\w)\}", r"^\1^\2", text)  # a mark and a power
    text = re.sub(r"\^\{(\(\w+\))\}", r"^\1", text)
    for _ in range(5):
        text = re.sub(r"\\[td]?frac\{([^{}]*)\}\{([^{}]*)\}", r"(\1)/(\2)", text)
        text = re.sub(r"\\(?:operatorname|text|mathrm)\{([^{}]*)\}", r"\1", text)
        text = re.sub(r"\\sqrt\{([^{}]*)\}", r"sqrt(\1)", text)
        text = re.sub(r"([_^])\{([^{} +^-]{1,3}|-\w)\}", r"\1\2", text)  # a sum or a power keeps its brackets
        text = re.sub(r"([_^])\{([^{}]*)\}", r"\1(\2)", text)
    text = re.sub(r"\\([A-Za-z]+)", lambda match: COMMAND_TEXTS.get(match[1], match[1]), text)
    return re.sub(r" +", " ", text.replace("\\_", "_").replace("\\", "")).strip()


def formula_for(
    step: Step,
    *,
    tokens_as_columns: bool,
    convention: str,
    missing: Collection[str] = (),
    path: str = "",
    earlier_symbols: Mapping[str, str] | None = None,
) -> str:
    r"""A step's formula with each matrix as the convention applies it, without the inputs that are missing.

    Where it chooses among steps, the last of them before it counts, here or further out:
    ``earlier_symbols`` has those of the steps before it, in order.

    >>> formula_for(Step("query", "Q", "X {W_q}", "", "{W_q} X"), tokens_as_columns=False, convention="W x")
    'X W_q^\\top'
    """
    formula = step.column_formula if tokens_as_columns and step.column_formula else step.formula
    formula = formula.replace("{memory}", "X" if "memory" in missing else "M")
    block = re.search(r"block (\d+)/", path)
    scopes = [path[: end + 1] for end in range(-1, len(path)) if end < 0 or path[end] == "/"]

    def last(match: re.Match[str]) -> str:
        names = match[1].replace("block <", f"block {int(block[1]) - 1 if block else ''}").split(",")
        paths = {scope + name for scope in scopes for name in names}
        return [match[2], *(symbol for before, symbol in (earlier_symbols or {}).items() if before in paths)][
            -1
        ]

    formula = LAST_TAKEN.sub(last, formula)
    for name in missing:
        # No bias is 0, no matrix is the identity, no scale is 1.
        formula = re.sub(rf" \+ {re.escape(name)}(?![\w^'])", "", formula)
        formula = formula.replace(f" {{{name}}}", "").replace(f"{{{name}}} ", "")
        formula = formula.removeprefix(f"{name} ") if name.startswith("\\") else formula
    transposed = (convention == "W x") != tokens_as_columns
    return MATRIX.sub(r"\1^\\top" if transposed else r"\1", formula)

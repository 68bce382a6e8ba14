"""One assembler of traces: a mechanism's cards, its inputs and what was recorded in, a ``Trace`` out."""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from itertools import takewhile
from typing import Any, TypeVar

import numpy as np

from headwork.documents.formulas import formula_for
from headwork.note import Input, Mechanism, Step
from headwork.numbers import HandTensor
from headwork.readings.trace import Trace, TraceValue

# The parts of a model that have the same steps: sides, and blocks.
MODEL_PART = re.compile(r"^((?:(encoder|decoder|forwards|backwards)/)?(?:block (\d+)/)?)")
PARAMETERS = r"[Wb]_\w'?|\\(?:gamma|beta)_\w"
TOKEN_AXES = ("token", "query", "patch")
NUMBERED_SCOPE = re.compile(r"(?:^|/)(?:step|chunk|head) (\d+)/")
# At beta = infinity S stands without beta, which would make it infinite; the weights are the limit.
SOFTMAX = re.compile(r"\\operatorname\{softmax\}\((.*?)\) \\text\{ over keys\}")
HARD_RULE = r"\text{: the largest score of a row takes all, ties share}"
HARD_SOFTMAX = (
    r"\\text{limit of } \\operatorname{softmax}(\\beta\\, \1) \\text{ as } \\beta \\to \\infty"
    + HARD_RULE.replace("\\", r"\\")
)
AnyTrace = TypeVar("AnyTrace", bound=Trace)


def assemble(
    trace_type: type[AnyTrace],
    mechanism: Mechanism,
    inputs: Mapping[str, Any],
    recorded: Mapping[str, Any],
    options: Mapping[str, Any],
    *,
    tokens_as_columns: bool = False,
    abbreviations: Mapping[str, tuple[Any, ...]] | None = None,
    noted: Iterable[str] = (),
    simplified: bool = True,
    **settings: Any,
) -> AnyTrace:
    """A trace of these inputs and recorded steps, tokens shown as columns where that is asked for.

    ``abbreviations`` stand for long exact numbers, by the step that brings them; ``noted`` are all
    steps in order, where only some are recorded; ``simplified`` says whether exact numbers are.
    """
    absent = [c for c in mechanism.inputs if c.name not in inputs]
    missing = [name for card in absent for name in dict.fromkeys((card.name, card.symbol))]
    default = mechanism.options.get("convention")
    convention = options.get("convention", default.default if default else "W x")
    hard = isinstance(options.get("beta"), float) and math.isinf(options["beta"])

    cards: dict[str, Input | Step] = {c.name: c for c in mechanism.inputs if c.name in inputs}
    cards |= {path: mechanism.step(path) for path in noted or recorded}
    with_marks = symbol_marker(cards)
    symbols = {path: with_marks(path, card.symbol) for path, card in cards.items() if isinstance(card, Step)}

    def trace_value(path: str, card: Input | Step, value: Any) -> TraceValue:
        if not isinstance(value, HandTensor):
            value = HandTensor(value if isinstance(value, np.ndarray) else np.asarray(value, float))
        order = list(range(len(value.shape)))
        if (axis := token_axis(card, value)) is not None and tokens_as_columns:
            order.append(order.pop(axis))
        symbol, formula = with_marks(path, card.symbol), ""
        if isinstance(card, Step):
            scope = path.removesuffix(path.rpartition("/")[2])
            without = [name.removeprefix(scope) for name in missing]
            before = takewhile(lambda item: item[0] != path, symbols.items())
            formula = formula_for(
                card,
                tokens_as_columns=tokens_as_columns,
                convention=convention,
                missing=without,
                path=path,
                earlier_symbols=dict(before),
            )
            formula = with_marks(path, formula)
            if hard:
                formula = SOFTMAX.sub(HARD_SOFTMAX, formula.replace(r"\beta\, ", ""))
            if counted := NUMBERED_SCOPE.search(path):
                number = int(counted[1])
                symbol = re.sub(r"_[th]\b", f"_{{{number}}}", symbol).replace("{t+1}", f"{{{number + 1}}}")
        new = (abbreviations or {}).get(path, ())
        return TraceValue(
            path, card, value, tuple(order), symbol, formula, abbreviations=new, simplified=simplified
        )

    return trace_type(
        mechanism=mechanism,
        inputs={c.name: trace_value(c.name, c, inputs[c.name]) for c in mechanism.inputs if c.name in inputs},
        options={name: _plain(value) for name, value in options.items()},
        steps={path: trace_value(path, mechanism.step(path), value) for path, value in recorded.items()},
        warnings=[],
        **settings,
    )


def symbol_marker(cards: Mapping[str, Input | Step]) -> Callable[[str, str], str]:
    """Marks symbols of parts that a model has several times: of a path and a text, Q^{(e0)} for Q."""
    parts = {path: MODEL_PART.findall(path)[0] for path in cards}
    sides, blocks = (len({part[i] for part in parts.values()} - {""}) > 1 for i in (1, 2))
    part_symbols: dict[str, set[str]] = {}
    for path, card in cards.items():
        part_symbols.setdefault(parts[path][0], set()).add(card.symbol)

    def with_marks(path: str, text: str) -> str:
        scope, side, block = MODEL_PART.findall(path)[0]
        mark = f"^{{({side[:1] * sides + block * blocks})}}"
        names = sorted(map(re.escape, part_symbols.get(scope, ())), key=len, reverse=True)
        known = "|".join([*(re.sub("_t$", r"_(?:[t\\d]|\\{t-1\\})", name) for name in names), PARAMETERS])
        token = rf"(?<![A-Za-z\\])(?:{known})(?![A-Za-z'])(\^\{{\(\w+\)\}})?"  # marked already, it stays
        if mark == "^{()}":
            return text
        text = re.sub(token, lambda match: match[0] if match[1] else match[0] + mark, text)
        return re.sub(r"\^\{(\(\w+\))\}\^(\\top|\w)", r"^{\1\2}", text)  # a mark and a power share one place

    return with_marks


def effective_options(mechanism: Mechanism, options: Mapping[str, Any]) -> dict[str, Any]:
    """Every option as it takes effect, defaults included."""
    defaults = {n: None if p.default is p.empty else p.default for n, p in mechanism.options.items()}
    return {**defaults, **options}


def token_axis(card: Input | Step, tensor: HandTensor) -> int | None:
    """Which axis runs over tokens, where one does and it could also be the last; parameters have none."""
    words = card.axes.split()
    count = len(tensor.shape)
    if count < 2 or getattr(card, "trainable", False):
        return None
    for index, word in enumerate(words):
        if word in TOKEN_AXES or (word == "key" and index < len(words) - 1):
            return index + count - len(words)
    return None


def tokens_as_rows(tensor: HandTensor, card: Input | Step) -> HandTensor:
    """What was typed with tokens as columns, with tokens as rows."""
    axis = token_axis(card, tensor)
    return tensor if axis is None else HandTensor(np.moveaxis(tensor.array, -1, axis))


def _plain(value: Any) -> Any:
    return value.array[()] if isinstance(value, HandTensor) and value.shape == () else value

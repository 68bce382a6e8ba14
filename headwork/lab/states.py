"""The state of the canvas: a mechanism, its numbers as typed, options, and edits of single steps.

A state is plain JSON, small enough for an address, and nothing else decides what is shown: the same state
gives the same numbers on the command line, from the server and inside the page.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import lru_cache
from typing import Any

import numpy as np

from headwork.errors import InputError, TooLarge
from headwork.files import load_package_toml
from headwork.note import Mechanism
from headwork.numbers import HandTensor
from headwork.numbers.parsing import SymbolInDecimals, entry_texts, read_number, tensor_from_lists
from headwork.readings import Trace, explain
from headwork.readings.assembling import token_axis

MAX_CELLS = 2_000  # of all inputs; a page shows no more
MAX_TEXT = 20_000  # characters of one input
KEPT_STATES = 32  # solved states, so that pointing at a cell works nothing out again
MASKS = ("mask", "memory_mask")
# What the command line would advise, in words of the page.
PAGE_WORDING = load_package_toml(__file__, "words.toml")["advice"]


class CellError(InputError):
    """What cannot be read, with the input, option or step and the cell where it stands."""

    def __init__(
        self, message: object, path: str, index: tuple[int, ...] | None = None, too_large: bool = False
    ) -> None:
        super().__init__(message)
        self.path, self.index, self.too_large = path, index, too_large


@dataclass(frozen=True)
class State:
    """One problem on the canvas. ``edits`` has, by step, the cells that were set (``{"0,1": "3"}``)."""

    mechanism: str
    inputs: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    edits: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    exact: bool = False
    tokens_as: str = "rows"
    digits: int = 4
    random: int | None = None

    def as_data(self) -> dict[str, Any]:
        """The state as JSON, without what is as usual."""
        defaults = State("")
        return {name: value for name, value in asdict(self).items() if value != getattr(defaults, name)}


@dataclass(frozen=True)
class SolvedState:
    """A state and its trace; of each edited step also the trace before the edit."""

    state: State
    trace: Trace
    before: Mapping[str, Trace]


FIELD_TYPES: dict[str, Any] = {"mechanism": str, "exact": bool, "tokens_as": str, "digits": int}


def read_state(data: Any) -> State:
    """A state as it came, checked.

    >>> read_state({"mechanism": "softmax", "inputs": {"scores": "0 1"}}).inputs
    {'scores': ['0', '1']}
    """
    known = [f.name for f in fields(State)]
    if not isinstance(data, dict) or not isinstance(data.get("mechanism"), str):
        raise InputError("the state is not readable. Expected a mechanism with its inputs.")
    if unexpected := [name for name in data if name not in known]:
        raise InputError(f"the state has no '{unexpected[0]}'. Known: {', '.join(known)}.")
    for name, kind in FIELD_TYPES.items():
        if name in data and (not isinstance(data[name], kind) or (kind is int and data[name] is True)):
            raise InputError(f"the state: {name} is {data[name]!r}. Expected {kind.__name__}.")
    for name in ("inputs", "options", "edits"):
        part = data.get(name, {})
        if not isinstance(part, dict) or not all(isinstance(key, str) for key in part):
            raise InputError(f"the state: {name} is not readable. Expected names with values.")
    edits = data.get("edits", {}).values()
    if not all(
        isinstance(cells, dict) and all(isinstance(t, str) for t in cells.values()) for cells in edits
    ):
        raise InputError("the state: edits are not readable. Expected steps with cells and texts.")
    if not 0 <= data.get("digits", 4) <= 12:
        raise InputError("digits: expected 0 to 12.")
    options = {name: str(value)[:MAX_TEXT] for name, value in data.get("options", {}).items()}
    inputs = {name: _texts(name, value) for name, value in data.get("inputs", {}).items()}
    for name in [n for n in MASKS if ";" in options.get(n, "")]:  # typed as a matrix: its cells are inputs
        inputs[name] = _texts(name, options.pop(name))
    if (cells := sum(len(list(entries(value))) for value in inputs.values())) > MAX_CELLS:
        raise TooLarge(f"{cells:,} numbers; the page shows {MAX_CELLS:,}. Use headwork explain for more.")
    return State(**{**data, "inputs": inputs, "options": options})


def _texts(name: str, value: Any) -> Any:
    """An input as nested lists of typed entries."""
    if isinstance(value, str):
        if len(value) > MAX_TEXT:
            raise TooLarge(f"{name}: {len(value):,} characters; at most {MAX_TEXT:,} are read.")
        try:
            return entry_texts(value)
        except InputError as error:
            raise CellError(f"{name}: {error}", name) from None
    if isinstance(value, list):
        return [_texts(name, part) if isinstance(part, list) else str(part)[:MAX_TEXT] for part in value]
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    raise CellError(f"{name}: expected numbers, such as 1 2; 2 0.", name)


def entries(nested: Any, index: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], str]]:
    """Every entry of nested lists with its index.

    >>> list(entries([["1", "2"]]))
    [((0, 0), '1'), ((0, 1), '2')]
    """
    if isinstance(nested, list):
        for i, part in enumerate(nested):
            yield from entries(part, (*index, i))
    else:
        yield index, nested


def solve(state: State) -> SolvedState:
    """The trace of a state; an error says at which cell it lies."""
    try:
        return _solve(json.dumps(asdict(state)))
    except InputError as error:
        raise _locate(state, error) from None


@lru_cache(maxsize=KEPT_STATES)
def _solve(key: str) -> SolvedState:
    state = State(**json.loads(key))
    try:
        return _with_edits(state)
    except SymbolInDecimals:
        return _with_edits(replace(state, exact=True))


def _with_edits(state: State) -> SolvedState:
    trace = explain(
        state.mechanism,
        exact=state.exact,
        tokens_as=state.tokens_as,  # type: ignore[arg-type]
        digits=state.digits,
        random=state.random,
        parameters={**state.inputs, **state.options},
    )
    before = {}
    for path in [path for path in trace.steps if path in state.edits]:  # an earlier edit moves a later step
        before[path] = trace
        cells = trace[path].tensor.array.copy()
        for key, text in state.edits[path].items():
            cells[cell_index(key, cells.shape, path)] = read_number(text, exact=trace.exact)
        trace = trace.what_if(path, cells)
    if missing := [path for path in state.edits if path not in before]:
        raise CellError(
            f"{trace.mechanism.slug} has no step '{missing[0]}' here. Undo that edit.", missing[0]
        )
    return SolvedState(state, trace, before)


def cell_index(key: Any, shape: tuple[int, ...], path: str) -> tuple[int, ...]:
    """The index that ``"0,1"`` names, if there is such a cell."""
    parts = str(key).split(",") if key != "" else []
    index = tuple(int(part) if part.isdecimal() and len(part) < 6 else -1 for part in parts)
    if len(index) != len(shape) or not all(0 <= i < n for i, n in zip(index, shape, strict=True)):
        raise CellError(f"{path}: there is no cell [{key}].", path)
    return index


def _locate(state: State, error: InputError) -> InputError:
    """The error with the first entry that cannot be read, where there is one."""
    message = str(error)
    for words, instead in PAGE_WORDING.items():
        message = message.replace(words, instead)
    if isinstance(error, CellError):
        return CellError(message, error.path, error.index)
    if isinstance(error, TooLarge):
        return CellError(message, "", too_large=True)
    for path, value in state.inputs.items():
        for index, text in entries(value):
            if reason := _reading_error(text):
                return CellError(reason, path, index)
        try:
            tensor_from_lists(value, exact=False)
        except SymbolInDecimals:
            pass
        except InputError as ragged:
            return CellError(f"{path}: {ragged}", path)
    for path, cells in state.edits.items():
        for key, text in cells.items():
            if reason := _reading_error(text):
                return CellError(reason, path, tuple(int(i) for i in key.split(",") if i.isdecimal()))
    names = (*state.inputs, *state.options)
    named = (name for name in names if f"{name} " in message or f"{name}:" in message)
    return CellError(message, next(named, ""))


def _reading_error(text: Any) -> str:
    """Why one entry cannot be read; nothing where it can."""
    if not str(text).strip():
        return "empty. Type a number, such as 2, 1/2 or sqrt(2)."
    for exact in (False, True):  # decimals first, because an error should not wait for SymPy
        try:
            read_number(str(text), exact=exact)
            break
        except SymbolInDecimals:
            continue
        except InputError as error:
            return str(error)
    return ""


def set_tokens_as(state: State, tokens_as: str) -> State:
    """The same problem with its tokens as rows or as columns; edits of steps are left out."""
    if tokens_as == state.tokens_as:
        return state
    inputs = dict(state.inputs)
    for card in solve(state).trace.mechanism.inputs:
        cells = np.array(inputs.get(card.name, []), object)
        if cells.ndim == 2 and token_axis(card, HandTensor(np.empty(cells.shape))) is not None:
            inputs[card.name] = cells.T.tolist()
    return replace(state, inputs=inputs, tokens_as=tokens_as, edits={})


# --- sizes --------------------------------------------------------------------------------------------
def axis_words(mechanism: Mechanism, state: State, name: str) -> list[str]:
    """The axis words of an input as it was typed: the convention or the page may have turned it."""
    card = next(card for card in mechanism.inputs if card.name == name)
    words = card.axes.split()
    count = np.array(state.inputs[name], object).ndim
    words = words[len(words) - count :] if count <= len(words) else ["batch"] * (count - len(words)) + words
    default = mechanism.options["convention"].default if "convention" in mechanism.options else "W x"
    transposed = name.startswith("W_") and state.options.get("convention", default) != default
    as_columns = state.tokens_as == "columns" and not card.trainable and count == 2
    return words[::-1] if transposed or as_columns else words


def resize(state: State, name: str, axis: int, by: int) -> State:
    """The state with one entry more or fewer along an axis, in every input that shares it.

    >>> inputs = {"tokens": "1 2; 0 1", "W_q": "1 0; 0 1"}
    >>> state = read_state({"mechanism": "self-attention", "inputs": inputs})
    >>> resize(state, "tokens", 1, 1).inputs
    {'tokens': [['1', '2', '1'], ['0', '1', '1']], 'W_q': [['1', '0', '0'], ['0', '1', '0']]}
    """
    mechanism = solve(state).trace.mechanism
    if name not in state.inputs or by not in (1, -1):
        raise CellError(f"{name} cannot be made larger or smaller.", name)
    words = axis_words(mechanism, state, name)
    if not 0 <= axis < len(words):
        raise CellError(f"{name} has no axis {axis}.", name)
    trained = {card.name for card in mechanism.inputs if card.trainable}
    inputs = dict(state.inputs)
    for each in inputs:
        cells = np.array(inputs[each], object)
        for along in [i for i, word in enumerate(axis_words(mechanism, state, each)) if word == words[axis]]:
            if by > 0:
                last = np.take(cells, [-1], along)
                new = np.full_like(last, "0" if each in trained else "1")
                cells = np.concatenate([cells, new], along)
            elif cells.shape[along] < 2:
                raise CellError(f"{each}: one is the least there can be.", each)
            else:
                cells = np.delete(cells, -1, along)
        inputs[each] = cells.tolist()
    return resize_masks(replace(state, inputs=inputs, edits={}), mechanism)


# --- masks --------------------------------------------------------------------------------------------
def add_mask_cells(state: State, name: str) -> State:
    """The state with a mask of cells that can be typed: as it is now, as large as the scores, 1 where new.

    >>> inputs = {"tokens": "1 2; 0 1"}
    >>> state = read_state({"mechanism": "self-attention", "inputs": inputs, "options": {"mask": "causal"}})
    >>> add_mask_cells(state, "mask").inputs["mask"]
    [['1', '0'], ['1', '1']]
    """
    inputs, options = dict(state.inputs), dict(state.options)
    before, choice = np.array(inputs.pop(name, [[]]), object), options.pop(name, "")
    trace = solve(replace(state, inputs=inputs, options=options, edits={})).trace
    paths = (p for p in trace.steps if p.endswith("scores") and ("cross" in p) == (name == "memory_mask"))
    if name not in trace.mechanism.options or not (path := next(paths, "")):
        raise CellError(f"{trace.mechanism.slug} takes no {name} of cells.", name)
    sizes = dict(zip(trace[path].axes, trace[path].shape, strict=True))
    if not before.size and (choice or trace.options[name]) == "causal":
        before = np.tri(sizes["query"], sizes["key"], sizes["key"] - sizes["query"], dtype=int)
        before = before if trace[path].axes[-1] == "key" else before.T
    cells = np.ones(trace[path].shape[-2:], object)
    kept = tuple(slice(min(pair)) for pair in zip(cells.shape, before.shape, strict=True))
    cells[kept] = before[kept]
    typed = [[str(cell) for cell in row] for row in cells]
    return replace(state, inputs={**inputs, name: typed}, options=options, edits={})


def resize_masks(state: State, mechanism: Mechanism) -> State:
    """The state with its typed masks made as large as the scores."""
    for name in (name for name in MASKS if name in state.inputs and name in mechanism.options):
        state = add_mask_cells(state, name)
    return state

"""A slider: one problem for several values of one option or symbol, all frames in one document."""

from collections.abc import Callable, Mapping
from typing import Any

from headwork.documents import Document, Slider
from headwork.documents.number_format import with_infinity
from headwork.errors import InputError
from headwork.note import Mechanism, get_mechanism
from headwork.numbers.operations import map_cells
from headwork.numbers.parsing import read_number, read_tensor
from headwork.readings.explaining import explain
from headwork.readings.trace import Trace
from headwork.readings.trace_document import trace_data, trace_values

# Where no values are listed: beta from the plain mean to hard attention, a symbol on both sides of zero.
DEFAULT_VALUES = {
    "beta": ["0", "0.1", "0.2", "0.5", "1", "2", "5", "10", "oo"],
    "epsilon": ["0", "0.001", "0.01", "0.1", "0.5", "1", "2", "5"],
}
AROUND_ZERO = ["-5", "-2", "-1", "-0.5", "0", "0.5", "1", "2", "5"]
MAX_FRAMES = 40


def slider(slug: str, slide: str, settings: Mapping[str, Any], inputs: Mapping[str, Any]) -> Document:
    """A document with a slider. ``slide`` is a name, or a name with its values: ``beta=0,1,oo``.

    >>> slider("softmax", "x=0,1", {"exact": True}, {"scores": "0 x"}).to_html().count('type="range"')
    1
    """
    mechanism = get_mechanism(slug)
    name, _, listed = (part.strip() for part in slide.partition("="))
    arguments = {**settings, **inputs}

    def at_option(value: str) -> Trace:
        return explain(mechanism.slug, **{**arguments, name: value})

    is_option = name in mechanism.options
    defaults = DEFAULT_VALUES.get(name, []) if is_option else AROUND_ZERO
    trace_at = at_option if is_option else _substitute(mechanism, name, arguments)
    values = _values(name, listed) if listed else defaults
    frames = _frames(name, values, trace_at, keep_all=bool(listed))
    labels = list(frames)
    start_label = next((label for label in (str(inputs.get(name)), "1") if label in labels), labels[0])
    _check_alike(list(frames.values()), name)
    texts = tuple(map(with_infinity, labels))
    return Document(
        f"{mechanism.slug}: {name} on a slider",
        (Slider(name, texts, tuple(map(trace_values, frames.values())), labels.index(start_label)),),
        about=mechanism.about,
        data=lambda: [{name: label, **trace_data(trace)} for label, trace in frames.items()],
    )


def _check_alike(frames: list[Trace], name: str) -> None:
    """A slider changes numbers; what changes the shape or the steps needs a page of its own."""
    shapes = [[(value.path, value.shape) for value in trace.all_values()] for trace in frames]
    for other in shapes[1:]:
        if other != shapes[0]:
            apart = (p for p in [*other, *shapes[0]] if p not in other or p not in shapes[0])
            differing = next(apart, other[0])
            raise InputError(
                f"slide: {name} changes the steps or their shapes ({differing[0]}), and a slider shows one "
                "layout. Make one page for each value."
            )


def _values(name: str, listed: str) -> list[str]:
    values = list(dict.fromkeys(value.strip() for value in listed.split(",") if value.strip()))
    if not 2 <= len(values) <= MAX_FRAMES:
        raise InputError(
            f"slide: {len(values)} value{'' if len(values) == 1 else 's'} of {name}. "
            f"Give 2 to {MAX_FRAMES}, with commas between them: {name}=0,1,2."
        )
    return values


def _frames(
    name: str, values: list[str], trace_at: Callable[[str], Trace], *, keep_all: bool
) -> dict[str, Trace]:
    """One trace per value. A usual value that this problem does not allow is left out, with a warning."""
    if not values:
        raise InputError(f"slide: which values of {name}? List them: --slide {name}=1,2,3.")
    frames: dict[str, Trace] = {}
    failed: dict[str, InputError] = {}
    for value in values:
        try:
            frames[value] = trace_at(value)
        except InputError as error:
            failed[value] = error
            if keep_all or len(failed) == len(values):
                raise
    for value, reason in failed.items():
        for trace in frames.values():
            trace.warnings.append(f"{name} = {value} is left out: {reason}")
    return frames


def _substitute(mechanism: Mechanism, name: str, arguments: Mapping[str, Any]) -> Callable[[str], Trace]:
    """The problem with a value instead of a symbol among its inputs and options."""
    hints = mechanism.option_types
    numbers = [option for option in hints if "number" in getattr(hints[option], "__metadata__", ())]
    symbolic = {}
    for argument in [*(card.name for card in mechanism.inputs), *numbers]:
        if arguments.get(argument) is not None:
            array = read_tensor(arguments[argument], exact=True, where=argument).array
            if any(x.free_symbols for x in array.flat):
                symbolic[argument] = array
    symbols = {str(s): s for array in symbolic.values() for x in array.flat for s in x.free_symbols}
    if name not in symbols:
        options = ", ".join(mechanism.options) or "it has none"
        known = ", ".join(sorted(symbols)) or "there are none"
        raise InputError(
            f"slide: '{name}' is neither an option of {mechanism.slug} ({options}) nor a symbol among the "
            f"inputs ({known}). Slide one of these, or type {name} instead of a number."
        )
    symbol = symbols[name]

    def at_symbol(value: str) -> Trace:
        number = read_number(value, exact=True)
        if number.is_infinite:
            return explain(mechanism.slug, **arguments).limit(name, value)
        new = {n: map_cells(lambda x: x.xreplace({symbol: number}), array) for n, array in symbolic.items()}
        return explain(mechanism.slug, **{**arguments, **new})

    return at_symbol

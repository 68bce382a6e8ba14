"""A slider: one problem for several values of one option, all frames in one document."""

from collections.abc import Callable, Mapping
from typing import Any

from headwork.documents import Document, Slider
from headwork.documents.number_format import with_infinity
from headwork.errors import InputError, check_known
from headwork.note import get_mechanism
from headwork.readings.explaining import explain
from headwork.readings.trace import Trace
from headwork.readings.trace_document import trace_data, trace_values

# Where no values are listed; beta goes from the plain mean to hard attention.
DEFAULT_VALUES = {
    "beta": ["0", "0.1", "0.2", "0.5", "1", "2", "5", "10", "oo"],
    "epsilon": ["0", "0.001", "0.01", "0.1", "0.5", "1", "2", "5"],
}
MAX_FRAMES = 40


def slider(slug: str, slide: str, settings: Mapping[str, Any], inputs: Mapping[str, Any]) -> Document:
    """A document with a slider. ``slide`` is an option, or one with its values: ``beta=0,1,oo``.

    >>> two = {name: "1 2; 2 0" for name in ("query", "key", "value")}
    >>> slider("attention", "beta=0,1", {}, two).to_html().count('type="range"')
    1
    """
    mechanism = get_mechanism(slug)
    name, _, listed = (part.strip() for part in slide.partition("="))
    check_known(f"option of {mechanism.slug}", name, mechanism.options)

    def trace_at(value: str) -> Trace:
        return explain(mechanism.slug, **{**settings, **inputs, name: value})

    values = _values(name, listed) if listed else DEFAULT_VALUES.get(name, [])
    frames = _frames(name, values, trace_at, keep_all=bool(listed))
    labels = list(frames)
    first = next((label for label in (str(inputs.get(name)), "1") if label in labels), labels[0])
    _check_alike(list(frames.values()), name)
    texts = tuple(map(with_infinity, labels))
    return Document(
        f"{mechanism.slug}: {name} on a slider",
        (Slider(name, texts, tuple(map(trace_values, frames.values())), labels.index(first)),),
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

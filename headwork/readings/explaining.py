"""``headwork.explain``: a mechanism's name and a person's numbers in, a ``Trace`` out."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import headwork.mechanisms  # noqa: F401  (registers every mechanism)
from headwork.documents import Document, Item, Items
from headwork.errors import InputError, TooLarge, check_all_known, check_known, format_shape, unknown_name
from headwork.files import read_toml
from headwork.mechanisms.definitions import DEFINITIONS
from headwork.note import MECHANISMS, Input, Mechanism, get_mechanism
from headwork.numbers import HandTensor, OperationCount, ShapeTensor
from headwork.numbers.options import literal_choices, read_option
from headwork.numbers.parsing import SymbolInDecimals, read_tensor
from headwork.readings.assembling import TOKEN_AXES, assemble, effective_options, tokens_as_rows
from headwork.readings.models_by_hand import CONVENTION, model_as_mechanism
from headwork.readings.recording import name_long_numbers, recorder, replacer
from headwork.readings.trace import Trace
from headwork.readings.trace_warnings import trace_warnings

MAX_EXACT_OPERATIONS = 8_000
TABLES = ("inputs", "parameters", "options")  # of a problem in a TOML file, besides its mechanism
MAX_DECIMAL_OPERATIONS = 10_000_000  # about four seconds, most of them to write it
MAX_STEPS = 3_000  # that are noted


def explain(
    slug: str,
    /,
    *,
    exact: bool = False,
    tokens_as: Literal["rows", "columns"] = "rows",
    digits: int = 4,
    replacing: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    random: Any = None,
    **arguments: Any,
) -> Trace:
    """Work a problem step by step.

    Numbers may be typed text (``"1 2; 2 0"``), nested lists or arrays. ``exact=True`` keeps fractions,
    roots, e and pi; so do free symbols such as ``beta``. A whole model takes its ``parameters`` by their
    paths (``block 0/attention/W_q``); ``random``, a seed, draws those that are missing as whole numbers.

    >>> trace = explain("self-attention", tokens="1 2; 2 0", beta=1, exact=True)
    >>> print(trace.cell("scores", 0, 1))
    S[0,1] = 1*2 + 2*0 = 2
    """
    arguments |= parameters or {}
    check_known("tokens_as", tokens_as, ("rows", "columns"))
    settings = {"exact": exact, "tokens_as": tokens_as, "digits": digits, "random": random}
    rerun = partial(_rerun, slug, settings, dict(arguments))
    try:
        return _explain_once(rerun, replacing or {}, exact=exact)
    except SymbolInDecimals:
        return _explain_once(rerun, replacing or {}, exact=True)


def _rerun(slug: str, settings: dict[str, Any], arguments: dict[str, Any], **changes: Any) -> Trace:
    return explain(slug, **{**settings, **arguments, **changes})


def resolve_problem(
    slug: str, arguments: Mapping[str, Any], *, exact: bool = False, random: Any = None
) -> tuple[Mechanism, Mapping[str, Any]]:
    """A mechanism or a whole model of that name, and its arguments, with those that were drawn."""
    models = {n: d for d in DEFINITIONS.values() for n in (d.slug, d.function.__name__.replace("_", "-"))}
    if model := models.get(slug.replace("_", "-")):
        seed = None if random is None else read_option(int, random, where=f"{slug}: random")
        mechanism, values = model_as_mechanism(model, arguments, exact=exact, seed=seed)
        return mechanism, {**values, **arguments}
    if random is not None:
        raise InputError(f"{slug}: only the parameters of a whole model are drawn. Leave out --random.")
    if slug.replace("_", "-") not in MECHANISMS:
        raise unknown_name("mechanism", slug, [*MECHANISMS, *(d.slug for d in DEFINITIONS.values())])
    return get_mechanism(slug), arguments


def _explain_once(rerun: partial[Trace], replacing: Mapping[str, Any], *, exact: bool) -> Trace:
    """The trace of the problem that ``rerun`` works again."""
    slug, settings, arguments = rerun.args
    tokens_as_columns = settings["tokens_as"] == "columns"
    mechanism, arguments = resolve_problem(slug, arguments, exact=exact, random=settings["random"])
    check_names(mechanism, arguments, extras=["tokens_as"])
    present = {name: value for name, value in arguments.items() if value is not None}
    inputs = {
        c.name: read_tensor(present[c.name], exact=exact, where=c.name)
        for c in mechanism.inputs
        if c.name in present
    }
    hints = mechanism.option_types
    options = {
        name: read_option(hints[name], present[name], where=f"{mechanism.slug}: {name}", exact=exact)
        for name in mechanism.options
        if name in present
    }
    if mask_names := [name for name, value in options.items() if getattr(value, "shape", ())]:
        mechanism = replace(mechanism, inputs=(*mechanism.inputs, *map(mask_card, mask_names)))
        inputs |= {name: options.pop(name) for name in mask_names}
    new_values = {path: read_tensor(value, exact=exact, where=path) for path, value in replacing.items()}
    if tokens_as_columns:
        inputs = {c.name: tokens_as_rows(inputs[c.name], c) for c in mechanism.inputs if c.name in inputs}
        new_values = {path: tokens_as_rows(value, mechanism.step(path)) for path, value in new_values.items()}
    inputs = _fit_single_numbers(mechanism, inputs, options, exact)

    recorded: dict[str, HandTensor] = {}
    abbreviations: dict[str, tuple[Any, ...]] = {}
    note = recorder(recorded)
    if exact and mechanism.has_sublayers:  # numbers grow from one to the next
        note = name_long_numbers(note, abbreviations)
    note = replacer(note, new_values) if new_values else note
    # The arithmetic of a cell stops at labelled tensors.
    labelled = {
        name: value.labelled(name) if name in inputs or getattr(value, "shape", None) == () else value
        for name, value in {**inputs, **options}.items()
    }
    mechanism.run(labelled, note)
    simplified = not exact or _few_enough_to_simplify(mechanism, [*inputs.values(), *recorded.values()])
    trace = assemble(
        Trace,
        mechanism,
        inputs,
        recorded,
        effective_options(mechanism, options),
        tokens_as_columns=tokens_as_columns,
        exact=exact,
        digits=settings["digits"],
        replaced=replacing,
        rerun=rerun,
        abbreviations=abbreviations,
        simplified=simplified,
    )
    if not simplified:
        trace.warnings.append("there are too many exact numbers to simplify: they are shown as computed.")
    trace.warnings.extend(trace_warnings(trace, tokens_as_columns=tokens_as_columns))
    return trace


def mask_card(name: str) -> Input:
    """A mask that was typed is shown among the inputs, the way round in which scores are."""
    return Input(name, "m" if name == "mask" else "m'", "query key", "1 where it may attend, 0 where not")


def check_names(mechanism: Mechanism, arguments: Mapping[str, Any], extras: Sequence[str] = ()) -> None:
    """Refuse an argument that the mechanism does not have, and a call that lacks one it needs."""
    known = [*(c.name for c in mechanism.inputs), *mechanism.options, *extras]
    check_all_known(f"input of {mechanism.slug}", arguments, known)
    missing = [name for name in mechanism.required if arguments.get(name) is None]
    if missing:
        expected = "; ".join(
            f"{c.name}: {c.axes.replace(' ', ' x ')}" + (f", {c.about}" if c.about else "")
            for c in mechanism.inputs
            if c.name in missing
        )
        raise InputError(
            f"{mechanism.slug}: {' and '.join(missing)} missing. "
            f"{expected or 'Give a value with --set name=value.'}"
        )


def _fit_single_numbers(
    mechanism: Mechanism, inputs: dict[str, HandTensor], options: Mapping[str, Any], exact: bool
) -> dict[str, HandTensor]:
    """The inputs, if their sizes fit; a single number is tried as a row or matrix of one entry, too."""
    singles = {
        c.name: inputs[c.name].reshape(*[1] * len(c.axes.split()))
        for c in mechanism.inputs
        if c.name in inputs and inputs[c.name].shape == ()
    }
    try:
        _check_size(mechanism, inputs, options, exact)
    except InputError as error:
        if not singles or isinstance(error, TooLarge):
            raise
        inputs = inputs | singles
        _check_size(mechanism, inputs, options, exact)
    return inputs


def _check_size(
    mechanism: Mechanism, inputs: Mapping[str, HandTensor], options: Mapping[str, Any], exact: bool
) -> None:
    """Run the body on shapes alone, to refuse sizes that do not fit and work that is too large beforehand."""
    work = OperationCount()
    shapes = {
        name: ShapeTensor(value.shape, work) if isinstance(value, HandTensor) else value
        for name, value in {**inputs, **options}.items()
    }
    steps: list[str] = []

    def note(path: str, value: Any, /) -> Any:
        steps.append(path)
        if len(steps) > MAX_STEPS:
            raise TooLarge(f"{mechanism.slug}: more than {MAX_STEPS:,} steps. Take fewer tokens.")
        return value

    try:
        mechanism.run(shapes, note)
    except InputError:
        raise
    except (ValueError, IndexError):
        raise _size_error(mechanism, inputs) from None
    operations = work.multiply_adds + work.other_operations
    limit = MAX_EXACT_OPERATIONS if exact else MAX_DECIMAL_OPERATIONS
    if exact:
        from headwork.numbers.exact import MAX_ROOT_ORDER, root_order

        numbers = [value for value in {**inputs, **options}.values() if isinstance(value, HandTensor)]
        if root_order(cell for tensor in numbers for cell in tensor.array.flat) > MAX_ROOT_ORDER:
            raise TooLarge(
                f"{mechanism.slug}: roots of too many orders. Leave out --exact to work in decimals."
            )
    if operations > limit:
        form, advice = ("exact ", "Leave out --exact to work in decimals, or take") if exact else ("", "Take")
        raise TooLarge(
            f"{mechanism.slug}: about {operations:,} {form}operations; at most {limit:,} are done. "
            f"{advice} fewer tokens or a smaller width."
        )


def _few_enough_to_simplify(mechanism: Mechanism, tensors: Sequence[HandTensor]) -> bool:
    from headwork.numbers.exact import few_enough_to_simplify

    try:
        return few_enough_to_simplify(cell for tensor in tensors for cell in tensor.array.flat)
    except TooLarge as error:
        raise TooLarge(f"{mechanism.slug}: {error}") from None


def _size_error(mechanism: Mechanism, inputs: Mapping[str, HandTensor]) -> InputError:
    """Sizes that do not fit: what was given and expected, and first each axis that has two sizes."""
    cards = [c for c in mechanism.inputs if c.name in inputs]
    sizes: dict[str, dict[int, str]] = {}
    for c in cards:
        shape = () if c.name.startswith("W_") else inputs[c.name].shape  # the convention may turn a matrix
        for axis, size in zip(c.axes.split()[::-1], shape[::-1], strict=False):
            sizes.setdefault(axis, {}).setdefault(size, c.name)
    clash = next(
        (
            f": {axis} is {' and '.join(f'{n} in {name}' for n, name in by_size.items())}"
            for axis, by_size in sizes.items()
            if len(by_size) > 1
        ),
        "",
    )
    given = "; ".join(f"{c.name} is {format_shape(inputs[c.name].shape, c.axes)}" for c in cards)
    expected = "; ".join(f"{c.name} is {c.axes.replace(' ', ' x ')}" for c in cards)
    return InputError(
        f"{mechanism.slug}: the sizes do not fit together{clash}. Given: {given}. Expected: {expected}."
    )


def read_problem(path: str | Path, *, root: str | Path | None = None) -> tuple[str, dict[str, Any]]:
    """The mechanism's name (it may be missing) and the inputs and options, decimals kept as typed."""
    content = read_toml(path, root=root)
    check_all_known("entry", content, ["mechanism", *TABLES], str(path))
    mechanism = content.get("mechanism", "")
    tables = [content.get(name, {}) for name in TABLES]
    if not isinstance(mechanism, str) or not all(isinstance(table, dict) for table in tables):
        raise InputError(f'{path}: expected mechanism = "..." and the tables [inputs] and [options].')
    return mechanism, {name: value for table in tables for name, value in table.items()}


# --- what there is to explain ------------------------------------------------------------------------
def mechanism_list() -> Document:
    """Each mechanism in a few lines."""
    models = (model_as_mechanism(definition, {})[0] for definition in DEFINITIONS.values())
    return Document("Mechanisms", (Items(tuple(map(_item, (*MECHANISMS.values(), *models)))),))


def _item(mechanism: Mechanism) -> Item:
    inputs = (c.name if c.name in mechanism.required else f"[{c.name}]" for c in mechanism.inputs)
    lines = [f"inputs   {', '.join(inputs)}"]
    if options := list(option_texts(mechanism)):
        lines.append(f"options  {', '.join(options)}")
    if mechanism.slug not in MECHANISMS:
        lines.append(f"convention  {CONVENTION}")
    lines.append(f"steps    {', '.join(step.name for step in mechanism.steps)}")
    return Item(mechanism.about, mechanism.slug, more=tuple(lines))


def option_texts(mechanism: Mechanism) -> Iterator[str]:
    """Each option with its type and its default."""
    hints = mechanism.option_types
    for name, parameter in mechanism.options.items():
        default_value = parameter.default
        default = "" if default_value in (parameter.empty, None) else f", {default_value} unless given"
        yield f"{name} ({_type_text(hints[name])}{default})"
    if any(axis in TOKEN_AXES for card in mechanism.inputs for axis in card.axes.split()):
        yield "tokens_as (rows | columns, rows unless given)"


def _type_text(hint: Any) -> str:
    if choices := literal_choices(hint):
        return " | ".join(map(str, choices))
    if marks := getattr(hint, "__metadata__", ()):
        return "causal | matrix" if "mask" in marks else "number"
    inner = [part for part in get_args(hint) if part is not type(None)]
    type_names = {int: "whole number", bool: "true | false"}
    return _type_text(inner[0]) if inner else type_names.get(hint, "number")

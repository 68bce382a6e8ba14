"""The calls: plain functions, JSON in, JSON out, the same over HTTP and inside the page (docs/lab.md).

``run_call("explain", {"state": {...}})`` gives the function's answer, or ``{"error": {"message": ...,
"path": ..., "index": ...}}``. A call is a function under ``@register_call``; by that it can be
reached both ways.
"""

import base64
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import numpy as np

from headwork import __version__
from headwork.documents.formats import find_format, format_names
from headwork.documents.number_format import number_text, with_infinity
from headwork.errors import HeadworkError, InputError, TooLarge, check_known
from headwork.files import load_package_toml
from headwork.lab import practising, states
from headwork.lab.sentences import describe_cell
from headwork.lab.states import MASKS, CellError, SolvedState, State, cell_index, read_state, solve
from headwork.lab.views import view
from headwork.mechanisms.definitions import DEFINITIONS
from headwork.note import MECHANISMS
from headwork.numbers.parsing import SymbolInDecimals, entry_texts, read_number, tensor_from_lists
from headwork.readings import Trace
from headwork.readings.models_by_hand import model_as_mechanism
from headwork.readings.trace_document import cell_arithmetic, trace_data

EXAMPLES = load_package_toml(__file__, "examples.toml")  # of each mechanism, as the page lists them
FIRST_MECHANISM = "self-attention"  # the first screen: the four tokens
CHART_POINTS = 41
MAX_PASTE = 20_000
STYLE = re.compile(r"<style.*?</style>", re.S)  # of a figure: refused by the policy, and in lab.css
SIZES, ANY_ANSWER = "Shapes, sizes and counts", "Any answer that works"  # further groups of exercises
Call = Callable[..., dict[str, Any]]
CALLS: dict[str, Call] = {}


def register_call(function: Call) -> Call:
    """Add a function to the calls under its own name."""
    CALLS[function.__name__] = function
    return function


def run_call(name: str, request: Any) -> dict[str, Any]:
    """The answer of a call; what is wrong with the request is an answer too, and nothing else escapes.

    >>> run_call("nothing", {})["error"]["message"][:22]
    "unknown call 'nothing'"
    """
    try:
        check_known("call", name, CALLS)
        if not isinstance(request, dict) or not all(isinstance(key, str) for key in request):
            raise InputError("the request is not readable. Expected a JSON object.")
        return CALLS[name](**request)
    except HeadworkError as error:
        where = {"path": error.path, "index": error.index} if isinstance(error, CellError) else {}
        large = isinstance(error, TooLarge) or getattr(error, "too_large", False)
        return {"error": {"message": str(error), "kind": "too large" if large else "input", **where}}
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        message = f"{name}: the request does not fit ({type(error).__name__})."
        return {"error": {"message": message, "kind": "input"}}


def run_call_text(name: str, request: str) -> str:
    """The same with JSON as text, for the worker inside the page."""
    return json.dumps(run_call(name, json.loads(request)), ensure_ascii=False, allow_nan=False)


# --- what there is ----------------------------------------------------------------------------------------
@register_call
def capabilities() -> dict[str, Any]:
    """What is there: the version, the calls, the formats, and what needs more than the core."""
    return capabilities_where(lambda package: find_spec(package) is not None)


def capabilities_where(has: Callable[[str], bool]) -> dict[str, Any]:
    """The same where ``has`` says which packages there are."""
    return {
        "version": __version__,
        "calls": list(CALLS),
        "formats": [name for name in format_names() if name != "pdf" or has("typst")],
        "first": FIRST_MECHANISM,
        "plots": has("matplotlib"),
        "torch": has("torch"),
        "missing": {"gradient x attention": look_inside.MISSING},
    }


@register_call
def mechanisms() -> dict[str, Any]:
    """Every mechanism by its group: what it is, its example as a state, and what that example shows."""
    about = {slug: mechanism.about for slug, mechanism in MECHANISMS.items()}
    about |= {d.slug: model_as_mechanism(d, {})[0].about for d in DEFINITIONS.values()}
    listed = []
    for slug, example in EXAMPLES.items():
        shown = {name: example[name] for name in ("group", "point", "look")}
        listed.append({"slug": slug, "about": about[slug], **shown, "state": example_state(slug).as_data()})
    return {"mechanisms": listed}


def example_state(slug: str) -> State:
    """The example of a mechanism as a state."""
    check_known("mechanism", slug, EXAMPLES)
    fields = ("inputs", "options", "exact", "random")
    return read_state({"mechanism": slug, **{k: v for k, v in EXAMPLES[slug].items() if k in fields}})


# --- the canvas -------------------------------------------------------------------------------------------
@register_call
def explain(state: Any) -> dict[str, Any]:
    """Everything that the canvas shows of a state: values, options, warnings, one sentence."""
    return view(solve(read_state(state)))


@register_call
def cell(state: Any, path: str, index: str) -> dict[str, Any]:
    """The arithmetic of one cell: in names, in numbers, in words, and the cells that it comes from."""
    solved = solve(read_state(state))
    edited = index in solved.state.edits.get(path, {})
    trace = solved.trace if edited else solved.before.get(path, solved.trace)
    position = cell_index(index, trace[path].shape, path)
    result = trace.cell(path, *position)
    shown = cell_arithmetic(trace, path, position)
    return {
        "names": shown.in_names,
        "numbers": shown.text,
        "words": describe_cell(solved, path, position),
        "edit": (result.exact or result.decimal).replace("∞", "oo").replace("undefined", ""),
        "sources": [[name, ",".join(map(str, i))] for name, i in shown.sources],
    }


@register_call
def resized(state: Any, name: str, axis: int, by: int) -> dict[str, Any]:
    """The canvas with a token, or an entry of a width, more or fewer."""
    return view(solve(states.resize(read_state(state), name, axis, by)))


@register_call
def turned(state: Any, tokens_as: str) -> dict[str, Any]:
    """The canvas with tokens as rows or as columns."""
    return view(solve(states.set_tokens_as(read_state(state), tokens_as)))


@register_call
def mask_cells(state: Any, name: str = "mask") -> dict[str, Any]:
    """The canvas with the cells of its mask, to be typed."""
    return view(solve(states.add_mask_cells(read_state(state), name)))


@register_call
def pasted(state: Any, name: str, text: str, index: str = "") -> dict[str, Any]:
    """The canvas with an input pasted whole: from a spreadsheet, LaTeX, or as one types it."""
    current = read_state(state)
    if len(text) > MAX_PASTE:
        raise CellError(f"{len(text):,} characters; at most {MAX_PASTE:,} are pasted.", name)
    try:
        new = entry_texts(text)
        tensor_from_lists([new] if isinstance(new, str) else new)
    except SymbolInDecimals:
        pass
    except InputError as error:
        raise CellError(error, name) from None
    depth = np.array(current.inputs.get(name, ""), object).ndim
    if isinstance(new, list) and np.array(new, object).ndim < depth:
        new = [new]  # one row of a matrix
    changed = replace(current, inputs={**current.inputs, name: new}, edits={})
    if name not in MASKS:
        changed = states.resize_masks(changed, solve(current).trace.mechanism)
    return view(solve(changed))


def cell_curve(state: Any, path: str, index: str, varied: str, varied_index: str = "") -> dict[str, Any]:
    """How one cell follows another, or an option: points of a curve, placed from 0 to 1 for a small chart.

    ``varied`` is what is moved: an input with ``varied_index``, or ``beta``. In a request:
    ``of``, ``of_index``.
    """
    current = replace(read_state(state), exact=False)
    value_now = _cell_value(solve(current), path, index)
    texts = _values_to_try(current, varied, varied_index)
    pairs = []
    for text in texts:
        value = _cell_value(solve(_with_value(current, varied, varied_index, text)), path, index)
        if value is not None and abs(value) < 1e12:
            pairs.append((text, value))
    if len(pairs) < 2:
        raise InputError(f"{path} has no finite values to draw along {varied}.")
    low, high = min(y for _, y in pairs), max(y for _, y in pairs)
    span = high - low
    heights = [(y - low) / span if span > 1e-12 else 0.5 for _, y in pairs]
    points = [[i / (len(pairs) - 1), height] for i, height in enumerate(heights)]
    typed = _typed_text(current, varied, varied_index)
    typed_point = next((i for i, (text, _) in enumerate(pairs) if text == typed), None)
    value_text = "undefined" if value_now is None else number_text(value_now, 4)
    flat, range_text = span <= 1e-12, f"runs from {number_text(low, 4)} to {number_text(high, 4)}"
    named = f"{varied}[{varied_index}]" if varied_index else varied
    ends = [with_infinity(pairs[0][0]), with_infinity(pairs[-1][0])]
    return {
        "points": points,
        "values": [number_text(y, current.digits) for _, y in pairs],
        "moved": [with_infinity(text) for text, _ in pairs],
        "at": typed_point,
        "flat": flat,
        "x": ends,
        "y": [number_text(low, 4), number_text(high, 4)],
        "words": f"{path}[{index}] {'does not change' if flat else range_text} while {named} goes "
        f"from {ends[0]} to {ends[1]}. Now it is {value_text}.",
    }


CALLS["sensitivity"] = lambda of, of_index="", **more: cell_curve(**more, varied=of, varied_index=of_index)


def _cell_value(solved: SolvedState, path: str, index: str) -> float | None:
    value = solved.trace[path]
    number = value.values[cell_index(index, value.shape, path)]
    return None if number is None or number != number else float(number)


def _typed_text(state: State, varied: str, varied_index: str) -> str:
    if varied not in state.inputs:
        return str(state.options.get(varied, ""))
    cells = np.array(state.inputs[varied], object)
    return str(cells[cell_index(varied_index, cells.shape, varied)])


def _values_to_try(state: State, varied: str, varied_index: str) -> list[str]:
    """The values that are tried: the stops of the slider, or on both sides of what stands there now."""
    if varied in MASKS and varied in state.inputs:
        return ["0", "1"]
    control = next((o for o in view(solve(state))["options"] if o["name"] == varied), None)
    if control is not None:
        if "stops" not in control:
            raise CellError(f"{varied} is not on a slider.", varied)
        return list(control["stops"])
    check_known("input to move", varied, state.inputs)
    current = _typed_text(state, varied, varied_index)
    middle = read_number(current, exact=False)
    half = CHART_POINTS // 2
    reach = max(3.0, 2 * abs(middle))
    return [current if i == 0 else f"{middle + reach * i / half:.6g}" for i in range(-half, half + 1)]


def _with_value(state: State, varied: str, varied_index: str, text: str) -> State:
    if varied not in state.inputs:
        return replace(state, options={**state.options, varied: text})
    cells = np.array(state.inputs[varied], object)
    cells[cell_index(varied_index, cells.shape, varied)] = text
    return replace(state, inputs={**state.inputs, varied: cells.tolist()})


@register_call
def export(state: Any, format: str, fragment: bool = False) -> dict[str, Any]:
    """The worked state in one of the formats, as a file: its name and its content."""
    solved = solve(read_state(state))
    module = find_format(format)
    content: str | bytes = solved.trace.render(format, fragment=fragment)
    name = f"{solved.trace.mechanism.slug}{module.SUFFIX}"
    if isinstance(content, bytes):
        return {"name": name, "base64": base64.b64encode(content).decode()}
    return {"name": name, "text": content}


# --- problems ---------------------------------------------------------------------------------------------
@register_call
def problems() -> dict[str, Any]:
    """The hand-outs, question by question, with the problems that answer each."""
    from headwork.problems.book import all_problems
    from headwork.problems.report import HANDOUTS

    titles = {slug: entry.title for slug, entry in all_problems().items()}
    handouts = []
    for name, handout in HANDOUTS.items():
        questions = [{"id": f"{name}/{n}", **question} for n, question in handout["questions"].items()]
        handouts.append({"name": name, "about": handout["about"], "questions": questions})
    return {"handouts": handouts, "titles": titles}


@register_call
def problem(slug: str) -> dict[str, Any]:
    """One problem: question, answer, why, errors in the hand-out's answer, its steps as states, the rest."""
    from headwork.documents.blocks import Values, as_blocks
    from headwork.documents.formats.html import blocks_markup
    from headwork.problems.book import find_problem

    entry = find_problem(slug)
    solution = entry.solve()
    traces = [part for part in solution.parts if isinstance(part, Trace)]
    other_blocks = [b for part in solution.parts if not isinstance(part, Trace) for b in as_blocks(part)]
    return {
        "slug": entry.slug,
        "title": entry.title,
        "question": entry.question,
        "answer": solution.answer,
        "why": solution.why,
        "verdict": solution.verdict,
        "errors": [
            {"what": f.label, "ours": f.ours, "published": f.published, "why": f.why}
            for f in solution.findings
            if f.published
        ],
        "states": [state for trace in traces for state in _editable_states(trace)],
        "html": STYLE.sub("", str(blocks_markup(b for b in other_blocks if not isinstance(b, Values)))),
        "checks": [f"{f.label}: {f.ours}" for f in solution.findings],
    }


def _editable_states(trace: Trace) -> Iterator[dict[str, Any]]:
    """A trace as a state that can be changed, where all that it was given can be typed."""
    data = trace_data(trace)
    inputs = {name: _nested_texts(entry) for name, entry in data["inputs"].items()}
    options = {name: text for name, text in data["options"].items() if text != "1/sqrt(d_k)"}
    state = {"mechanism": data["mechanism"], "inputs": inputs, "options": options, "exact": trace.exact}
    if trace.title or trace.replaced or None in inputs.values() or "given" in options.values():
        return
    try:
        yield solve(read_state(state)).state.as_data()
    except InputError:
        return


def _nested_texts(entry: dict[str, Any]) -> Any:
    """The numbers of an input as nested texts."""
    nested = entry.get("exact", entry["values"])
    return None if "null" in json.dumps(nested) else nested


# --- practising -------------------------------------------------------------------------------------------
@register_call
def kinds() -> dict[str, Any]:
    """Every kind of exercise: its group, and what it asks for; and the exercise to begin with."""
    from headwork.exercises.challenges import CHALLENGES
    from headwork.exercises.generation import EXERCISE_KINDS

    groups = {slug: example["group"] for slug, example in EXAMPLES.items()}
    listed = [(slug, groups.get(kind.mechanism, SIZES), kind.asked) for slug, kind in EXERCISE_KINDS.items()]
    listed += [(slug, ANY_ANSWER, tuple(challenge.fields)) for slug, challenge in CHALLENGES.items()]
    asks = [list(dict.fromkeys(name.rpartition("/")[2] for name in asked)) for _, _, asked in listed]
    data = [{"kind": s, "group": g, "asks": a} for (s, g, _), a in zip(listed, asks, strict=True)]
    return {"kinds": data, "first": practising.FIRST_EXERCISE}


CALLS |= practising.PRACTISE_CALLS


# Further calls, each in the module of its screen.
from headwork.lab import look_inside  # noqa: E402

"""The class: marks, steps and causes of a whole cohort as a page, and the files that are written beside it.

A teacher sees what to explain again: the commonest causes with who has them, which step lost most, how marks
are spread, and every student's steps on one line. Everything on the page is in class.json and the CSV files.
"""

import csv
import io
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import mean, median, mode
from typing import Any

from headwork.courses.cohort import StudentMarks, apply_overrides, read_overrides
from headwork.courses.parallel import map_limited
from headwork.documents import Document
from headwork.documents.blocks import Badge, BadgeRow, Bar, Details, Heading, Item, Items, Link, Prose, Table
from headwork.documents.style import escape_controls
from headwork.errors import InputError
from headwork.files import load_package_toml, safe_file_name, write_atomic
from headwork.grading.feedback import feedback_document, named_causes
from headwork.grading.marks import StepMark
from headwork.grading.wording import points_text

HISTOGRAM_BINS = 10  # of the distribution
CAUSES_ON_TOP = 3  # causes that the page opens with
VERDICT_SIGNS: Mapping[str, tuple[str, str]] = load_package_toml(__file__, "words.toml")["verdict_signs"]
CAUSE_COLUMNS = ("exercise", "step", "cause", "students", "who", "sentence")
STEP_COLUMNS = ("exercise", "step", "correct", "of", "lost", "full")
Record = dict[str, Any]
LEGEND = "+ correct, / partly correct, ~ the same mistake again, x incorrect, . missing, ? unreadable"


def class_causes(results: Sequence[StudentMarks]) -> list[Record]:
    """The causes that came first at an incorrect step, with who has them; the commonest first."""
    by_cause: defaultdict[tuple[str, str, str], dict[str, str]] = defaultdict(dict)
    for graded, number, step in _steps(results):
        if step.state == "wrong" and step.causes:
            cause = named_causes(step.causes)[0]
            by_cause[number, step.path, cause.slug][graded.student] = cause.sentence
    rows = ((*at, len(who), list(who), mode(who.values())) for at, who in by_cause.items())
    causes = [dict(zip(CAUSE_COLUMNS, row, strict=True)) for row in rows]
    return sorted(causes, key=lambda cause: -cause["students"])


def class_steps(results: Sequence[StudentMarks]) -> list[Record]:
    """Every step of those who were marked: how many have it correct, and the points lost there."""
    steps: defaultdict[tuple[str, str], list[StepMark]] = defaultdict(list)
    for _, number, step in _steps([graded for graded in results if graded.file and not graded.problem]):
        steps[number, step.path].append(step)
    rows = []
    for key, marked in sorted(steps.items(), key=lambda item: _number_order(item[0][0])):
        correct, full = sum(step.verdict == "correct" for step in marked), sum(s.max_points for s in marked)
        lost = round(full - sum(step.points for step in marked), 2)
        rows.append(dict(zip(STEP_COLUMNS, (*key, correct, len(marked), lost, round(full, 2)), strict=True)))
    return rows


def _steps(results: Iterable[StudentMarks]) -> Iterator[tuple[StudentMarks, str, StepMark]]:
    for graded in results:
        for number, mark in graded.marks.items():
            yield from ((graded, number, step) for step in mark.steps)


def _number_order(number: str) -> tuple[int, str]:
    return (int(number) if number.isdecimal() else 0, number)


# --- the page -----------------------------------------------------------------------------------------
def class_document(results: Sequence[StudentMarks], pages: Mapping[str, str] | None = None) -> Document:
    """The class in every format; ``pages`` says where the feedback on a file is."""
    pages = pages or {}
    data = class_data(results)
    causes, steps = data["causes"], data["steps"]
    students = [graded for graded in results if graded.student]
    links = {graded.student: _student_link(graded, pages) for graded in students}
    parts = [
        *_explain_again(causes, steps, sum(bool(g.file) and not g.problem for g in students)),
        *_to_look_at(results),
        Heading("Marks"),
        _distribution(students),
        Heading("Steps"),
        _step_table(steps),
        *_cause_details(causes, links),
        Heading("Students"),
        LEGEND,
        _grid(results, links),
    ]
    return Document(data["title"] or "Marks", tuple(parts), _class_summary(students), data=lambda: data)


def _student_link(graded: StudentMarks, pages: Mapping[str, str]) -> Link | str:
    page = pages.get(graded.file) if graded.file else None
    return Link(graded.student, page) if page else graded.student


def _class_summary(students: Sequence[StudentMarks]) -> str:
    """How many handed in, and the mean."""
    states = Counter(graded.state for graded in students)
    marked = [graded for graded in students if graded.file and not graded.problem]
    words = [f"{len(students)} students, {len(marked)} marked"]
    words += [f"{states[s]} {s}" for s in ("all correct", "unreadable", "no answer") if states[s]]
    if marked:
        points, full = [graded.points for graded in marked], max(g.max_points for g in marked)
        middle = f"median {points_text(median(points))}, mean {points_text(mean(points))}"
        words.append(f"{middle} of {points_text(full)} points")
    return "; ".join(words) + "."


def _explain_again(causes: Sequence[Record], steps: Sequence[Record], marked: int) -> Iterator[Any]:
    """What to explain on Monday."""
    nameable = [cause for cause in causes if cause["cause"] not in ("unknown", "slip", "shape")]
    items = [
        Item(f"{cause['sentence']} ({_step_label(cause)})", f"{cause['students']} of {marked}")
        for cause in nameable[:CAUSES_ON_TOP]
    ]
    most = max(steps, key=lambda step: step["lost"], default=None)
    if most and most["lost"]:
        lost = f"lost most: {points_text(most['lost'])} of {points_text(most['full'])} points"
        items.append(Item(lost, _step_label(most)))
    if items:
        yield from (Heading("Explain again"), Items(tuple(items)))


def _step_label(row: Record) -> str:
    return f"{row['exercise']}. {row['step']}"


def _to_look_at(results: Sequence[StudentMarks]) -> Iterator[Any]:
    """Files that cannot be read or were not counted, and answers that need a look."""
    items = [
        Item(f"{graded.problem or flag}", graded.student or Path(graded.file).name)
        for graded in results
        if graded.file
        for flag in ([""] if graded.problem else graded.flags)
    ]
    if items:
        yield from (Heading("To look at"), Items(tuple(items)))


def _distribution(students: Sequence[StudentMarks]) -> Table:
    """How many students have how many points."""
    full = max((graded.max_points for graded in students), default=0.0)
    counted = [graded for graded in students if graded.file and not graded.problem]
    bins = Counter(
        min(HISTOGRAM_BINS - 1, int(HISTOGRAM_BINS * g.points / full + 1e-9)) if full else 0 for g in counted
    )
    most = max(bins.values(), default=1)
    rows = []
    for number in range(HISTOGRAM_BINS):
        low, high = (points_text(full * edge / HISTOGRAM_BINS) for edge in (number, number + 1))
        rows.append((f"{low} to {high}", Bar(bins[number] / most, str(bins[number]))))
    return Table("", ("points", "students"), list(rows))


def _step_table(steps: Sequence[Record]) -> Table:
    """Each step with the share of the class that has it, and the points lost."""
    most = max((step["lost"] for step in steps), default=0.0) or 1.0
    rows = [
        (_step_label(s), f"{s['correct']} of {s['of']}", Bar(s["lost"] / most, points_text(s["lost"])))
        for s in steps
    ]
    return Table("", ("step", "correct", "points lost"), list(rows))


def _cause_details(causes: Sequence[Record], links: Mapping[str, Link | str]) -> Iterator[Any]:
    if causes:
        yield Heading("Causes")
    for cause in causes:
        who = [part for student in cause["who"] for part in (links.get(student, student), ", ")]
        summary = f"{cause['students']}: {cause['sentence']} ({_step_label(cause)})"
        yield Details(summary, (Prose(tuple(who[:-1])),))


def _grid(results: Sequence[StudentMarks], links: Mapping[str, Link | str]) -> Table:
    """Steps x students: a row per student, a sign per step."""
    names: defaultdict[str, dict[str, None]] = defaultdict(dict)  # the steps of each exercise, in order
    for _, number, step in _steps(results):
        names[number][step.path] = None
    numbers = sorted(names, key=_number_order)
    head = [BadgeRow(tuple(Badge(step, "name") for step in names[number])) for number in numbers]
    rows: list[tuple[Any, ...]] = [("", "", *head, "")] if numbers else []
    for graded in results:
        strips = [_step_signs(graded, number, names[number]) for number in numbers]
        points = points_text(graded.points) if graded.marks else ""
        who = links.get(graded.student, graded.student) if graded.student else Path(graded.file).name
        rows.append((who, points, *strips, graded.state))
    full = max((graded.max_points for graded in results), default=0.0)
    return Table("", ("student", f"of {points_text(full)}", *numbers, "state"), rows)


def _step_signs(graded: StudentMarks, number: str, names: Iterable[str]) -> BadgeRow:
    mark = graded.marks.get(number)
    verdicts = {step.path: step.verdict for step in mark.steps} if mark else {}
    signs = [(name, verdicts[name]) for name in names if name in verdicts]
    return BadgeRow(tuple(Badge(*VERDICT_SIGNS[verdict], f"{name}: {verdict}") for name, verdict in signs))


def class_data(results: Sequence[StudentMarks]) -> dict[str, Any]:
    """The same as plain data."""
    marks = [
        {
            **{name: getattr(graded, name) for name in ("student", "name", "state", "problem", "file")},
            "points": round(graded.points, 2),
            "of": round(graded.max_points, 2),
            "flags": list(graded.flags),
            "steps": {n: {s.path: s.verdict for s in mark.steps} for n, mark in graded.marks.items()},
        }
        for graded in results
    ]
    title = next((graded.title for graded in results if graded.title), "")
    return {"title": title, "marks": marks, "steps": class_steps(results), "causes": class_causes(results)}


# --- files --------------------------------------------------------------------------------------------
def write_marks(results: list[StudentMarks], out: str | Path, *, hint: int = 2) -> list[StudentMarks]:
    """Write the class page, its data, the feedback, and the overrides file where there is none."""
    folder = Path(out)
    path = folder / "overrides.toml"
    overrides = read_overrides(path)
    results = [apply_overrides(graded, overrides) for graded in results]
    if not path.exists():
        write_atomic(path, Path(__file__).with_name("overrides.toml").read_bytes())
    pages = _write_feedback(results, folder, hint)
    document, data = class_document(results, pages), class_data(results)
    write_atomic(folder / "index.html", document.to_html())
    content = json.dumps(data, ensure_ascii=False, indent=1) + "\n"
    write_atomic(folder / "class.json", escape_controls(content, colour=False))  # which JSON reads as it was
    write_atomic(folder / "marks.csv", marks_csv(results))
    for name, columns in (("steps", STEP_COLUMNS), ("causes", CAUSE_COLUMNS)):
        rows = [[" ".join(x) if isinstance(x := row[c], list) else x for c in columns] for row in data[name]]
        write_atomic(folder / f"{name}.csv", csv_text([columns, *rows]))
    return results


def _write_feedback(results: Sequence[StudentMarks], folder: Path, hint: int) -> dict[str, str]:
    """Write the feedback on every file, in parallel; says where the page of each is."""
    pages, used_names = {}, set()
    handed_in = [graded for graded in results if graded.file]
    for graded in handed_in:
        stem = safe_file_name(graded.student if not graded.problem else Path(graded.file).name)
        while stem.lower() in used_names:  # some systems take Ada and ada for one
            stem += "_"
        used_names.add(stem.lower())
        pages[graded.file] = f"feedback/{stem}.html"
    write = partial(_write_one, folder=folder, pages=pages, hint=hint)
    for graded, page in zip(handed_in, map_limited(write, handed_in, "pages"), strict=True):
        if not page:
            raise InputError(f"{graded.file}: writing its feedback took too long or was killed.")
    return pages


def _write_one(graded: StudentMarks, folder: Path, pages: Mapping[str, str], hint: int) -> Path:
    path = folder / pages[graded.file]
    document = student_document(graded, hint)
    write_atomic(path.with_suffix(".txt"), document.to_text(), root=folder)
    return write_atomic(path, document.to_html(), root=folder)


def student_document(graded: StudentMarks, hint: int = 2) -> Document:
    """The feedback for one student."""
    if graded.problem:
        points = graded.summary if graded.points else ""
        return Document(points or "Unreadable", (Prose(f"unreadable: {graded.problem}"),))
    return feedback_document(graded.marks, title=graded.summary, hint=hint, about=graded.title)


def marks_csv(results: Sequence[StudentMarks]) -> str:
    """One line per file and student: state, points, points of each exercise, and what to look at."""
    numbers = sorted({number for graded in results for number in graded.marks}, key=_number_order)
    rows = [["student", "name", "state", "points", "of", *numbers, "file", "problem", "flags"]]
    for graded in results:
        each = [points_text(graded.marks[n].points) if n in graded.marks else "" for n in numbers]
        totals = [points_text(graded.points), points_text(graded.max_points)] if graded.marks else ["", ""]
        row = [graded.student, graded.name, graded.state, *totals, *each]
        rows.append([*row, graded.file, graded.problem, "; ".join(graded.flags)])
    return csv_text(rows)


def csv_text(rows: Iterable[Iterable[Any]]) -> str:
    """Rows as CSV in which no cell is run by a spreadsheet."""
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows([_safe_cell(str(cell)) for cell in row] for row in rows)
    return buffer.getvalue()


def _safe_cell(text: str) -> str:
    """One line; a spreadsheet would run what begins like a formula."""
    line = " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())
    number = line.lstrip("-").replace(".", "", 1).isdigit()
    return f"'{line}" if line.startswith(tuple("=+-@＝＋－＠")) and not number else line

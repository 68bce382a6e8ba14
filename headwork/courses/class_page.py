"""The class: marks, steps and causes of a whole cohort as a page, and the files that are written beside it.

A teacher sees what to explain again: the commonest causes with who has them, which step lost most, how marks
are spread, and every student's steps on one line. Everything on the page is in class.json and the CSV files.
"""

import csv
import io
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import mean, median
from typing import Any

from headwork.courses.cohort import OVERRIDES, StudentMarks, apply_overrides, read_overrides
from headwork.courses.parallel import limited, progress
from headwork.documents import Bar, Details, Document, Heading, Item, Items, Link, Marked, Prose, Strip, Table
from headwork.errors import InputError
from headwork.files import file_name, write_atomic
from headwork.grading.feedback import feedback_document, told_causes
from headwork.grading.marks import StepMark
from headwork.grading.wording import points_text

BARS = 10  # of the distribution
EXPLAINED = 3  # causes that the page opens with
# The sign and tone of a step by its verdict, and what it means.
SIGNS = {
    "correct": ("+", "good"),
    "partly correct": ("/", "part"),
    "as before": ("~", "part"),
    "incorrect": ("x", "bad"),
    "missing": (".", "open"),
    "unreadable": ("?", "open"),
}
LEGEND = "+ correct, / partly correct, ~ the same mistake again, x incorrect, . missing, ? unreadable"


@dataclass(frozen=True)
class ClassCause:
    """A cause at a step, in a sentence, and the students for whom it came first."""

    exercise: str
    step: str
    cause: str
    sentence: str
    who: tuple[str, ...]


@dataclass(frozen=True)
class ClassStep:
    """A step over the whole class: how many have it correct, and the points that were lost there."""

    exercise: str
    step: str
    correct: int
    of: int
    lost: float
    full: float


def class_causes(results: Sequence[StudentMarks]) -> list[ClassCause]:
    """The causes that came first at an incorrect step, the commonest first."""
    who: defaultdict[tuple[str, str, str], dict[str, str]] = defaultdict(dict)
    for graded in results:
        for number, mark in graded.marks.items():
            for step in mark.steps:
                if step.state == "wrong" and step.causes:
                    cause = told_causes(step.causes)[0]
                    who[number, step.path, cause.slug][graded.student] = cause.sentence
    causes = [
        ClassCause(*at, Counter(students.values()).most_common(1)[0][0], tuple(students))
        for at, students in who.items()
    ]
    return sorted(causes, key=lambda cause: -len(cause.who))


def class_steps(results: Sequence[StudentMarks]) -> list[ClassStep]:
    """Every step of the class that handed in, in the order of the sheet."""
    steps: defaultdict[tuple[str, str], list[StepMark]] = defaultdict(list)
    for graded in results:
        for number, mark in graded.marks.items() if graded.file and not graded.problem else ():
            for step in mark.steps:
                steps[number, step.path].append(step)
    return [
        ClassStep(
            *at,
            sum(step.verdict == "correct" for step in marked),
            len(marked),
            sum(step.max_points - step.points for step in marked),
            sum(step.max_points for step in marked),
        )
        for at, marked in sorted(steps.items(), key=lambda item: _natural(item[0][0]))
    ]


def _natural(number: str) -> tuple[int, str]:
    return (int(number) if number.isdecimal() else 0, number)


# --- the page -----------------------------------------------------------------------------------------
def class_document(results: Sequence[StudentMarks], pages: Mapping[str, str] | None = None) -> Document:
    """The class in every format; ``pages`` says where the feedback on a file is."""
    pages = pages or {}
    causes, steps = class_causes(results), class_steps(results)
    students = [graded for graded in results if graded.student]
    links = {graded.student: _link(graded, pages) for graded in students}
    title = next((graded.title for graded in results if graded.title), "") or "Marks"
    parts = [
        *_explain_again(causes, steps, results),
        *_to_look_at(results, pages),
        Heading("Marks"),
        _distribution(students),
        Heading("Steps"),
        _step_table(steps),
        *_cause_details(causes, links),
        Heading("Students"),
        _grid(results, links),
    ]
    data = class_data(results, causes, steps)
    return Document(title, tuple(parts), _about(students), data=lambda: data)


def _link(graded: StudentMarks, pages: Mapping[str, str]) -> Link | str:
    page = pages.get(graded.file) if graded.file else None
    return Link(graded.student, page) if page else graded.student


def _about(students: Sequence[StudentMarks]) -> str:
    """How many handed in, and the mean."""
    states = Counter(graded.state for graded in students)
    marked = [graded for graded in students if graded.file and not graded.problem]
    words = [f"{len(students)} students, {len(marked)} marked"]
    words += [
        f"{states[state]} {state}" for state in ("all correct", "unreadable", "no answer") if states[state]
    ]
    if marked:
        points, full = [graded.points for graded in marked], max(g.max_points for g in marked)
        middle = f"median {points_text(median(points))}, mean {points_text(mean(points))}"
        words.append(f"{middle} of {points_text(full)} points")
    return "; ".join(words) + "."


def _explain_again(
    causes: Sequence[ClassCause], steps: Sequence[ClassStep], results: Sequence[StudentMarks]
) -> Iterator[Any]:
    """What to explain on Monday."""
    marked = sum(bool(graded.file) and not graded.problem for graded in results)
    known = [cause for cause in causes if cause.cause not in ("unknown", "slip", "shape")]
    items = [
        Item(f"{cause.sentence} ({cause.exercise}. {cause.step})", f"{len(cause.who)} of {marked}")
        for cause in known[:EXPLAINED]
    ]
    most = max(steps, key=lambda step: step.lost, default=None)
    if most and most.lost:
        lost = f"{points_text(most.lost)} of {points_text(most.full)} points"
        items.append(Item(f"lost most: {lost}", f"{most.exercise}. {most.step}"))
    if items:
        yield from (Heading("Explain again"), Items(tuple(items)))


def _to_look_at(results: Sequence[StudentMarks], pages: Mapping[str, str]) -> Iterator[Any]:
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
    bins = Counter(min(BARS - 1, int(BARS * g.points / full + 1e-9)) if full else 0 for g in counted)
    most = max(bins.values(), default=1)
    rows = []
    for number in range(BARS):
        low, high = (points_text(full * edge / BARS) for edge in (number, number + 1))
        rows.append((f"{low} to {high}", Bar(bins[number] / most, str(bins[number]))))
    return Table("", ("points", "students"), list(rows))


def _step_table(steps: Sequence[ClassStep]) -> Table:
    """Each step with the share of the class that has it, and the points lost."""
    most = max((step.lost for step in steps), default=0.0) or 1.0
    rows = [
        (
            f"{step.exercise}. {step.step}",
            f"{step.correct} of {step.of}",
            Bar(step.lost / most, points_text(step.lost)),
        )
        for step in steps
    ]
    return Table("", ("step", "correct", "points lost"), list(rows))


def _cause_details(causes: Sequence[ClassCause], links: Mapping[str, Link | str]) -> Iterator[Any]:
    if causes:
        yield Heading("Causes")
    for cause in causes:
        who: list[Any] = []
        for student in cause.who:
            who += [links.get(student, student), ", "]
        summary = f"{len(cause.who)}: {cause.sentence} ({cause.exercise}. {cause.step})"
        yield Details(summary, (Prose(tuple(who[:-1])),))


def _grid(results: Sequence[StudentMarks], links: Mapping[str, Link | str]) -> Table:
    """Steps x students: a row per student, a sign per step."""
    names: dict[str, list[str]] = defaultdict(list)
    for number, step in dict.fromkeys(
        (number, step.path) for g in results for number, mark in g.marks.items() for step in mark.steps
    ):
        names[number].append(step)
    numbers = sorted(names, key=_natural)
    head = [Strip(tuple(Marked(step, "name") for step in names[number])) for number in numbers]
    rows: list[tuple[Any, ...]] = [("", "", *head, "")] if numbers else []
    for graded in results:
        strips = [_strip(graded, number, names[number]) for number in numbers]
        points = points_text(graded.points) if graded.marks else ""
        who = links.get(graded.student, graded.student) if graded.student else Path(graded.file).name
        rows.append((who, points, *strips, graded.state))
    full = max((graded.max_points for graded in results), default=0.0)
    return Table("", ("student", f"of {points_text(full)}", *numbers, "state"), rows, [LEGEND])


def _strip(graded: StudentMarks, number: str, names: Sequence[str]) -> Strip:
    mark = graded.marks.get(number)
    verdicts = {step.path: step.verdict for step in mark.steps} if mark else {}
    signs = [(name, verdicts[name]) for name in names if name in verdicts]
    return Strip(tuple(Marked(*SIGNS[verdict], f"{name}: {verdict}") for name, verdict in signs))


def class_data(
    results: Sequence[StudentMarks], causes: Sequence[ClassCause], steps: Sequence[ClassStep]
) -> dict[str, Any]:
    """The same as plain data."""
    return {
        "title": next((graded.title for graded in results if graded.title), ""),
        "marks": [
            {
                "student": graded.student,
                "name": graded.name,
                "state": graded.state,
                "points": round(graded.points, 2),
                "of": round(graded.max_points, 2),
                "problem": graded.problem,
                "flags": list(graded.flags),
                "file": graded.file,
                "steps": {
                    number: {step.path: step.verdict for step in mark.steps}
                    for number, mark in graded.marks.items()
                },
            }
            for graded in results
        ],
        "steps": [{**vars(s), "lost": round(s.lost, 2), "full": round(s.full, 2)} for s in steps],
        "causes": [{**vars(cause), "students": len(cause.who), "who": list(cause.who)} for cause in causes],
    }


# --- files --------------------------------------------------------------------------------------------
def write_marks(results: list[StudentMarks], out: str | Path, *, hint: int = 2) -> list[StudentMarks]:
    """Write the class page, its data, the feedback, and the overrides file where there is none."""
    folder = Path(out)
    path = folder / "overrides.toml"
    overrides = read_overrides(path)
    results = [apply_overrides(graded, overrides) for graded in results]
    if not path.exists():
        write_atomic(path, OVERRIDES)
    pages = _write_feedback(results, folder, hint)
    document = class_document(results, pages)
    data = document.data() if document.data else {}
    write_atomic(folder / "index.html", document.to_html())
    write_atomic(folder / "class.json", json.dumps(data, ensure_ascii=False, indent=1) + "\n")
    write_atomic(folder / "marks.csv", marks_csv(results))
    columns = ("exercise", "step", "correct", "of", "lost", "full")
    steps = [[step[name] for name in columns] for step in data["steps"]]
    write_atomic(folder / "steps.csv", csv_text([columns, *steps]))
    columns = ("exercise", "step", "cause", "students", "who", "sentence")
    causes = [
        [{**cause, "who": " ".join(cause["who"])}[name] for name in columns] for cause in data["causes"]
    ]
    write_atomic(folder / "causes.csv", csv_text([columns, *causes]))
    return results


def _write_feedback(results: Sequence[StudentMarks], folder: Path, hint: int) -> dict[str, str]:
    """Write the feedback on every file, in parallel; says where the page of each is."""
    pages, taken = {}, set()
    handed_in = [graded for graded in results if graded.file]
    for graded in handed_in:
        stem = file_name(graded.student if not graded.problem else Path(graded.file).name)
        while stem.lower() in taken:  # some systems take Ada and ada for one
            stem += "_"
        taken.add(stem.lower())
        pages[graded.file] = f"feedback/{stem}.html"
    work = partial(_write_one, folder=folder, pages=pages, hint=hint)
    for done, (graded, page) in enumerate(zip(handed_in, limited(work, handed_in), strict=True), 1):
        if not page:
            raise InputError(f"{graded.file}: writing its feedback took too long or was killed.")
        progress(done, len(handed_in), "pages")
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
    numbers = sorted({number for graded in results for number in graded.marks}, key=_natural)
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
    csv.writer(buffer, lineterminator="\n").writerows([_cell(str(cell)) for cell in row] for row in rows)
    return buffer.getvalue()


def _cell(text: str) -> str:
    """One line; a spreadsheet would run what begins like a formula."""
    line = " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())
    number = line.lstrip("-").replace(".", "", 1).isdigit()
    return f"'{line}" if line.startswith(tuple("=+-@＝＋－＠")) and not number else line

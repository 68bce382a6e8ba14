"""``headwork practice``: exercises to hand out, and which mistakes they reveal."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from headwork.cli.app import command, group
from headwork.cli.options import Difficulty, Hint, Seed
from headwork.cli.output import Output
from headwork.errors import InputError

practice = group(
    "practice",
    "Practise",
    "Make exercises: one, or a sheet for a course.",
    "headwork practice list",
    "headwork practice new self-attention --seed 7 --out ex7/",
    "headwork practice check my-exercise.toml",
    "headwork practice sheet course.toml --roster students.csv --out sheet3/",
    "headwork practice export self-attention --seed 7 --to gradescope --out hw1/",
)


@command("headwork practice list", to=practice, name="list")
def list_() -> None:
    """List the kinds of exercise and what each asks for."""
    from headwork.exercises.challenges import CHALLENGES
    from headwork.exercises.generation import KINDS

    width = max(map(len, [*KINDS, *CHALLENGES]))
    rows = [f"{slug.ljust(width)}  {', '.join(kind.asked)}" for slug, kind in KINDS.items()]
    rows += [f"{slug.ljust(width)}  {', '.join(challenge.fields)}" for slug, challenge in CHALLENGES.items()]
    print("\n".join(rows))


@command(
    "headwork practice new self-attention --seed 7 --out ex7/",
    "headwork practice new my-exercise.toml --as latex",
    to=practice,
    formats=("text", "markdown", "latex", "html", "notebook"),
)
def new(
    output: Output,
    kind: Annotated[str, Argument(help="A kind of exercise (see list), or a TOML file of your own.")],
    seed: Seed = 0,
    difficulty: Difficulty = 1,
    out: Annotated[Path | None, Option(help="A folder for the question and the answer sheets.")] = None,
) -> None:
    """Make one exercise: the question and an answer sheet.

    The answer sheet is a TOML file and a page that opens offline.
    """
    from headwork.courses.answer_page import answer_page, question_page
    from headwork.exercises import generate, questions, read_exercise

    own = kind.endswith(".toml")
    exercise = read_exercise(kind) if own else generate(kind, seed, difficulty)
    name = Path(kind).stem if own else exercise.kind
    question = questions.build_question(exercise)
    formats: dict[str, tuple[str, Callable[[], str]]] = {
        "text": ("question.txt", lambda: questions.text(question)),
        "markdown": ("question.md", lambda: questions.markdown(question)),
        "latex": ("question.tex", lambda: questions.latex(question, fragment=output.fragment)),
        "html": ("question.html", lambda: question_page(exercise)),
        "notebook": ("question.ipynb", lambda: questions.notebook(question)),
    }
    if out is None:
        output.write(formats[output.format][1]())
        return
    from headwork.files import write_atomic

    if out.exists() and not out.is_dir():
        raise InputError(f"--out {out} is a file. Name a folder.")
    answer = out / "answer.toml"
    if answer.exists():
        raise InputError(
            f"{answer} exists and may be filled in. Choose another folder with --out, or move it away."
        )
    for file, render in formats.values():
        write_atomic(out / file, render())
    write_atomic(out / "exercise.toml", exercise.to_toml())
    write_atomic(out / "answer.html", answer_page({name: exercise}, origin=not own))
    write_atomic(answer, questions.answer_sheet({name: exercise}, origin=not own))
    print(f"wrote {out}: fill in answer.toml or answer.html, then headwork grade {answer}", file=sys.stderr)


@command("headwork practice check my-exercise.toml", to=practice)
def check(
    exercise: Annotated[Path, Argument(help="A TOML file: mechanism, [inputs], [options], [points].")],
) -> None:
    """Find mistakes that these numbers cannot reveal.

    Also names mistakes that cannot be told apart, and the smallest change of one entry that reveals them.
    """
    from headwork.exercises import checking, read_exercise

    own = read_exercise(exercise)
    if own.challenge:
        raise InputError(f"{exercise}: any solution that works is correct, so there is nothing to reveal.")
    result = checking.check(own)
    print(result.to_text())
    if not result.good:
        raise typer.Exit(1)


@command("headwork practice sheet course.toml --roster students.csv --out sheet3/", to=practice)
def sheet(
    course: Annotated[Path, Argument(help="A TOML file: title, secret, [[exercise]] with kind or file.")],
    roster: Annotated[Path, Option(help="A CSV file with a column student (and name).")],
    out: Annotated[Path, Option(help="The folder to write.")],
) -> None:
    """Make a variant of a sheet for every student.

    Keys and marking scheme are written to a folder apart from what is handed out.
    """
    from headwork.courses.sheets import read_course, read_roster, write_sheets

    students = read_roster(roster)
    write_sheets(read_course(course), students, out)
    print(f"wrote {out}: students/ to hand out, key/ to keep, answers/ for what comes back", file=sys.stderr)


NEXT = {
    "gradescope": "upload autograder.zip; hand out student/, of which answer.toml (or a notebook) comes back",
    "otter": "hand out student/; in autograder/ run: otter generate -t tests -o autograder.zip headwork",
    "nbgrader": "there run: nbgrader generate_assignment NAME, with the folder under source/ for NAME",
    "notebook": "hand out the notebook",
}


@command(
    "headwork practice export self-attention --seed 7 --to gradescope --out hw1/",
    "headwork practice export ex7/ my-exercise.toml --to otter --out hw2/",
    to=practice,
)
def export(
    sources: Annotated[list[str], Argument(help="Kinds of exercise, TOML files, keys, or folders of new.")],
    to: Annotated[str, Option(help="gradescope, otter, nbgrader or notebook.")],
    out: Annotated[Path, Option(help="A new folder; its name is the assignment's.")],
    seed: Seed = 0,
    difficulty: Difficulty = 1,
    hint: Hint = 2,
) -> None:
    """Write exercises as the files of a course system.

    The system then gives the marks that headwork grade gives.
    """
    from headwork.courses import exporting

    exporting.export(exporting.read_exercises(sources, seed=seed, difficulty=difficulty), to, out, hint=hint)
    print(f"wrote {out}: {NEXT[to]}", file=sys.stderr)

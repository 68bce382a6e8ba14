"""``headwork practice``: exercises to hand out, and what they can show."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from headwork.cli.app import app
from headwork.cli.showing import As, form, show
from headwork.errors import InputError

EPILOG = """Examples:

headwork practice list

headwork practice new self-attention --seed 7 --out ex7/

headwork practice check my-exercise.toml

headwork practice sheet course.toml --roster students.csv --out sheet3/

headwork practice export self-attention --seed 7 --to gradescope --out hw1/"""

practice = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
app.add_typer(practice, name="practice", help="Make exercises: one, or a sheet for a course.", epilog=EPILOG)


@practice.command("list", epilog="Example:\n\nheadwork practice list")
def list_() -> None:
    """List the kinds of exercise, with what each asks for."""
    from headwork.exercises.challenges import CHALLENGES
    from headwork.exercises.kinds import KINDS

    wide = max(map(len, [*KINDS, *CHALLENGES]))
    rows = [f"{slug.ljust(wide)}  {', '.join(kind.asked)}" for slug, kind in KINDS.items()]
    rows += [f"{slug.ljust(wide)}  {', '.join(what.fields)}" for slug, what in CHALLENGES.items()]
    show("\n".join(rows), None)


@practice.command(
    epilog="Examples:\n\nheadwork practice new self-attention --seed 7 --out ex7/\n\n"
    "headwork practice new my-exercise.toml --as latex"
)
def new(
    kind: Annotated[str, typer.Argument(help="A kind of exercise (see list), or a TOML file of your own.")],
    seed: Annotated[int, typer.Option("--seed", min=0, help="Another seed gives other numbers.")] = 0,
    difficulty: Annotated[int, typer.Option("--difficulty", min=1, max=3, help="1, 2 or 3.")] = 1,
    as_: As = "text",
    out: Annotated[
        Path | None,
        typer.Option("--out", help="A folder for the question in every form and the sheets to fill in."),
    ] = None,
) -> None:
    """Make one exercise: the question, and a sheet to fill in as a TOML file or as a page."""
    from headwork.courses.answer_page import answer_page, question_page
    from headwork.exercises import generate, questions, read_exercise

    own = kind.endswith(".toml")
    exercise = read_exercise(kind) if own else generate(kind, seed, difficulty)
    name = Path(kind).stem if own else exercise.kind
    asked = questions.question(exercise)
    forms: dict[str, tuple[str, Callable[[], str]]] = {
        "text": ("question.txt", lambda: questions.text(asked)),
        "markdown": ("question.md", lambda: questions.markdown(asked)),
        "latex": ("question.tex", lambda: questions.latex(asked)),
        "html": ("question.html", lambda: question_page(exercise)),
        "notebook": ("question.ipynb", lambda: questions.notebook(asked)),
    }
    if out is None:
        show(forms[form(as_, False, tuple(forms))][1](), None)
        return
    from headwork.files import write_whole

    if out.exists() and not out.is_dir():
        raise InputError(f"--out {out} is a file. Name a folder.")
    answer = out / "answer.toml"
    if answer.exists():
        raise InputError(
            f"{answer} is there already and may be filled in. Choose another folder with --out, or move it away."
        )
    for file, written in forms.values():
        write_whole(out / file, written())
    origin = not own
    write_whole(out / "exercise.toml", exercise.to_toml())
    write_whole(out / "answer.html", answer_page({name: exercise}, origin=origin))
    write_whole(answer, questions.answer_sheet({name: exercise}, origin=origin))
    print(f"wrote {out}: fill in answer.toml or answer.html, then headwork grade {answer}", file=sys.stderr)


@practice.command(epilog="Example:\n\nheadwork practice check my-exercise.toml")
def check(
    exercise: Annotated[Path, typer.Argument(help="A TOML file: mechanism, [inputs], [options], [points].")],
) -> None:
    """Say which mistakes these numbers cannot reveal or tell apart, and the smallest change that can."""
    from headwork.exercises import read_exercise
    from headwork.exercises.checking import check as look

    own = read_exercise(exercise)
    if own.challenge:
        raise InputError(f"{exercise}: whatever works is right there, so there are no mistakes to reveal.")
    found = look(own)
    show(found.to_text(), None)
    if not found.good:
        raise typer.Exit(1)


@practice.command(
    epilog="Example:\n\nheadwork practice sheet course.toml --roster students.csv --out sheet3/"
)
def sheet(
    course: Annotated[
        Path, typer.Argument(help="A TOML file: title, secret, [[exercise]] with kind or file.")
    ],
    roster: Annotated[Path, typer.Option("--roster", help="A CSV file with a column student (and name).")],
    out: Annotated[Path, typer.Option("--out", help="The folder to write.")],
) -> None:
    """Make a variant for every student; key and marking scheme are written apart from what is handed out."""
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


@practice.command(
    epilog="Examples:\n\nheadwork practice export self-attention --seed 7 --to gradescope --out hw1/\n\n"
    "headwork practice export ex7/ my-exercise.toml --to otter --out hw2/"
)
def export(
    sources: Annotated[
        list[str],
        typer.Argument(help="Kinds of exercise, TOML files of your own, key files, or folders made by new."),
    ],
    to: Annotated[str, typer.Option("--to", help="gradescope, otter, nbgrader or notebook.")],
    out: Annotated[Path, typer.Option("--out", help="A new folder; its name is the assignment's.")],
    seed: Annotated[
        int, typer.Option("--seed", min=0, help="For kinds: another seed gives other numbers.")
    ] = 0,
    difficulty: Annotated[int, typer.Option("--difficulty", min=1, max=3, help="For kinds: 1, 2 or 3.")] = 1,
    hint: Annotated[
        int,
        typer.Option(
            "--hint", min=0, max=3, help="What students are told: 0 marks only, 1 where, 2 what kind, 3 all."
        ),
    ] = 2,
) -> None:
    """Write exercises as the files of a course system, which then marks as headwork grade does."""
    from headwork.courses import exporting

    exporting.export(exporting.read_exercises(sources, seed=seed, difficulty=difficulty), to, out, hint=hint)
    print(f"wrote {out}: {NEXT[to]}", file=sys.stderr)

"""``headwork practice``, ``course``, ``handin`` and ``grade``: exercises, hand-outs, hand-ins and marks."""

import sys
from pathlib import Path

import typer

from headwork.cli.app import command
from headwork.cli.output import Output, check_out_path
from headwork.errors import InputError, truncate


@command(group_name="practice")
def list_(output: Output) -> None:
    """List the kinds of exercise and what each asks for."""
    from headwork.exercises.questions import kind_table

    output.show(kind_table())


@command(group_name="practice")
def new(output: Output, kind: str, seed: int = 0, difficulty: int = 1, out: Path | None = None) -> None:
    """Make one exercise: the question and an answer sheet.

    The answer sheet is a TOML file and a page that opens offline.
    """
    from headwork.courses.answer_page import answer_page
    from headwork.exercises import generate, questions, read_exercise

    is_file = kind.endswith(".toml")
    if is_file and (seed, difficulty) != (0, 1):
        raise InputError(f"{kind} has its own numbers: --seed and --difficulty are for kinds of exercise.")
    exercise = read_exercise(kind) if is_file else generate(kind, seed, difficulty)
    name = Path(kind).stem if is_file else exercise.kind
    question = questions.build_question(exercise)
    if out is None:
        output.show(question)
        return
    from headwork.documents.formats import find_format, installed_formats
    from headwork.files import write_atomic

    check_out_path(out, folder=True)
    answer = out / "answer.toml"
    if answer.exists():
        raise InputError(f"{answer} exists and may be filled in. Choose another --out, or move it away.")
    for format_ in installed_formats():
        write_atomic(out / f"question{find_format(format_).SUFFIX}", question.render(format_))
    write_atomic(out / "exercise.toml", exercise.to_toml())
    next_step = f"Next: put it into {out} in place of the one there, then run headwork grade {answer}"
    page = answer_page({name: exercise}, origin=not is_file, next_step=next_step)
    write_atomic(out / "answer.html", page)
    write_atomic(answer, questions.answer_sheet({name: exercise}, origin=not is_file))
    print(f"wrote {out}: fill in answer.toml or answer.html, then headwork grade {answer}", file=sys.stderr)


@command(group_name="practice")
def check(output: Output, exercise: Path) -> None:
    """Find mistakes that these numbers cannot reveal.

    Also names mistakes that cannot be told apart, and the smallest change of one entry that reveals them.
    """
    from headwork.exercises import checking, read_exercise

    loaded = read_exercise(exercise)
    if loaded.is_challenge:
        raise InputError(f"{exercise}: any solution that works is correct, so there is nothing to reveal.")
    result = checking.check(loaded)
    output.show(result, good=result.good)


@command(group_name="practice")
def sheet(course: Path, roster: Path, out: Path) -> None:
    """Make a variant of a sheet for every student.

    Keys and marking scheme are written to a folder apart from what is handed out.
    """
    from headwork.courses.sheets import read_roster, read_sheet_template, write_sheets

    check_out_path(out, folder=True)
    students = read_roster(roster)
    write_sheets(read_sheet_template(course), students, out)
    print(f"wrote {out}: students/ to hand out, key/ to keep, answers/ for what comes back", file=sys.stderr)


@command(group_name="practice")
def export(sources: list[str], to: str, out: Path, seed: int = 0, difficulty: int = 1, hint: int = 2) -> None:
    """Write exercises as the files of a course system.

    The system then gives the marks that headwork grade gives. A folder of keys, as practice sheet writes it,
    gives every student the numbers of their sheet.
    """
    from headwork.courses import assignments, exporting

    check_out_path(out, folder=True)
    if len(sources) == 1 and assignments.is_key_folder(sources[0]):
        exporting.export({}, to, out, hint=hint, sheets=assignments.read_student_sheets(sources[0]))
        next_step = "upload autograder.zip" if to == "gradescope" else exporting.NEXT_STEPS[to]
        print(f"wrote {out}: {next_step}; hand out every student's own sheet, too", file=sys.stderr)
    else:
        exercises = assignments.read_exercises(sources, seed=seed, difficulty=difficulty)
        exporting.export(exercises, to, out, hint=hint)
        print(f"wrote {out}: {exporting.NEXT_STEPS[to]}", file=sys.stderr)


@command(group_name="course")
def show(output: Output, question: str = "", find: str = "") -> None:
    """List the hand-outs' questions, or answer one.

    The answer alone earns full marks; below it stand a command, a notebook and an exercise. The word show can
    be left out. Without a question, another format than text gives all answers.
    """
    from headwork.problems import handouts

    if find and question:
        raise InputError(f"--find {find} and {question}: which one? Leave one out.")
    if find:
        output.show(handouts.question_list(handouts.search(find)))
    elif question:
        output.show(handouts.answers_document(handouts.look_up(question)))
    else:
        output.show(handouts.question_list() if output.is_default else handouts.answers_document())


@command("new", group_name="course")
def new_notebook(notebook: str, out: Path, as_: str = "student", force: bool = False) -> None:
    """Write a course notebook.

    A student's has blanks, and after each a check that draws fresh numbers and names the cause of a mistake.
    """
    from headwork.courses.exporting import NEXT_STEPS
    from headwork.courses.notebooks import write_notebook

    check_out_path(out, folder=True)
    files = write_notebook(notebook, as_, out, force=force)
    print(f"wrote {out}: {NEXT_STEPS.get(as_, f'open {files[0].name}')}", file=sys.stderr)


@command()
def handin(output: Output, source: Path, force: bool = False) -> None:
    """Put answers, worked problems and notebooks in one PDF.

    A section holds text (LaTeX or Markdown), problems, traces, notebooks with their outputs, or pictures.
    """
    from headwork.courses.handin import read_handin

    if output.path is not None and output.path.exists() and not force:
        raise InputError(f"{output.path} exists. Name another file with --out, or overwrite it with --force.")
    result = read_handin(source)
    if result.complaints and not force:
        complaints = "\n  ".join(result.complaints)
        raise InputError(f"{source} is not complete; --force writes the rest.\n  {complaints}")
    output.show(result)
    print(f"{result.title}: {len(result.formulas)} formulas of your own", file=sys.stderr)
    print(truncate("".join(f"Note: {one}\n" for one in result.complaints)), end="", file=sys.stderr)


@command()
def grade(
    output: Output,
    answers: Path,
    key: Path | None = None,
    out: Path | None = None,
    gradebook: Path | None = None,
    column: str = "",
    hint: int = 2,
) -> None:
    """Mark an answer and explain the first incorrect step.

    Every step is marked, the cause of the first incorrect one is named, and later steps are marked from the
    student's own numbers. Exit codes: 0 all correct, 1 something incorrect, 2 unreadable.
    """
    check_out_path(out, folder=True)
    if gradebook is not None and (out is None or not answers.is_dir()):
        raise InputError("--gradebook needs a folder of answers, and --out for the copy that is filled in.")
    if column and gradebook is None:
        raise InputError("--column names a column of a gradebook: say which with --gradebook.")
    if answers.is_dir() and key is None:
        raise InputError(f"{answers} is a folder: name the folder of its keys with --key.")
    if not answers.exists() and not answers.is_symlink():
        raise InputError(f"{answers}: no such file. Name an answer file or a folder of them.")
    from headwork.courses.class_page import class_document, write_marks
    from headwork.courses.cohort import grade_cohort, grade_file
    from headwork.courses.gradebooks import write_gradebooks
    from headwork.grading.feedback import feedback_document

    results = grade_cohort(answers, key) if key and answers.is_dir() else [grade_file(answers, key)]
    if out is not None:
        results = write_marks(results, out, hint=hint)
    states = {graded.state for graded in results}
    if answers.is_dir():
        if out is not None:
            missing = write_gradebooks(results, out, gradebook, column)
            if missing:
                print(f"no mark in {gradebook}: {', '.join(missing)}", file=sys.stderr)
            files = "index.html, class.json, CSV files, feedback/, overrides.toml"
            print(f"wrote {out}: {files}", file=sys.stderr)
        output.show(class_document(results))
        unreadable = bool(states & {"unreadable", "not counted"})
    else:
        (graded,) = results
        if graded.problem:
            raise InputError(graded.problem)
        title, command_again = graded.summary if len(graded.marks) > 1 else "", f"headwork grade {answers}"
        output.show(feedback_document(graded.marks, title=title, hint=hint, command=command_again))
        unreadable = any(step.state == "unreadable" for mark in graded.marks.values() for step in mark.steps)
    if unreadable or states != {"all correct"}:
        raise typer.Exit(2 if unreadable else 1)

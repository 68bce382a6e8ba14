"""The invented class of examples/class: 30 students who do not exist, and what they handed in.

python -m benchmarks.invented_class     writes examples/class again
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.grading import texts
from headwork.courses.sheets import Sheet, key_text, make_sheet, read_sheet_template
from headwork.exercises import Exercise
from headwork.exercises.misconceptions import MISCONCEPTIONS, run_with_mistakes

FOLDER = Path(__file__).parent.parent / "examples" / "class"
COURSE = """title = "Sheet 3: attention by hand"
secret = "an example, so not secret"
hints = 2

[[exercise]]
kind = "self-attention"
points = {query = 1, key = 1, scores = 2, weights = 2, output = 2}

[[exercise]]
kind = "layer-normalisation"
points = 5

[[exercise]]
kind = "output-size"
"""
# Who makes which mistake in which exercise. "slip" is one wrong entry in the last step, "open" leaves it out,
# "stopped" leaves out all but the first two, "nothing" all.
MISTAKES = {
    "1": {
        "softmax-over-columns": (2, 5, 6, 9, 13, 14, 17, 21, 24, 28),
        "no-scaling": (3, 11, 19, 26),
        "matrix-transposed": (8, 22),
        "slip": (4, 12, 16, 23),
        "open": (10, 25),
        "stopped": (7, 20, 27),
    },
    "2": {
        "variance-for-deviation": (2, 3, 7, 11, 14, 20, 27),
        "sample-deviation": (5, 18, 24),
        "slip": (9, 21),
        "open": (10, 13),
        "stopped": (4, 8, 22, 25, 28),
    },
    "3": {
        "plus-one-forgotten": (4, 6, 11, 17, 22, 28),
        "padding-once": (8, 14, 19),
        "open": (25,),
        "nothing": (7, 10, 27),
    },
}
COPIED = (29, 12)  # the first wrote down the second's right answers to exercise 1
ABSENT, UNREADABLE, MISNAMED = 30, 15, (16, "s01")


def answers_of(exercise: Exercise, mistake: str) -> dict[str, str]:
    """The steps of an exercise with a mistake."""
    steps: Any = dict(exercise.solution)
    last = list(exercise.asked)[-1]
    if mistake in MISCONCEPTIONS:
        steps = run_with_mistakes(exercise.case, MISCONCEPTIONS[mistake]) or steps
    elif mistake == "slip":
        steps[last] = np.array(steps[last], float)
        steps[last].flat[-1] += 0.3
    left = {"open": (last,), "stopped": list(exercise.asked)[2:], "nothing": list(exercise.asked)}
    written = texts(exercise, steps, 4)
    return {path: text for path, text in written.items() if path not in left.get(mistake, ())}


def answer_file(sheet: Sheet, number: int, copied: Sheet | None) -> str:
    """What a student handed in."""
    student = MISNAMED[1] if number == MISNAMED[0] else sheet.student
    lines = [f"student = {json.dumps(student)}", f"sheet = {json.dumps(sheet.title)}"]
    for name, exercise in sheet.exercises.items():
        who = (mistake for mistake, students in MISTAKES[name].items() if number in students)
        other = copied.exercises[name] if copied and name == "1" else exercise
        entries = answers_of(other, next(who, ""))
        lines += ["", f'[answers."{name}"]']
        lines += [f"{json.dumps(path)} = {json.dumps(text)}" for path, text in entries.items()]
    return "\n".join(lines) + "\n"


def main() -> None:
    for name in ("key", "answers"):
        shutil.rmtree(FOLDER / name, ignore_errors=True)
        (FOLDER / name).mkdir(parents=True)
    (FOLDER / "course.toml").write_text(COURSE, encoding="utf-8")
    course = read_sheet_template(FOLDER / "course.toml")
    students = [f"s{number:02}" for number in range(1, 31)]
    roster = [f"{student},Student {student[1:]},{student}@example.org" for student in students]
    (FOLDER / "students.csv").write_text("\n".join(["student,name,email", *roster]) + "\n", encoding="utf-8")
    sheets = [make_sheet(course, s, f"Student {s[1:]}", f"{s}@example.org") for s in students]
    for number, sheet in enumerate(sheets, 1):
        (FOLDER / "key" / f"{sheet.student}.toml").write_text(key_text(sheet), encoding="utf-8")
        copied = sheets[COPIED[1] - 1] if number == COPIED[0] else None
        text = answer_file(sheet, number, copied).encode()
        if number == UNREADABLE:
            text = text.replace(b"[answers", b"[answers \xe9", 1)
        if number != ABSENT:
            (FOLDER / "answers" / f"{sheet.student}.toml").write_bytes(text)


if __name__ == "__main__":
    main()

"""Ways in which a student may answer, what each earns, and notebooks filled in with them."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import re
from functools import cache
from pathlib import Path

import numpy as np

from headwork.courses.variables import variables
from headwork.exercises import Exercise, generate
from headwork.grading import grade

STEPS = {"points": {"query": 1, "scores": 1.5, "weights": 2, "output": 1}, "digits": 3}
OWN = Exercise("self-attention", {"tokens": "1 2; 0 1; 2 0"}, title="Own <b>title</b>", **STEPS)
PART = Exercise("self-attention", {"tokens": "1 2; 0 1; 2 0"}, rounding="part", **STEPS)


@cache
def sample(kind):
    return generate(kind, 5)


def typed(array):
    return json.dumps(np.round(array, 4).tolist())


def right(exercise):
    return {path: typed(exercise.solution[path]) for path in exercise.asked}


def wrong(exercise):
    """The first step wrong in one entry, every later step right by the student's own numbers."""
    first = next(iter(exercise.asked))
    own = {first: exercise.solution[first].copy()}
    own[first].flat[0] += 1
    follows = exercise.case.run(own)
    return {path: typed(follows[path]) for path in exercise.asked}


def unscaled(exercise):
    """Scores without the root, and all that follows from them."""
    scores = {"scores": exercise.solution["scores"] * np.sqrt(2)}
    follows = {**exercise.case.run(), **exercise.case.run(scores)}
    return {path: typed(follows[path]) for path in exercise.asked}


def early(exercise):
    """Everything from weights rounded to two digits."""
    weights = exercise.solution["weights"].round(2)
    follows = exercise.case.run({"weights": weights})
    return {
        **right(exercise),
        "weights": typed(weights),
        "output": json.dumps(follows["output"].round(3).tolist()),
    }


ANSWERS = {
    "right": right,
    "blank": lambda exercise: {},
    "one error": wrong,
    "a mistake": unscaled,
    "rounded early": early,
    "broken": lambda exercise: {
        **right(exercise),
        "weights": "__import__('os').system('true')",
        "scores": "<b>1</b>",
    },
}


def answered(exercises):
    """Every way of answering, for every exercise alike."""
    return {name: {n: answer(e) for n, e in exercises.items()} for name, answer in ANSWERS.items()}


def marks(exercises, answers):
    """What ``headwork grade`` gives."""
    return sum(grade(exercise, answers[name]).points for name, exercise in exercises.items())


def cells(path):
    return json.loads(Path(path).read_text())["cells"]


def source(cell):
    return "".join(cell["source"])


def filled_in(path, exercises, answers):
    """The notebook with the answers of a student, one assignment per variable at the end of its cell."""
    whole = json.loads(Path(path).read_text())
    several = len(exercises) > 1
    for number, (name, exercise) in enumerate(exercises.items(), 1):
        for blank, variable in variables(exercise, f"q{number}_" if several else "").items():
            for cell in whole["cells"]:
                if cell["cell_type"] == "code" and re.search(rf"^{variable} = ", source(cell), re.M):
                    text = answers[name].get(blank)
                    cell["source"] = source(cell) + (f"\n{variable} = {text!r}" if text is not None else "")
    return json.dumps(whole)


def run_cell(code, scope):
    """Run a cell as a kernel does: the value of its last expression, and what went to stderr."""
    body = ast.parse(code).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as printed:
        exec(compile(ast.Module(body, []), "cell", "exec"), scope)
        value = eval(compile(ast.Expression(last.value), "cell", "eval"), scope) if last else None
    return value, printed.getvalue()


def half(exercise):
    """The first half of the steps."""
    return dict(list(right(exercise).items())[: len(exercise.asked) // 2])


WAYS = {"right": right, "wrong": wrong, "half": half, "unreadable": ANSWERS["broken"]}


def answer_text(answers):
    lines = ['student = "ada"']
    for name, steps in answers.items():
        lines += [
            f"[answers.{json.dumps(name)}]",
            *(f"{json.dumps(k)} = {json.dumps(v)}" for k, v in steps.items()),
        ]
    return "\n".join(lines) + "\n"

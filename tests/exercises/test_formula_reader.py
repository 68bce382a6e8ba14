"""The formulas of known mistakes: each can be read, and none can do more than arithmetic."""

import numpy as np
import pytest

from headwork.exercises.misconceptions import formulas, functions
from headwork.exercises.misconceptions.formula_reader import read_formula
from headwork.files import load_package_toml

GROUPS = load_package_toml(formulas.__file__, "formulas.toml").values()
ENTRIES = load_package_toml(formulas.__file__, "misconceptions.toml")
MISTAKES = {slug: entry for slug, entry in ENTRIES.items() if slug != "groups"}


def test_every_formula_of_the_package_is_read() -> None:
    for group in GROUPS:
        for slug, (text, *_) in group["formulas"].items():
            assert callable(read_formula(text)), slug
    for slug, entry in MISTAKES.items():
        texts = [*entry.get("inputs", {}).values(), *([entry["formula"]] if "formula" in entry else [])]
        assert all(callable(read_formula(text)) for text in texts), slug


def test_a_mistake_is_stated_in_one_way() -> None:
    """By a formula, by its inputs, or by the function of its name."""
    ways = {"formula", "inputs", "without"}
    for slug, entry in MISTAKES.items():
        assert len(ways & entry.keys()) <= 1, slug
        assert ("at" in entry) != bool({"inputs", "without"} & entry.keys()), slug
    by_function = {slug.replace("-", "_") for slug, entry in MISTAKES.items() if not ways & entry.keys()}
    own = {
        name
        for name, part in vars(functions).items()
        if getattr(part, "__module__", "") == functions.__name__
    }
    assert by_function == {name for name in own if not name.startswith("_")}


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "open('/etc/passwd').read()",
        "().__class__.__base__.__subclasses__()",
        "run.__class__",
        "run._inputs",
        "np.load('x.npy', allow_pickle=True)",
        "np.lib.format",
        "rows.tofile('x')",
        "rows.__reduce__()",
        "rows.sum(-1).dump('x')",
        "[x for x in rows]",
        "(y := 1)",
        "f'{rows}'",
        "rows < 1 < 2",
    ],
)
def test_what_is_no_formula_is_refused(text: str) -> None:
    with pytest.raises((ValueError, KeyError)):
        read_formula(text)({"rows": np.eye(2), "run": None})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2 + 3 * 4 ** 2 / 8 - 7 // 2 % 2", 2 + 3 * 4**2 / 8 - 7 // 2 % 2),
        ("-n if n > 1 and n != 4 else None", -3),
        ("1 if not n > 1 else 2", 2),
        ("rows[..., ::-1] @ rows", [[0, 1], [1, 0]]),
        ("(rows * n).sum(-1, keepdims=True)", [[3], [3]]),
        ("np.where(rows == 1, np.pi, 0)", [[np.pi, 0], [0, np.pi]]),
        ("twice(lambda x: x + n)", 7),
    ],
)
def test_formulas_give_what_python_gives(text: str, value: object) -> None:
    names = {"rows": np.eye(2), "n": 3, "twice": lambda f: f(f(1))}
    assert np.array_equal(read_formula(text)(names), np.array(value))

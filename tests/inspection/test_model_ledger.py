"""The ledger of a real model holds its own parameters, and torch's own count of its work."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from headwork import sizes
from headwork.errors import InputError, TooLarge
from headwork.inspection import ledger, trace
from headwork.mechanisms.definitions import DEFINITIONS
from headwork.models import ConvolutionalClassifier, ConvolutionalConfig
from headwork.models.model import MODELS
from headwork.sizes.architectures import input_shapes, model_config, model_ledger


@torch.no_grad()
def test_parameters_and_flops_of_every_model(case: Any) -> None:
    model, inputs = case
    for backend in ("plain", "fused"):
        twin = model.with_backend(backend).eval()
        counted = ledger(twin, **inputs)
        assert counted.total.parameters == twin.parameter_count == counted.facts["parameters"]
        if backend == "plain":  # the real run: a fused kernel is no product that torch's counter knows
            with FlopCounterMode(display=False) as counter:
                twin(**inputs)
            assert counted.total.flops == counter.get_total_flops() == counted.facts["FLOPs"]
        assert len({row.name for row in counted.rows}) == len(counted.rows), "two parts of one name"


def test_parts_are_called_as_their_steps_are(case: Any) -> None:
    model, inputs = case
    paths = list(trace(model, **inputs).steps)
    for row in ledger(model, **inputs).rows:
        if row.flops and row.name not in ("head", "scores"):
            assert any(path.startswith(f"{row.name}/") for path in paths), row.name


def test_a_model_is_left_as_it_was(case: Any) -> None:
    model, inputs = case
    model.train()
    ledger(model, **inputs)
    assert model.training
    assert {p.device.type for p in model.parameters()} == {"cpu"}


def test_two_independent_counts_agree() -> None:
    vision = model_config("vision")
    small = sizes.vit(image=28, patch=4, channels=1, width=64, depth=6, heads=4, hidden=128, classes=10)
    counted = model_ledger(*vision, input_shapes(*vision)).total
    assert (counted.parameters, counted.flops) == (small.total.parameters, small.total.flops)
    base = model_config("encoder-decoder", {"vocabulary": 1000})
    paper = sizes.transformer(vocabulary=1000, tokens=64).total
    counted = model_ledger(*base, input_shapes(*base, tokens=64)).total
    assert (counted.parameters, counted.flops) == (paper.parameters, paper.flops)
    assert counted.parameters == 44_138_496 + 512 * 1000


@pytest.mark.parametrize("name", [d.slug for d in DEFINITIONS.values() if d.slug])
def test_every_name_has_a_model_and_an_example(name: str) -> None:
    definition, config = model_config(name, {"width": "32"})
    assert config.width == 32
    shapes = [input_shapes(definition, config, tokens=12, batch=batch) for batch in (1, 2)]
    one, two = (model_ledger(definition, config, given).total for given in shapes)
    with torch.device("meta"):
        assert one.parameters == two.parameters == MODELS[definition.name](config).parameter_count
    assert 2 * one.flops == two.flops > 0  # type: ignore[operator]


@pytest.mark.parametrize(
    ("name", "settings", "told"),
    [
        ("visoin", {}, "Did you mean 'vision'"),
        ("vision", {"dept": "1"}, "Did you mean 'depth'"),
        ("vision", {"depth": "one"}, "depth is one. Expected a whole number"),
        ("vision", {"depth": "0"}, "depth is 0"),
        ("vision", {"dropout": "much"}, "dropout is much. Expected a number"),
        ("recurrent", {"bidirectional": "perhaps"}, "Expected true or false"),
        ("vision", {"pooling": "meen"}, "Did you mean 'mean'"),
        ("vision", {"width": 10**12}, "at least 1 and below 2,147,483,648"),
        ("vision", {"depth": str(10**9)}, "depth 1,000,000,000; at most 1,000 layers"),
    ],
)
def test_bad_names_and_settings(name: str, settings: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        model_config(name, settings)


def test_other_things_are_refused() -> None:
    with pytest.raises(InputError, match="Linear is not a model"):
        ledger(torch.nn.Linear(2, 2), torch.zeros(1, 2))  # type: ignore[arg-type]
    assert issubclass(TooLarge, InputError)


@pytest.fixture
def run() -> Callable[..., Any]:
    from typer.testing import CliRunner

    from headwork.cli.app import app, register

    register()
    return lambda *words: CliRunner().invoke(app, ["sizes", "model", *words])


def test_the_command(run: Callable[..., Any], tmp_path: Path) -> None:
    shown = json.loads(run("vision", "--set", "depth=1", "--json").stdout)
    assert shown["total"]["parameters"] == 38_602
    assert [row["name"] for row in shown["rows"]][:2] == ["class token", "patch embedding"]
    assert "block 5/attention" in run("vision").stdout
    folder = ConvolutionalClassifier(ConvolutionalConfig(width=4)).save_pretrained(tmp_path / "model")
    assert "block 2" in run(str(folder)).stdout
    assert "whose config is settled" in str(run(str(folder), "--set", "width=3").exception)
    assert "expected name=value" in str(run("vision", "--set", "width").exception)

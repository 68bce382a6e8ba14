"""A trace is the whole forward pass, and what cannot be traced is refused, never recorded empty."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch

from headwork.errors import InputError, TooLarge
from headwork.inspection import trace
from headwork.models import (
    EncoderDecoder,
    EncoderDecoderConfig,
    LanguageModel,
    LanguageModelConfig,
    RecurrentClassifier,
    RecurrentConfig,
    VisionTransformer,
    VisionTransformerConfig,
)
from headwork.note import inside


@pytest.fixture
def language() -> LanguageModel:
    torch.manual_seed(0)
    return LanguageModel(LanguageModelConfig(vocabulary=11, width=8, hidden=16, heads=4, depth=2))


TOKENS = torch.tensor([[1, 2, 3], [4, 5, 6]])


# --- every model ------------------------------------------------------------------------------


@torch.no_grad()
def test_the_output_is_the_ordinary_one_and_every_step_is_there(case: Any) -> None:
    model, inputs = case
    steps = trace(model, **inputs)
    seen: dict[str, torch.Tensor] = {}
    ordinary = model.eval()(**inputs, note=lambda name, value: seen.setdefault(name, value))
    assert torch.equal(steps.result, ordinary)
    assert torch.equal(steps.result, model(**inputs))
    assert list(steps.steps) == list(seen)
    for path, value in seen.items():
        assert np.array_equal(steps[path].values, value.numpy(), equal_nan=True), path
        words = steps[path].axes
        assert len(words) == value.dim(), path
        assert len(words) - len(steps[path].card.axes.split()) in (0, 1), path


def test_a_trace_is_written_in_every_form(language: LanguageModel) -> None:
    steps = trace(language, TOKENS, only="block 0/attention/*")
    assert str(steps).startswith("language-model: Scores for the next token")
    assert json.loads(steps.to_json())["output"] == "block 0/attention/output"
    for text in (steps.to_markdown(), steps.to_latex(), steps.to_html()):
        assert "block 0/attention/weights" in text
        assert "head 3" in text
    assert "block 0/attention/weights" in steps.to_notebook()


def test_time_steps_have_their_own_symbols() -> None:
    model = RecurrentClassifier(RecurrentConfig(image=4, width=3))
    steps = trace(model, torch.zeros(1, 1, 4, 4), only="forwards/step 2/*")
    assert steps["forwards/step 2/new state"].symbol == "h_{2}"


def test_training_and_random_numbers_are_left_alone(language: LanguageModel) -> None:
    language.train()
    language.transformer.blocks[0].eval()
    before = [part.training for part in language.modules()]
    state = torch.random.get_rng_state()
    first, second = trace(language, TOKENS), trace(language, TOKENS)
    assert [part.training for part in language.modules()] == before
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.equal(first.result, second.result)
    assert not first.result.requires_grad


# --- paths, heads, filters --------------------------------------------------------------------


def test_a_head_is_taken_along_its_axis(language: LanguageModel) -> None:
    steps = trace(language, TOKENS)
    whole = steps["block 1/attention/weights"]
    assert whole.axes == ("batch", "head", "query", "key")
    head = steps["block 1/attention/head 2/weights"]
    assert head.axes == ("batch", "query", "key")
    assert np.array_equal(head.values, whole.values[:, 2])
    query = steps["block 0/attention/head 3/query"]
    assert np.array_equal(query.values, steps["block 0/attention/query"].values[:, :, 3])
    assert np.allclose(whole.values.sum(-1), 1)
    assert np.all(whole.values[..., 0, 1:] == 0), "a language model looks back only"
    with pytest.raises(InputError, match="there is no head 4; there are 4"):
        steps["block 1/attention/head 4/weights"]


def test_formulas_are_those_that_ran(language: LanguageModel) -> None:
    steps = trace(language, TOKENS)
    assert steps["block 0/attention/joined"].symbol == "J^{(0)}"
    assert r"W_o^{(0)\top}" in steps["block 0/attention/output"].formula
    assert r"\top" not in steps["block 0/feed-forward/hidden"].formula
    assert "M" not in steps["block 0/attention/key"].formula
    pair = EncoderDecoder(EncoderDecoderConfig(vocabulary=11, width=8, hidden=16, heads=2, depth=1))
    assert "Y^{(e)} W_k'" in trace(pair, TOKENS, TOKENS)["decoder/block 0/cross-attention/key"].formula


def test_filters_by_path(language: LanguageModel) -> None:
    assert list(trace(language, TOKENS, only="block 1/attention/weights").steps) == [
        "block 1/attention/weights"
    ]
    weights = trace(language, TOKENS, only="*/weights")
    assert list(weights.steps) == ["block 0/attention/weights", "block 1/attention/weights"]
    assert "2 of " in weights.title
    both = trace(language, TOKENS, only=["*/weights", "scores"])
    assert list(both.steps)[-1] == "scores"
    assert np.array_equal(both["scores"].values, both.result.numpy())


@pytest.mark.parametrize(
    ("only", "told"),
    [
        ("block 0/atention/weights", "Did you mean 'block 0/attention/weights'"),
        ("block 7/*", "no step matches 'block 7/\\*'"),
        ("block 0/attention/head 1/weights", "Heads are an axis"),
    ],
)
def test_a_filter_that_fits_nothing_is_refused(language: LanguageModel, only: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        trace(language, TOKENS, only=["scores", only])


def test_what_was_recorded_stays(language: LanguageModel) -> None:
    steps = trace(language, TOKENS)
    before = steps["positions/positions"].values.copy()
    with torch.no_grad():
        language.positions.table.zero_()
    assert np.array_equal(steps["positions/positions"].values, before)


# --- the budget -------------------------------------------------------------------------------


def test_the_budget_holds(language: LanguageModel) -> None:
    everything = trace(language, TOKENS)
    size = sum(noted.values.nbytes for noted in everything.steps.values())
    trace(language, TOKENS, budget=size)
    with pytest.raises(
        TooLarge, match=r"steps take .* MiB, the budget is .* Largest: 'block .*only='block 0/att"
    ):
        trace(language, TOKENS, budget=size - 1)
    small = everything["block 0/attention/weights"].values.nbytes
    trace(language, TOKENS, only="block 0/attention/weights", budget=small)


def test_half_precision_is_recorded_as_single(language: LanguageModel) -> None:
    steps = trace(language.bfloat16(), TOKENS, only="scores")
    assert steps["scores"].values.dtype == np.float32
    assert np.array_equal(steps["scores"].values, steps.result.float().numpy())


# --- what if ----------------------------------------------------------------------------------


def test_a_step_can_be_replaced(language: LanguageModel) -> None:
    steps = trace(language, TOKENS)
    even = np.full((2, 4, 3, 3), 1 / 3)
    other = steps.what_if("block 0/attention/weights", even)
    assert np.allclose(other["block 0/attention/weights"].values, 1 / 3)
    assert np.array_equal(other["block 0/attention/scores"].values, steps["block 0/attention/scores"].values)
    mean = steps["block 0/attention/value"].values.mean(1, keepdims=True)
    assert np.allclose(other["block 0/attention/per head"].values, mean, atol=1e-6)
    assert not torch.equal(other.result, steps.result)
    assert torch.equal(
        trace(language, TOKENS, replacing={"scores": steps["scores"].values}).result, steps.result
    )
    with pytest.raises(InputError, match="the new value is 2 x 2, the step is"):
        steps.what_if("block 0/attention/weights", np.zeros((2, 2)))
    with pytest.raises(InputError, match="no step matches 'block 9/output'"):
        trace(language, TOKENS, replacing={"block 9/output": even})


# --- what is refused --------------------------------------------------------------------------


def test_fused_and_compiled_models_are_refused(language: LanguageModel) -> None:
    fused = language.with_backend("fused")
    with pytest.raises(InputError, match=r"fused kernel keeps no steps. Trace model.with_backend\('plain'\)"):
        trace(fused, TOKENS)
    assert trace(fused.with_backend("plain"), TOKENS).steps
    compiled: Any = torch.compile(language)
    with pytest.raises(InputError, match=r"compiled model keeps no steps.*_orig_mod"):
        trace(compiled, TOKENS)
    assert trace(compiled._orig_mod, TOKENS).steps
    language.transformer.blocks[0].compile()
    with pytest.raises(InputError, match="compiled model keeps no steps"):
        trace(language, TOKENS)


def test_other_things_are_refused(language: LanguageModel) -> None:
    with pytest.raises(InputError, match="Linear is not a model of Headwork"):
        trace(torch.nn.Linear(2, 2), TOKENS)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="str is not a model"):
        trace("model", TOKENS)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="takes no 'images'"):
        trace(language, images=TOKENS)
    with pytest.raises(InputError, match="3 inputs, but LanguageModel takes tokens, caches"):
        trace(language, TOKENS, TOKENS, TOKENS)
    with pytest.raises(InputError, match=r"tokens is a list. Give a tensor"):
        trace(language, [[1, 2]])  # type: ignore[arg-type]
    with pytest.raises(InputError, match="token 12 is beyond the vocabulary"):
        trace(language, TOKENS + 6)
    with pytest.raises(InputError, match="Expected batch x 1 x 28 x 28"):
        trace(VisionTransformer(VisionTransformerConfig(depth=1)), torch.zeros(1, 1, 8, 8))


def test_a_step_noted_twice_is_refused(language: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "headwork.mechanisms.kernels.inside", lambda note, scope: inside(note, scope.split(" ")[0])
    )
    with pytest.raises(Exception, match="was noted twice"):
        trace(language, TOKENS)

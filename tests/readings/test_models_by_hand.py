"""Whole models by hand: against torch, exactly, by path, from a file; and long numbers by name."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headwork
import headwork.cli.learn
from headwork.errors import InputError, TooLarge
from headwork.mechanisms import parameters as params
from headwork.mechanisms.definitions import DEFINITIONS
from headwork.numbers.exact import exact_text
from headwork.readings.trace_document import trace_values

IMAGE = [[[1, 0, 2, 1], [0, 1, 1, 2], [2, 1, 0, 0], [1, 2, 1, 1]]]
GIVEN: dict[str, dict[str, Any]] = {
    "encoder": {"tokens": "1 2; 2 0; 0 1"},
    "decoder": {"tokens": "1 2; 2 0", "memory": "1 0; 0 3; 2 1"},
    "encoder-decoder": {"source": "0 2 1", "target": "1 2", "max_length": 4},
    "language": {"tokens": "0 2 1", "max_length": 4, "width": 3},
    "vision": {"images": IMAGE, "width": 4, "heads": 2},
    "convolutional": {"images": IMAGE, "depth": 2},
    "recurrent": {"images": IMAGE, "cell": "gru", "bidirectional": True},
    "text-encoder": {"tokens": "0 2 1", "token_types": 2, "embedding_normalisation": True, "width": 3},
    "text": {"tokens": "0 2 1", "width": 3, "encoder": "lstm"},
}


def explained(slug: str, **more: Any) -> Any:
    return headwork.explain(
        slug, random=5, **GIVEN[slug] | {"epsilon": 0.01} if slug not in PLAIN else GIVEN[slug], **more
    )


PLAIN = ("convolutional", "recurrent")  # without normalisation


@pytest.mark.parametrize("definition", DEFINITIONS.values(), ids=lambda definition: definition.slug)
def test_drawn_parameters_give_what_torch_gives(definition: Any) -> None:
    torch = pytest.importorskip("torch")
    from headwork.models.model import MODELS

    trace = explained(definition.slug)
    fields = {n: v for n, v in trace.options.items() if v is not None and "mask" not in n}
    fields |= {"epsilon": 0.01} if "epsilon" in fields else {}
    model = MODELS[definition.name](definition.config_class(**fields)).double().eval()
    paths = params.parameter_paths(definition.specs(model.config))
    with torch.no_grad():
        for name, tensor in (*model.named_parameters(), *model.named_buffers()):
            tensor.copy_(torch.tensor(trace[paths[name]].values))
        inputs = [
            torch.tensor(trace[card.name].values)[None]
            for card in definition.inputs
            if card.name in trace.inputs
        ]
        vectors = {"encoder", "decoder", "vision", *PLAIN}
        result = model(*(x if definition.slug in vectors else x.long() for x in inputs))[0].numpy()
    assert np.abs(result - trace.output.values).max() <= 1e-6 * max(1, np.abs(result).max())


def tiny(**more: Any) -> Any:
    return headwork.explain(
        "encoder", **{"tokens": "1 2; 2 0", "hidden": 2, "random": 7, "exact": True, **more}
    )


@pytest.mark.parametrize(
    "more", [{}, {"random": 3}, {"normalisation": "pre"}, {"tokens": "1 2 0; 2 0 1", "hidden": 3}]
)
def test_the_tiny_encoder_is_exact_quick_and_short(more: dict[str, Any], within: Any) -> None:
    with within(10):
        trace = tiny(**more)
        texts = trace.to_text()
    decimals = tiny(**more | {"exact": False})
    names: dict[str, Any] = {}
    for path, value in trace.steps.items():
        np.testing.assert_allclose(value.values, decimals[path].values, rtol=1e-12, atol=1e-12)
        names |= {str(name): name.definition for name in value.abbreviations}
        forms = [
            exact_text(x)
            for x in (*value.exact_values.flat, *(name.definition for name in value.abbreviations))
        ]
        assert max(map(len, forms)) <= 200
        used = {name for form in forms for name in re.findall(r"u_\d+", form)}
        assert used <= names.keys(), path  # each is defined where it first stands
    assert names
    assert all(f"{name} = " in texts for name in names)
    assert r"u_{1} = " in trace.to_latex()
    assert r"u_{1} = " in trace.to_markdown()
    assert 'class="definition"' in trace.to_html()


def test_json_keeps_what_can_be_typed_back_in() -> None:
    data = json.loads(tiny(tokens="1 2 0; 2 0 1", hidden=3).to_json())
    whole = by_name = 0
    for step in data["steps"]:
        flat, values = np.ravel(np.array(step["exact"], object)), np.ravel(step["values"])
        for text, number in zip(flat, values, strict=True):
            whole, by_name = whole + (text is not None), by_name + (text is None)
            assert text is None or "u_" not in text
            if text is not None:
                typed = headwork.explain("softmax", scores=[text, "0"])["weights"]
                assert typed.values[0] == pytest.approx(1 / (1 + np.exp(-number)), abs=1e-12)
        assert ("exact_by_name" in step) == (None in flat)
    assert whole
    assert by_name


def test_a_symbol_goes_through_a_model() -> None:
    trace = headwork.explain("encoder", tokens="x 2; 2 0")
    assert trace.exact
    assert trace.output.values[0, 0] is None
    assert max(len(exact_text(x)) for x in trace.output.exact_values.flat) <= 200


def test_what_is_not_given_is_the_identity_or_needed() -> None:
    trace = headwork.explain("encoder", tokens="1 2; 2 0", parameters={"block 0/attention/W_q": "0 1; 1 0"})
    assert trace["block 0/attention/query"].values.reshape(2, 2).tolist() == [[2, 1], [0, 2]]
    assert trace["block 0/attention/key"].values.reshape(2, 2).tolist() == [[1, 2], [2, 0]]
    assert trace["block 0/attention/key"].formula == r"\operatorname{split}(X)"
    with pytest.raises(InputError, match="language: embedding/table and positions/table missing"):
        headwork.explain("language-model", tokens="0 1")
    with pytest.raises(InputError, match=r"images: batch x channel x height x width$"):
        headwork.explain("vision", random=1)
    with pytest.raises(InputError, match="block 0/feed-forward/W_1 and block 0/feed-forward/W_2 missing"):
        headwork.explain("encoder", tokens="1 2; 2 0", hidden=3)


def test_giving_one_parameter_changes_no_other() -> None:
    free, given = tiny(), tiny(parameters={"block 0/attention/W_k": "5 5; 5 5"})
    for name, value in free.inputs.items():
        same = np.array_equal(value.values, given[name].values)
        assert same == (name != "block 0/attention/W_k")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"block 0/atention/W_q": "1"}, "Did you mean 'block 0/attention/W_q'"),
        ({"block 1/attention/W_q": "1 0; 0 1"}, "Did you mean 'block 0/attention/W_q'"),
        ({"block 0/attention/W_q": "1 0 2; 0 1 3"}, "'block 0/attention/W_q' is 2 x 3, expected 2 x 2"),
        ({"heads": 3}, "width 2 cannot be cut into 3 heads"),
        ({"depth": "deep"}, "encoder: depth is deep. Expected a whole number"),
        ({"random": "x"}, "encoder: random is x. Expected a whole number"),
    ],
)
def test_errors_say_what_is_wrong(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        headwork.explain("encoder", tokens="1 2; 2 0", **arguments)


def test_too_much_is_refused_beforehand() -> None:
    with pytest.raises(TooLarge, match="exact operations"):
        headwork.explain("encoder", tokens=np.ones((20, 20)).tolist(), depth=4, exact=True)
    with pytest.raises(InputError, match="only the parameters of a whole model are drawn"):
        headwork.explain("softmax", scores="1 2", random=1)


def test_a_file_and_the_command_line_are_one(tmp_path: Path, headwork_command: Any) -> None:
    file = tmp_path / "tiny.toml"
    file.write_text(
        'mechanism = "encoder"\n[inputs]\ntokens = "1 2; 2 0"\n[parameters]\n'
        '"block 0/attention/W_q" = "1 1; 0 1"\n[options]\nhidden = 2\nrandom = 7\n',
        encoding="utf-8",
    )
    outputs = []
    for arguments in (
        [str(file)],
        ["encoder", "--set", "tokens=1 2; 2 0", "--set", "block 0/attention/W_q=1 1; 0 1", "--random", "7"],
    ):
        code, out, err = headwork_command("explain", *arguments, "--exact", "--json")
        assert code == 0, err
        outputs.append(json.loads(out))
    assert outputs[0] == outputs[1]
    assert outputs[0]["mechanism"] == "encoder"


def test_models_are_listed(headwork_command: Any) -> None:
    _, text, _ = headwork_command("explain", "--list")
    for definition in DEFINITIONS.values():
        assert re.search(rf"^  {definition.slug} +\S", text, re.M)
    assert "[block 0/attention/W_q]" in text
    assert "depth (whole number, 1 unless given)" in text
    assert "convention  W x; feed-forward x W, as published" in text


def test_an_opposite_has_the_same_name_and_the_other_sign() -> None:
    import sympy

    from headwork.numbers.exact import to_float
    from headwork.numbers.naming import NumberNames

    names, long = NumberNames(), sum(sympy.exp(sympy.sqrt(n)) for n in (2, 3, 5, 7, 11))
    first, opposite = names.shorten(long), names.shorten(-long)
    assert str(first) == "u_1"
    assert opposite == -first
    assert to_float(opposite) == to_float(-long)


def test_a_quotient_of_names_is_shortened() -> None:
    import sympy

    from headwork.numbers.exact import as_single_fraction
    from headwork.numbers.naming import NumberNames

    u = NumberNames()._name(sympy.E + sympy.pi)
    assert as_single_fraction(7 * (2 * u + 3) / (-2 * u - 3)) == -7
    assert as_single_fraction((u - 3) / (3 - u)) == -1
    assert as_single_fraction((u - 3) / (u + 3)) == (u - 3) / (u + 3)


@pytest.mark.parametrize(
    ("placement", "formulas"),
    [
        ("post", {"residual 1": "X + Z", "normalisation 1/centred": r"R_1 - \mu_1", "residual 2": "L_1 + U"}),
        ("pre", {"normalisation 1/centred": r"X - \mu_1", "residual 2": "R_1 + U", "output": "R_2"}),
    ],
)
def test_a_layer_has_a_symbol_for_each_step_and_a_group_for_each_sublayer(
    placement: str, formulas: dict[str, str]
) -> None:
    trace = headwork.explain("encoder-layer", tokens="1 2; 2 0", heads=1, normalisation=placement)
    assert {path: trace[path].formula for path in formulas} == formulas
    symbols = [value.symbol for value in trace.steps.values()]
    assert len(set(symbols)) == len(symbols)
    groups = dict(trace_values(trace).groups)
    assert list(groups) == ["Inputs", "Steps: attention", "Steps: feed-forward"]
    first = [value.name for value in groups["Steps: attention"]]
    assert {"normalisation 1/output", "attention/scores", "residual 1"} <= set(first)
    assert groups["Steps: feed-forward"][-1].name == "output"
    # Also where only some steps are kept, each formula says what was really taken.
    model = headwork.trace(headwork.load("digits"), np.zeros((1, 1, 8, 8)), only="block 0/residual 2")
    assert model["block 0/residual 2"].formula == "R_1^{(0)} + U^{(0)}"


@pytest.mark.parametrize("slug", ["decoder-layer", *GIVEN])
def test_every_value_of_a_model_has_a_symbol_of_its_own(slug: str) -> None:
    layer = {"tokens": "1 2; 2 0", "memory": "1 1; 0 1", "heads": 1, "memory_mask": "1 0; 1 1"}
    deep = {"depth": 2} if slug not in ("decoder-layer", *PLAIN) else {}
    trace = headwork.explain(slug, **layer) if slug == "decoder-layer" else explained(slug, **deep)
    symbols = [value.symbol for value in trace.all_values()]
    assert len(set(symbols)) == len(symbols)


def test_a_model_says_which_block_a_symbol_is_of() -> None:
    pair = explained("encoder-decoder", depth=2)
    formulas = {
        "encoder/block 0/attention/query": r"\operatorname{split}(X^{(e)} W_q^{(e0)\top} + b_q^{(e0)})",
        "encoder/block 1/residual 1": "Y^{(e0)} + Z^{(e1)}",
        "decoder/block 1/cross-attention/scores": r"\beta\, Q'^{(d1)} K'^{(d1)\top}",
        "decoder/block 1/attention/weights": r"\operatorname{softmax}(S_m^{(d1)}) \text{ over keys}",
        "scores": r"Y^{(d1)} T^\top",
    }
    assert {path: pair[path].formula for path in formulas} == formulas
    assert "Y^{(e1)} W_k'^{(d1)" in pair["decoder/block 1/cross-attention/key"].formula
    assert pair.cell("encoder/block 0/attention/scores", 0, 0, 1).name == "S^(e0)[0,0,1]"
    # Where there is one block, nothing has to be told apart.
    assert explained("language")["block 0/attention/query"].symbol == "Q"


def test_parameters_come_just_before_the_step_that_uses_them() -> None:
    groups = dict(trace_values(tiny(exact=False)).groups)
    assert [value.name for value in groups["Inputs"]] == ["tokens"]
    names = [(value.symbol, value.shown_with_step) for value in groups["Steps: block 0, attention"]][:4]
    assert names == [("W_q", True), ("b_q", True), ("Q", False), ("W_k", True)]
    few = dict(trace_values(headwork.explain("self-attention", tokens="1 2; 2 0", W_q="1 0; 0 1")).groups)
    assert [value.name for value in few["Inputs"]] == ["tokens", "W_q"]

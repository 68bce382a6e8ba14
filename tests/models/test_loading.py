"""A model read without torch is the torch model, and each of its numbers can be followed to its origin."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import headwork
from headwork.errors import InputError, TooLarge
from headwork.loading import NumpyModel, model
from headwork.models import VisionTransformer, VisionTransformerConfig, from_pretrained
from headwork.numbers.arithmetic import evaluate


def scattered(model: Any) -> Any:
    """Every parameter random, so that no bias is 0 and no scale is 1."""
    with torch.no_grad():
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
    return model


def both(case: Any, folder: Path, **changes: Any) -> tuple[Any, NumpyModel, list[Any]]:
    saved = scattered(case.model(**changes)).save_pretrained(folder)
    arrays = [tensor.numpy() for tensor in case.batch()]
    return headwork.load(saved, torch=True), headwork.load(saved), arrays


def close(ours: Any, theirs: Any) -> bool:
    finite = np.isfinite(theirs)
    largest = max(np.abs(theirs[finite]).max(initial=0), 1e-3)
    return np.array_equal(finite, np.isfinite(ours)) and bool(
        np.abs(ours[finite] - theirs[finite]).max(initial=0) <= 1e-5 * largest
    )


@torch.no_grad()
def test_numpy_is_torch_step_by_step(case: Any, tmp_path: Path) -> None:
    model, loaded, arrays = both(case, tmp_path / "model")
    output = loaded(*arrays)
    assert output.dtype == np.float32
    assert close(output, model(*case.batch()).numpy())
    ours, theirs = headwork.trace(loaded, *arrays), headwork.trace(model, *case.batch())
    assert np.array_equal(ours.result, output)
    assert list(ours.steps) == list(theirs.steps)
    for path in theirs.steps:
        assert close(ours[path].values, theirs[path].values), path
        assert ours[path].axes == theirs[path].axes
        assert ours[path].formula == theirs[path].formula


def follow(trace: Any, model: NumpyModel, draw: random.Random) -> str:
    """From a random cell of the output, one source after another; each line must be true."""
    path = trace.output.path
    index = tuple(draw.randrange(n) for n in trace.output.shape)
    for _ in range(500):
        value = trace[path]
        told = evaluate(value.raw.derivation(index))
        number = float(value.raw.array[index])
        assert abs(told - number) <= 1e-5 * max(1, abs(number)) or told == number, (path, index, told, number)
        sources = trace.cell(path, *index).sources
        if not sources:
            return "a number"
        # Most sources are parameters, with which a path ends: rather go on.
        onward = [source for source in sources if source[0] not in model.parameters]
        path, index = draw.choice(onward if onward and draw.random() < 0.95 else sources)
        if path not in trace.steps:
            given = {name: value.raw.array for name, value in trace.inputs.items()} | model.parameters
            assert np.ndim(given[path][index]) == 0
            return "an input" if path in trace.inputs else "a parameter"
    raise AssertionError("no end")


def test_each_number_comes_from_inputs_and_parameters(case: Any, tmp_path: Path) -> None:
    _, loaded, arrays = both(case, tmp_path / "model")
    trace, draw = headwork.trace(loaded, *[array[:2] for array in arrays]), random.Random(5)
    ends = {follow(trace, loaded, draw) for _ in range(30)}
    assert "a parameter" in ends
    # The numbers of tokens choose rows; nothing is computed from them.
    assert "an input" in ends or arrays[0].dtype == np.int64


def test_a_step_can_be_replaced(case: Any, tmp_path: Path) -> None:
    _, loaded, arrays = both(case, tmp_path / "model")
    trace = headwork.trace(loaded, *[array[:2] for array in arrays])
    paths = list(trace.steps)
    place = len(paths) // 2
    old = trace[paths[place]].values
    other = trace.what_if(paths[place], old + 0.5)
    assert np.array_equal(other[paths[place]].values, old + np.float32(0.5))
    assert all(np.array_equal(other[path].values, trace[path].values) for path in paths[:place])
    assert not np.array_equal(other.result, trace.result)
    with pytest.raises(InputError, match="the new value is 1, the step is"):
        trace.what_if(paths[place], np.zeros(1))


def test_heads_cells_and_filters(cases: dict[str, Any], tmp_path: Path) -> None:
    _, loaded, arrays = both(cases["vision"], tmp_path / "model")
    trace = headwork.trace(loaded, arrays[0][:1])
    whole = trace["block 1/attention/weights"].values
    assert np.array_equal(trace["block 1/attention/head 1/weights"].values, whole[:, 1])
    cell = trace.cell("scores", 0, 2)
    assert cell.sources[:2] == (("pooled", (0, 0)), ("head/matrix", (2, 0)))
    assert cell.in_names.startswith("p[0,0]*matrix[2,0] + ")
    pixels = trace.cell("patch embedding/convolution/output", 0, 1, 1, 0).sources
    assert {name for name, _ in pixels} == {"images", "patch embedding/filters", "patch embedding/bias"}
    assert ("images", (0, 1, 4, 0)) in pixels
    some = headwork.trace(loaded, arrays[0], only="block 0/*")
    assert set(some.steps) == {path for path in trace.steps if path.startswith("block 0/")}
    first = some.cell("block 0/normalisation 1/mean", 0, 0, 0).sources[0]
    assert first == ("positions/output", (0, 0, 0)), "a step ends the line also where it is not kept"
    with pytest.raises(TooLarge, match="steps take"):
        headwork.trace(loaded, arrays[0], budget=1000)


@pytest.mark.parametrize("precision", [torch.float64, torch.bfloat16, torch.float16])
@torch.no_grad()
def test_other_precisions(cases: dict[str, Any], precision: Any, tmp_path: Path) -> None:
    saved = cases["vision"].model().to(precision).save_pretrained(tmp_path / "model")
    images, model = cases["vision"].batch()[0], from_pretrained(saved)
    output = headwork.load(saved)(images.numpy())
    assert output.dtype == (np.float64 if precision == torch.float64 else np.float32)
    assert close(
        output,
        model.to(torch.promote_types(precision, torch.float32))(images.to(output_kind(output))).numpy(),
    )


def output_kind(output: Any) -> torch.dtype:
    return torch.float64 if output.dtype == np.float64 else torch.float32


def test_it_runs_what_was_trained_fused(cases: dict[str, Any], tmp_path: Path) -> None:
    model, loaded, arrays = both(cases["text, transformer"], tmp_path / "model", backend="fused")
    with torch.no_grad():
        assert close(loaded(*arrays), model(*cases["text, transformer"].batch()).numpy())


def test_attention_masks_by_name(cases: dict[str, Any], tmp_path: Path) -> None:
    model, loaded, arrays = both(cases["encoder"], tmp_path / "model")
    looking = np.tri(7, dtype=bool)
    with torch.no_grad():
        theirs = model(*cases["encoder"].batch(), mask=torch.from_numpy(looking)).numpy()
    assert close(loaded(*arrays, mask=looking), theirs)
    assert np.array_equal(loaded(*arrays, mask=looking), loaded(tokens=arrays[0], mask="causal"))
    assert headwork.trace(loaded, *arrays, mask=looking).inputs["mask"].axes == ("query", "key")


def test_bad_inputs_are_refused_as_torch_refuses_them(case: Any, tmp_path: Path) -> None:
    model, loaded, arrays = both(case, tmp_path / "model")
    first, *rest = arrays
    wrong: list[Any] = [[first[:0], *rest], [first[0], *rest], [first + 100, *rest], [first[..., :-1], *rest]]
    if len(rest) == 1 and rest[0].shape == first.shape:
        wrong += [[first, rest[0] * 0], [first, rest[0][:, :-1]], [first, rest[0][:, ::-1].copy()]]
    for given in wrong:
        words = []
        for one, kind in ((model, torch.as_tensor), (loaded, np.asarray)):
            try:
                with torch.no_grad():
                    one(*map(kind, given))
                words.append("")
            except InputError as error:
                words.append(str(error).replace("torch.", ""))
        assert words[0] == words[1]
    for use in (loaded, lambda *given, **more: headwork.trace(loaded, *given, **more)):
        with pytest.raises(InputError, match="takes no 'pictures'"):
            use(pictures=first)
        with pytest.raises(InputError, match="9 inputs, but"):
            use(*[first] * 9)
        with pytest.raises(InputError, match=rf"no {loaded.input_names[0]}\. Give an array"):
            use()


def test_no_words_beyond_the_vocabulary(cases: dict[str, Any], tmp_path: Path) -> None:
    _, loaded, arrays = both(cases["text, lstm both ways"], tmp_path / "model")
    with pytest.raises(InputError, match="token 13 is beyond the vocabulary of 13"):
        loaded(arrays[0] * 0 + 13)
    for given in ("words", [[1, 2], [3]]):
        with pytest.raises(InputError, match="tokens is not an array of numbers"):
            loaded(given)
    with pytest.raises(InputError, match="Give whole numbers"):
        loaded(arrays[0] * 1.0)
    with pytest.raises(InputError, match="put the padding after the tokens"):
        loaded(arrays[0], arrays[1][:, ::-1])


def test_the_size_of_the_course(tmp_path: Path) -> None:
    """The model of the hand-out: 6 layers, 28 x 28; times are measured, here it is what is recorded."""
    saved = VisionTransformer(VisionTransformerConfig()).save_pretrained(tmp_path / "model")
    loaded = headwork.load(saved)
    trace = headwork.trace(loaded, np.zeros((1, 1, 28, 28)))
    assert {"block 5/output", "scores"} <= set(trace.steps)
    assert sum(array.size for array in loaded.parameters.values()) == 205_962
    assert isinstance(headwork.load(saved, torch=True), VisionTransformer)


def one_number_wide(image_size: int, **changes: Any) -> VisionTransformer:
    """A transformer of few parameters, whatever the size of its images."""
    sizes = {"width": 1, "hidden": 1, "heads": 1, "depth": 1, "patch_size": 4, "image_size": image_size}
    return VisionTransformer(VisionTransformerConfig(**sizes | changes))


def test_a_small_file_of_a_large_model_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    large, deep = one_number_wide(236), one_number_wide(232, depth=12)
    told = r"step 'block 0/attention/scores' is 12,124,324 numbers"
    with pytest.raises(TooLarge, match=rf"VisionTransformer: .*{told}"):
        large.save_pretrained(tmp_path / "large")
    with monkeypatch.context() as patch:
        patch.setattr(model, "MAX_STEP_VALUES", 10**9)
        patch.setattr(model, "MAX_PASS_VALUES", 10**9)
        for name, one in (("large", large), ("deep", deep), ("most", one_number_wide(232))):
            one.save_pretrained(tmp_path / name)
    assert headwork.load(tmp_path / "most").config.image_size == 232
    with pytest.raises(TooLarge, match=rf"large/model.safetensors: on an image of side 236 the {told}"):
        headwork.load(tmp_path / "large")
    with pytest.raises(TooLarge, match=r"deep.*with those before; at most 12,000,000 and 250,000,000"):
        headwork.load(tmp_path / "deep", torch=True)

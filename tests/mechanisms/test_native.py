"""The native twin of the encoder block: the plain mechanism's values and gradients, wherever it runs.

Every size is compiled, so the suite takes few of them; the others are in ``make soak``.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from functools import partial

import pytest
import torch

from headwork.mechanisms import encoder_layer, native
from headwork.mechanisms.fused import FUSED
from headwork.mechanisms.kernels import PLAIN
from headwork.mechanisms.native import compiling
from headwork.mechanisms.parameters import EncoderLayerParameters, flatten_tree, map_tree, spec_tree
from headwork.models import VisionTransformer, VisionTransformerConfig

SMALL = {"tokens": 5, "width": 32, "heads": 2, "hidden": 48}
OTHERS = [  # odd numbers of tokens, one token, wide and narrow
    {"tokens": 1, "width": 32, "heads": 1, "hidden": 16},
    {"tokens": 17, "width": 96, "heads": 3, "hidden": 192},
    {"tokens": 19, "width": 96, "heads": 4, "hidden": 192},  # heads of 24, padded
    {"tokens": 7, "width": 48, "heads": 6, "hidden": 32},
    {"tokens": 33, "width": 64, "heads": 1, "hidden": 64},
    {"tokens": 50, "width": 64, "heads": 4, "hidden": 128},
    {"tokens": 50, "width": 128, "heads": 8, "hidden": 512},
    {"tokens": 65, "width": 256, "heads": 4, "hidden": 256},
]


def block(sizes, *, images=3, dtype=torch.float64, seed=0, **options):
    """Tokens, parameters and options of a block."""
    draw = torch.Generator().manual_seed(seed)

    def leaf(name, initial):
        spread = initial.shape[0] ** -0.5 if len(initial.shape) > 1 else 0.2
        drawn = torch.randn(initial.shape, generator=draw, dtype=dtype) * spread
        return (drawn + name.endswith("scale")).requires_grad_()

    rows = torch.randn(
        images, sizes["tokens"], sizes["width"], generator=draw, dtype=dtype, requires_grad=True
    )
    parameters = map_tree(
        leaf, spec_tree(EncoderLayerParameters, width=sizes["width"], hidden=sizes["hidden"])
    )
    fixed = {"heads": sizes["heads"], "normalisation": "pre", "activation": "gelu", "epsilon": 1e-5}
    return rows, parameters, fixed | options


def values_and_gradients(layer, rows, parameters, options):
    output = layer(rows, parameters, **options)
    draw = torch.Generator().manual_seed(1)
    direction = torch.randn(output.shape, generator=draw, dtype=output.dtype)
    return [output.detach(), *torch.autograd.grad(output, [rows, *native._weights(parameters)], direction)]


def assert_twins(sizes, *, tolerance, **more):
    rows, parameters, options = block(sizes, **more)
    assert native._sizes_if_supported(rows, parameters, kernels=FUSED, **options) is not None
    plain = values_and_gradients(encoder_layer, rows, parameters, options | {"kernels": PLAIN})
    fast = values_and_gradients(native.encoder_layer, rows, parameters, options | {"kernels": FUSED})
    names = ["output", "tokens", *range(16)]
    for name, one, other in zip(names, plain, fast, strict=True):
        # A bias of the keys moves no weight, so its gradient is 0 up to rounding, beside those of the others.
        scale = one.abs().max() if name != 5 else plain[6].abs().max()
        assert (one - other).abs().max() <= tolerance * scale, name


@pytest.fixture
def quiet_cache(monkeypatch, tmp_path):
    """A cache of the test's own, from which nothing is loaded yet."""
    monkeypatch.setenv("HEADWORK_CACHE", str(tmp_path / "cache"))
    cached = (compiling.library, native._compiles, native._warn_once)
    for function in cached:
        function.cache_clear()
    yield tmp_path / "cache" / "native"
    for function in cached:
        function.cache_clear()


@pytest.mark.real("compiler")
@pytest.mark.parametrize("more", [{}, {"output_tokens": 2}, {"activation": "relu"}], ids=str)
def test_it_is_the_plain_mechanism(more):
    assert_twins(SMALL, tolerance=1e-12, **more)
    if not more:
        assert_twins(SMALL, tolerance=3e-6, dtype=torch.float32)


@pytest.mark.soak
@pytest.mark.parametrize("sizes", OTHERS, ids=lambda sizes: "-".join(map(str, sizes.values())))
@pytest.mark.parametrize("outputs", [None, 1])
def test_it_is_the_plain_mechanism_at_every_size(sizes, outputs):
    assert_twins(sizes, tolerance=1e-12, output_tokens=outputs)
    assert_twins(sizes, tolerance=5e-6, dtype=torch.float32, output_tokens=outputs)
    assert_twins(sizes, tolerance=1e-12, output_tokens=outputs, activation="relu")


@pytest.mark.real("compiler")
def test_gradients_are_those_of_its_values():
    rows, parameters, options = block({**SMALL, "tokens": 3}, images=2)

    def run(*inputs):
        leaves = iter(inputs[1:])
        tree = map_tree(lambda *_: next(leaves), parameters)
        return native.encoder_layer(inputs[0], tree, **options, kernels=FUSED)

    assert torch.autograd.gradcheck(run, (rows, *flatten_tree(parameters).values()), fast_mode=True)


@pytest.mark.real("compiler")
def test_threads_agree_and_repeat_to_the_bit():
    rows, parameters, options = block(SMALL, images=7, dtype=torch.float32)
    run = partial(values_and_gradients, native.encoder_layer, rows, parameters, options | {"kernels": FUSED})
    before, results = torch.get_num_threads(), {}
    try:
        for threads in (1, 2, 4):
            torch.set_num_threads(threads)
            results[threads] = run()
            assert all(map(torch.equal, results[threads], run()))
    finally:
        torch.set_num_threads(before)
    for threads in (2, 4):
        assert torch.equal(results[1][0], results[threads][0])
        for one, other in zip(results[1], results[threads], strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.real("compiler")
def test_no_image_and_numbers_that_are_none():
    rows, parameters, options = block(SMALL, images=0, dtype=torch.float32)
    output, *gradients = values_and_gradients(
        native.encoder_layer, rows, parameters, options | {"kernels": FUSED}
    )
    assert output.shape == (0, 5, 32)
    assert all(not gradient.any() for gradient in gradients[1:])
    for number in (float("nan"), float("inf")):
        rows, parameters, options = block(SMALL, images=2, dtype=torch.float32)
        with torch.no_grad():
            parameters.attention.W_q[0, 0] = number
            output = native.encoder_layer(rows, parameters, **options, kernels=FUSED)
        assert not output.isfinite().all()


@pytest.mark.real("compiler")
def test_a_model_is_native_and_compiled_and_without_gradients_the_same():
    torch.manual_seed(0)
    sizes = {"image_size": 8, "width": 32, "heads": 2, "hidden": 48, "depth": 2}
    model = VisionTransformer(VisionTransformerConfig(backend="fused", **sizes))
    fast, images = model.with_backend("native"), torch.randn(3, 1, 8, 8)
    logits = model(images)
    torch.testing.assert_close(fast(images), logits, rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        assert torch.equal(fast(images), fast(images))
    compiled = torch.compile(fast, fullgraph=True, backend="aot_eager")
    wanted = torch.autograd.grad(logits.square().sum(), list(model.parameters()))
    gradients = torch.autograd.grad(compiled(images).square().sum(), list(model.parameters()))
    for one, other in zip(wanted, gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


def test_what_does_not_fit_goes_to_the_fused_kernels(monkeypatch):
    def refuse(*sizes):
        raise AssertionError("the native kernel was asked")

    monkeypatch.setattr(native, "library", refuse)
    rows, parameters, options = block(SMALL, dtype=torch.float32)
    dropping = type(FUSED)(drop=partial(torch.nn.functional.dropout, p=0.5))
    changes = [
        {"normalisation": "post"},
        {"mask": "causal"},
        {"kernels": FUSED.with_attention("linear")},
        {"kernels": dropping},
    ]
    for change in changes:
        torch.manual_seed(1)
        one = native.encoder_layer(rows, parameters, **{**options, "kernels": FUSED, **change})
        torch.manual_seed(1)
        assert torch.equal(one, encoder_layer(rows, parameters, **{**options, "kernels": FUSED, **change}))
    half = map_tree(lambda _, leaf: leaf.bfloat16(), parameters)
    assert native._sizes_if_supported(rows.bfloat16(), half, **options, kernels=FUSED) is None


@pytest.mark.parametrize(
    ("sizes", "environment", "reason"),
    [
        (SMALL, {"CXX": "no-such-compiler"}, "no C++ compiler (g++) was found"),
        (SMALL, {"CXX": "false"}, "the C++ compiler failed"),
        ({**SMALL, "hidden": 40}, {}, "multiples of 16"),
    ],
)
def test_without_a_kernel_the_fused_one_is_used_and_that_is_said_once(
    sizes, environment, reason, quiet_cache, monkeypatch, capfd
):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    rows, parameters, options = block(sizes, dtype=torch.float32)
    expected = encoder_layer(rows, parameters, **options, kernels=FUSED)
    for _ in range(2):
        assert torch.equal(native.encoder_layer(rows, parameters, **options, kernels=FUSED), expected)
    said = capfd.readouterr().err
    assert said.count(reason) == 1
    assert said.count("the fused kernel is used instead") == 1
    assert not list(quiet_cache.glob("*.so"))


def test_other_work_on_the_machine_does_not_decide_which_kernel_trains(monkeypatch, capfd):
    config = VisionTransformerConfig(
        image_size=8, patch_size=4, pooling="class token", width=32, heads=2, hidden=48
    )
    times = iter([0.9, 0.9, 0.4, 0.9, 0.9, 0.9, 0.9, 0.9])  # one round in four is undisturbed
    monkeypatch.setattr(native, "TRIAL_ROUNDS", 4)
    monkeypatch.setattr(native, "_seconds", lambda work, weights: next(times))
    assert native.is_faster(config)
    assert "fused" not in capfd.readouterr().err
    times = iter([0.9] * 8)
    assert not native.is_faster(config)
    assert "not clearly faster here, 900.0 ms against 900.0 ms: the fused kernel" in capfd.readouterr().err


@pytest.mark.real("compiler")
def test_a_damaged_file_in_the_cache_is_compiled_again(quiet_cache, capfd):
    sizes = native.Sizes(3, 3, 16, 1, 16, "relu")
    compiling.library(sizes)
    (binary,) = quiet_cache.glob("*.so")
    whole = binary.read_bytes()
    compiling.library.cache_clear()
    compiling.library(sizes)
    assert capfd.readouterr().err.count("compiling") == 1
    binary.unlink()  # the loaded one stays mapped
    binary.write_bytes(whole[:-1000])
    compiling.library.cache_clear()
    compiling.library(sizes)
    assert capfd.readouterr().err.count("compiling") == 1
    assert len(binary.read_bytes()) == len(whole)


@pytest.mark.real("compiler")
def test_a_cache_that_cannot_be_written_is_done_without(monkeypatch, tmp_path, capfd):
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("HEADWORK_CACHE", str(tmp_path / "file"))
    compiling.library.cache_clear()
    assert compiling.library(native.Sizes(3, 3, 16, 1, 16, "relu")).kept_numbers() > 0
    compiling.library.cache_clear()


SCRIPT = """
    import torch
    from headwork.mechanisms.native import Sizes, library
    print(library(Sizes(4, 4, 16, 1, 16, "gelu")).kept_numbers())
"""


def in_a_process(cache, script=SCRIPT, **environment):
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)],
        env={**os.environ, "HEADWORK_CACHE": str(cache), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.soak
def test_two_at_once_and_killed_compiles_leave_whole_files(tmp_path):
    for delay in (0.5, 1.5, 2.5, 3.5):
        killed = in_a_process(tmp_path)
        time.sleep(delay)
        killed.send_signal(signal.SIGKILL)
        killed.communicate()
    both = [in_a_process(tmp_path) for _ in range(2)]
    for process in both:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        assert int(out) > 0
    for binary in (tmp_path / "native").glob("*.so"):
        assert compiling._read_verified(binary) == binary


@pytest.mark.soak
@pytest.mark.parametrize("sizes", [SMALL, {**SMALL, "tokens": 17}])
@pytest.mark.parametrize("outputs", [None, 1])
def test_no_access_out_of_bounds_and_nothing_undefined(sizes, outputs, tmp_path):
    """Under the address and undefined-behaviour sanitizers."""
    found = subprocess.run(["g++", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    script = f"""
        import sys
        sys.path.insert(0, {str(os.getcwd())!r})
        from headwork.mechanisms import native
        from headwork.mechanisms.native import compiling
        compiling.FLAGS += ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g")
        from tests.mechanisms.test_native import assert_twins
        import torch
        assert_twins({sizes!r}, tolerance=5e-6, dtype=torch.float32, output_tokens={outputs!r})
        print("clean")
    """
    environment = {"LD_PRELOAD": found.stdout.strip(), "ASAN_OPTIONS": "detect_leaks=0"}
    process = in_a_process(tmp_path, script, **environment)
    out, err = process.communicate(timeout=300)
    assert out.strip() == "clean", err

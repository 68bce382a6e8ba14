"""Safetensors files, read in numpy alone, are what their library reads; anything else is refused in words."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load, save

from headwork.errors import InputError
from headwork.model_files import MAX_HEADER, half_to_float32, read_tensors, read_transformers_folder
from headwork.models.saving import as_tensors

FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
WHOLE = [
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.uint16,
    torch.uint32,
    torch.uint64,
]
DTYPES = [*FLOATS, *WHOLE, torch.bool]


def drawn(dtype: torch.dtype, shape: tuple[int, ...], seed: int) -> torch.Tensor:
    """Any numbers of that kind; if decimal, finite ones of all sizes."""
    size = int(np.prod(shape)) * torch.empty(0, dtype=dtype).element_size()
    data = bytearray(np.random.default_rng(seed).bytes(size))
    if dtype == torch.bool:
        data = bytearray(byte % 2 for byte in data)
    values = torch.frombuffer(data, dtype=dtype).reshape(shape) if data else torch.empty(shape, dtype=dtype)
    return values.nan_to_num(1, 2, 3) if dtype in FLOATS else values


def file(header: Any, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def entry(dtype: Any = "F32", shape: Any = (2,), offsets: Any = (0, 8), **more: Any) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets, **more}


def equal(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> bool:
    def same(one: torch.Tensor, other: torch.Tensor) -> bool:
        return one.dtype == other.dtype and one.shape == other.shape and torch.equal(one, other)

    return ours.keys() == theirs.keys() and all(same(ours[name], theirs[name]) for name in theirs)


shapes = st.lists(st.integers(0, 5), max_size=4).map(tuple)
states = st.dictionaries(
    st.text(max_size=8).filter(lambda name: name != "__metadata__"),
    st.builds(drawn, st.sampled_from(DTYPES), shapes, st.integers(0, 2**32 - 1)),
    max_size=6,
)


@settings(max_examples=200, deadline=None)
@given(states, st.sampled_from([None, {"format": "pt"}]))
def test_every_kind_of_tensor_is_read_as_the_library_reads_it(state: Any, metadata: Any) -> None:
    data = save(state, metadata)
    stored = read_tensors(data, "here")
    assert equal(as_tensors(stored), load(data))
    for name, values in ((name, half_to_float32(values)) for name, values in stored.items()):
        wide = state[name].float() if state[name].dtype in FLOATS[2:] else state[name]
        assert values.dtype == wide.numpy().dtype
        assert np.array_equal(values, wide.numpy())


def test_arrays_are_views_that_nobody_writes_and_torch_has_its_own() -> None:
    data = save({"x": torch.arange(4.0)})
    values = read_tensors(data, "here")["x"]
    assert not values.flags.writeable
    assert not values.flags.owndata
    as_tensors({"x": values})["x"].fill_(7)
    assert values.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -float("inf")])
def test_what_is_not_finite_is_named(dtype: torch.dtype, wrong: float) -> None:
    largest = torch.full((70_000,), torch.finfo(dtype).max, dtype=dtype)
    assert len(read_tensors(save({"b": largest}), "here")["b"]) == 70_000
    largest[-1] = wrong
    with pytest.raises(InputError, match=r"^here: the tensor 'b' holds numbers that are not finite"):
        read_tensors(save({"a": torch.ones(2), "b": largest}), "here")


HOSTILE = {
    "nothing": b"",
    "seven bytes": b"\1" + bytes(6),
    "a header that is not there": (100).to_bytes(8, "little"),
    "an endless header": b"\xff" * 8 + b"{}",
    "a header above the limit": file(b" " * (MAX_HEADER + 1)),
    "no JSON": file(b"{"),
    "no UTF-8": file(b'{"\xff": 1}'),
    "no table": file([]),
    "a deep header": file(b'{"x":' + b"[" * 100_000),
    "a number with very many digits": file(b'{"x": ' + b"9" * 10_000 + b"}"),
    "a name twice": file(b'{"x": %b, "x": %b}' % ((json.dumps(entry()).encode(),) * 2), bytes(8)),
    "no entry": file({"x": 3}),
    "an entry without a shape": file({"x": {"dtype": "F32", "data_offsets": [0, 8]}}, bytes(8)),
    "more than an entry has": file({"x": entry(code="import os")}, bytes(8)),
    "an unknown dtype": file({"x": entry("F8_E4M3", (8,))}, bytes(8)),
    "a dtype that is no word": file({"x": entry([1])}, bytes(8)),
    "a negative size": file({"x": entry(shape=(-1, -2))}, bytes(8)),
    "a size that is true": file({"x": entry(shape=(2, True))}, bytes(8)),
    "a shape of ten thousand axes": file({"x": entry(shape=[2**62] * 10_000)}, bytes(8)),
    "a shape that overflows": file({"x": entry(shape=(2**62, 2**62))}, bytes(8)),
    "a shape that is larger than its bytes": file({"x": entry(shape=(3,))}, bytes(8)),
    "offsets after the end": file({"x": entry(offsets=(8, 16))}, bytes(8)),
    "offsets backwards": file({"x": entry(offsets=(8, 0))}, bytes(8)),
    "negative offsets": file({"x": entry(offsets=(-8, 0))}, bytes(8)),
    "one offset": file({"x": entry(offsets=(0,))}, bytes(8)),
    "offsets that are no numbers": file({"x": entry(offsets="08")}, bytes(8)),
    "a gap at the beginning": file({"x": entry(offsets=(4, 12))}, bytes(12)),
    "a gap between": file({"x": entry(), "y": entry(offsets=(9, 17))}, bytes(17)),
    "bytes left over": file({"x": entry()}, bytes(9)),
    "tensors that overlap": file({"x": entry(), "y": entry(offsets=(4, 12))}, bytes(12)),
    "two tensors in one place": file({"x": entry(), "y": entry()}, bytes(8)),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_in_words(name: str) -> None:
    with pytest.raises(InputError, match=r"^here: not a complete safetensors file \(.*\)\. Fetch") as error:
        read_tensors(HOSTILE[name], "here")
    assert len(str(error.value)) < 1000


def test_what_would_take_long_is_refused_before() -> None:
    for name, told in (
        ("a header above the limit", "at most 4,000,000 are read"),
        ("an endless header", "at most 4,000,000 are read"),
        ("a shape of ten thousand axes", "the tensor 'x': its shape or its data_offsets are not sizes"),
        ("a dtype that is no word", "the tensor 'x' has the dtype [1]; known are F64, F32"),
    ):
        with pytest.raises(InputError) as error:
            read_tensors(HOSTILE[name], "here")
        assert told in str(error.value)


def test_a_file_cut_off_anywhere_is_refused() -> None:
    data = save({"x": torch.ones(3), "y": torch.zeros(2, 2, dtype=torch.bfloat16)})
    for length in range(len(data)):
        with pytest.raises(InputError, match="not a complete safetensors file"):
            read_tensors(data[:length], "here")


def test_a_changed_header_is_refused_or_read_as_the_library_reads_it() -> None:
    data = save({"x": torch.ones(3), "y": torch.zeros(2, 2, dtype=torch.int64)}, {"format": "pt"})
    length, draw, read = 8 + int.from_bytes(data[:8], "little"), random.Random(0), 0
    for _ in range(3000):
        changed = bytearray(data)
        for _ in range(draw.randint(1, 2)):
            changed[draw.randrange(length)] = draw.choice(b' 0123456789{}[],:"xyFIU')
        try:
            ours = as_tensors(read_tensors(bytes(changed), "here"))
        except InputError:
            continue
        read += 1
        assert equal(ours, load(bytes(changed)))
    assert read > 100


@pytest.mark.parametrize("piece", [b"{},", b'"",'])
def test_a_hostile_header_takes_bounded_memory(piece: bytes) -> None:
    text = b'{"x":[' + piece * ((MAX_HEADER - 20) // len(piece)) + b"0]}"
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match="not a complete safetensors file"):
            read_tensors(file(text), "here")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 200_000_000


def test_a_foreign_folder_holds_files_and_no_pipes(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    os.mkfifo(tmp_path / "model.safetensors")
    with pytest.raises(InputError, match=r"model\.safetensors is missing"):
        read_transformers_folder(tmp_path)


def test_files_are_read_without_torch_and_the_libraries(tmp_path: Path) -> None:
    state = {kind: torch.ones(2, dtype=dtype) for kind, dtype in zip("abcd", FLOATS, strict=True)}
    (tmp_path / "x.safetensors").write_bytes(save(state))
    code = (
        "import sys; sys.modules.update(dict.fromkeys(('torch', 'safetensors', 'tokenizers')))\n"
        "import headwork.tokenizer_files, headwork.data\n"
        "from headwork.model_files import read_tensors, half_to_float32\n"
        "for name, values in sorted(read_tensors(open(sys.argv[1], 'rb').read(), 'x').items()):\n"
        "    print(name, half_to_float32(values).dtype, half_to_float32(values).sum())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "x.safetensors"], check=True, capture_output=True, text=True
    )
    assert done.stdout.split("\n")[:4] == ["a float64 2.0", "b float32 2.0", "c float32 2.0", "d float32 2.0"]

"""Every field of the files of a run set to what no run writes, digests renewed: used or refused in words."""

from __future__ import annotations

import base64
import copy
import json
import math
import random
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from headwork import training
from headwork.errors import HeadworkError, InputError
from headwork.lab.known_models import open_files
from headwork.model_files import manifest_bytes, to_json_bytes
from headwork.training.checkpoints import step_folders

MISSING = object()
WRONG: list[Any] = [
    MISSING,
    None,
    True,
    -1,
    0,
    1,
    1.5,
    9,
    10**15,
    10**400,
    1e308,
    -1e-320,
    math.nan,
    math.inf,
]
WRONG += ["", "a", "\x1b[2J<img src=x onerror=alert(1)>\0", "x" * 20_000, [], [None], {}, {"a": {"b": [1]}}]
WRONG += [[[1]] * 300, ["\x1b]0;x\x07"] * 10, [0.5], [0], [-1.0], [math.nan]]


def places(data: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something stands; of a list the first and the last part."""
    yield place
    keys = data if isinstance(data, dict) else sorted({0, len(data) - 1}) if isinstance(data, list) else ()
    for key in keys if data else ():
        yield from places(data[key], (*place, key))


def edits(data: Any) -> Iterator[tuple[tuple[Any, ...], Any, Any]]:
    """Where, what stands there now, and the whole with it."""
    for place in places(data):
        for value in WRONG:
            whole = copy.deepcopy(data)
            inner = whole
            for key in place[:-1]:
                inner = inner[key]
            if not place:
                whole = None if value is MISSING else value
            elif value is not MISSING:
                inner[place[-1]] = value
            elif isinstance(inner, dict):
                del inner[place[-1]]
            else:
                inner.pop(place[-1])
            yield place, value, whole


def as_lines(lines: Any) -> bytes:
    parts = lines if isinstance(lines, list) else [lines]
    return "".join(json.dumps(part) + "\n" for part in parts).encode()


def renew(folder: Path) -> None:
    """A manifest of the files as they are."""
    listed = json.loads((folder / "manifest.json").read_bytes())["files"]
    (folder / "manifest.json").write_bytes(
        manifest_bytes({name: (folder / name).read_bytes() for name in listed})
    )


def edited(folder: Path, name: str) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """The file of a run with each edit, with the digests of its folder; at the end it is as it was."""
    file = folder / name
    good, listed = file.read_bytes(), (file.parent / "manifest.json").read_bytes()
    lines = name.endswith(".jsonl")
    data = [json.loads(line) for line in good.splitlines()] if lines else json.loads(good)
    for place, value, whole in edits(data):
        file.write_bytes(as_lines(whole) if lines else to_json_bytes(whole))
        if file.name != "manifest.json":
            renew(file.parent)
        yield place, value
    file.write_bytes(good)
    (file.parent / "manifest.json").write_bytes(listed)


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    import headwork.cli.look_inside
    import headwork.cli.train  # noqa: F401  (registers the commands)

    copied = Path(shutil.copytree(finished, tmp_path / "run"))
    Image.new("L", (8, 8), 90).save(tmp_path / "digit.png")
    return copied


FINISHED = ("config.json", "data.json", "metrics.jsonl", "result.json", "manifest.json")
FINISHED += ("model/config.json", "model/manifest.json")
TESTED = {"metrics.jsonl": training.load_metrics, "result.json": training.Result.read}
TESTED |= {"data.json": training.load_data_info, "config.json": training.load_run_config}
TESTED |= {"manifest.json": training.Result.read}


@pytest.mark.parametrize("name", FINISHED)
def test_a_field_of_another_kind_is_refused_where_it_is_read(name: str, run: Path) -> None:
    read = TESTED.get(name, training.load_model)
    told = {}
    for place, value in edited(run, name):
        try:
            read(run)
        except InputError as error:
            told[place, str(value)[:60]] = str(error)
    assert len(told) > 100
    assert all(len(words) < 5_000 and str(run) in words for words in told.values()), told
    if name in TESTED and name != "manifest.json":
        assert all(name in words for words in told.values()), told


def test_a_model_that_is_not_that_of_its_config_is_refused(run: Path, headwork_command: Any) -> None:
    for place, value in edited(run, "model/config.json"):
        if place == ("config", "heads") and value == 1 and value is not True:
            code, _, told = headwork_command("report", run)
            assert code == 2
            assert "config.json: heads of the model is 2, but the model has 1." in told
            return
    raise AssertionError("heads was not edited")


def test_a_name_of_data_that_is_too_long_is_refused(run: Path, headwork_command: Any) -> None:
    config = json.loads((run / "config.json").read_bytes())
    (run / "config.json").write_bytes(to_json_bytes({**config, "data": "x" * 20_000}))
    renew(run)
    code, _, told = headwork_command("report", run)
    assert code == 2
    assert "unknown data set 'xxx" in told


def commands(run: Path, unfinished: bool) -> dict[str, list[Any]]:
    digit = run.parent / "digit.png"
    calls: dict[str, list[Any]] = {
        "report": ["report", run, "--as", "json"],
        "evaluate": ["evaluate", run, "--part", "validation"],
        "predict": ["predict", run, "--image", digit],
        "inspect": ["inspect", run, "--image", digit],
        "export": ["export", run, "--to", "pretrained", "--out", run.parent / "exported"],
        "curves": ["curves", run, "--out", run.parent / "curves.png"],
        "resume": ["resume", run],
    }
    if unfinished:
        del calls["report"]
    return calls


def attacked(run: Path, name: str, call: Any, share: float, draw: random.Random) -> int:
    """Run the commands on a share of the edits: each ends well, or in words."""
    unfinished, count = name.startswith("checkpoints"), 0
    whole = run.with_name("whole")
    shutil.copytree(run, whole)
    for place, value in edited(run, name):
        for command, arguments in commands(run, unfinished).items():
            if draw.random() > share:
                continue
            count += 1
            kept = (run / name).read_bytes()
            code, _, told = call(*arguments)
            shown = (name, place, str(value)[:60], command, told[-600:])
            assert code in (0, 2), shown
            assert "unexpected" not in told, shown
            assert "Traceback" not in told, shown
            assert "Warning" not in told, shown
            assert "\x1b" not in told, shown
            shutil.rmtree(run.parent / "exported", ignore_errors=True)
            if command == "resume" and unfinished:  # it may have gone on, or set it aside: begin again
                shutil.rmtree(run)
                shutil.copytree(whole, run)
                (run / name).write_bytes(kept)
                if not name.endswith("manifest.json"):
                    renew((run / name).parent)
        if draw.random() <= share and not unfinished:
            files = [path for path in run.rglob("*") if path.is_file()]
            sent = {
                path.relative_to(run).as_posix(): base64.b64encode(path.read_bytes()).decode()
                for path in files
                if path.suffix in (".json", ".jsonl", ".safetensors") and "checkpoints" not in path.parts
            }
            count += 1
            with suppress(HeadworkError):
                open_files(sent, [])
    shutil.rmtree(whole)
    return count


def test_a_sample_of_commands_on_edited_runs(run: Path, headwork_command: Any) -> None:
    draw = random.Random(1)
    assert sum(attacked(run, name, headwork_command, 0.002, draw) for name in FINISHED) > 5


@pytest.mark.soak
@pytest.mark.parametrize("name", FINISHED)
def test_every_command_on_edited_runs(name: str, run: Path, headwork_command: Any) -> None:
    print(attacked(run, name, headwork_command, 0.25, random.Random(2)))


@pytest.mark.soak
def test_every_command_on_an_edited_checkpoint(run: Path, stopped: Any, headwork_command: Any) -> None:
    shutil.rmtree(run)
    stopped(run, 15)
    for name in ("state.json", "manifest.json"):
        place = step_folders(run)[-1].relative_to(run) / name
        print(attacked(run, place.as_posix(), headwork_command, 0.25, random.Random(3)))

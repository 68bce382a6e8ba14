"""Files that a person gave are read within limits, and none is written outside of its folder."""

from __future__ import annotations

import os
import re
import stat
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from headwork.data.image_files import read_image
from headwork.errors import MAX_MESSAGE, InputError, unknown_name
from headwork.files import DEVICES, open_file, parse_json, read_bytes, read_toml, safe_file_name, write_atomic


def test_only_regular_files_within_the_limit_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "endless").symlink_to("/dev/zero")
    with (tmp_path / "large").open("wb") as file:
        file.truncate(2**40)
    for name in ("pipe", "endless", ".", "/dev/zero"):
        with pytest.raises(InputError, match="not a plain file"):
            read_bytes(tmp_path / name)
    with pytest.raises(InputError, match="1,099,511,627,776 bytes; at most 10,000,000"):
        read_bytes(tmp_path / "large")
    # Its size is 0 for whoever asks, so only reading tells.
    with pytest.raises(InputError, match="more than 4 bytes"):
        read_bytes("/proc/self/status", max_bytes=4)
    for name in ("missing", "a\0b", "a" * 10_000):
        with pytest.raises(InputError, match="cannot be read"):
            read_bytes(tmp_path / name)


def test_in_a_folder_of_ours_no_link_is_followed_and_nothing_is_emptied(tmp_path: Path) -> None:
    lock = partial(open_file, for_locking=True)
    ours, victim = tmp_path / "run", tmp_path / "victim"
    (victim / "inner").mkdir(parents=True)
    (victim / "file").write_text("precious")
    ours.mkdir()
    (ours / "file").symlink_to(victim / "file")
    (ours / "model").symlink_to(victim)
    assert read_bytes(ours / "file") == b"precious"  # what a person names may be a link
    for path in (ours / "file", ours / "model" / "file", ours / ".." / "victim" / "file"):
        for action in (read_bytes, open_file, lambda path, root: write_atomic(path, "x", root=root)):
            with pytest.raises(InputError, match="a link, which is not followed here"):
                action(path, root=ours)
    assert (victim / "file").read_text() == "precious"
    (ours / ".lock").write_text("kept")
    for name in (".lock", ".fresh"):
        lock(ours / name, root=ours).close()
    assert (ours / ".lock").read_text() == "kept"
    assert (ours / ".fresh").read_bytes() == b""


def test_a_file_is_written_with_the_umask_which_is_never_changed(tmp_path: Path, monkeypatch: Any) -> None:
    before = os.umask(0o077)
    try:
        monkeypatch.setattr(os, "umask", lambda mask: pytest.fail("a host program's umask is its own"))
        path = write_atomic(tmp_path / ("long" * 60), "text \ud800")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert path.read_text() == "text ?"
    finally:
        monkeypatch.undo()
        os.umask(before)


@pytest.mark.parametrize("name", ["a\0b", "a" * 10_000, "", "pipe", "folder"])
def test_what_cannot_be_written_is_refused_and_leaves_nothing(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError):
        write_atomic(tmp_path / name, "text")
    assert {path.name for path in tmp_path.iterdir()} == {"pipe", "folder"}


DEEP = 30_000
TOML = {
    "bare key": ("a" + ".a" * DEEP + " = 1", "more than 16 parts"),
    "quoted key": ("""'a' . "a\\"b" """ + ".a" * DEEP + " = 1", "more than 16 parts"),
    "header": ("x = 1\n[[ a" + " . a" * DEEP + " ]]", "more than 16 parts"),
    "inline": ("x = [1, {a" + ".a" * DEEP + " = 1}]", "more than 16 parts"),
    "arrays": ("x = " + "[" * DEEP, "nested too deep"),
    "decimal integer": ("x = " + "1" * DEEP, "a number too long"),
    "hexadecimal integer": ("x = [0x" + "f" * DEEP + "]", "a number too long"),
    "large": ("#" * 300_001, "300,001 bytes"),
    "NUL": ("x = 'a\0'", "not valid TOML"),
}


@pytest.mark.parametrize("case", TOML)
def test_toml_is_refused_before_it_takes_memory(case: str, tmp_path: Path) -> None:
    text, message = TOML[case]
    (tmp_path / "file.toml").write_text(text)
    with pytest.raises(InputError, match=message):
        read_toml(tmp_path / "file.toml")


def test_dots_in_strings_are_no_deep_keys(tmp_path: Path) -> None:
    text = "0.5 " * 100
    (tmp_path / "file.toml").write_text(f'a.b."c.d" = "{text}"\nlist = [{"0.5, " * 100}]')
    data = read_toml(tmp_path / "file.toml")
    assert data == {"a": {"b": {"c.d": text}}, "list": ["0.5"] * 100}


@pytest.mark.parametrize("text", ["[" * 100_000, "{", "1" * 5000, b"\xff"])
def test_json_that_cannot_be_read_is_refused(text: str | bytes) -> None:
    with pytest.raises(InputError, match="here: not valid JSON"):
        parse_json(text, "here")


def test_json_is_refused_by_its_size_before_it_is_read() -> None:
    with pytest.raises(InputError, match=r"here: 3,300,000 bytes of JSON; at most 3,000,000 are read"):
        parse_json(b"[]," * 1_100_000, "here")
    assert parse_json("[1]", "here", max_bytes=3) == [1]


def test_whatever_a_name_is_it_stays_one_plain_file_in_its_folder() -> None:
    plain = ("a", "ada", "s1234567", "ada.lovelace@uni.org", "A_b-c", "a" * 64, "console")
    assert [safe_file_name(name) for name in plain] == list(plain)
    odd = ("", ".", "..", ".a", "a.", "a/b", "a\\b", "a\0b", "a\nb", "a b", "é", "\u202ea", "a" * 65, "-rf")
    odd += ("CON", "nul", "aux.txt", "Com1.a.b", "/anywhere/x", "../../../x", "C:x", "a\x1b[2J", "." * 10_000)
    for name in odd:
        assert safe_file_name(name) != name
        assert re.fullmatch(r"[A-Za-z0-9_@][A-Za-z0-9._@-]{0,64}(?<![.-])", safe_file_name(name)), name
        assert not DEVICES.fullmatch(safe_file_name(name))


def test_an_error_quotes_no_megabytes() -> None:
    long = "x" * 8_000_000
    assert len(str(InputError(f"{long} is not a number. Give one."))) == MAX_MESSAGE
    assert str(InputError(f"{long}. Give one.")).endswith("Give one.")
    assert len(str(unknown_name("step", long, ["weights"]))) < 400


@pytest.mark.skipif(not os.access("/proc/kmsg", os.R_OK), reason="needs a file of the system that makes wait")
def test_a_file_that_would_make_us_wait_is_empty(tmp_path: Path) -> None:
    assert isinstance(read_bytes("/proc/kmsg"), bytes)
    with pytest.raises(InputError, match="not an image that can be read"):
        read_image("/proc/kmsg")

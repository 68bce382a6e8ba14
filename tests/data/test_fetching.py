"""The source chain with made-up sets: order, digests, archives, and nothing half-written. No network."""

import functools
import gzip
import hashlib
import http.server
import re
import shutil
import subprocess
import threading
import zipfile

import pytest

from headwork.data import fetching
from headwork.data.archives import UnreadableError, deb_members, gunzip, zip_member
from headwork.data.catalog import CATALOG, Entry, File, FileSource, Variant
from headwork.data.fetching import cache_folder, cached_variant, fetch, read_verified
from headwork.errors import InputError

ONE, TWO = b"the first file " * 40, b"another one " * 30


def described(name, data):
    return File(name, "sha256:" + hashlib.sha256(data).hexdigest(), len(data))


FILES = (described("one.bin", ONE), described("two.bin", TWO))
WHEEL = FileSource("pip", "made-up==1.0", {"one.bin": "made_up/one.bin", "two.bin": "made_up/two.bin"})


def installed_in(folder):
    return FileSource("installed", str(folder), {file.name: "" for file in FILES})


def site(files):
    return FileSource("address", next(iter(files.values())).rpartition("/")[0], files)


def entry(*sources, files=FILES):
    return Entry("made-up", "images", "nothing", "none", "nobody", "made-up", (Variant(files, sources),))


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADWORK_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def lines():
    return []


def wheel(path, **members):
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(f"made_up/{name}.bin", data)
    return path


def files_in(folder):
    return sorted(path.name for path in folder.rglob("*")) if folder.exists() else []


def test_plain_and_gzipped_files_of_a_folder(tmp_path, cache, lines):
    hand = tmp_path / "hand"
    hand.mkdir()
    (hand / "one.bin").write_bytes(ONE)
    (hand / "two.bin.gz").write_bytes(gzip.compress(TWO))
    small = entry()
    assert not cached_variant(small)
    assert fetch(small, from_folder=hand, log=lines.append) == cache / "made-up"
    assert cached_variant(small)
    assert (cache / "made-up/one.bin").read_bytes() == ONE
    assert read_verified(cache / "made-up", FILES[1]) == TWO
    assert lines == [
        f"made-up: cache {cache}/made-up: not there",
        f"made-up: --from {hand}: gave one.bin, two.bin",
        f"made-up: digests match, saved in {cache}/made-up",
    ]
    lines.clear()
    shutil.rmtree(hand)
    fetch(small, log=lines.append)
    assert lines == [f"made-up: from the cache, {cache}/made-up"]


def test_a_package_file_brought_by_hand(tmp_path, cache, lines):
    brought = wheel(tmp_path / "made_up-1.0-py3-none-any.whl", one=ONE, two=TWO)
    fetch(entry(WHEEL), from_folder=brought, log=lines.append)
    assert files_in(cache) == ["made-up", "one.bin", "two.bin"]


@pytest.mark.real("dpkg-deb")
def test_a_debian_package_is_read_without_unpacking_it(tmp_path, cache, lines):
    tree = tmp_path / "tree"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN/control").write_text(
        "Package: made-up\nVersion: 1\nArchitecture: all\nMaintainer: n <n@example.org>\nDescription: n\n"
    )
    (tree / "usr/share").mkdir(parents=True)
    (tree / "usr/share/one.bin.gz").write_bytes(gzip.compress(ONE))
    (tree / "usr/share/two.bin").symlink_to("/etc/hostname")
    package = tmp_path / "hand" / "made-up_1_all.deb"
    package.parent.mkdir()
    subprocess.run(
        ["dpkg-deb", "--build", "--root-owner-group", tree, package], check=True, capture_output=True
    )
    apt = FileSource("apt", "made-up", {"one.bin": "usr/share/one.bin.gz"})
    fetch(entry(apt, files=FILES[:1]), from_folder=package.parent, log=lines.append)
    assert (cache / "made-up/one.bin").read_bytes() == ONE
    with pytest.raises(UnreadableError, match="larger than the 10 bytes expected"):
        deb_members(package, {"usr/share/one.bin.gz": 10})
    with pytest.raises(UnreadableError, match=r"holds no usr/share/two\.bin"):  # a link is not a file
        deb_members(package, {"usr/share/two.bin": 1000})
    package.write_bytes(package.read_bytes()[:200])
    with pytest.raises(UnreadableError, match="damaged"):
        deb_members(package, {"usr/share/one.bin.gz": 1000})


def test_the_system_package_comes_before_the_registry(tmp_path, monkeypatch, lines):
    installed = tmp_path / "installed"
    installed.mkdir()
    for file, data in zip(FILES, (ONE, TWO), strict=True):
        (installed / f"{file.name}.gz").write_bytes(gzip.compress(data))
    monkeypatch.setattr(fetching, "_run", lambda *_: pytest.fail("the registry was asked"))
    fetch(entry(installed_in(installed), WHEEL), log=lines.append)
    assert lines[1] == f"made-up: installed package {installed}: gave one.bin, two.bin"


def test_the_registry_brings_a_wheel_and_nothing_is_installed(tmp_path, cache, monkeypatch, lines):
    ready = wheel(tmp_path / "made_up-1.0-py3-none-any.whl", one=ONE, two=TWO)
    commands = []

    def run(command, folder):
        commands.append(command)
        shutil.copy(ready, folder)

    monkeypatch.setattr(fetching, "_run", run)
    fetch(entry(WHEEL), log=lines.append)
    assert "download" in commands[0]
    assert {"--no-deps", "--only-binary=:all:", "made-up==1.0"} <= set(commands[0])
    assert files_in(cache) == ["made-up", "one.bin", "two.bin"]


def test_what_one_package_lacks_another_brings(tmp_path, cache, monkeypatch, lines):
    first = FileSource("pip", "first==1", {"one.bin": "made_up/one.bin"})
    second = FileSource("pip", "second==1", {"two.bin": "made_up/two.bin"})

    def run(command, folder):
        name = command[-1].partition("==")[0]
        if name == "second" and not allowed:
            raise UnreadableError("no network")
        wheel(folder / f"{name}-1-py3-none-any.whl", one=ONE, two=TWO)

    monkeypatch.setattr(fetching, "_run", run)
    allowed = False
    with pytest.raises(InputError, match=r"pip package second==1: no network"):
        fetch(entry(first, second), log=lines.append)
    assert files_in(cache) == ["made-up", "one.bin"]
    allowed = True
    lines.clear()
    fetch(entry(first, second), log=lines.append)
    assert not any("first" in line for line in lines), "what is cached is not fetched again"


@pytest.fixture
def server(tmp_path):
    folder = tmp_path / "served"
    folder.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    running = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder))
    )
    thread = threading.Thread(target=running.serve_forever, daemon=True)
    thread.start()
    yield folder, f"http://127.0.0.1:{running.server_port}"
    running.shutdown()
    running.server_close()


def test_the_official_address_is_last(server, cache, lines):
    folder, where = server
    (folder / "one.bin.gz").write_bytes(gzip.compress(ONE))
    small = entry(installed_in("/nowhere"), site({"one.bin": f"{where}/one.bin.gz"}), files=FILES[:1])
    fetch(small, log=lines.append)
    assert (cache / "made-up/one.bin").read_bytes() == ONE
    assert lines[1] == "made-up: installed package /nowhere: not there"


def test_an_address_that_sends_too_much_is_cut_off(server, cache, lines):
    folder, where = server
    (folder / "one.bin").write_bytes(ONE + bytes(1 << 20))
    with pytest.raises(InputError, match="sends more than the 600 bytes expected"):
        fetch(entry(site({"one.bin": f"{where}/one.bin"}), files=FILES[:1]), log=lines.append)
    assert files_in(cache) == []


def test_the_error_names_every_source_and_the_way_by_hand(monkeypatch, cache, tmp_path, lines):
    def run(command, folder):
        raise UnreadableError("failed: no network")

    monkeypatch.setattr(fetching, "_run", run)
    monkeypatch.setattr(fetching.shutil, "which", lambda _: None)
    apt = FileSource("apt", "made-up", {file.name: file.name for file in FILES})
    small = entry(
        installed_in("/nowhere"), apt, WHEEL, site({f.name: f"http://127.0.0.1:9/{f.name}" for f in FILES})
    )
    with pytest.raises(InputError) as error:
        fetch(small, from_folder=tmp_path, log=lines.append)
    message = str(error.value)
    for line in (
        f"cache {cache}/made-up: not there",
        f"--from {tmp_path}: holds none of the files",
        "installed package /nowhere: not there",
        "apt package made-up: apt-get is not installed",
        "pip package made-up==1.0: failed: no network",
        "address http://127.0.0.1:9: no answer",
        "apt-get download made-up",
        "pip download --no-deps made-up==1.0",
        "download http://127.0.0.1:9/one.bin",
        "headwork data get made-up --from FOLDER",
    ):
        assert line in message
    assert files_in(cache) == []


@pytest.mark.parametrize("name", ["rotten-tomatoes", "imdb"])
def test_train_says_what_it_fetches_before_it_asks_anybody(
    name, headwork_command, capsysbinary, monkeypatch, tmp_path
):
    import headwork.cli.train  # noqa: F401  (registers the commands)

    told = []

    def cut(*_, **__):
        told.append(capsysbinary.readouterr().err.decode())
        raise OSError("no network")

    monkeypatch.setattr(fetching.subprocess, "run", cut)
    monkeypatch.setattr("urllib.request.urlopen", cut)
    monkeypatch.setattr(fetching.shutil, "which", lambda _: "/usr/bin/apt-get")
    code, _, error = headwork_command("train", "text", "--data", name, "--out", tmp_path / "run")
    assert code == 2
    assert f"{name} could not be fetched" in error
    assert f"{name}: cache {tmp_path}/cache/" in told[0]
    assert all(
        re.search(r"^  \S.* \.\.\.$", words, re.MULTILINE) for words in told
    )  # what is asked, each time
    assert files_in(tmp_path / "run") == []


def test_what_is_needed_together_stands_together(monkeypatch, lines):
    monkeypatch.setattr(fetching, "_run", lambda *_: (_ for _ in ()).throw(UnreadableError("no network")))
    first = FileSource("pip", "first==1", {"one.bin": "one.bin"})
    second = FileSource("pip", "second==1", {"two.bin": "two.bin"})
    address = site({file.name: f"http://127.0.0.1:9/{file.name}" for file in FILES})
    with pytest.raises(InputError) as error:
        fetch(entry(WHEEL, first, address, second), log=lines.append)
    assert (
        "everything under one letter on a machine with a network:\n"
        "  A) pip download --no-deps made-up==1.0\n"
        "  B) download http://127.0.0.1:9/one.bin\n"
        "     download http://127.0.0.1:9/two.bin\n"
        "  C) pip download --no-deps first==1\n"
        "     pip download --no-deps second==1\n"
        "copy the downloads"
    ) in str(error.value)
    with pytest.raises(
        InputError,
        match=r"do this on a machine with a network:\n  A\) pip download --no-deps made-up==1\.0\ncopy",
    ):
        fetch(entry(WHEEL), log=lines.append)


def test_a_wrong_digest_is_refused_and_nothing_is_saved(tmp_path, cache, lines):
    hand = tmp_path / "hand"
    hand.mkdir()
    (hand / "one.bin").write_bytes(ONE[:-1] + b"!")
    with pytest.raises(
        InputError, match=r"one\.bin has sha256 \w{64}, expected \w{64} \(600 bytes, expected 600\)"
    ):
        fetch(entry(files=FILES[:1]), from_folder=hand, log=lines.append)
    assert files_in(cache) == []


def test_a_damaged_cache_is_noticed_and_repaired(tmp_path, cache, lines):
    brought = wheel(tmp_path / "made_up-1.0-py3-none-any.whl", one=ONE, two=TWO)
    fetch(entry(WHEEL), from_folder=brought, log=lines.append)
    (cache / "made-up/two.bin").write_bytes(TWO[:-1])
    with pytest.raises(InputError, match=r"two\.bin has sha256 .* Delete it"):
        read_verified(cache / "made-up", FILES[1])
    lines.clear()
    fetch(entry(WHEEL), from_folder=brought, log=lines.append)
    assert "not used: two.bin has sha256" in lines[0]
    assert (cache / "made-up/two.bin").read_bytes() == TWO


def test_bombs_are_refused_before_they_are_unpacked(tmp_path, cache, lines):
    bomb = bytes(10_000_000)
    with pytest.raises(UnreadableError, match="larger than the 1,000 bytes"):
        gunzip(gzip.compress(bomb), 1000, "bomb.gz")
    packed = wheel(tmp_path / "made_up-1.0-py3-none-any.whl", one=bomb, two=TWO)
    with pytest.raises(UnreadableError, match="unpacks to 10,000,000 bytes; at most 600"):
        zip_member(packed, "made_up/one.bin", 600)
    with pytest.raises(InputError, match="unpacks to 10,000,000"):
        fetch(entry(WHEEL), from_folder=packed, log=lines.append)
    # A head that lies about the size does not help.
    data = packed.read_bytes().replace((10_000_000).to_bytes(4, "little"), (600).to_bytes(4, "little"))
    packed.write_bytes(data)
    with pytest.raises(UnreadableError):
        zip_member(packed, "made_up/one.bin", 600)
    assert files_in(cache) == []


@pytest.mark.parametrize("damage", [b"", b"not a zip", b"PK\x03\x04" + bytes(50)])
def test_a_damaged_wheel(tmp_path, damage):
    packed = tmp_path / "made_up-1.0-py3-none-any.whl"
    packed.write_bytes(damage)
    with pytest.raises(UnreadableError, match="damaged"):
        zip_member(packed, "made_up/one.bin", 600)


def test_a_damaged_gzip():
    with pytest.raises(UnreadableError, match="damaged"):
        gunzip(gzip.compress(ONE)[:-20], 600, "one.gz")


def test_a_cache_that_cannot_be_written(tmp_path, monkeypatch, lines):
    brought = wheel(tmp_path / "made_up-1.0-py3-none-any.whl", one=ONE, two=TWO)
    (tmp_path / "taken").write_text("a file")
    monkeypatch.setenv("HEADWORK_CACHE", str(tmp_path / "taken"))
    with pytest.raises(InputError, match=r"cannot write .*taken.*Set HEADWORK_CACHE"):
        fetch(entry(WHEEL), from_folder=brought, log=lines.append)


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match="there is no such file or folder"):
        fetch(entry(WHEEL), from_folder=tmp_path / "typo")


def test_where_the_cache_is(monkeypatch):
    monkeypatch.delenv("HEADWORK_CACHE")
    monkeypatch.setattr(fetching.sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert str(cache_folder()) == "/somewhere/headwork"


def test_every_file_of_the_catalog_has_a_digest_a_size_and_a_source():
    for entry in CATALOG.values():
        for variant in entry.variants:
            for file in variant.files:
                method, _, digest = file.digest.partition(":")
                assert len(digest) == {"md5": 32, "sha256": 64}[method]
                assert file.size > 0
                assert [source for source in variant.sources if file.name in source.files]


def test_digits_are_not_fetched():
    with pytest.raises(InputError, match="not fetched"):
        fetch("digits")

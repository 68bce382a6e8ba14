"""Python for the page: Pyodide's files, and ours compiled for its interpreter, packed small.

Pyodide is fetched once into the cache and verified (the catalog's ``pyodide``). What is pure Python goes in
as bytecode of Pyodide's own Python, so that the page starts quickly: compiled by Pyodide under node. Compiled
files are kept by the digest of what they were made from.
"""

import hashlib
import importlib.util
import io
import re
import shutil
import subprocess
import tempfile
import zipfile
from collections import ChainMap
from collections.abc import Iterable, Iterator
from functools import partial
from importlib.metadata import version
from pathlib import Path

from headwork.data.catalog import File, require_entry
from headwork.data.fetching import cache_folder, fetch, read_verified, to_stderr
from headwork.errors import InputError
from headwork.files import files_under, load_package_toml, write_atomic

HERE = Path(__file__).parent
PACKAGE = HERE.parent
CONTENTS = load_package_toml(__file__, "packing.toml")
PACKAGES, LAZY_MODULES = CONTENTS["packages"], CONTENTS["lazy_modules"]
TRAINED = "training/trained"  # the trained models of the package, brought with the lazy modules
SUFFIXES, UNUSED = tuple(CONTENTS["suffixes"]), re.compile("|".join(CONTENTS["unused"]))
NODE_SECONDS = 600
Archive = dict[str, bytes]


def python_files() -> dict[str, bytes]:
    """What the page needs to run Python, by file name: the runtime, and three zips of modules."""
    folder = fetch("pyodide", log=_quiet)
    files_by_name = {file.name: file for file in require_entry("pyodide").variants[0].files}
    read = partial(_read, folder, files_by_name)
    top = [path.name for path in PACKAGE.iterdir() if path.is_file()]
    site_packages = dict(ChainMap(_wheel(read("numpy-")), _own_modules([*top, *PACKAGES]), *_third_party()))
    symbolic = {**_wheel(read("sympy-")), **_wheel(read("mpmath-"))}
    # The page has the images of the trained models as it is.
    trained = files_under(PACKAGE, [TRAINED], lambda name: not name.endswith(".png"))
    return {
        **{name: read(name) for name in CONTENTS["runtime"]},
        "site.zip": _zipped(compiled(site_packages, folder, optimise=0)),
        "sympy.zip": _zipped(compiled(symbolic, folder, optimise=2)),
        "inside.zip": _zipped({**compiled(_own_modules(LAZY_MODULES), folder, optimise=0), **trained}),
    }


def _quiet(line: str) -> None:
    if "from the cache" not in line:
        to_stderr(line)


def _read(folder: Path, files_by_name: dict[str, File], start: str) -> bytes:
    return read_verified(folder, next(file for name, file in files_by_name.items() if name.startswith(start)))


def _wheel(data: bytes) -> Archive:
    with zipfile.ZipFile(io.BytesIO(data)) as wheel:
        needed = [n for n in wheel.namelist() if n.endswith(SUFFIXES) and not UNUSED.search(f"/{n}")]
        return {name: wheel.read(name) for name in needed}


def _own_modules(parts: Iterable[str]) -> Archive:
    """Our own modules, with the texts and templates beside them."""
    excluded = tuple(f"{PACKAGE.name}/{name}" for name in CONTENTS["excluded"])
    return files_under(PACKAGE, parts, lambda name: name.endswith(SUFFIXES) and not name.startswith(excluded))


def _third_party() -> Iterator[Archive]:
    """The pure Python packages that write formulas and pages, as they are installed here."""
    for name in CONTENTS["third_party"]:
        module_spec = importlib.util.find_spec(name)
        assert module_spec is not None
        assert module_spec.submodule_search_locations
        yield files_under(
            Path(module_spec.submodule_search_locations[0]), ["."], lambda n: n.endswith((".py", ".txt"))
        )
        # Some ask for their version.
        about = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version(name)}\n"
        yield {f"{name}-{version(name)}.dist-info/METADATA": about.encode()}


def _zipped(files: Archive) -> bytes:
    """A zip without compression: the page compresses it as a whole. The same files give the same bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in sorted(files):
            archive.writestr(zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0)), files[name])
    return buffer.getvalue()


# --- bytecode ---------------------------------------------------------------------------------------------
def compiled(files: Archive, pyodide: Path, *, optimise: int) -> Archive:
    """The same files with every module as bytecode, or as they are where nothing can compile them."""
    sources = {name: data for name, data in files.items() if name.endswith(".py")}
    other_files = {name: data for name, data in files.items() if name not in sources}
    packed = _zipped(sources)
    digest = hashlib.sha256(packed + bytes([optimise])).hexdigest()
    cached = cache_folder() / "lab" / f"{digest[:32]}.zip"
    if not cached.exists():
        bytecode = _compile_by_node(packed, pyodide, optimise)
        if bytecode is None:
            to_stderr("lab: no node was found, so modules go in as text and the page starts more slowly.")
            return files
        write_atomic(cached, bytecode)
    with zipfile.ZipFile(cached) as archive:
        return {**other_files, **{name: archive.read(name) for name in archive.namelist()}}


def find_node() -> str | None:
    """A node to run Pyodide: on the path, or the one that playwright brings."""
    if path := shutil.which("node"):
        return path
    module_spec = importlib.util.find_spec("playwright")
    origin = module_spec.origin if module_spec else None
    bundled = Path(origin).parent / "driver" / "node" if origin else None
    return str(bundled) if bundled and bundled.exists() else None


def _compile_by_node(packed: bytes, pyodide: Path, optimise: int) -> bytes | None:
    node = find_node()
    if node is None:
        return None
    to_stderr("lab: compiling modules for the page, once ...")
    with tempfile.TemporaryDirectory(prefix="headwork-") as temporary:
        here = Path(temporary)
        (here / "sources.zip").write_bytes(packed)
        command = [node, str(HERE / "compile.mjs"), str(pyodide), str(here), str(optimise)]
        try:
            process = subprocess.run(
                command,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=NODE_SECONDS,
                stdin=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired:
            raise InputError(f"lab: compiling took more than {NODE_SECONDS // 60} minutes.") from None
        result = here / "compiled.zip"
        if process.returncode or not result.exists():
            lines = process.stderr.strip().splitlines() or [str(process.returncode)]
            to_stderr(f"lab: node failed: {lines[-1][-300:]}")
            return None
        return result.read_bytes()

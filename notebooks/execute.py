"""Write the solutions of the course notebooks with their outputs: ``python notebooks/execute.py [NAME ...]``.

The sources are in ``headwork/courses/notebook_sources``; ``make notebooks`` makes all of them again.
"""

import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from headwork.courses.notebooks import SOURCES, course_notebook_files
from headwork.files import write_atomic


def execute(name: str, folder: Path) -> Path:
    """Run the solution of a notebook and write it into the folder."""
    (text,) = course_notebook_files(name, "solution").values()
    notebook = nbformat.reads(text, as_version=4)
    metadata = dict(notebook.metadata)
    NotebookClient(notebook, timeout=3600, record_timing=False, coalesce_streams=True).execute()
    notebook.metadata = metadata  # without the version of Python that ran it
    return write_atomic(folder / f"{name}.ipynb", nbformat.writes(notebook) + "\n")


if __name__ == "__main__":
    for name in sys.argv[1:] or SOURCES:
        started = time.monotonic()
        print(f"{execute(name, Path(__file__).parent)}: {time.monotonic() - started:.0f} s", flush=True)

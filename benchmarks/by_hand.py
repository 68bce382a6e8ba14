"""How fast the command line answers compared with ``import torch``, and what silent notes cost."""

from __future__ import annotations

import ast
import inspect
import statistics
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from typing import Any

from benchmarks.report import Report, Row

INPUTS = ("tokens=1 2; 2 0; 0 1; 1 1", "W_k=1 0; 0 0", "W_v=0 0; 0 1", "beta=1")
A2 = ["self-attention", *(word for text in INPUTS for word in ("--set", text)), "--exact"]
COMMANDS = {
    "import torch": [sys.executable, "-c", "import torch"],
    "headwork --help": [sys.executable, "-m", "headwork", "--help"],
    "headwork explain A2 --exact": [sys.executable, "-m", "headwork", "explain", *A2],
}
LIMITS = {"headwork --help": 1 / 4, "headwork explain A2 --exact": 1 / 2}
COMMAND_ROUNDS = 9
SIZES = [(8, 8), (64, 64), (128, 64), (256, 64), (512, 128)]  # tokens, width
NOTE_ROUNDS = 400


def seconds(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def command_rows() -> list[Row]:
    """Each command in turn, round after round, so that a busy moment affects all of them."""
    for command in COMMANDS.values():
        seconds(command)  # once before, so that every file is in the page cache
    taken: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(COMMAND_ROUNDS):
        for name, command in COMMANDS.items():
            taken[name].append(seconds(command))
    middle = {name: statistics.median(times) for name, times in taken.items()}
    best = {name: min(times) for name, times in taken.items()}
    rows = []
    for name, limit in LIMITS.items():
        quickest = best[name] / best["import torch"]
        medians = f"median {middle[name]:.2f} s against {middle['import torch']:.2f} s"
        detail = f"{medians}; ratio of the fastest {quickest:.2f}"
        rows.append(
            Row(f"`{name}` / `import torch`", middle[name] / middle["import torch"], limit, "", detail)
        )
        rows.append(Row(f"modules of torch that `{name}` imports", count_imports(COMMANDS[name], "torch"), 0))
    return rows


def count_imports(command: list[str], package: str) -> int:
    """How many modules of a package a command imports, by Python's own account."""
    log = subprocess.run(
        [command[0], "-X", "importtime", *command[1:]], capture_output=True, text=True, check=True
    ).stderr
    names = [line.rpartition("|")[2].strip() for line in log.splitlines() if line.startswith("import time:")]
    return sum(name == package or name.startswith(f"{package}.") for name in names)


class WithoutNotes(ast.NodeTransformer):
    """``note("scores", value)`` becomes ``value``."""

    def visit_Call(self, call: ast.Call) -> ast.AST:
        self.generic_visit(call)
        return call.args[1] if isinstance(call.func, ast.Name) and call.func.id == "note" else call


def without_notes(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same body without its notes, made from its own source, so that the two cannot drift apart."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    definition = tree.body[0]
    assert isinstance(definition, ast.FunctionDef)
    definition.decorator_list = []
    definition.returns = None
    names: dict[str, Any] = {}
    exec(
        compile(ast.fix_missing_locations(WithoutNotes().visit(tree)), "without notes", "exec"),
        function.__globals__,
        names,
    )
    return names[function.__name__]  # type: ignore[no-any-return]


def note_rows() -> list[Row]:
    import torch

    from headwork.mechanisms import attention

    bare = without_notes(attention)
    rows = []
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    for tokens, width in SIZES:
        torch.manual_seed(0)
        query, key, value = (torch.randn(tokens, width) for _ in range(3))
        assert torch.equal(attention(query, key, value), bare(query, key, value))
        taken: dict[str, list[float]] = {"noted": [], "bare": []}
        calls = max(1, 200_000 // (tokens * tokens))
        for turn in range(NOTE_ROUNDS):
            pair = [("noted", attention), ("bare", bare)]
            for name, function in pair if turn % 2 else pair[::-1]:
                start = time.perf_counter()
                for _ in range(calls):
                    function(query, key, value)
                taken[name].append((time.perf_counter() - start) / calls)
        ratio = statistics.median(taken["noted"]) / statistics.median(taken["bare"])
        least = min(taken["noted"]) / min(taken["bare"])
        median = 1e6 * statistics.median(taken["noted"])
        detail = f"median {median:.1f} µs per call; ratio of the fastest {least:.3f}"
        rows.append(
            Row(
                f"attention, {tokens} tokens of width {width}: silent notes / no notes",
                ratio,
                1.05,
                "",
                detail,
            )
        )
    torch.set_num_threads(threads)
    return rows


def build_report() -> Report:
    return Report(
        "by-hand",
        "By hand: how fast it answers",
        f"Commands: {COMMAND_ROUNDS} rounds, each command once per round, medians. Notes: {NOTE_ROUNDS} "
        "rounds on one thread, both bodies in turn, medians; the body without notes is made from the source "
        "of the other.",
        [*command_rows(), *note_rows()],
    )

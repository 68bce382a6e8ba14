"""Endless and slow bodies, idle and unread connections: refused or closed, and memory stays as it was."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headwork.lab import server
from headwork.lab.calls import CALLS, example_state

STATE = example_state("self-attention").as_data()
MEGABYTE = 1_000_000


def head(port: int, token: str, *lines: str, method: str = "POST", path: str = "/call/explain") -> bytes:
    host = f"127.0.0.1:{port}"
    fixed = [f"Host: {host}", f"Origin: http://{host}", f"X-Headwork-Token: {token}"]
    return "\r\n".join([f"{method} {path} HTTP/1.1", *fixed, *lines, "", ""]).encode()


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=60)


def status(connection: socket.socket) -> str:
    """The status of the answer; "closed" where the connection ended without one."""
    with contextlib.suppress(OSError):
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        return str(answer.status)
    return "closed"


TOKEN = "a-token-of-the-tests"


def test_many_idle_connections_keep_nobody_out(served: Any) -> None:
    with contextlib.ExitStack() as idle:
        for _ in range(server.MAX_CONNECTIONS + 40):
            idle.enter_context(connect(served.port))
        assert served.call("explain", state=STATE)["sentence"]


def test_a_head_without_an_end_is_closed(served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "IDLE_SECONDS", 0.3)
    with connect(served.port) as connection:
        connection.sendall(head(served.port, TOKEN)[:-4])
        assert status(connection) == "closed"


def test_a_slow_body_is_refused(served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "BODY_SECONDS", 0.3)
    with connect(served.port) as connection:
        connection.sendall(head(served.port, TOKEN, "Content-Length: 1000") + b"{")
        assert status(connection) == "413"


def test_a_call_that_takes_too_long_is_given_up(served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []

    def spin() -> dict[str, Any]:
        try:
            while True:
                time.sleep(0.01)
        finally:
            ended.append("spin")

    monkeypatch.setitem(CALLS, "spin", spin)
    monkeypatch.setattr(server, "CALL_SECONDS", 0.3)
    told = served.call("spin")["error"]
    assert told["message"].startswith("This takes more than 0.3 s.")
    assert told["kind"] == "too large"
    while not ended:  # the suite's own limit stops a test that waits here for ever
        time.sleep(0.01)


@pytest.mark.parametrize("length", ["Transfer-Encoding: chunked", "Content-Length: 5"])
def test_what_takes_no_body_refuses_one(served: Any, length: str) -> None:
    with connect(served.port) as connection:
        connection.sendall(head(served.port, TOKEN, length, method="GET", path="/"))
        assert status(connection) == "413"


# --- for minutes --------------------------------------------------------------------------------------------
def oversized(port: int, token: str) -> Iterator[str]:
    with connect(port) as connection:
        with contextlib.suppress(OSError):
            connection.sendall(head(port, token, "Content-Length: 900000000"))
            for _ in range(20):
                connection.sendall(b" " * MEGABYTE)
        yield status(connection)


def endless(port: int, token: str) -> Iterator[str]:
    with connect(port) as connection:
        with contextlib.suppress(OSError):
            connection.sendall(head(port, token, "Transfer-Encoding: chunked"))
            for _ in range(1000):
                connection.sendall(b"ffff\r\n" + b" " * 0xFFFF + b"\r\n")
        yield status(connection)


def slow_body(port: int, token: str) -> Iterator[str]:
    with connect(port) as connection:
        with contextlib.suppress(OSError):
            connection.sendall(head(port, token, "Content-Length: 250000"))
            for _ in range(60):
                connection.sendall(b" " * 100)
                time.sleep(0.25)
        yield status(connection)


def slow_head(port: int, token: str) -> Iterator[str]:
    with connect(port) as connection:
        with contextlib.suppress(OSError):
            for letter in head(port, token):
                connection.sendall(bytes([letter]))
                time.sleep(0.4)
        yield status(connection)


def many_idle(port: int, token: str) -> Iterator[str]:
    with contextlib.ExitStack() as idle:
        for _ in range(300):
            idle.enter_context(connect(port))
        time.sleep(1)
    yield "closed"


def unread(port: int, token: str) -> Iterator[str]:
    """Asks for the page again and again, and reads nothing."""
    with connect(port) as connection, contextlib.suppress(OSError):
        for _ in range(2000):
            connection.sendall(head(port, token, method="GET", path="/lab.js"))
        time.sleep(5)
    yield "closed"


def wide(port: int, token: str) -> Iterator[str]:
    """As many numbers, names and levels as a body may hold."""
    many = {"mechanism": "softmax", "inputs": {"scores": [1] * 120_000}}
    names = {"mechanism": "softmax", "inputs": {f"x{i}": 1 for i in range(15_000)}}
    for body in (json.dumps({"state": many}), json.dumps({"state": names}), "[" * 250_000, "9" * 250_000):
        with connect(port) as connection:
            connection.sendall(head(port, token, f"Content-Length: {len(body)}") + body.encode())
            found = status(connection)
            yield "4xx or said" if found in ("200", "400") else found


HOSTILE: tuple[Callable[[int, str], Iterator[str]], ...]
HOSTILE = (oversized, endless, slow_body, slow_head, many_idle, unread, wide)


def memory(process: int, name: str) -> float:
    """Megabytes: VmRSS is held now, VmHWM was the most."""
    found = re.search(rf"{name}:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    assert found is not None
    return int(found[1]) / 1000


@pytest.mark.soak
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="measures memory by /proc")
def test_hostile_clients_for_three_minutes() -> None:
    """Each kind with and without the token, all at once, and an honest person among them."""
    import resource

    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, limits[1]), limits[1]))
    command = [sys.executable, "-m", "headwork", "lab", "--no-browser"]
    ended = time.monotonic() + 180
    seen: Counter[tuple[str, str]] = Counter()
    honest: Counter[str] = Counter()
    held: list[float] = []

    def attack(kind: Callable[[int, str], Iterator[str]], port: int, token: str) -> None:
        while time.monotonic() < ended:
            try:
                seen.update((kind.__name__, found) for found in kind(port, token))
            except OSError:
                seen[kind.__name__, "closed"] += 1

    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            found = re.search(r":(\d+)/\?token=(\S+)", running.stdout.readline())
            assert found is not None
            port, token = int(found[1]), found[2]
            everyone = [
                threading.Thread(target=attack, args=(kind, port, given), daemon=True)
                for kind in HOSTILE
                for given in (token, "wrong")
            ]
            for thread in everyone:
                thread.start()
            body = json.dumps({"state": STATE}).encode()
            while time.monotonic() < ended:
                with connect(port) as connection:
                    connection.sendall(head(port, token, f"Content-Length: {len(body)}") + body)
                    honest[status(connection)] += 1
                held.append(memory(running.pid, "VmRSS"))
                time.sleep(0.5)
            for thread in everyone:
                thread.join(60)
            most, files = memory(running.pid, "VmHWM"), len(list(Path(f"/proc/{running.pid}/fd").iterdir()))
        finally:
            running.terminate()
    third = len(held) // 3
    early, late = max(held[third : 2 * third]), max(held[2 * third :])
    print(f"honest: {dict(honest)}; {early:.0f} MB, then {late:.0f} MB, at most {most:.0f} MB; {files} files")
    for (kind, answer), count in sorted(seen.items()):
        print(f"  {kind}: {answer} {count}")
    assert set(honest) == {"200"}
    assert {answer for _, answer in seen} <= {"400", "403", "413", "closed", "4xx or said"}
    assert {kind.__name__ for kind in HOSTILE} == {kind for kind, _ in seen}
    assert late <= 1.05 * early
    assert most < 300
    assert files < 60

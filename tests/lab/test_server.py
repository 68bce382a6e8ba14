"""The local server: who may ask, what is refused before any work, and what a client leaves behind."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from typing import Any

import pytest

from headwork.lab import server
from headwork.lab.calls import example_state

STATE = example_state("self-attention").as_data()


@pytest.fixture
def no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise AssertionError("work was done for a request that should have been refused")

    monkeypatch.setattr(server, "run_call", fail)


def test_the_page_and_the_calls(served: Any) -> None:
    status, body, headers = served.send("GET", "/")
    assert status == 200
    assert b"Headwork lab" in body
    assert "script-src 'self';" in headers["content-security-policy"]
    assert b"<script src" in body
    for path, kind in (("/lab.js", "text/javascript"), ("/lab.css", "text/css")):
        status, _, headers = served.send("GET", path)
        assert (status, headers["content-type"].partition(";")[0]) == (200, kind)
    shown = served.call("explain", state=STATE)
    assert shown["sentence"].startswith("Token 0 gives 53%")
    refused = served.call("explain", state={"mechanism": "nothing"})
    assert refused["error"]["message"].startswith("unknown mechanism 'nothing'")


def test_the_token_in_the_address_becomes_a_cookie_for_this_port(served: Any) -> None:
    address = served.address.partition(served.host)[2]
    status, _, headers = served.send("GET", address, **{"X-Headwork-Token": None})
    cookie = headers["set-cookie"]
    assert status == 200
    assert cookie.startswith(f"headwork-{served.port}=")
    assert "HttpOnly; SameSite=Strict" in cookie
    given = {"X-Headwork-Token": None, "Cookie": cookie.partition(";")[0]}
    assert served.send("GET", "/lab.js", **given)[0] == 200


REFUSED: list[tuple[str, int, dict[str, Any]]] = [
    ("foreign host", 421, {"Host": "evil.example"}),
    ("foreign host by the port", 421, {"Host": "127.0.0.1"}),
    ("no host", 400, {"Host": None}),
    ("no token", 403, {"X-Headwork-Token": None}),
    ("wrong token", 403, {"X-Headwork-Token": "a-token-of-the-testz"}),
    ("token that is no ASCII", 403, {"X-Headwork-Token": "tök"}),
    ("foreign origin", 403, {"Origin": "https://evil.example"}),
    ("null origin", 403, {"Origin": "null"}),
    ("missing origin", 403, {"Origin": None}),
    ("oversized by its word", 413, {"Content-Length": "900000000"}),
]


@pytest.mark.parametrize(
    ("headers", "status"), [(h, s) for _, s, h in REFUSED], ids=[n for n, _, _ in REFUSED]
)
def test_refused_before_any_work(served: Any, no_work: None, headers: dict[str, Any], status: int) -> None:
    assert served.send("POST", "/call/explain", {"state": STATE}, **headers)[0] == status


def test_everything_needs_the_token(served: Any) -> None:
    for path in ("/", "/lab.js", "/lab.css", "/nothing", "/call/explain"):
        assert served.send("GET", path, **{"X-Headwork-Token": None})[0] == 403


@pytest.mark.parametrize(
    "path",
    ["/../pyproject.toml", "/%2e%2e/pyproject.toml", "/page/../../x", "/lab.js/../../x", "/call/../x", "//x"],
)
def test_no_path_climbs(served: Any, no_work: None, path: str) -> None:
    for method in ("GET", "POST"):
        assert served.send(method, path)[0] in (404, 405)


def test_what_is_no_call_or_no_json(served: Any) -> None:
    assert served.send("POST", "/call/__init__", {})[0] == 404
    assert served.send("POST", "/call/explain", b"{")[0] == 400
    assert served.send("POST", "/call/explain", b"[" * 100_000)[0] == 400
    assert served.send("GET", "/call/explain")[0] == 405
    assert json.loads(served.send("POST", "/call/explain", b"[]")[1])["error"]["message"]


def test_an_endless_body_is_cut_off(served: Any, no_work: None) -> None:
    """Chunks without an end: refused once they are too many, whatever was promised."""
    head = (
        f"POST /call/explain HTTP/1.1\r\nHost: {served.host}\r\nOrigin: http://{served.host}\r\n"
        "X-Headwork-Token: a-token-of-the-tests\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", served.port), timeout=20) as connection:
        connection.sendall(head.encode())
        sent = 0
        try:
            while sent < 50_000_000:
                connection.sendall(b"ffff\r\n" + b" " * 0xFFFF + b"\r\n")
                sent += 0xFFFF
        except OSError:
            pass
        else:
            raise AssertionError("the server took all of it")
    assert sent < 20_000_000
    assert served.send("GET", "/")[0] == 200


def test_a_client_that_goes_away_leaves_nothing_running(served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    began: list[float] = []
    ended: list[str] = []

    def endless(name: str, request: Any) -> dict[str, Any]:
        began.append(time.monotonic())
        try:
            while True:
                sum(range(1000))
        except server.CallAborted:
            ended.append("given up")
            raise

    monkeypatch.setattr(server, "run_call", endless)
    body = json.dumps({"state": STATE}).encode()
    head = (
        f"POST /call/explain HTTP/1.1\r\nHost: {served.host}\r\nOrigin: http://{served.host}\r\n"
        f"X-Headwork-Token: a-token-of-the-tests\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", served.port)) as connection:
        connection.sendall(head.encode() + body)
        while not began:
            time.sleep(0.01)
    for _ in range(500):
        if ended:
            break
        time.sleep(0.01)
    assert ended == ["given up"]
    monkeypatch.undo()
    assert served.call("explain", state=STATE)["sentence"]


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
def test_the_command_prints_an_address_and_ends_cleanly() -> None:
    command = [sys.executable, "-m", "headwork", "lab", "A2", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        line = running.stdout.readline()
        found = re.fullmatch(
            r"The lab is at http://127\.0\.0\.1:(\d+)/\?token=([\w-]{32})#/problems/task2/b\n", line
        )
        assert found is not None, line
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", int(found[1])), timeout=1).close()
                break
            except OSError:
                time.sleep(0.05)
        os.kill(running.pid, signal.SIGINT)
        _, error = running.communicate(timeout=20)
    assert error == ""
    assert running.returncode == 0


def test_a_port_that_is_taken_is_an_error_in_words(served: Any, headwork_command: Any) -> None:
    import headwork.cli.learn  # noqa: F401

    code, _, error = headwork_command("lab", "--port", served.port, "--no-browser")
    assert code == 2
    assert f"cannot listen on 127.0.0.1:{served.port}" in error
    assert "Choose another --port" in error

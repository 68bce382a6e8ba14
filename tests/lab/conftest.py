"""A server of the lab in a thread, a browser, and the page as one file, each made once."""

from __future__ import annotations

import asyncio
import http.client
import json
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

TOKEN = "a-token-of-the-tests"
NUMBERS = ["0", "1", "2", "3", "-1", "-2", "1/2", "0.5", "3/2", "-0.25", "1.5", "sqrt(2)"]
SLOW = ("Whole models", "Recurrence", "Inside a block")
WHOLE = (
    "places",
    "tokens",
    "rows",
    "columns",
    "source",
    "target",
    "images",
)  # of some mechanisms whole numbers


def redrawn(value: Any, draw: random.Random) -> Any:
    return [redrawn(part, draw) for part in value] if isinstance(value, list) else draw.choice(NUMBERS)


def random_states(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """So many states, every mechanism in turn: its example with other numbers, exact where that is quick."""
    from headwork.lab.calls import EXAMPLES, example_state

    draw = random.Random(seed)
    slugs = list(EXAMPLES)
    for number in range(count):
        slug = slugs[number % len(slugs)]
        state = example_state(slug).as_data()
        model, group = "random" in state, EXAMPLES[slug]["group"]
        keep = WHOLE if model or group == "Positions" else ()
        state["inputs"] = {
            name: value if name in keep else redrawn(value, draw) for name, value in state["inputs"].items()
        }
        if model:
            state["random"] = draw.randrange(100)
        if "beta" in state.get("options", {}):
            state["options"] = {**state["options"], "beta": draw.choice(["0", "1", "1/2", "2", "oo", "0.3"])}
        if draw.random() < (0.05 if group in SLOW else 0.6):
            state["exact"] = True
        yield state


@pytest.fixture(scope="session")
def states() -> Any:
    """``random_states``, for the tests that import nothing from here."""
    return random_states


class Served:
    """A running server, and requests to it that may lie about anything."""

    def __init__(self, port: int, app: Any) -> None:
        self.port, self.app = port, app
        self.host = f"127.0.0.1:{port}"

    @property
    def address(self) -> str:
        return f"http://{self.host}/?token={TOKEN}"

    def send(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> tuple[int, bytes, dict[str, str]]:
        """``Host_``, ``Origin`` and the token are as they should be, unless given; None leaves one out."""
        given = {"Host": self.host, "X-Headwork-Token": TOKEN, "Origin": f"http://{self.host}", **headers}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.putrequest(method, path, skip_host=True)
            data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
            for name, value in given.items():
                if value is not None:
                    connection.putheader(name, value)
            if "Content-Length" not in given:
                connection.putheader("Content-Length", str(len(data)))
            connection.endheaders(data)
            answer = connection.getresponse()
            return answer.status, answer.read(), {k.lower(): v for k, v in answer.getheaders()}
        finally:
            connection.close()

    def call(self, name: str, **request: Any) -> dict[str, Any]:
        status, body, _ = self.send("POST", f"/call/{name}", request)
        assert status == 200, body
        return json.loads(body)  # type: ignore[no-any-return]


@pytest.fixture(scope="session")
def served() -> Iterator[Served]:
    import uvicorn

    from headwork.lab.server import _listen, application, server_config, warm_up

    warm_up()

    listening = _listen("127.0.0.1", 0)
    port = listening.getsockname()[1]
    app = application(TOKEN, frozenset({f"127.0.0.1:{port}", f"localhost:{port}"}))
    server = uvicorn.Server(server_config(app))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listening])), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield Served(port, app)
    server.should_exit = True
    thread.join(10)


@pytest.fixture
def opened(browser: Any) -> Iterator[Any]:
    """Opens an address in a context of its own; at the end, says what the page complained of."""
    complaints: list[str] = []
    contexts = []

    def opening(address: str, width: int = 1280, height: int = 720, touch: bool = False, **more: Any) -> Any:
        size = {"width": width, "height": height}
        context = browser.new_context(viewport=size, has_touch=touch, is_mobile=touch, **more)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda m: complaints.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(address)
        page.locator("body[data-open]").wait_for(state="attached")
        return page

    yield opening
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.fixture(scope="session")
def one_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page as one file, with two of the problems."""
    from headwork.lab import page

    whole = page.run_call

    def fewer(name: str, request: Any) -> Any:
        left_out = name == "problem" and request["slug"] not in ("A1", "A2")
        return {"error": {"message": "left out"}} if left_out else whole(name, request)

    page.run_call = fewer  # type: ignore[attr-defined]
    try:
        path = tmp_path_factory.mktemp("lab") / "course.html"
        path.write_bytes(page.one_file())
    finally:
        page.run_call = whole  # type: ignore[attr-defined]
        page.precomputed_answers.cache_clear()
    return path

"""The local server: the page, its style and script, and the calls, for whoever has the token.

Before any work is done a request must name this host, carry the token, and, where it asks for something to be
worked out, come from this page and be small. Work is done in a few threads; what a client no longer waits for
is given up. A connection that asks for nothing, or does not read its answer, is closed.
"""

import asyncio
import contextlib
import ctypes
import json
import secrets
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from headwork.errors import InputError
from headwork.lab.calls import CALLS, FIRST_MECHANISM, example_state, run_call
from headwork.lab.look_inside import FOREIGN_PREFIX
from headwork.lab.page import MAX_BODY, SERVED_POLICY, script, served_page, style

BODY_SECONDS = 10  # for the whole of it
CALL_SECONDS = 20  # for its answer; the longest that the page asks for takes three
IDLE_SECONDS = 30  # of a connection without a whole request, or with an answer that is not read
MAX_CONNECTIONS = 200
THREADS = 4
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
HEADERS = {
    "Content-Security-Policy": SERVED_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def refusal_response(words: str, status: int) -> Response:
    """A refusal. The connection ends with it, so that nothing more of the request is read."""
    return PlainTextResponse(words, status, headers={"Connection": "close"})


class CallAborted(BaseException):
    """Raised inside a call that takes too long, or whose client has gone away."""


class RequestGuard:
    """Refuses what is not for us, before any work: foreign hosts and origins, a missing or wrong token."""

    def __init__(self, app: ASGIApp, token: str, hosts: frozenset[str]) -> None:
        self.app, self.token, self.hosts = app, token, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        request = Request(scope)
        if refusal := self.refusal(request):
            await refusal(scope, receive, send)
            return
        await self.app(scope, receive, self._with_headers(send, request))

    def refusal(self, request: Request) -> Response | None:
        if request.scope["type"] != "http":
            return refusal_response("no such thing here", 404)
        host = request.headers.get("host", "")
        if host not in self.hosts:
            return refusal_response("foreign host", 421)
        token = (
            request.query_params.get("token")
            or request.headers.get("x-headwork-token")
            or request.cookies.get(self.cookie(host))
            or ""
        )
        if not secrets.compare_digest(token.encode(), self.token.encode()):
            return refusal_response("Open the address that headwork lab printed: it has the token.", 403)
        length = request.headers.get("content-length", "0")
        if request.method in ("GET", "HEAD"):  # nothing would read a body to its end
            if length != "0" or "transfer-encoding" in request.headers:
                return refusal_response("no body is read here", 413)
        elif request.headers.get("origin", "") not in (f"http://{host}", f"https://{host}"):
            return refusal_response("foreign origin", 403)
        elif not length.isdecimal() or len(length) > 9 or int(length) > max_body(request):
            return refusal_response(f"at most {max_body(request):,} bytes", 413)
        return None

    @staticmethod
    def cookie(host: str) -> str:
        """Cookies are shared by the ports of a host: each server has its own."""
        return f"headwork-{host.rpartition(':')[2]}"

    def _with_headers(self, send: Send, request: Request) -> Send:
        by_address = request.query_params.get("token") is not None
        cookie = f"{self.cookie(request.headers['host'])}={self.token}; HttpOnly; SameSite=Strict; Path=/"

        async def sending(message: Any) -> None:
            if message["type"] == "http.response.start":
                headers = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
                headers += [(b"set-cookie", cookie.encode())] if by_address else []
                message = {**message, "headers": [*message["headers"], *headers]}
            await send(message)

        return sending


class Connection(H11Protocol):
    """A connection that is closed where it is idle for long, and before others where there are too many."""

    idle: asyncio.TimerHandle  # cancelled while a request is under way

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.idle = self.loop.call_later(IDLE_SECONDS, self.close)
        waiting = [c for c in self.connections if isinstance(c, Connection) and not c.idle.cancelled()]
        if len(self.connections) > MAX_CONNECTIONS:
            min(waiting, key=lambda connection: connection.idle.when()).close()

    def handle_events(self) -> None:
        super().handle_events()
        if self.cycle is not None and not self.cycle.response_complete:
            self.idle.cancel()

    def on_response_complete(self) -> None:
        self.idle = self.loop.call_later(IDLE_SECONDS, self.close)
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self.idle.cancel()
        super().connection_lost(exc)

    def close(self) -> None:
        """At once: whoever does not read would hold an answer back for ever."""
        self.idle.cancel()
        self.transport.abort()


def max_body(request: Request) -> int:
    """How many bytes a request may have."""
    return MAX_BODY.get(request.url.path.removeprefix("/call/"), MAX_BODY[""])


async def read_body(request: Request) -> bytes | None:
    """The body within its limits of size and time; None where it goes beyond them."""
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > max_body(request):
                    return None
    except TimeoutError:
        return None
    return bytes(body)


class CallRunner:
    """Works calls out in threads, and gives up those that take too long or whose clients have gone.

    Models of other libraries have a thread of their own and no limit: they are slow, and nothing may break
    off torch.
    """

    def __init__(self) -> None:
        self.pool = ThreadPoolExecutor(THREADS, thread_name_prefix="lab")
        self.foreign = ThreadPoolExecutor(1, thread_name_prefix="lab-foreign")

    async def run(self, request: Request, name: str, data: Any) -> dict[str, Any] | None:
        """The answer, or None where the client went away before it."""
        started: list[int] = []

        def call() -> dict[str, Any]:
            started.append(threading.get_ident())
            try:
                return run_call(name, data)
            except CallAborted:
                return {}
            finally:
                started.clear()

        pool = self.foreign if _is_foreign(data) else self.pool
        waiting = asyncio.wrap_future(future := pool.submit(call))
        disconnected = asyncio.ensure_future(_wait_for_disconnect(request))
        try:
            either: set[asyncio.Future[Any]] = {waiting, disconnected}
            limit = CALL_SECONDS if pool is self.pool else None
            await asyncio.wait(either, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
            if waiting.done():
                return waiting.result()
            if not future.cancel() and pool is self.pool:
                for thread in started:
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(
                        ctypes.c_ulong(thread), ctypes.py_object(CallAborted)
                    )
            words = f"This takes more than {CALL_SECONDS} s. Take fewer or simpler numbers, or decimals."
            return None if disconnected.done() else {"error": {"message": words, "kind": "too large"}}
        finally:
            disconnected.cancel()


def _is_foreign(data: Any) -> bool:
    """Whether a request names a model of another library."""
    names = (data.get("model"), data.get("name")) if isinstance(data, dict) else ()
    return any(isinstance(name, str) and name.startswith(FOREIGN_PREFIX) for name in names)


async def _wait_for_disconnect(request: Request) -> None:
    """Ends when the client has gone away."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def application(token: str, hosts: frozenset[str]) -> ASGIApp:
    """The server as an ASGI application."""
    runner = CallRunner()
    page, css, js = served_page(), style(), script()

    async def send_text(content: str, kind: str, request: Request) -> Response:
        return Response(content, media_type=kind)

    async def call_route(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in CALLS:
            return refusal_response("no such call", 404)
        try:
            body = await read_body(request)
            if body is None:
                return refusal_response(f"at most {max_body(request):,} bytes within {BODY_SECONDS} s", 413)
            data = json.loads(body)
        except (ValueError, RecursionError):
            return refusal_response("not JSON", 400)
        except ClientDisconnect:
            return Response(status_code=499)
        result = await runner.run(request, name, data)
        if result is None:
            return Response(status_code=499)
        content = json.dumps(result, ensure_ascii=False, allow_nan=False)
        return Response(content.encode(errors="replace"), media_type="application/json")

    routes = [
        Route("/", partial(send_text, page, "text/html")),
        Route("/lab.css", partial(send_text, css, "text/css")),
        Route("/lab.js", partial(send_text, js, "text/javascript")),
        Route("/call/{name}", call_route, methods=["POST"]),
    ]
    return RequestGuard(Starlette(routes=routes), token, hosts)


def warm_up() -> None:
    """Work the first screen exactly, so that nobody waits for SymPy to be imported."""
    run_call("explain", {"state": {**example_state(FIRST_MECHANISM).as_data(), "exact": True}})


def server_config(app: ASGIApp) -> uvicorn.Config:
    """How the application is served."""
    quiet: Any = {"log_level": "error", "access_log": False, "lifespan": "off", "server_header": False}
    times: Any = {"timeout_keep_alive": IDLE_SECONDS, "timeout_graceful_shutdown": 1}
    # So many are accepted at once, before any is closed; those just closed are still counted.
    sizes: Any = {"backlog": 64, "limit_concurrency": 2 * MAX_CONNECTIONS}
    return uvicorn.Config(
        app, http=Connection, h11_max_incomplete_event_size=32_768, **quiet, **times, **sizes
    )


def serve(*, host: str, port: int, announce: Callable[[str], None]) -> None:
    """Serve until interrupted; ``announce`` gets the address with its token once the server listens."""
    token = secrets.token_urlsafe(24)
    listening = _listen(host, port)
    port = listening.getsockname()[1]
    names = LOOPBACK if host == "127.0.0.1" else (*LOOPBACK, host, *_own_names())
    hosts = frozenset(f"{name}:{port}" for name in names)
    server = uvicorn.Server(server_config(application(token, hosts)))
    shown_host = "127.0.0.1" if host in ("0.0.0.0", "127.0.0.1") else host
    with contextlib.suppress(KeyboardInterrupt):
        announce(f"http://{shown_host}:{port}/?token={token}")
        threading.Thread(target=warm_up, daemon=True).start()
        asyncio.run(server.serve(sockets=[listening]))


def _own_names() -> list[str]:
    """What others may call this computer, where it listens beyond itself."""
    name = socket.gethostname()
    with contextlib.suppress(OSError):
        return [name, socket.getfqdn(), *socket.gethostbyname_ex(name)[2]]
    return [name]


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        reason = str(error.strerror).partition(" (")[0]
        raise InputError(f"lab: cannot listen on {host}:{port}: {reason}. Choose another --port.") from None
    # Connections inherit it. Else an answer may wait 40 ms for the other side.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening

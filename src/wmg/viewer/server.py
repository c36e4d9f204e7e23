"""The live viewer's server: one page, one kind of message, for one person on one machine.

The address holds a token that only its reader knows. Without it, from pages of other sites,
under other names of this machine, or with anything but a small JSON message, nothing is
answered. Files come from a fixed table, so no path leads anywhere else.
"""

import asyncio
import contextlib
import errno
import hmac
import json
import secrets
import socket
import threading
import webbrowser
from collections.abc import Iterator
from typing import Any

from wmg.tools.errors import BadInput, quote
from wmg.viewer.session import ViewerSession

try:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route
    from uvicorn.protocols.http.h11_impl import H11Protocol
except ImportError as error:
    raise BadInput("the viewer needs starlette and uvicorn: pip install 'wmg[view]'") from error

LARGEST_MESSAGE = 16_384
"""Bytes."""
LONGEST_SILENCE = 30.0
"""Seconds after which a connection is dropped whose client owes a request, or the rest of one."""
LOOPBACK = "127.0.0.1"
KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def application(session: ViewerSession, token: str, port: int, loopback: bool = True) -> Starlette:
    """The web application. On the loopback address it must be called by a name of that."""
    own = {f"{name}:{port}" for name in (LOOPBACK, "localhost")} if loopback else None

    def refusal(request: Request) -> str | None:
        host = request.headers.get("host", "")
        origin = request.headers.get("origin")
        if own is not None and host not in own:
            return "this machine is not called so"
        if origin is None and request.method == "POST":
            return "a message must say which page it comes from"
        if origin is not None and origin != f"http://{host}":
            return "another site may not look in here"
        given = request.path_params["token"].encode()
        if not hmac.compare_digest(given, token.encode()):
            return "the address lacks the right token: wmg view prints the whole of it"
        return None

    async def get(request: Request) -> Response:
        if reason := refusal(request):
            return refuse(403, reason)
        name = request.path_params.get("file", "") or "index.html"
        if name not in session.files:
            return refuse(404, "there is no such file")
        kind = KINDS[name.rpartition(".")[2]]
        return Response(session.files[name], media_type=kind, headers=HEADERS)

    async def post(request: Request) -> Response:
        if reason := refusal(request):
            return refuse(403, reason)
        if request.headers.get("content-type") != "application/json":
            return refuse(415, "a message must be application/json")
        try:
            body = await read(request)
        except ClientDisconnect:
            return refuse(400, "the message broke off")
        if body is None:
            return refuse(413, f"a message has at most {LARGEST_MESSAGE:,} bytes")
        try:
            message = json.loads(body)
        except (ValueError, RecursionError):
            return refuse(400, "the message is not JSON")
        try:
            answer = await run_in_threadpool(session.handle, message)
        except BadInput as error:
            return refuse(400, str(error))
        return JSONResponse(answer, headers=HEADERS)

    nobody = Route("/{rest:path}", lambda request: refuse(403, "the address lacks its token"))
    routes = [
        Route("/{token}/message", post, methods=["POST"]),
        Route("/{token}/{file:path}", get, methods=["GET"]),
        nobody,
    ]
    app = Starlette(routes=routes)
    app.router.redirect_slashes = False  # a request without a path is refused like any other
    return app


def refuse(status: int, reason: str) -> Response:
    """An answer that says why there is none."""
    return JSONResponse({"error": reason}, status, headers=HEADERS)


async def read(request: Request) -> bytes | None:
    """The body of a request; None, and no more of it than that, if it is too long."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > LARGEST_MESSAGE:
            return None
    return body


class ImpatientProtocol(H11Protocol):
    """Drops connections that send nothing, which would otherwise stay open for ever."""

    silence: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        self._wait()
        super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.silence is not None:
            self.silence.cancel()
        super().connection_lost(exc)

    def _wait(self) -> None:
        if self.silence is not None:
            self.silence.cancel()
        self.silence = self.loop.call_later(LONGEST_SILENCE, self._drop)

    def _drop(self) -> None:
        """Close the connection, unless it is the server that owes an answer."""
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete and not cycle.more_body:
            self._wait()
        else:
            self.transport.close()


@contextlib.contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """A socket that listens there; port 0 is any that is free."""
    # asyncio sends at once, and not 40 ms later, only where the protocol is named.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except (OSError, UnicodeError) as error:  # the latter for a name that is too long
            taken = getattr(error, "errno", None) in (errno.EADDRINUSE, errno.EACCES)
            advice = "give another --port, or none to take a free one"
            advice = advice if taken else "--host must be an IPv4 address or name of this machine"
            why = getattr(error, "strerror", error)
            raise BadInput(
                f"cannot listen on {quote(host)[1:-1]}:{port} ({why}): {advice}"
            ) from None
        except OverflowError:
            raise BadInput(f"port must be from 0 to 65535, got {port}") from None
        listener.listen()
        yield listener


def make_server(session: ViewerSession, listener: socket.socket, token: str) -> Any:
    """A server for one session. It is started with `run(sockets=[listener])`."""
    host, port = listener.getsockname()
    app = application(session, token, port, host == LOOPBACK)
    settings = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        http=ImpatientProtocol,
        lifespan="off",
        ws="none",
        timeout_graceful_shutdown=1,
        h11_max_incomplete_event_size=LARGEST_MESSAGE,
    )
    return uvicorn.Server(settings)


def serve(session: ViewerSession, host: str, port: int, browser: bool) -> None:
    """Show a session in the browser until Ctrl-C."""
    with listening(host, port) as listener:
        token = secrets.token_urlsafe(16)
        address = f"http://{host}:{listener.getsockname()[1]}/{token}/"
        print(f"{address}\nCtrl-C ends the viewer", flush=True)
        if host != LOOPBACK:
            print("whoever can reach this machine and knows that address can use it", flush=True)
        if browser:
            open_browser(address)
        with contextlib.suppress(KeyboardInterrupt):
            make_server(session, listener, token).run(sockets=[listener])


@contextlib.contextmanager
def serving(session: ViewerSession) -> Iterator[str]:
    """The address of a session that is shown in the background, to scripts that look at it."""
    with listening(LOOPBACK, 0) as listener:
        token = secrets.token_urlsafe(16)
        server = make_server(session, listener, token)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://{LOOPBACK}:{listener.getsockname()[1]}/{token}/"
        finally:
            server.should_exit = True
            thread.join()


def open_browser(address: str) -> None:
    """Open the address in a browser, in the background: some end only when they are closed."""
    try:
        opened = webbrowser.get()
    except webbrowser.Error:
        print("no browser was found here: open the address above yourself", flush=True)
        return
    threading.Thread(target=opened.open, args=(address,), daemon=True).start()

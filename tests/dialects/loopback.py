"""A dialect on a loopback socket and nothing behind it: the routes, the parsers and the encoders, for a vendor's SDK.

Each event is sent as a chunk of its own, so that an SDK sees a stream and not a body.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl

from rivermouth.dialects.dialect import Answer, Dialect, Operation, Route, ServerInfo, Surface
from rivermouth.http.routes import Match, Routes
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.events import Event
from rivermouth.ir.fold import fold
from rivermouth.ir.reply import ModelInfo
from rivermouth.ir.request import Request

Say = Callable[[Request], list[Event] | ApiError]


class Loopback:
    """`say` decides what a request is answered; `requests`, `headers` and `surfaces` keep what came."""

    def __init__(self, dialect: Dialect, say: Say) -> None:
        self.dialect = dialect
        self.say = say
        self.cut = False  # end streams cleanly in the middle of their last event
        self.url = ""
        self.requests: list[Request] = []
        self.headers: list[dict[str, str]] = []
        self.surfaces: list[Surface] = []
        self._routes = Routes([dialect])

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        raw, _, query = handler.path.partition("?")
        named = {name.lower(): value for name, value in handler.headers.items()}
        body = handler.rfile.read(int(named.get("content-length", "0")))
        found = self._routes.find(handler.command, raw, [(n.encode(), v.encode()) for n, v in named.items()])
        self.headers.append(named)
        try:
            if not isinstance(found, Match):
                raise ApiError(Kind.NOT_FOUND, "unknown url", code="unknown_url")
            surface = found.surface
            if self.dialect.variant is not None:
                surface = self.dialect.variant(surface, found.route, dict(parse_qsl(query)), named)
            self.surfaces.append(surface)
            self._serve(handler, found, surface, body)
        except ApiError as error:
            failure = self.dialect.encode_error(error, "call-1")
            _document(handler, failure.status, failure.body, dict(failure.headers))

    def _serve(self, handler: BaseHTTPRequestHandler, found: Match, surface: Surface, body: bytes) -> None:
        if found.route.operation is not Operation.GENERATE:
            _document(handler, 200, self._told(found.route, body, found.model, surface))
            return
        request = self.dialect.parse_request(body, found.route, found.model)
        self.requests.append(request)
        said = self.say(request)
        if isinstance(said, ApiError):
            raise said
        answer = self._about(found.route, surface, request)
        if request.stream:
            self._stream(handler, answer, said)
        else:
            _document(handler, 200, self.dialect.encode_reply(fold(said), answer))

    def _told(self, route: Route, body: bytes, model: str | None, surface: Surface) -> bytes:
        info = ModelInfo(id="lab/x", owner="lab", context_tokens=4096)
        match route.operation:
            case Operation.MODELS:
                assert self.dialect.encode_models is not None
                return self.dialect.encode_models([info], route)
            case Operation.COUNT_TOKENS:
                assert self.dialect.encode_count is not None
                request = self.dialect.parse_request(body, route, model)
                return self.dialect.encode_count(len(request.messages[0].text.split()))
            case operation:
                about: Any = ServerInfo(version="1.0", model=info) if operation is Operation.INFO else None
                return self.dialect.documents[operation](about, self._about(route, surface, None))

    def _about(self, route: Route, surface: Surface, request: Request | None) -> Answer:
        return Answer(
            id="call-1",
            model=request.model if request is not None else "",
            created_ns=1_700_000_000_000_000_000,
            surface=surface,
            kind=route.kind,
            request=request,
            total_ns=5_000_000,
        )

    def _stream(self, handler: BaseHTTPRequestHandler, answer: Answer, events: list[Event]) -> None:
        handler.send_response(200)
        handler.send_header("content-type", answer.surface.stream_type)
        handler.send_header("transfer-encoding", "chunked")
        handler.end_headers()
        encoder = self.dialect.encoder(answer)
        for event in events:
            data = encoder.feed([event])
            if self.cut and event is events[-1]:
                data = data[: len(data) // 2]
            if data:
                handler.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        handler.wfile.write(b"0\r\n\r\n")


def _document(handler: BaseHTTPRequestHandler, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
    handler.send_response(status)
    for name, value in {"content-type": "application/json", **(headers or {})}.items():
        handler.send_header(name, value)
    handler.send_header("content-length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


@contextmanager
def loopback(dialect: Dialect, say: Say) -> Iterator[Loopback]:
    """The dialect, served on a free port until the block ends."""
    served = Loopback(dialect, say)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 10

        def do_POST(self) -> None:
            served.answer(self)

        def do_GET(self) -> None:
            served.answer(self)

        def log_message(self, *args: Any) -> None:
            """Silent."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False

    with Server(("127.0.0.1", 0), Handler) as server:
        served.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield served
        finally:
            server.shutdown()
            thread.join()

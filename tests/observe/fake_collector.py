"""A fake collector of traces on a real socket: it takes OTLP over HTTP and keeps every span, decoded.

    with FakeCollector() as collector:
        ...                                 OTEL_EXPORTER_OTLP_ENDPOINT=collector.url
        spans = collector.wait(3)           the first three spans, as soon as they are here

`status` is what it answers; while `hold` is set it answers nothing at all.
"""

from __future__ import annotations

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as WireSpan

DEADLINE_S: Final = 10.0


class Span(NamedTuple):
    """One span as it came, and the resource that it belongs to."""

    wire: WireSpan
    resource: dict[str, Any]

    @property
    def name(self) -> str:
        return self.wire.name

    @property
    def trace_id(self) -> str:
        return self.wire.trace_id.hex()

    @property
    def span_id(self) -> str:
        return self.wire.span_id.hex()

    @property
    def parent_id(self) -> str:
        """ "" for none."""
        return self.wire.parent_span_id.hex()

    @property
    def attributes(self) -> dict[str, Any]:
        return values(self.wire.attributes)

    @property
    def failed(self) -> bool:
        return self.wire.status.code == 2


def values(pairs: Any) -> dict[str, Any]:
    return {pair.key: value_of(pair.value) for pair in pairs}


def value_of(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [value_of(each) for each in value.array_value.values]
    return getattr(value, kind)


class FakeCollector:
    """Listens on loopback, a thread for each connection."""

    def __init__(self) -> None:
        self.status = 200
        self.hold = threading.Event()
        self.released = threading.Event()
        self.requests: list[dict[str, str]] = []
        self.raw = b""
        self._spans: list[Span] = []
        self._came = threading.Condition()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def wait(self, count: int) -> list[Span]:
        """All spans, as soon as there are so many."""
        with self._came:
            assert self._came.wait_for(lambda: len(self._spans) >= count, DEADLINE_S), [s.name for s in self._spans]
            return list(self._spans)

    def wait_asked(self, count: int) -> None:
        """Returns when so many requests have come, whatever became of them."""
        with self._came:
            assert self._came.wait_for(lambda: len(self.requests) >= count, DEADLINE_S)

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        collector = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                status = collector.take(self.path, dict(self.headers), body)
                self.send_response(status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *arguments: object) -> None:
                """Says nothing."""

        return Handler

    def take(self, path: str, headers: dict[str, str], body: bytes) -> int:
        """Keep what one request brings; the status of its answer."""
        with self._came:
            status, held = self.status, self.hold.is_set()
            self.requests.append({"path": path, **{name.lower(): value for name, value in headers.items()}})
            self._came.notify_all()
        if held:
            self.released.wait(DEADLINE_S)
        if status == 200:
            plain = gzip.decompress(body) if headers.get("Content-Encoding") == "gzip" else body
            found = ExportTraceServiceRequest.FromString(plain)
            with self._came:
                self.raw += plain
                self._spans += [
                    Span(wire, values(group.resource.attributes))
                    for group in found.resource_spans
                    for scope in group.scope_spans
                    for wire in scope.spans
                ]
                self._came.notify_all()
        return status

"""A wire that is cut: passes requests on, and of each answer only what comes before the end."""

from __future__ import annotations

import http.client
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, ClassVar, Final, Self

CUT_BEFORE: Final = b" said:"
"""The scripted model's second token: one has gone through when the wire is cut."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    upstream_port: ClassVar[int]

    def do_POST(self) -> None:
        """/ended/... ends the body as if that were all, /torn/... closes the connection in the middle of it."""
        how, _, path = self.path[1:].partition("/")
        request = self.rfile.read(int(self.headers["content-length"]))
        asked = http.client.HTTPConnection("127.0.0.1", self.upstream_port, timeout=10)
        try:
            asked.request("POST", f"/{path}", request, {"content-type": "application/json"})
            answer = asked.getresponse()
            kept = answer.read().partition(CUT_BEFORE)[0]
            kept = kept[: kept.rfind(b"\n") + 1]  # whole lines: what is lost is the rest, not the last of these
            self.send_response(answer.status)
            self.send_header("content-type", answer.headers["content-type"])
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"%x\r\n%b\r\n" % (len(kept), kept))
            if how == "ended":
                self.wfile.write(b"0\r\n\r\n")
        finally:
            asked.close()
        self.close_connection = True

    def log_message(self, *args: Any) -> None:
        """Says nothing."""


class Cutter:
    """Listens on a port of its own while inside."""

    def __init__(self, upstream_port: int) -> None:
        handler = type("Handler", (_Handler,), {"upstream_port": upstream_port})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

"""HTTP on a bare socket: exactly the bytes that were sent, and each as soon as it is here."""

from __future__ import annotations

import json
import socket
from functools import cached_property
from types import TracebackType
from typing import Any, Self

from tests.sdk.served import DEADLINE_S

READ_BYTES = 65536


class Wire:
    """One request on a connection of its own.

    status, headers: the head, names in lower case.  `body` is what has come so far, with the chunks joined.
    """

    def __init__(
        self, port: int, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> None:
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        lines = [f"{method} {path} HTTP/1.1", "host: 127.0.0.1"]
        lines += [f"content-length: {len(data)}"] if data else []
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        self._socket = socket.create_connection(("127.0.0.1", port), DEADLINE_S)
        self._socket.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + data)
        self._raw = b""
        self._at = 0
        self._method = method
        self.body = b""
        self.ended = False

    @cached_property
    def status(self) -> int:
        return self._head[0]

    @property
    def pairs(self) -> list[tuple[str, str]]:
        return self._head[1]

    @cached_property
    def headers(self) -> dict[str, str]:
        return dict(self.pairs)

    @cached_property
    def _head(self) -> tuple[int, list[tuple[str, str]]]:
        """Read when it is wanted: a server may hold it until it knows how the answer begins."""
        head = self._until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        pairs = [(n.lower(), v.strip()) for n, _, v in (line.partition(":") for line in head[1:] if line)]
        return int(head[0].split()[1]), pairs

    def read_until(self, mark: bytes) -> bytes:
        """All of the body so far, as soon as `mark` is in it."""
        assert self.headers["transfer-encoding"] == "chunked"
        while mark not in self.body:
            assert not self.ended, f"the body ended without {mark!r}: {self.body!r}"
            self._chunk()
        return self.body

    def read(self) -> bytes:
        """The whole body, to its proper end; again what was read."""
        if self._method == "HEAD":
            return b""
        if "content-length" in self.headers and not self.ended:
            self.body = self._take(int(self.headers["content-length"]))
            self.ended = True
        while not self.ended:
            self._chunk()
        return self.body

    def json(self) -> Any:
        return json.loads(self.read())

    def close(self) -> None:
        self._socket.close()

    def _chunk(self) -> None:
        size = int(self._until(b"\r\n"), 16)
        self.body += self._take(size)
        assert self._take(2) == b"\r\n"
        self.ended = size == 0

    def _until(self, mark: bytes) -> bytes:
        while (end := self._raw.find(mark, self._at)) < 0:
            self._more()
        found = self._raw[self._at : end]
        self._at = end + len(mark)
        return found

    def _take(self, size: int) -> bytes:
        while len(self._raw) < self._at + size:
            self._more()
        self._at += size
        return self._raw[self._at - size : self._at]

    def _more(self) -> None:
        data = self._socket.recv(READ_BYTES)
        assert data, f"the connection was cut after {self._raw[self._at :]!r}"
        self._raw += data

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def frames(body: bytes) -> list[Any]:
    """The JSON of each `data:` line of an event stream; `[DONE]` as the text that it is."""
    found = []
    for block in body.decode().split("\n\n"):
        for line in block.split("\n"):
            if line.startswith("data: "):
                text = line.removeprefix("data: ")
                found.append(text if text == "[DONE]" else json.loads(text))
    return found


def lines(body: bytes) -> list[Any]:
    """The objects of NDJSON."""
    assert body.endswith(b"\n")
    return [json.loads(line) for line in body.removesuffix(b"\n").split(b"\n")]

"""Pull: what a client asks, and the lines that show how far it is.

    {"status":"pulling manifest"}
    {"status":"pulling FILE","digest":"sha256:...","total":N,"completed":0} ... "completed":N     for each file
    {"status":"verifying sha256 digest"}
    {"status":"success"}                                                   or, at any point, {"error":"..."} and no more

Clients key their bars on `digest`, so it is the same in all lines of one file, and `completed` never goes back.
"""

from __future__ import annotations

from typing import Final, Protocol

import msgspec

from rivermouth.dialects.dialect import Answer
from rivermouth.dialects.ollama.bodies import reader
from rivermouth.dialects.ollama.failure import stream_error
from rivermouth.ir.errors import ApiError
from rivermouth.ir.names import model_name
from rivermouth.wire import json


class Step(Protocol):
    """Where a pull is: `status` is the line's own; the rest (bytes) is set on the lines of a file."""

    @property
    def status(self) -> str: ...
    @property
    def digest(self) -> str | None: ...
    @property
    def total(self) -> int | None: ...
    @property
    def completed(self) -> int | None: ...


class PullRequest(msgspec.Struct, frozen=True):
    """`stream` False: one answer at the end.  `insecure` is read, and never makes a pull skip its checks.

    accept_license: ours, not Ollama's own: the name of a restricted licence that the client accepts.
    """

    model: str
    stream: bool = True
    insecure: bool = False
    accept_license: str | None = None


class _Body(msgspec.Struct):
    model: str = ""
    name: str = ""
    stream: bool | None = None
    insecure: bool | None = None
    accept_license: str | None = None


_read: Final = reader(_Body)


def parse_pull(body: bytes) -> PullRequest:
    """`stream` absent means true.  Raises `ApiError` (invalid_request) with the field as `param`."""
    asked = _read(body)
    name = model_name(asked.model, asked.name)
    return PullRequest(name, asked.stream is not False, bool(asked.insecure), asked.accept_license)


def encode_progress(step: Step | ApiError, answer: Answer | None = None) -> bytes:
    """One line of the stream.  An error is the last line, as "success" is.

    Without a stream the answer is the last line alone (an error is then an HTTP error, by `encode_error`).
    """
    if isinstance(step, ApiError):
        return stream_error(step)
    members = {name: getattr(step, name) for name in ("status", "digest", "total", "completed")}
    return json.encode({name: value for name, value in members.items() if value is not None}) + b"\n"

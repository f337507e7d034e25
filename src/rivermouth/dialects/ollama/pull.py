"""Pull: what a client asks, and the lines that show how far it is.

    {"status":"pulling manifest"}
    {"status":"pulling FILE","digest":"sha256:...","total":N,"completed":0} ... "completed":N     for each file
    {"status":"verifying sha256 digest"}
    {"status":"success"}                                                   or, at any point, {"error":"..."} and no more

Clients key their bars on `digest`, so it is the same in all lines of one file, and `completed` never goes back.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

import msgspec

from rivermouth.dialects.dialect import Answer
from rivermouth.dialects.ollama.bodies import model_name, reader
from rivermouth.dialects.ollama.failure import stream_error
from rivermouth.ir.errors import ApiError
from rivermouth.wire import json


class Stage(StrEnum):
    """Where a pull is, in the words of the wire; FILE is completed by the file's name."""

    MANIFEST = "pulling manifest"
    FILE = "pulling"
    VERIFY = "verifying sha256 digest"
    SUCCESS = "success"


class Progress(msgspec.Struct, frozen=True):
    """One step.  For `Stage.FILE` all fields are set: the file's name, its "sha256:..." and how much of it is here."""

    stage: Stage
    file: str = ""
    digest: str = ""
    total_bytes: int = 0
    completed_bytes: int = 0


class PullRequest(msgspec.Struct, frozen=True):
    """`stream` False: one answer at the end.  `insecure` is read, and never makes a pull skip its checks."""

    model: str
    stream: bool = True
    insecure: bool = False


class _Body(msgspec.Struct):
    model: str = ""
    name: str = ""
    stream: bool | None = None
    insecure: bool | None = None


_read: Final = reader(_Body)


def parse_pull(body: bytes) -> PullRequest:
    """`stream` absent means true.  Raises `ApiError` (invalid_request) with the field as `param`."""
    asked = _read(body)
    return PullRequest(model_name(asked.model, asked.name), asked.stream is not False, bool(asked.insecure))


def encode_progress(step: Progress | ApiError, answer: Answer | None = None) -> bytes:
    """One line of the stream.  An error is the last line, as `Stage.SUCCESS` is.

    Without a stream the answer is the last line alone (an error is then an HTTP error, by `encode_error`).
    """
    if isinstance(step, ApiError):
        return stream_error(step)
    if step.stage is not Stage.FILE:
        return json.encode({"status": step.stage.value}) + b"\n"
    line: dict[str, Any] = {
        "status": f"{step.stage.value} {step.file}",
        "digest": step.digest,
        "total": step.total_bytes,
        "completed": step.completed_bytes,
    }
    return json.encode(line) + b"\n"

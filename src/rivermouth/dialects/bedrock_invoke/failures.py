"""Errors both ways: an HTTP answer whose header chooses the client's exception, and a member of the stream's union."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from rivermouth.dialects.bedrock_invoke.tables import KINDS, NAME, WORDINGS
from rivermouth.dialects.dialect import Failure
from rivermouth.ir.errors import ADVICE, ApiError, Kind, WireError, kind_of_status
from rivermouth.wire import json
from rivermouth.wire.aws_eventstream import ERROR, EXCEPTION
from rivermouth.wire.frame import Frame

TYPE_HEADER: Final = "x-amzn-errortype"
_TEXT_CAP_CHARS: Final = 2000
_TYPE: Final = re.compile(r"([A-Za-z]+)(?::.*)?")  # some services put the address of the type's page behind it
_SUFFIX: Final = b'Exception":'
_PEEK_BYTES: Final = 48  # a plain frame that is a failure begins with its member's name
# Statuses that mean something else here than elsewhere: 424 is the model's failure, not the client's.
_STATUSES: Final[dict[int, Kind]] = {424: Kind.UPSTREAM}
# A status that says which kind it is; with any other the type says more.
_TOO_LARGE: Final = 413


class _Said(msgspec.Struct):
    message: str | None = None
    upper: str | None = msgspec.field(name="Message", default=None)
    type: str | None = msgspec.field(name="__type", default=None)
    code: str | None = None


_said: Final = json.typed(_Said)


def encode_error(error: ApiError, call_id: str) -> Failure:
    """An error before the stream.  Without the header a client would know nothing but the status."""
    wording = WORDINGS[error.kind]
    own = error.status != ADVICE[error.kind].status
    return Failure(
        status=error.status if own else wording.status,
        body=error_body(error),
        headers={"x-amzn-errortype": wording.type},
    )


def error_body(error: ApiError) -> bytes:
    """The protocol has no `param`: the sentence begins with the field, where it does not name it anyway."""
    text = error.message or error.kind.value
    if error.param and error.param not in text:
        text = f"{error.param}: {text}"
    return json.encode({"message": text})


def parse_error(status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """An upstream's HTTP error.  Never raises, whatever the body is."""
    named = {name.lower(): value for name, value in headers.items()}
    said = _read(body)
    word = named.get(TYPE_HEADER) or said.code or said.type or ""
    kind = _STATUSES.get(status) or kind_of_status(status)
    if status != _TOO_LARGE:
        kind = _kind(word, kind)
    text = said.message or said.upper or f"the upstream answered with status {status}"
    return ApiError(kind, text[:_TEXT_CAP_CHARS], provider=NAME)


def frame_error(frame: Frame) -> ApiError | None:
    """The failure that a frame is, in either framing; None for a frame that is none (F11)."""
    name = frame.name
    if name.startswith((EXCEPTION, ERROR)):
        return _stream_error(name.partition(":")[2], frame.data)
    if _SUFFIX in frame.data[:_PEEK_BYTES]:
        fields = json.fields(frame.data)
        for member, value in fields.items():
            if _known(member) is not None:
                return _stream_error(member, bytes(value))
    return None


def _stream_error(word: str, data: bytes) -> ApiError:
    said = _read(data)
    text = said.message or said.upper or "the upstream reported an error"
    return ApiError(_kind(word, Kind.UPSTREAM), text[:_TEXT_CAP_CHARS], provider=NAME)


def _known(member: str) -> Kind | None:
    return KINDS.get(member[:1].upper() + member[1:])


def _kind(word: str, otherwise: Kind) -> Kind:
    """The kind of a type, of a member, or of a whole name `com.amazon.coral.service#ThrottlingException`."""
    found = _TYPE.fullmatch(word.rpartition("#")[2])
    kind = _known(found[1]) if found is not None else None
    return otherwise if kind is None else kind


def _read(body: bytes) -> _Said:
    try:
        return json.decode_as(_said, body)
    except WireError:
        return _Said()

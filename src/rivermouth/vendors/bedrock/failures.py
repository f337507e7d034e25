"""Errors both ways: an HTTP answer whose header chooses the client's exception, and a member of the stream's union."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from rivermouth.ir.errors import ApiError, Kind, WireError, kind_of_status
from rivermouth.vendors.bedrock.words import KINDS, WORDINGS
from rivermouth.wire import json
from rivermouth.wire.aws_eventstream import ERROR, EXCEPTION
from rivermouth.wire.frame import Frame

TYPE_HEADER: Final = "x-amzn-errortype"
_TEXT_CAP_CHARS: Final = 2000
_TYPE: Final = re.compile(r"([A-Za-z]+)(?::.*)?")  # some services put the address of the type's page behind it
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


def status_of(error: ApiError) -> int:
    """The HTTP status.  One that overrides its kind's own (405, 421 ...) is kept."""
    return error.status_for(WORDINGS[error.kind].status)


def type_of(error: ApiError) -> str:
    """What stands in the header `x-amzn-errortype`, without which a client would know nothing but the status."""
    return WORDINGS[error.kind].type


def error_body(error: ApiError) -> bytes:
    """The protocol has no `param`: the sentence begins with the field, where it does not name it anyway."""
    text = error.message or error.kind.value
    if error.param and error.param not in text:
        text = f"{error.param}: {text}"
    return json.encode({"message": text})


def read_error(who: str, status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """An upstream's HTTP error, whatever its body is."""
    named = {name.lower(): value for name, value in headers.items()}
    said = _read(body)
    word = named.get(TYPE_HEADER) or said.code or said.type or ""
    kind = _STATUSES.get(status) or kind_of_status(status)
    if status != _TOO_LARGE:
        kind = _kind(word, kind)
    text = said.message or said.upper or f"the upstream answered with status {status}"
    return ApiError(kind, text[:_TEXT_CAP_CHARS], provider=who)


def message_error(who: str, frame: Frame) -> ApiError | None:
    """The failure that a message of a stream is; None for one that is none (F11)."""
    name = frame.name
    if name.startswith((EXCEPTION, ERROR)):
        return member_error(who, name.partition(":")[2], frame.data)
    return None


def member_error(who: str, word: str, data: bytes) -> ApiError:
    """The failure that a member of a stream's union is."""
    said = _read(data)
    text = said.message or said.upper or "the upstream reported an error"
    return ApiError(_kind(word, Kind.UPSTREAM), text[:_TEXT_CAP_CHARS], provider=who)


def known(member: str) -> Kind | None:
    """The kind that a member of a stream's union stands for, if it is a failure."""
    return KINDS.get(member[:1].upper() + member[1:])


def _kind(word: str, otherwise: Kind) -> Kind:
    """The kind of a type, of a member, or of a whole name `com.amazon.coral.service#ThrottlingException`."""
    found = _TYPE.fullmatch(word.rpartition("#")[2])
    kind = known(found[1]) if found is not None else None
    return otherwise if kind is None else kind


def _read(body: bytes) -> _Said:
    try:
        return json.decode_as(_said, body)
    except WireError:
        return _Said()

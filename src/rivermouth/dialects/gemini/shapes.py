"""The response object of this wire, as much of it as is acted upon; unknown members are ignored.

What is looked at rarely stays raw, and is read when it is wanted.
"""

from __future__ import annotations

from typing import Final

import msgspec

from rivermouth.wire import json

NONE: Final = msgspec.Raw(b"")


class WireCall(msgspec.Struct, gc=False, rename="camel"):
    name: str | None = None
    args: msgspec.Raw = NONE
    id: str | None = None
    partial_args: msgspec.Raw = NONE
    will_continue: bool | None = None


class WireBlob(msgspec.Struct, gc=False, rename="camel"):
    data: str = ""
    mime_type: str | None = None


class WireFile(msgspec.Struct, gc=False, rename="camel"):
    file_uri: str = ""
    mime_type: str | None = None


class WirePart(msgspec.Struct, gc=False, rename="camel"):
    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    function_call: WireCall | None = None
    inline_data: WireBlob | None = None
    file_data: WireFile | None = None
    executable_code: msgspec.Raw = NONE
    code_execution_result: msgspec.Raw = NONE


class WireContent(msgspec.Struct, gc=False):
    parts: list[WirePart] | None = None


class WireCandidate(msgspec.Struct, gc=False, rename="camel"):
    content: WireContent | None = None
    finish_reason: str | None = None
    index: int | None = None


class WireFrame(msgspec.Struct, gc=False, rename="camel"):
    candidates: list[WireCandidate] | None = None
    usage_metadata: msgspec.Raw = NONE
    prompt_feedback: msgspec.Raw = NONE
    error: msgspec.Raw = NONE


class Head(msgspec.Struct, gc=False, rename="camel"):
    """What is only wanted of the first frame."""

    model_version: str | None = None
    response_id: str | None = None


class _Message(msgspec.Struct, rename="camel"):
    finish_message: str | None = None


class Ended(msgspec.Struct):
    candidates: list[_Message]


class Feedback(msgspec.Struct, rename="camel"):
    block_reason: str | None = None
    block_reason_message: str | None = None


class Counted(msgspec.Struct, gc=False, rename="camel"):
    usage_metadata: msgspec.Raw = NONE


FRAME: Final = json.typed(WireFrame)
HEAD: Final = json.typed(Head)
ENDED: Final = json.typed(Ended)
FEEDBACK: Final = json.typed(Feedback)
COUNTED: Final = json.typed(Counted)


def said(raw: msgspec.Raw) -> bool:
    """True when the member was there, and not null."""
    return bool(raw) and bytes(raw) != b"null"

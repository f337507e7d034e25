"""The items of an output as they are written: what opens one, what carries its text, what finishes it.

    message    output_item.added ; content_part.added ; output_text.delta* ; output_text.done ; content_part.done ; item
    refusal    the same with refusal.delta and refusal.done
    thought    output_item.added ; reasoning_summary_part.added ; reasoning_summary_text.delta* ; ...done ; item
    call       output_item.added ; function_call_arguments.delta* ; function_call_arguments.done ; item
    free form  output_item.added ; custom_tool_call_input.delta* ; custom_tool_call_input.done ; item
    picture    output_item.added ; item

where "item" is output_item.done.  Each has one part and one text, which is kept as the JSON that went out, so that what
finishes it is to the byte what its deltas said.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from rivermouth.dialects.openai_responses.tools import Called
from rivermouth.ir.events import PartKind, PartStart
from rivermouth.wire import json

IN_PROGRESS: Final = "in_progress"
COMPLETED: Final = "completed"
INCOMPLETE: Final = "incomplete"


class Manner(NamedTuple):
    """How a kind of item is written.  Names of events are without `response.`.

    slot: where in the item the text stands.  part: the part as its text has it; without one there are no part events.
    after: what follows the text of a delta and of its end.  member: the text's name in the event that ends it.
    """

    prefix: str
    delta: str
    done: str
    member: bytes
    slot: bytes = b""
    added: str = ""
    closed: str = ""
    part: Callable[[bytes], bytes] | None = None
    after: bytes = b""


def _text_part(text: bytes) -> bytes:
    return b'{"type":"output_text","annotations":[],"logprobs":[],"text":%b}' % text


def _refusal_part(text: bytes) -> bytes:
    return b'{"type":"refusal","refusal":%b}' % text


def _summary_part(text: bytes) -> bytes:
    return b'{"type":"summary_text","text":%b}' % text


_SLOT: Final = b',"content_index":0'
_CONTENT: Final[dict[str, Any]] = {
    "prefix": "msg",
    "slot": _SLOT,
    "added": "content_part.added",
    "closed": "content_part.done",
}
TEXT: Final = Manner(
    **_CONTENT,
    delta="output_text.delta",
    done="output_text.done",
    member=b"text",
    part=_text_part,
    after=b',"logprobs":[]',
)
REFUSAL: Final = Manner(**_CONTENT, delta="refusal.delta", done="refusal.done", member=b"refusal", part=_refusal_part)
THOUGHT: Final = Manner(
    prefix="rs",
    slot=b',"summary_index":0',
    added="reasoning_summary_part.added",
    closed="reasoning_summary_part.done",
    delta="reasoning_summary_text.delta",
    done="reasoning_summary_text.done",
    member=b"text",
    part=_summary_part,
)
CALL: Final = Manner(
    prefix="fc", delta="function_call_arguments.delta", done="function_call_arguments.done", member=b"arguments"
)
FREE_FORM: Final = Manner(
    prefix="ctc", delta="custom_tool_call_input.delta", done="custom_tool_call_input.done", member=b"input"
)
PICTURE: Final = Manner(prefix="ig", delta="", done="", member=b"result")

MANNERS: Final[dict[PartKind, Manner]] = {
    PartKind.TEXT: TEXT,
    PartKind.REFUSAL: REFUSAL,
    PartKind.REASONING: THOUGHT,
    PartKind.TOOL: CALL,
    PartKind.IMAGE: PICTURE,
    PartKind.FILE: TEXT,  # a sentence stands in its place
}


class Item:
    """One item, as far as it was written.  `pieces` are what its text is made of, each as JSON without its quotes."""

    __slots__ = ("called", "encrypted", "format", "id", "index", "manner", "open", "pieces", "start")

    def __init__(self, index: int, start: PartStart, manner: Manner, call: str, called: Called | None = None) -> None:
        self.index = index
        self.start = start
        self.manner = manner
        self.called = called
        self.id = f"{manner.prefix}_{call}_{index}"
        self.pieces: list[bytes] = []
        self.open = False  # its text has begun
        self.encrypted: str | None = None
        self.format: str | None = None

    def text(self) -> bytes:
        """All of the text, as one JSON string."""
        return b'"' + b"".join(self.pieces) + b'"'

    def whole(self, status: str, text: bytes) -> bytes:
        """The item with this text, in this state."""
        return _WRITERS[self.manner](self, status, text)

    def begun(self) -> bytes:
        """The item when it is added: nothing is in it yet."""
        return _WRITERS[self.manner](self, IN_PROGRESS, b"")


def _message(item: Item, status: str, text: bytes) -> bytes:
    part = item.manner.part
    content = part(text) if part is not None and text else b""
    head = b'{"id":%b,"type":"message","status":%b,"role":"assistant","content":[%b]}'
    return head % (json.encode(item.id), json.encode(status), content)


def _thought(item: Item, status: str, text: bytes) -> bytes:
    summary = _summary_part(text) if item.pieces else b""
    sealed = b',"encrypted_content":%b' % json.encode(item.encrypted) if item.encrypted is not None else b""
    return b'{"id":%b,"type":"reasoning","summary":[%b]%b}' % (json.encode(item.id), summary, sealed)


def _call(item: Item, status: str, text: bytes) -> bytes:
    name = item.called or Called(item.start.name or "")
    space = b',"namespace":%b' % json.encode(name.namespace) if name.namespace is not None else b""
    return b'{"id":%b,"type":"%b","status":%b,"call_id":%b,"name":%b%b,"%b":%b}' % (
        json.encode(item.id),
        b"custom_tool_call" if item.manner is FREE_FORM else b"function_call",
        json.encode(status),
        json.encode(item.start.id),
        json.encode(name.name),
        space,
        item.manner.member,
        text or b'""',
    )


def _picture(item: Item, status: str, text: bytes) -> bytes:
    """It is there or it is not: nobody cuts a picture off."""
    state = COMPLETED if text else IN_PROGRESS
    made = b',"output_format":%b' % json.encode(item.format) if item.format is not None and text else b""
    head = b'{"id":%b,"type":"image_generation_call","status":%b%b,"result":%b}'
    return head % (json.encode(item.id), json.encode(state), made, text or b"null")


_WRITERS: Final[dict[Manner, Callable[[Item, str, bytes], bytes]]] = {
    TEXT: _message,
    REFUSAL: _message,
    THOUGHT: _thought,
    CALL: _call,
    FREE_FORM: _call,
    PICTURE: _picture,
}

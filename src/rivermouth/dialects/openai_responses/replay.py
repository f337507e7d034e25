"""A kept response as a stream, where the events that were first sent are gone.

It says what the response says, each text in one piece, and its last event has the number that it always had.  Numbers
between are this stream's own; so whoever has had a part of the old one gets the last event alone, with all in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from rivermouth.dialects.dialect import Ended
from rivermouth.dialects.openai_responses.items import COMPLETED, IN_PROGRESS, INCOMPLETE
from rivermouth.wire import json, sse

Event = dict[str, Any]

LAST: Final = {COMPLETED: "response.completed", INCOMPLETE: "response.incomplete"}
"""The event that ends a stream, by the status of the response; every other has failed."""


def replay(ended: Ended, after: int | None) -> bytes:
    response = json.decode(ended.answer)
    last = {"type": LAST.get(response["status"], "response.failed"), "response": response}
    if after is not None:
        return _written(last, ended.number) if after < ended.number else b""
    begun = {**response, "status": IN_PROGRESS, "output": [], "usage": None, "error": None, "incomplete_details": None}
    begun.pop("completed_at", None)
    events = [{"type": f"response.{name}", "response": begun} for name in ("created", "in_progress")]
    well = response["status"] in LAST
    for index, item in enumerate(response.get("output") or ()):
        events += _item(item, index, whole=well or item.get("status") != INCOMPLETE)
    said = b"".join(_written(event, number) for number, event in enumerate(events))
    return said + _written(last, max(ended.number, len(events)))


class _Text(NamedTuple):
    """How a text is said.  Names of events are without `response.`.

    member: where the text stands, in a part or, without a slot, in the item itself.  slot: how events name the part.
    added, closed: the events around a part.  more: what else its events have.
    """

    member: str
    delta: str
    done: str
    slot: str | None = None
    added: str = ""
    closed: str = ""
    more: tuple[tuple[str, Any], ...] = ()


_CONTENT: Final = ("content_index", "content_part.added", "content_part.done")
_SUMMARY: Final = ("summary_index", "reasoning_summary_part.added", "reasoning_summary_part.done")
PARTS: Final[dict[str, _Text]] = {
    "output_text": _Text("text", "output_text.delta", "output_text.done", *_CONTENT, (("logprobs", []),)),
    "refusal": _Text("refusal", "refusal.delta", "refusal.done", *_CONTENT),
    "reasoning_text": _Text("text", "reasoning_text.delta", "reasoning_text.done", *_CONTENT),
    "summary_text": _Text("text", "reasoning_summary_text.delta", "reasoning_summary_text.done", *_SUMMARY),
}
CALLS: Final[dict[str, _Text]] = {
    "function_call": _Text("arguments", "function_call_arguments.delta", "function_call_arguments.done"),
    "custom_tool_call": _Text("input", "custom_tool_call_input.delta", "custom_tool_call_input.done"),
}
HOLDERS: Final = ("summary", "content")
"""Members of an item that hold parts."""


def _item(item: Event, index: int, *, whole: bool) -> Iterator[Event]:
    """whole: it was done; one that a failure cut off is not done here either."""
    empty: dict[str, Any] = {name: [] for name in HOLDERS if isinstance(item.get(name), list)}
    call = CALLS.get(item["type"])
    if call is not None:
        empty[call.member] = ""
    if "status" in item:
        empty["status"] = IN_PROGRESS
    begun = {name: value for name, value in item.items() if name != "encrypted_content"} | empty
    yield {"type": "response.output_item.added", "output_index": index, "item": begun}
    at = {"item_id": item["id"], "output_index": index}
    for holder in HOLDERS:
        for number, part in enumerate(item.get(holder) or ()):
            text = PARTS.get(part.get("type"))
            if text is not None:
                yield from _part(part, text, {**at, text.slot: number}, whole=whole)  # type: ignore[dict-item]
    if call is not None:
        yield from _said(item, call, at, whole=whole)
    if whole:
        yield {"type": "response.output_item.done", "output_index": index, "item": item}


def _part(part: Event, text: _Text, at: Event, *, whole: bool) -> Iterator[Event]:
    yield {"type": f"response.{text.added}", **at, "part": {**part, text.member: ""}}
    yield from _said(part, text, at, whole=whole)
    if whole:
        yield {"type": f"response.{text.closed}", **at, "part": part}


def _said(holder: Event, text: _Text, at: Event, *, whole: bool) -> Iterator[Event]:
    said, more = holder.get(text.member) or "", dict(text.more)
    if said:
        yield {"type": f"response.{text.delta}", **at, "delta": said, **more}
    if whole:
        yield {"type": f"response.{text.done}", **at, text.member: said, **more}


def _written(event: Event, number: int) -> bytes:
    kind = event["type"]
    return sse.event(kind, json.encode({"type": kind, "sequence_number": number, **event}))

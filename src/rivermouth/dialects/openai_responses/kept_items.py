"""The items of kept responses: what a request brought, what stands before it in its talk, and lists of them.

Items are kept as their client sent them, so that nothing is lost when they are read again; a list shows them in the one
form that its readers know, each with an id.  An id that is made here is that of the call, with the item's place:

    msg_<call>_0      the first item of the answer, as its encoder names it
    msg_<call>_i0     the first one of the input
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from rivermouth.dialects.dialect import Turn
from rivermouth.dialects.openai_responses.tables import ENCRYPTED
from rivermouth.ir.call_ids import fresh
from rivermouth.ir.errors import invalid
from rivermouth.wire import json

ANSWER: Final = "resp"
MADE: Final = re.compile(r"(?P<kind>[a-z]+)_(?P<call>[A-Za-z0-9-]+)(?:_i?\d+)?", re.ASCII)
PREFIXES: Final[dict[str, str]] = {
    "message": "msg",
    "function_call": "fc",
    "function_call_output": "fco",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "ctco",
    "reasoning": "rs",
    "image_generation_call": "ig",
}
OTHER: Final = "item"
KEEPERS: Final = ("previous_response_id", "background", "conversation")
"""Fields that only whoever keeps responses can read."""
CALLS: Final = frozenset({"function_call", "custom_tool_call"})
UNFINISHED: Final = frozenset({"incomplete", "in_progress"})
LIMIT: Final = 20
MOST: Final = 100
_items: Final = json.typed(list[msgspec.Raw])

Item = dict[str, Any]


class _Output(msgspec.Struct, frozen=True):
    output: list[msgspec.Raw] | None = None


class _Head(msgspec.Struct, frozen=True):
    type: str | None = None
    id: str | None = None
    role: str | None = None
    status: str | None = None

    @property
    def kind(self) -> str:
        """A message may go without its type."""
        return self.type or ("message" if self.role is not None else "")


_output: Final = json.typed(_Output)
_head: Final = json.typed(_Head)


def answer_id(call_id: str) -> str:
    return f"{ANSWER}_{call_id}"


def call_id(name: str) -> str | None:
    found = MADE.fullmatch(name)
    return found["call"] if found is not None else None


def own(fields: Mapping[str, msgspec.Raw], found: Mapping[str, bytes]) -> bytes:
    said = fields.get("input")
    if said is None or bytes(said).lstrip()[:1] != b"[":
        text = json.decode(said) if said is not None else None
        return json.encode([_message_of(text)] if text else [])
    return _array(_resolved(raw, found) for raw in _list(said))


def item(turn: Turn, name: str) -> bytes | None:
    for raw in _output_of(turn):
        if json.decode_as(_head, raw).id == name:
            return bytes(raw)
    for raw, shown in zip(_list(turn.input), _listed_input(turn), strict=True):
        if shown["id"] == name:
            return bytes(raw)
    return None


def joined(fields: Mapping[str, msgspec.Raw], own: bytes, turns: Sequence[Turn]) -> bytes:
    earlier = (raw for turn in turns for raw in (*_list(turn.input), *_carried(turn)))
    talk = _array(map(bytes, (*earlier, *_list(own))))
    return json.encode({**{n: raw for n, raw in fields.items() if n not in KEEPERS}, "input": msgspec.Raw(talk)})


def input_items(turns: Sequence[Turn], query: Mapping[str, Sequence[str]]) -> bytes:
    ordered = _word(query, "order", "desc")
    if ordered not in ("asc", "desc"):
        raise invalid('order is "asc" or "desc"', "order", "invalid_value")
    limit = _word(query, "limit", str(LIMIT))
    if not limit.isascii() or not limit.isdecimal() or not 1 <= int(limit) <= MOST:
        raise invalid(f"limit is a number from 1 to {MOST}", "limit", "invalid_value")
    included = {name for key in ("include", "include[]") for name in query.get(key, ())}
    every = _listed(turns)
    if ordered == "desc":
        every.reverse()
    first = _place(every, query, "after") + 1
    before = _place(every, query, "before") if query.get("before") else len(every)
    if query.get("before") and not query.get("after"):
        first = max(before - int(limit), 0)
    page = every[first : min(first + int(limit), before)]
    told = [shown if ENCRYPTED in included else _unsealed(shown) for shown in page]
    more = first > 0 if query.get("before") and not query.get("after") else first + len(page) < before
    ids = {"first_id": told[0]["id"], "last_id": told[-1]["id"]} if told else {"first_id": "", "last_id": ""}
    return json.encode({"object": "list", "data": told, **ids, "has_more": more})


def deleted(answer_id: str) -> bytes:
    return json.encode({"id": answer_id, "object": "response", "deleted": True})


def _list(array: bytes | msgspec.Raw) -> list[msgspec.Raw]:
    items: list[msgspec.Raw] = json.decode_as(_items, array)
    return items


def _resolved(raw: msgspec.Raw, found: Mapping[str, bytes]) -> bytes:
    head = json.decode_as(_head, raw)
    return found.get(head.id or "", bytes(raw)) if head.kind == "item_reference" else bytes(raw)


def _message_of(text: str) -> Item:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def _output_of(turn: Turn) -> list[msgspec.Raw]:
    return (json.decode_as(_output, turn.answer).output or []) if turn.answer is not None else []


def _carried(turn: Turn) -> Iterator[msgspec.Raw]:
    """What was answered, without calls that were cut off: nobody can have answered those."""
    for raw in _output_of(turn):
        head = json.decode_as(_head, raw)
        if not (head.kind in CALLS and head.status in UNFINISHED):
            yield raw


def _listed(turns: Sequence[Turn]) -> list[Item]:
    """Every item, the oldest first, no two with the same id."""
    taken: set[str] = set()
    every = (shown for turn in turns for shown in (*_listed_input(turn), *map(json.decode, _carried(turn))))
    return [{**shown, "id": fresh(shown["id"], taken)} for shown in every]


def _listed_input(turn: Turn) -> Iterator[Item]:
    for place, raw in enumerate(_list(turn.input)):
        shown = json.decode(raw)
        kind = json.decode_as(_head, raw).kind or OTHER
        made = f"{PREFIXES.get(kind, OTHER)}_{turn.call_id}_i{place}"
        yield _shown({**shown, "type": kind, "id": shown.get("id") or made}, kind)


def _shown(item: Item, kind: str) -> Item:
    """With what an item of a list always has, where its client left it out."""
    content = item.get("content")
    if kind == "message" and isinstance(content, str):
        part = "output_text" if item.get("role") == "assistant" else "input_text"
        more: Item = {"annotations": []} if part == "output_text" else {}
        item = {**item, "content": [{"type": part, "text": content, **more}]}
    if kind == "reasoning":
        return {**item, "summary": item.get("summary") or []}
    return {**item, "status": item.get("status") or "completed"}


def _unsealed(item: Item) -> Item:
    return {name: value for name, value in item.items() if name != "encrypted_content"}


def _place(items: Sequence[Item], query: Mapping[str, Sequence[str]], name: str) -> int:
    """Where the item stands that the query names; -1 where it names none."""
    wanted = _word(query, name, "")
    if not wanted:
        return -1
    place = next((place for place, shown in enumerate(items) if shown["id"] == wanted), None)
    if place is None:
        raise invalid(f"there is no item '{wanted[:100]}' in this list", name, "invalid_value")
    return place


def _word(query: Mapping[str, Sequence[str]], name: str, default: str) -> str:
    said = query.get(name, ())
    return said[-1] if said else default


def _array(items: Iterable[bytes]) -> bytes:
    return b"[" + b",".join(items) + b"]"

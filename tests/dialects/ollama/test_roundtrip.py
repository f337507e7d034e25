"""What goes out is what comes back, up to the losses of this wire."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings

from rivermouth.dialects.ollama import DIALECT
from rivermouth.dialects.ollama.decode import parse_reply
from rivermouth.dialects.ollama.encode import encode_reply
from rivermouth.ir.events import Event, PartKind, Reason, Usage
from rivermouth.ir.fold import fold, unfold
from rivermouth.ir.grammar import Grammar
from rivermouth.ir.reply import Reply
from rivermouth.ir.request import Reasoning, Refusal, Text, ToolCall
from rivermouth.wire import json
from tests.dialects.conformance import Decoded
from tests.dialects.ollama.case import answer, decode, encode
from tests.every_way import every_way
from tests.strategies import event_streams, replies

KINDS = (PartKind.TEXT, PartKind.REFUSAL, PartKind.REASONING, PartKind.TOOL)


def essence(events: list[Event]) -> dict[str, Any]:
    """What this wire carries: text and thinking part after part, calls, and how it ended; no signatures."""
    reply = fold(events)
    parts = reply.choices[0].parts
    usage = reply.usage or Usage()
    calls = [p for p in parts if isinstance(p, ToolCall)]
    reason = reply.choices[0].reason
    return {
        "text": "".join(p.text for p in parts if isinstance(p, Text | Refusal)),
        "thinking": "".join(p.text for p in parts if isinstance(p, Reasoning)),
        "calls": sorted((c.id, c.name, repr(json.decode(c.arguments.encode() or b"{}"))) for c in calls),
        "reason": Reason.STOP if reason is Reason.CONTENT_FILTER else reason,
        "tokens": (usage.input_tokens or None, usage.output_tokens or None),
    }


@pytest.mark.fault("F19", "F23", "F24", "F25", "F28")
@pytest.mark.parametrize("kind", ["chat", "generate"])
@given(events=event_streams(kinds=KINDS, noise=True))
def test_a_stream_comes_back(kind: str, events: list[Event]) -> None:
    back = decode(encode(events, kind))
    Grammar().feed_all(back)
    assert essence(back) == essence(events)


@pytest.mark.fault("F1", "F2", "F5")
@settings(max_examples=10)
@given(events=event_streams(kinds=KINDS, max_parts=2))
def test_a_stream_comes_back_however_it_is_cut(events: list[Event]) -> None:
    data = encode(events)
    every_way(partial(Decoded, DIALECT), data, decode(data))


@pytest.mark.parametrize("kind", ["chat", "generate"])
@given(reply=replies(kinds=KINDS))
def test_a_whole_reply_comes_back(kind: str, reply: Reply) -> None:
    back = parse_reply(encode_reply(reply, answer(kind)))
    assert essence(unfold(back)) == essence(unfold(reply))
    assert back.model == "m:1b"

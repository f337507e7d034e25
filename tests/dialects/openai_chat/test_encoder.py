from __future__ import annotations

import json
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.dialects.dialect import Answer, Surface
from rivermouth.dialects.openai_chat import DIALECT
from rivermouth.ir.events import (
    ArgsDelta,
    Error,
    Event,
    Finish,
    MediaDelta,
    PartEnd,
    PartKind,
    PartStart,
    Reason,
    ReasoningDelta,
    Signature,
    Start,
    TextDelta,
    Unknown,
    Usage,
    Warn,
)
from rivermouth.ir.fold import fold
from rivermouth.ir.opaque import seal
from rivermouth.ir.reply import Choice
from rivermouth.ir.request import Reasoning, Refusal, Text, ToolCall
from tests.dialects.openai_chat.case import (
    FAILURE,
    REASONING,
    REFUSAL,
    ROUTING,
    TEXT,
    TOOL,
    answer,
    counted,
    decode,
    encode,
    parse,
    payloads,
    seam_free,
    text_stream,
)
from tests.strategies import event_streams

SIGNED = seal("sig", note=f"0+2={crc32(b'hm')}@0", text="hm")
HIDDEN = seal("hid", redacted=True, note="2+0=0@0")


def deltas(stream: bytes, index: int = 0) -> list[dict[str, Any]]:
    """The deltas of one choice, in order."""
    chunks = [p for p in payloads(stream) if p != "[DONE]" and "error" not in p]
    return [c["delta"] for p in chunks for c in p["choices"] if c["index"] == index]


class Client:
    """What the vendor's SDKs do: join strings of one key, keep lists by position, demand a role and a finish_reason."""

    def __init__(self) -> None:
        self.choices: list[dict[str, Any]] = []
        self.usage: Any = None
        self.done = False
        self.failed: Any = None
        self.constant: set[tuple[Any, ...]] = set()

    def read(self, stream: bytes) -> Client:
        for payload in payloads(stream):
            assert not self.done
            assert self.failed is None
            if payload == "[DONE]":
                self.done = True
            elif "error" in payload:
                self.failed = payload["error"]
            else:
                self.take(payload)
        return self

    def take(self, chunk: dict[str, Any]) -> None:
        assert self.usage is None
        self.constant.add(tuple(chunk[k] for k in ("id", "object", "created", "model")))
        assert len(self.constant) == 1
        self.usage = chunk.get("usage")
        for choice in chunk["choices"]:
            if choice["index"] == len(self.choices):
                self.choices.append({"finish_reason": None})
            kept = self.choices[choice["index"]]
            assert kept["finish_reason"] is None
            merge(kept, choice["delta"])
            kept["finish_reason"] = choice["finish_reason"]


def merge(kept: dict[str, Any], new: dict[str, Any]) -> None:
    for key, value in new.items():
        if key in ("index", "type") or key not in kept:
            kept[key] = value if not isinstance(value, list) else []
        elif isinstance(value, str):
            kept[key] += value
        elif isinstance(value, dict):
            merge(kept[key], value)
        if isinstance(value, list):
            for entry in value:
                if entry["index"] == len(kept[key]):
                    kept[key].append(json.loads(json.dumps(entry)))
                else:
                    merge(kept[key][entry["index"]], entry)


# -- the promised frames ----------------------------------------------------------------------------------------------


@pytest.mark.promise(2, 3, 7, 8, 9, 10, 51, 55, 56, 58, 139)
def test_a_text_stream_frame_by_frame() -> None:
    stream = encode(text_stream("Par", "is"))
    first, one, two, last, done = payloads(stream)
    same = {"id": "chatcmpl-01J", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": "gpt-x"}

    def choice(delta: Any, finish: str | None) -> Any:
        return [{"index": 0, "delta": delta, "finish_reason": finish}]

    assert first == {**same, "choices": choice({"role": "assistant"}, None)}
    assert one == {**same, "choices": choice({"content": "Par"}, None)}
    assert two == {**same, "choices": choice({"content": "is"}, None)}
    assert last == {**same, "choices": choice({}, "stop")}
    assert done == "[DONE]"
    assert stream.endswith(b"\n\ndata: [DONE]\n\n")


@pytest.mark.promise(138, 140, 141, 142)
def test_the_other_surface_begins_with_empty_content_and_says_the_role_once() -> None:
    stream = encode(text_stream("a", "b"), answer("/openai/v1"))
    assert deltas(stream) == [{"role": "assistant", "content": ""}, {"content": "a"}, {"content": "b"}, {}]
    first = payloads(stream)[0]
    assert (first["created"], first["model"]) == (1_700_000_000, "gpt-x")
    assert first["choices"][0]["finish_reason"] is None


def test_the_role_is_repeated_where_the_surface_says_so() -> None:
    surface = Surface(prefix="/openai/v1", stream_type="", options=frozenset({"role-with-content", "role-every"}))
    given = Answer(id="1", model="m", created_ns=0, surface=surface)
    assert deltas(encode(text_stream("a"), given)) == [
        {"role": "assistant", "content": ""},
        {"role": "assistant", "content": "a"},
        {},
    ]


@pytest.mark.promise(1, 50, 138)
def test_every_surface_streams_server_sent_events() -> None:
    assert {s.prefix: s.stream_type for s in DIALECT.surfaces} == {
        "/v1": "text/event-stream; charset=utf-8",
        "/openai/v1": "text/event-stream; charset=utf-8",
        "/openai": "text/event-stream; charset=utf-8",
    }
    assert [r.path for r in DIALECT.routes if r.streams] == [
        "/chat/completions",
        "/deployments/{model}/chat/completions",
    ]


@pytest.mark.promise(10)
@pytest.mark.parametrize("reason", [Reason.STOP, Reason.LENGTH, Reason.CONTENT_FILTER])
def test_the_reason_is_said(reason: Reason) -> None:
    last = payloads(encode(text_stream("a", reason=reason)))[-2]
    assert last["choices"] == [{"index": 0, "delta": {}, "finish_reason": reason.value}]


@pytest.mark.promise(4, 5, 59)
@pytest.mark.fault("F13", "F14")
def test_a_failed_stream_ends_with_an_error_and_neither_done_nor_anything_else() -> None:
    encoder = DIALECT.encoder(answer())
    stream = encoder.feed([*text_stream("a")[:3], FAILURE]) + encoder.feed(text_stream("b")[1:])
    found = payloads(stream)
    assert found[-1] == {
        "error": {
            "message": "the connection was lost",
            "type": "server_error",
            "param": None,
            "code": "upstream_unreachable",
        }
    }
    assert "[DONE]" not in found
    assert all("error" not in p for p in found[:-1])


def test_a_call_that_failed_before_it_began_is_one_error_frame() -> None:
    assert list(payloads(encode([FAILURE]))[0]) == ["error"]


@pytest.mark.promise(57, 60, 71)
def test_the_routing_block_stands_beside_choices_on_the_finish_chunk_only() -> None:
    found = payloads(encode(text_stream("a"), answer(routing=ROUTING)))
    assert found[-2]["llmeu"] == ROUTING[1]
    assert found[-2]["choices"] == [{"index": 0, "delta": {}, "finish_reason": "stop"}]
    assert [("llmeu" in p) for p in found] == [False, False, True, False]
    whole = json.loads(DIALECT.encode_reply(fold(text_stream("a")), answer(routing=ROUTING)))
    assert whole["llmeu"] == found[-2]["llmeu"]


def test_the_routing_block_may_be_known_only_at_the_end() -> None:
    given = answer()
    encoder = DIALECT.encoder(given)
    *before, finish = text_stream("a")
    encoder.feed(before)
    given.routing = ROUTING
    assert payloads(encoder.feed([finish]))[0]["llmeu"] == ROUTING[1]


@pytest.mark.promise(143)
@pytest.mark.fault("F27")
def test_usage_comes_only_when_asked_for_and_nothing_follows_it() -> None:
    *before, finish = text_stream("a")
    events = [*before, Usage(12, 3, 8, 1, 2), finish]
    assert all(p == "[DONE]" or "usage" not in p for p in payloads(encode(events)))
    *chunks, last, done = payloads(encode(events, counted(routing=ROUTING)))
    assert all(c["usage"] is None for c in chunks)
    assert chunks[-1]["llmeu"] == ROUTING[1]
    assert done == "[DONE]"
    assert "llmeu" not in last
    assert last["choices"] == []
    assert last["usage"] == {
        "prompt_tokens": 12,
        "completion_tokens": 3,
        "total_tokens": 15,
        "prompt_tokens_details": {"cached_tokens": 8, "cache_write_tokens": 1},
        "completion_tokens_details": {"reasoning_tokens": 2},
    }


@pytest.mark.fault("F29")
def test_what_was_not_counted_is_not_said_and_an_estimate_is_called_one() -> None:
    *before, finish = text_stream("a")
    assert payloads(encode([*before, Usage(12), finish], counted()))[-2]["choices"]
    assert payloads(encode([*before, Usage(0, 0), finish], counted()))[-2]["usage"]["total_tokens"] == 0
    assert payloads(encode([*before, Usage(1, 2, estimated=True), finish], counted()))[-2]["usage"]["estimated"] is True


# -- parts ------------------------------------------------------------------------------------------------------------


def test_each_kind_has_its_member_and_warnings_have_none() -> None:
    events: list[Event] = [
        Start(),
        Warn("seed is ignored"),
        PartStart(0, REASONING),
        ReasoningDelta(0, "hm"),
        Signature(0, "sig"),
        PartEnd(0),
        PartStart(1, REASONING, redacted=True),
        Signature(1, "hid"),
        PartEnd(1),
        PartStart(2, REFUSAL),
        TextDelta(2, "no"),
        PartEnd(2),
        Unknown("ping", b"{}"),
        PartStart(3, PartKind.IMAGE),
        MediaDelta(3, "image/png", "QUJD"),
        PartEnd(3),
        PartStart(4, PartKind.FILE),
        MediaDelta(4, url="https://example.org/a"),
        PartEnd(4),
        Finish(Reason.STOP),
    ]
    assert deltas(encode(events)) == [
        {"role": "assistant"},
        {"reasoning_content": "hm"},
        {"reasoning_details": [{"type": "reasoning.text", "index": 0, "signature": SIGNED}]},
        {"reasoning_details": [{"type": "reasoning.encrypted", "index": 1, "data": HIDDEN}]},
        {"refusal": "no"},
        {"images": [{"index": 0, "type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}]},
        {"files": [{"index": 0, "type": "file", "file": {"file_data": "https://example.org/a"}}]},
        {},
    ]


def called(*, reason: Reason = Reason.STOP) -> list[Event]:
    """Two calls whose arguments interleave."""
    return [
        Start(),
        PartStart(0, TOOL, id="a", name="f"),
        ArgsDelta(0, '{"x"'),
        PartStart(1, TOOL, id="b", name="g"),
        ArgsDelta(1, "{}"),
        ArgsDelta(0, ":1}"),
        PartEnd(0),
        PartEnd(1),
        Finish(reason),
    ]


@pytest.mark.promise(10)
@pytest.mark.fault("F24", "F26")
@pytest.mark.parametrize("reason", [Reason.STOP, Reason.TOOL_CALLS])
def test_calls_have_dense_indices_one_opening_each_and_the_true_reason(reason: Reason) -> None:
    client = Client().read(encode(called(reason=reason)))
    (choice,) = client.choices
    assert [(c["index"], c["id"], c["type"], c["function"]) for c in choice["tool_calls"]] == [
        (0, "a", "function", {"name": "f", "arguments": '{"x":1}'}),
        (1, "b", "function", {"name": "g", "arguments": "{}"}),
    ]
    assert choice["finish_reason"] == "tool_calls"
    assert payloads(encode(text_stream("a", reason=Reason.TOOL_CALLS)))[-2]["choices"][0]["finish_reason"] == "stop"


@pytest.mark.fault("F26")
def test_texts_that_overlap_come_out_one_after_the_other() -> None:
    events: list[Event] = [
        Start(),
        PartStart(0, TEXT),
        PartStart(1, TEXT),
        TextDelta(1, "c"),
        PartStart(2, TEXT),
        TextDelta(0, "a"),
        PartEnd(1),
        TextDelta(2, "d"),
        TextDelta(0, "b"),
        PartEnd(0),
        TextDelta(2, "e"),
        PartEnd(2),
        Finish(Reason.STOP),
    ]
    assert [d.get("content") for d in deltas(encode(events))] == [None, "a", "b", "c", "d", "e", None]
    failed = [*events[:8], FAILURE]
    assert [d.get("content") for d in deltas(encode(failed))] == [None, "a", "c", "d"]


def test_choices_open_in_order_and_each_ends_the_last_with_the_routing_block() -> None:
    events: list[Event] = [
        Start(),
        PartStart(0, TEXT, 2),
        TextDelta(0, "c"),
        PartEnd(0),
        PartStart(1, TOOL, 1, "a", "f"),
        PartEnd(1),
        Finish(Reason.STOP, None, (Reason.STOP, Reason.TOOL_CALLS, Reason.LENGTH)),
    ]
    stream = encode(events, answer(routing=ROUTING))
    client = Client().read(stream)
    assert [c["finish_reason"] for c in client.choices] == ["stop", "tool_calls", "length"]
    assert all(c["role"] == "assistant" for c in client.choices)
    assert [i for i, p in enumerate(payloads(stream)) if "llmeu" in p] == [len(payloads(stream)) - 2]
    assert client.done


def test_a_client_of_before_2023_gets_its_own_form() -> None:
    request = parse(stream=True, functions=[{"name": "f"}])
    stream = encode([*called()[:3], ArgsDelta(0, ":1}"), PartEnd(0), Finish(Reason.STOP)], answer(request=request))
    (choice,) = Client().read(stream).choices
    assert choice["function_call"] == {"name": "f", "arguments": '{"x":1}'}
    assert choice["finish_reason"] == "function_call"
    assert "tool_calls" not in choice


def test_a_free_form_tool_is_called_with_its_text() -> None:
    request = parse(stream=True, tools=[{"type": "custom", "custom": {"name": "sh"}}])
    for arguments, text in (('{"input":"say \\"hi\\""}', 'say "hi"'), ("ls", "ls"), ('{"cmd":1}', '{"cmd":1}')):
        events = [Start(), PartStart(0, TOOL, id="c", name="sh"), ArgsDelta(0, arguments[:3])]
        events += [ArgsDelta(0, arguments[3:]), PartEnd(0), Finish(Reason.STOP)]
        stream = encode(events, answer(request=request))
        assert deltas(stream)[1] == {
            "tool_calls": [{"index": 0, "id": "c", "type": "custom", "custom": {"name": "sh", "input": text}}]
        }


@pytest.mark.fault("F5")
@given(st.text())
def test_no_line_separator_stands_in_a_frame(text: str) -> None:
    stream = encode(text_stream(text or "a", "a\u2028b\u2029c\u0085d\r\n"))
    assert all(line in ("", "data: [DONE]") or line.startswith("data: {") for line in stream.decode().splitlines())


# -- properties -------------------------------------------------------------------------------------------------------

KINDS = (TEXT, REASONING, TOOL, REFUSAL, PartKind.IMAGE)


@pytest.mark.fault("F25")
@given(event_streams(kinds=KINDS, interleave=False, noise=True))
def test_encode_then_decode_is_identity_but_for_seams(events: list[Event]) -> None:
    back = decode(encode(events, counted()))
    assert seam_free(fold(back)) == seam_free(fold(events))


@given(event_streams(n_choices=3, kinds=(TEXT, TOOL), interleave=True))
def test_interleaved_choices_and_calls_come_back_whole(events: list[Event]) -> None:
    before, after = fold(events), fold(decode(encode(events, counted())))
    for old, new in zip(before.choices, after.choices, strict=True):
        assert old.text == new.text
        calls = [[p for p in c.parts if not hasattr(p, "text")] for c in (old, new)]
        assert calls[0] == calls[1]
        assert old.reason == new.reason


@given(event_streams(kinds=KINDS, noise=True), st.data())
def test_the_bytes_do_not_depend_on_how_the_events_came(events: list[Event], data: st.DataObject) -> None:
    whole = encode(events, counted(routing=ROUTING))
    cut = data.draw(st.integers(0, len(events)))
    halves = DIALECT.encoder(counted(routing=ROUTING))
    singly = DIALECT.encoder(counted(routing=ROUTING))
    assert halves.feed(events[:cut]) + halves.feed(events[cut:]) == whole
    assert b"".join(singly.feed([e]) for e in events) == whole


@given(event_streams(n_choices=2, kinds=KINDS, noise=True))
def test_a_strict_client_accepts_every_stream(events: list[Event]) -> None:
    client = Client().read(encode(events, counted(routing=ROUTING)))
    assert client.done
    assert all(c["finish_reason"] and c["role"] == "assistant" for c in client.choices)


@pytest.mark.promise(5, 59)
@given(event_streams(kinds=KINDS, end="error"))
def test_an_error_at_any_place_ends_the_stream(events: list[Event]) -> None:
    client = Client().read(encode(events))
    assert not client.done
    assert isinstance(events[-1], Error)
    assert client.failed["message"] == events[-1].error.message


@given(event_streams(kinds=KINDS, end="open"))
def test_a_stream_that_is_not_finished_has_no_terminator(events: list[Event]) -> None:
    client = Client().read(encode(events))
    assert not client.done
    assert all(c["finish_reason"] is None for c in client.choices)


@given(event_streams(kinds=(TEXT, REASONING, TOOL, REFUSAL)))
def test_the_whole_reply_says_what_the_stream_says(events: list[Event]) -> None:
    streamed = fold(decode(encode(events, counted())))
    whole = DIALECT.parse_reply(DIALECT.encode_reply(fold(events), answer()))
    assert [said(c) for c in whole.choices] == [said(c) for c in streamed.choices]
    assert streamed.usage == whole.usage


def said(choice: Choice) -> Any:
    """A choice as far as a whole reply can say it: which prose came first is lost."""
    prose = {k: "".join(p.text for p in choice.parts if isinstance(p, k)) for k in (Text, Reasoning, Refusal)}
    return prose, [p for p in choice.parts if isinstance(p, ToolCall)], choice.reason

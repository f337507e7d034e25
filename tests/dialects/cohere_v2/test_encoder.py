from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.dialects.cohere_v2 import DIALECT
from rivermouth.dialects.cohere_v2.encoder import Encoder
from rivermouth.ir.errors import ApiError, Kind, invalid
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
from rivermouth.ir.fold import Fold
from rivermouth.wire import json
from tests.dialects.cohere_v2.case import NASTY, answer, decode, encode, pairs
from tests.strategies import event_streams

TEXT, TOOL, REASONING = PartKind.TEXT, PartKind.TOOL, PartKind.REASONING
FAILURE = Error(ApiError(Kind.NETWORK, "the connection was lost"))


def gathered(stream: bytes) -> dict[str, Any]:
    """The message as a strict client gathers it: one block or call open at a time, dense indexes, each closed.

    In a message that failed, the calls that stay open are those that were cut.
    """
    blocks: list[Any] = []
    calls: list[Any] = []
    opened: tuple[str, int] | None = None
    end: dict[str, Any] = {}
    frames = pairs(stream)
    assert [name for name, _ in frames].count("message-start") == 1
    assert frames[0][0] == "message-start"
    failed = frames[-1][1]["delta"]["finish_reason"] == "ERROR"

    def none_is_open() -> bool:
        return opened is None or (failed and opened[0] == "call")

    for name, data in frames[1:]:
        assert not end
        message = (data.get("delta") or {}).get("message") or {}
        match name:
            case "content-start":
                assert none_is_open()
                assert data["index"] == len(blocks)
                opened = ("content", data["index"])
                blocks.append(message["content"])
            case "content-delta":
                assert opened == ("content", data["index"])
                for member, said in message["content"].items():
                    blocks[-1][member] += said
            case "tool-call-start":
                assert none_is_open()
                assert data["index"] == len(calls)
                opened = ("call", data["index"])
                calls.append(message["tool_calls"])
            case "tool-call-delta":
                assert opened == ("call", data["index"])
                calls[-1]["function"]["arguments"] += message["tool_calls"]["function"]["arguments"]
            case "content-end" | "tool-call-end":
                assert opened == (name.removesuffix("-end").removeprefix("tool-"), data["index"])
                opened = None
            case _:
                assert name == "message-end"
                assert none_is_open()
                end = data["delta"]
    return {"blocks": blocks, "calls": calls, **end}


def names(stream: bytes) -> list[str]:
    return [name for name, _ in pairs(stream)]


def test_a_plain_answer() -> None:
    events: list[Event] = [
        Start("up", "their-name"),
        PartStart(0, TEXT),
        TextDelta(0, "Hel"),
        TextDelta(0, "lo"),
        PartEnd(0),
        Usage(input_tokens=9, output_tokens=2, cached_tokens=4),
        Finish(Reason.STOP),
    ]
    empty = {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": [], "citations": []}
    counts = {"input_tokens": 9, "output_tokens": 2}

    def delta(text: str) -> dict[str, Any]:
        return {"type": "content-delta", "index": 0, "delta": {"message": {"content": {"text": text}}}}

    opened = {"type": "content-start", "index": 0, "delta": {"message": {"content": {"type": "text", "text": ""}}}}
    assert [data for _, data in pairs(encode(events))] == [
        {"type": "message-start", "id": "01J", "delta": {"message": empty}},
        opened,
        delta("Hel"),
        delta("lo"),
        {"type": "content-end", "index": 0},
        {
            "type": "message-end",
            "id": "01J",
            "delta": {
                "finish_reason": "COMPLETE",
                "usage": {"billed_units": counts, "tokens": counts, "cached_tokens": 4},
            },
        },
    ]


@pytest.mark.promise(174)
def test_each_piece_of_text_is_sent_when_it_comes() -> None:
    stream = Encoder(answer())
    stream.feed([Start(), PartStart(0, TEXT)])
    sent = [stream.feed([TextDelta(0, piece)]) for piece in ("a", "b", "c")]
    assert [piece in data for piece, data in zip((b'"text":"a"', b'"text":"b"', b'"text":"c"'), sent, strict=True)]
    assert all(data.endswith(b"\n\n") for data in sent)


@pytest.mark.fault("F5")
def test_separators_that_split_lines_are_escaped() -> None:
    stream = encode([Start(), PartStart(0, TEXT), TextDelta(0, NASTY), PartEnd(0), Finish(Reason.STOP)])
    assert len(stream.decode().splitlines()) == stream.count(b"\n")
    assert gathered(stream)["blocks"] == [{"type": "text", "text": NASTY}]


@pytest.mark.fault("F4")
def test_no_line_is_longer_than_the_sdk_takes() -> None:
    long = "\x01" * 400_000
    events: list[Event] = [
        Start(), PartStart(0, TEXT), TextDelta(0, "a"), TextDelta(0, long), PartEnd(0),
        PartStart(1, TOOL, 0, "c", "f"), ArgsDelta(1, '{"x":"'), ArgsDelta(1, "y" * 2_000_000), ArgsDelta(1, '"}'),
        PartEnd(1), Finish(Reason.TOOL_CALLS),
    ]  # fmt: skip
    stream = encode(events)
    assert max(map(len, stream.splitlines())) < 1_048_576
    whole = gathered(stream)
    assert whole["blocks"][0]["text"] == "a" + long
    assert len(whole["calls"][0]["function"]["arguments"]) == 2_000_008


@pytest.mark.fault("F21", "F24")
def test_a_tool_after_an_empty_text_opens_no_text_block() -> None:
    events: list[Event] = [
        Start(), PartStart(0, TEXT), PartEnd(0), PartStart(1, TOOL, 0, "call_1", "f"), ArgsDelta(1, '{"a":'),
        ArgsDelta(1, "1}"), PartEnd(1), Finish(Reason.STOP),
    ]  # fmt: skip
    call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
    assert gathered(encode(events)) == {"blocks": [], "calls": [call], "finish_reason": "TOOL_CALL"}


@pytest.mark.fault("F20")
@pytest.mark.parametrize("said", [[], [" "]])
def test_no_arguments_are_an_empty_object(said: list[str]) -> None:
    pieces: list[Event] = [ArgsDelta(0, piece) for piece in said]
    events = [Start(), PartStart(0, TOOL, 0, "c", "f"), *pieces, PartEnd(0), Finish(Reason.TOOL_CALLS)]
    (call,) = gathered(encode(events))["calls"]
    assert json.decode(call["function"]["arguments"].encode()) == {}


@pytest.mark.fault("F23")
def test_reasoning_is_a_block_of_its_own_and_hidden_reasoning_none() -> None:
    events: list[Event] = [
        Start(), PartStart(0, REASONING), ReasoningDelta(0, "h"), ReasoningDelta(0, "m"), Signature(0, "s"), PartEnd(0),
        PartStart(1, REASONING, redacted=True), Signature(1, "hidden"), PartEnd(1),
        PartStart(2, TEXT), TextDelta(2, "42"), PartEnd(2), Finish(Reason.STOP),
    ]  # fmt: skip
    assert gathered(encode(events))["blocks"] == [
        {"type": "thinking", "thinking": "hm"},
        {"type": "text", "text": "42"},
    ]


@pytest.mark.fault("F26")
def test_overlapping_parts_are_put_in_order() -> None:
    events: list[Event] = [
        Start(),
        PartStart(0, TOOL, 0, "a", "f"),
        PartStart(1, TOOL, 0, "b", "g"),
        ArgsDelta(1, '{"y":'),
        ArgsDelta(0, '{"x":'),
        PartStart(2, TEXT),
        TextDelta(2, "la"),
        ArgsDelta(1, "2}"),
        PartEnd(1),
        ArgsDelta(0, "1}"),
        PartEnd(0),
        TextDelta(2, "ter"),
        PartEnd(2),
        Finish(Reason.TOOL_CALLS),
    ]
    stream = encode(events)
    whole = gathered(stream)
    assert [c["function"]["arguments"] for c in whole["calls"]] == ['{"x":1}', '{"y":2}']
    assert whole["blocks"] == [{"type": "text", "text": "later"}]
    stepwise = Encoder(answer())
    pieces = [stepwise.feed([e]) for e in events]
    assert b"".join(pieces) == stream
    assert b'"la"' in pieces[10], "what waited goes out as soon as its turn has come"
    assert stepwise.statistics()["waiting_chars"] == 0


@pytest.mark.fault("F35")
def test_what_waits_is_bounded() -> None:
    stream = Encoder(answer(), cap_chars=100)
    stream.feed([Start(), PartStart(0, TEXT), TextDelta(0, "a"), PartStart(1, TEXT), TextDelta(1, "x" * 100)])
    assert stream.statistics() == {"waiting_chars": 100, "cap_chars": 100}
    with pytest.raises(ApiError) as raised:
        stream.feed([TextDelta(1, "x")])
    ended = stream.feed([Error(raised.value)])
    assert names(ended)[-1] == "message-end"


@pytest.mark.fault("F13", "F14")
def test_an_error_closes_what_is_open_in_order_and_stands_where_the_end_would() -> None:
    events: list[Event] = [
        Start(), PartStart(0, TEXT), TextDelta(0, "half"), PartStart(1, TOOL, 0, "c", "f"), ArgsDelta(1, '{"a'),
        Usage(input_tokens=7), FAILURE, TextDelta(0, "never"), Finish(Reason.STOP),
    ]  # fmt: skip
    whole = gathered(encode(events))
    assert (whole["error"], whole["finish_reason"]) == ("the connection was lost", "ERROR")
    assert whole["blocks"] == [{"type": "text", "text": "half"}]
    assert whole["calls"][0]["function"]["arguments"] == '{"a'
    assert "tool-call-end" not in names(encode(events))
    assert whole["usage"]["tokens"] == {"input_tokens": 7}


@pytest.mark.fault("F13", "F16")
def test_only_a_whole_call_gets_the_arguments_that_it_went_without() -> None:
    call: list[Event] = [Start(), PartStart(0, TOOL, 0, "c", "f")]
    assert gathered(encode([*call, PartEnd(0), FAILURE]))["calls"][0]["function"]["arguments"] == "{}"
    assert gathered(encode([*call, FAILURE]))["calls"][0]["function"]["arguments"] == ""


@pytest.mark.fault("F14")
def test_an_error_before_anything_else_is_an_end_without_content() -> None:
    assert names(encode([FAILURE])) == names(encode([Start(), FAILURE])) == ["message-start", "message-end"]


def test_an_error_begins_with_the_field_that_it_does_not_name() -> None:
    assert gathered(encode([Start(), Error(invalid("too long", "messages"))]))["error"] == "messages: too long"


@pytest.mark.parametrize(
    ("events", "word", "error"),
    [
        ([Finish(Reason.STOP)], "COMPLETE", None),
        ([Finish(Reason.STOP, "END")], "STOP_SEQUENCE", None),
        ([Finish(Reason.LENGTH)], "MAX_TOKENS", None),
        ([Finish(Reason.CONTENT_FILTER)], "ERROR", "content_filter: the answer was stopped by a content filter"),
        ([PartStart(0, TOOL, 0, "c", "f"), PartEnd(0), Finish(Reason.STOP)], "TOOL_CALL", None),
    ],
)
def test_why_it_ended(events: list[Event], word: str, error: str | None) -> None:
    whole = gathered(encode([Start(), *events]))
    assert (whole["finish_reason"], whole.get("error")) == (word, error)


@pytest.mark.fault("F29")
def test_what_is_not_known_is_not_said() -> None:
    assert gathered(encode([Start(), Usage(output_tokens=0), Finish(Reason.STOP)]))["usage"] == {
        "billed_units": {"output_tokens": 0},
        "tokens": {"output_tokens": 0},
    }
    assert "usage" not in gathered(encode([Start(), Finish(Reason.STOP)]))


def test_media_becomes_a_sentence_and_other_choices_are_not_mixed_in() -> None:
    events: list[Event] = [
        Start(), PartStart(0, PartKind.IMAGE), MediaDelta(0, "image/png", data="QUJD"), PartEnd(0),
        PartStart(1, TEXT, choice=1), TextDelta(1, "another answer"), PartEnd(1), Warn("seed is ignored"),
        Unknown("x", b"{}"), PartStart(2, PartKind.FILE), MediaDelta(2, url="https://x/y"), PartEnd(2),
        Finish(Reason.STOP),
    ]  # fmt: skip
    assert [b["text"] for b in gathered(encode(events))["blocks"]] == [
        "[file: this protocol cannot carry it]",
        "[file](https://x/y)",
    ]


@given(event_streams(noise=True), st.integers(0, 10_000))
def test_any_legal_stream_is_well_formed_whatever_the_batches(events: list[Event], seed: int) -> None:
    stream = encode(events)
    gathered(stream)
    batched = Encoder(answer())
    cut = seed % (len(events) + 1)
    assert batched.feed(events[:cut]) + batched.feed(events[cut:]) == stream


@given(event_streams(end="error", noise=True))
@pytest.mark.fault("F13", "F16")
def test_any_failed_stream_closes_its_blocks_and_keeps_its_text(events: list[Event]) -> None:
    stream = encode(events)
    assert gathered(stream)["finish_reason"] == "ERROR"
    want, got = Fold().feed_all(events), Fold().feed_all(decode(stream))
    assert got.error is not None
    assert got.reply().choices[0].text == want.reply().choices[0].text


@given(event_streams(end="open"))
def test_a_stream_without_its_end_has_no_terminator(events: list[Event]) -> None:
    assert "message-end" not in names(encode(events))


def test_the_keep_alive_is_a_comment() -> None:
    assert DIALECT.keep_alive == b": ping\n\n"

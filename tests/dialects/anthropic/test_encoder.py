from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.dialects.anthropic import DIALECT
from rivermouth.dialects.anthropic.encoder import Encoder
from rivermouth.ir.errors import ApiError, Kind
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
from rivermouth.ir.fold import Fold, fold
from tests.dialects.anthropic.case import answer, decode, encode, pairs
from tests.strategies import event_streams

TEXT, TOOL, REASONING = PartKind.TEXT, PartKind.TOOL, PartKind.REASONING
FAILURE = Error(ApiError(Kind.NETWORK, "the connection was lost"))


def blocks(stream: bytes) -> list[dict[str, Any]]:
    """The content blocks as a strict client gathers them: dense, one open at a time, each closed.

    In a stream that failed, the calls that stay open are those that were cut.
    """
    gathered: list[dict[str, Any]] = []
    is_open = False
    failed = "error" in names(stream)

    def none_is_open() -> bool:
        return not is_open or (failed and gathered[-1]["type"] == "tool_use")

    for name, data in pairs(stream):
        assert data["type"] == name
        if name == "content_block_start":
            assert none_is_open()
            assert data["index"] == len(gathered)
            gathered.append(dict(data["content_block"]))
            is_open = True
        elif name == "content_block_delta":
            assert is_open
            assert data["index"] == len(gathered) - 1
            gather(gathered[-1], data["delta"])
        elif name == "content_block_stop":
            assert is_open
            assert data["index"] == len(gathered) - 1
            is_open = False
    assert none_is_open()
    return gathered


def gather(block: dict[str, Any], delta: dict[str, Any]) -> None:
    assert "signed" not in block, "nothing comes after the signature"
    match delta["type"]:
        case "text_delta":
            block["text"] += delta["text"]
        case "thinking_delta":
            block["thinking"] += delta["thinking"]
        case "input_json_delta":
            block["json"] = block.get("json", "") + delta["partial_json"]
        case "signature_delta":
            block["signature"] = delta["signature"]
            block["signed"] = True


def names(stream: bytes) -> list[str]:
    return [name for name, _ in pairs(stream)]


def last_delta(events: list[Event]) -> dict[str, Any]:
    return next(data for name, data in pairs(encode(events)) if name == "message_delta")


@pytest.mark.promise(149, 150, 151, 152, 153, 154, 155, 156)
def test_a_plain_answer_is_the_six_kinds_of_frame_in_order() -> None:
    events: list[Event] = [
        Start("up", "their-name"),
        PartStart(0, TEXT),
        TextDelta(0, "Hel"),
        TextDelta(0, "lo"),
        PartEnd(0),
        Usage(input_tokens=9, output_tokens=2),
        Finish(Reason.STOP),
    ]
    assert pairs(encode(events, input_estimate=8)) == [
        (
            "message_start",
            {
                "type": "message_start",
                "message": {
                    "id": "msg_01J",
                    "type": "message",
                    "role": "assistant",
                    "model": "gpt-x",
                    "content": [],
                    "stop_reason": None,
                    "stop_sequence": None,
                    "usage": {"input_tokens": 8, "output_tokens": 0},
                },
            },
        ),
        (
            "content_block_start",
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        ),
        (
            "content_block_delta",
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hel"}},
        ),
        (
            "content_block_delta",
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "lo"}},
        ),
        ("content_block_stop", {"type": "content_block_stop", "index": 0}),
        (
            "message_delta",
            {
                "type": "message_delta",
                "delta": {"stop_reason": "end_turn", "stop_sequence": None},
                "usage": {"input_tokens": 9, "output_tokens": 2},
            },
        ),
        ("message_stop", {"type": "message_stop"}),
    ]


@pytest.mark.promise(149)
def test_every_frame_is_an_event_line_a_data_line_and_a_blank_line() -> None:
    stream = encode([Start(), PartStart(0, TEXT), TextDelta(0, "a\nb\r\n\n"), PartEnd(0), Finish(Reason.STOP)])
    lines = stream.decode().split("\n")
    assert lines[-1] == ""
    groups = [lines[i : i + 3] for i in range(0, len(lines) - 1, 3)]
    assert all(e.startswith("event: ") and d.startswith("data: {") and blank == "" for e, d, blank in groups)


@pytest.mark.promise(174)
def test_each_piece_of_text_is_sent_when_it_comes() -> None:
    stream = Encoder(answer())
    stream.feed([Start(), PartStart(0, TEXT)])
    sent = [stream.feed([TextDelta(0, piece)]) for piece in ("a", "b", "c")]
    assert [piece in data for piece, data in zip((b'"text":"a"', b'"text":"b"', b'"text":"c"'), sent, strict=True)]
    assert all(data.endswith(b"}}\n\n") for data in sent)


@pytest.mark.fault("F5")
def test_separators_that_split_lines_are_escaped() -> None:
    stream = encode([Start(), PartStart(0, TEXT), TextDelta(0, "a\u2028b\u2029c\u0085d é")])
    assert len(stream.decode().splitlines()) == stream.count(b"\n")
    assert blocks(stream + encode_stop(0)) == [{"type": "text", "text": "a\u2028b\u2029c\u0085d é"}]


def encode_stop(index: int) -> bytes:
    return b'event: content_block_stop\ndata: {"type":"content_block_stop","index":%d}\n\n' % index


@pytest.mark.fault("F21", "F24")
def test_a_tool_after_an_empty_text_opens_no_text_block() -> None:
    events: list[Event] = [
        Start(),
        PartStart(0, TEXT),
        PartEnd(0),
        PartStart(1, TOOL, id="call_1", name="f"),
        ArgsDelta(1, '{"a":'),
        ArgsDelta(1, "1}"),
        PartEnd(1),
        Finish(Reason.STOP),
    ]
    stream = encode(events)
    assert blocks(stream) == [{"type": "tool_use", "id": "call_1", "name": "f", "input": {}, "json": '{"a":1}'}]
    assert last_delta(events)["delta"]["stop_reason"] == "tool_use"


@pytest.mark.fault("F20")
def test_empty_arguments_join_to_an_empty_object() -> None:
    events: list[Event] = [Start(), PartStart(0, TOOL, id="c", name="f"), PartEnd(0), Finish(Reason.TOOL_CALLS)]
    (block,) = blocks(encode(events))
    assert block == {"type": "tool_use", "id": "c", "name": "f", "input": {}}


@pytest.mark.parametrize(
    ("pieces", "joined"),
    [
        (["null"], {}),
        ([" ", "nu", "ll"], {}),
        (["\n", '{"a"', ":1}"], {"a": 1}),
        (["[1,", "2]"], {"input": [1, 2]}),
        (["say ", "hi"], {"input": "say hi"}),
        ([" "], {}),
    ],
)
def test_arguments_that_are_no_object_reach_the_client_as_one(pieces: list[str], joined: Any) -> None:
    deltas: list[Event] = [ArgsDelta(0, piece) for piece in pieces]
    head: list[Event] = [Start(), PartStart(0, TOOL, id="c", name="f")]
    (block,) = blocks(encode([*head, *deltas, PartEnd(0), Finish(Reason.TOOL_CALLS)]))
    assert json.loads(block.get("json", "") or "{}") == joined


@pytest.mark.fault("F23", "F25")
def test_reasoning_is_signed_once_right_before_its_stop() -> None:
    events: list[Event] = [
        Start(),
        PartStart(0, REASONING),
        ReasoningDelta(0, "hm"),
        Signature(0, "anthropic:EqQB"),
        ReasoningDelta(0, "m"),
        PartEnd(0),
        PartStart(1, REASONING),
        ReasoningDelta(1, "x"),
        PartEnd(1),
        PartStart(2, REASONING),
        Signature(2, "foreign"),
        PartEnd(2),
        PartStart(3, REASONING),
        PartEnd(3),
        Finish(Reason.STOP),
    ]
    assert blocks(encode(events)) == [
        {"type": "thinking", "thinking": "hmm", "signature": "EqQB", "signed": True},
        {"type": "thinking", "thinking": "x", "signature": "rivermouth.1.", "signed": True},
        {"type": "thinking", "thinking": "", "signature": "rivermouth.1.LnwwfGZvcmVpZ24", "signed": True},
    ]


def test_hidden_reasoning_is_a_block_without_deltas() -> None:
    events: list[Event] = [
        Start(),
        PartStart(0, REASONING, redacted=True),
        Signature(0, "anthropic:EmwK"),
        PartEnd(0),
        PartStart(1, REASONING, redacted=True),
        PartEnd(1),
        Finish(Reason.STOP),
    ]
    stream = encode(events)
    assert blocks(stream) == [{"type": "redacted_thinking", "data": "EmwK"}]
    assert "content_block_delta" not in names(stream)


@pytest.mark.fault("F26")
def test_overlapping_parts_are_put_in_order() -> None:
    events: list[Event] = [
        Start(),
        PartStart(0, TOOL, id="a", name="f"),
        PartStart(1, TOOL, id="b", name="g"),
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
    assert blocks(stream) == [
        {"type": "tool_use", "id": "a", "name": "f", "input": {}, "json": '{"x":1}'},
        {"type": "tool_use", "id": "b", "name": "g", "input": {}, "json": '{"y":2}'},
        {"type": "text", "text": "later"},
    ]
    stepwise = Encoder(answer())
    pieces = [stepwise.feed([e]) for e in events]
    assert b"".join(pieces) == stream
    assert b'"la"' in pieces[10], "what waited goes out as soon as its turn has come"


@pytest.mark.fault("F35")
def test_what_waits_is_bounded() -> None:
    stream = Encoder(answer(), cap_chars=100)
    stream.feed([Start(), PartStart(0, TEXT), TextDelta(0, "a"), PartStart(1, TEXT), TextDelta(1, "x" * 100)])
    assert stream.statistics() == {"waiting_chars": 100, "cap_chars": 100}
    with pytest.raises(ApiError) as raised:
        stream.feed([TextDelta(1, "x")])
    ended = stream.feed([Error(raised.value)])
    assert names(ended)[-1] == "error"


@pytest.mark.fault("F13", "F14")
def test_an_error_closes_what_is_open_in_order_and_nothing_follows() -> None:
    events: list[Event] = [
        Start(),
        PartStart(0, TEXT),
        TextDelta(0, "half"),
        PartStart(1, TOOL, id="c", name="f"),
        ArgsDelta(1, '{"a'),
        FAILURE,
        TextDelta(0, "never"),
        Finish(Reason.STOP),
    ]
    stream = encode(events)
    assert [b["type"] for b in blocks(stream)] == ["text", "tool_use"]
    assert names(stream).count("content_block_stop") == 1
    assert names(stream)[-1] == "error"
    assert "message_stop" not in names(stream)
    assert pairs(stream)[-1][1] == {
        "type": "error",
        "error": {"type": "api_error", "message": "the connection was lost; try again later"},
        "request_id": "01J",
    }


@pytest.mark.fault("F14")
def test_an_error_before_anything_else_is_only_an_error() -> None:
    assert names(encode([FAILURE])) == names(encode([Start(), FAILURE])) == ["error"]


@pytest.mark.parametrize(
    ("events", "word", "sequence"),
    [
        ([Finish(Reason.STOP)], "end_turn", None),
        ([Finish(Reason.STOP, "END")], "stop_sequence", "END"),
        ([Finish(Reason.LENGTH)], "max_tokens", None),
        ([Finish(Reason.CONTENT_FILTER)], "refusal", None),
        ([PartStart(0, PartKind.REFUSAL), TextDelta(0, "no"), PartEnd(0), Finish(Reason.STOP)], "refusal", None),
    ],
)
def test_why_it_ended(events: list[Event], word: str, sequence: str | None) -> None:
    assert last_delta([Start(), *events])["delta"] == {"stop_reason": word, "stop_sequence": sequence}


@pytest.mark.fault("F28")
def test_the_input_leaves_cached_tokens_out() -> None:
    usage = Usage(input_tokens=100, output_tokens=7, cached_tokens=60, cache_write_tokens=30, reasoning_tokens=3)
    said = {
        "input_tokens": 10,
        "cache_creation_input_tokens": 30,
        "cache_read_input_tokens": 60,
        "output_tokens": 7,
        "output_tokens_details": {"thinking_tokens": 3},
    }
    assert last_delta([Start(), usage, Finish(Reason.STOP)])["usage"] == said
    known_first = pairs(encode([Start(), usage, PartStart(0, TEXT), TextDelta(0, "a")], input_estimate=5))
    assert known_first[0][1]["message"]["usage"] == said


@pytest.mark.fault("F29")
def test_what_is_not_known_is_not_said() -> None:
    assert last_delta([Start(), Usage(output_tokens=0), Finish(Reason.STOP)])["usage"] == {"output_tokens": 0}


def test_media_becomes_a_sentence_and_other_choices_are_not_mixed_in() -> None:
    events: list[Event] = [
        Start(),
        PartStart(0, PartKind.IMAGE),
        MediaDelta(0, "image/png", data="QUJD"),
        PartEnd(0),
        PartStart(1, TEXT, choice=1),
        TextDelta(1, "another answer"),
        PartEnd(1),
        Warn("seed is ignored"),
        Unknown("x", b"{}"),
        Finish(Reason.STOP),
    ]
    assert blocks(encode(events)) == [{"type": "text", "text": "[image: this protocol cannot carry it]"}]


@given(event_streams(noise=True), st.integers(0, 10_000))
def test_any_legal_stream_reads_back_as_itself_whatever_the_batches(events: list[Event], seed: int) -> None:
    stream = encode(events)
    blocks(stream)
    assert names(stream)[-1] == "message_stop"
    want, got = fold(events), fold(decode(stream))
    assert [c.reason for c in got.choices] == [c.reason for c in want.choices]
    assert got.choices[0].parts == want.choices[0].parts
    if want.usage is not None:
        assert got.usage == want.usage
    batched = Encoder(answer())
    cut = seed % (len(events) + 1)
    assert batched.feed(events[:cut]) + batched.feed(events[cut:]) == stream


@given(event_streams(end="error", noise=True))
@pytest.mark.fault("F13", "F16")
def test_any_failed_stream_closes_its_blocks_and_keeps_its_text(events: list[Event]) -> None:
    stream = encode(events)
    blocks(stream)
    assert names(stream).count("error") == 1
    assert names(stream)[-1] == "error"
    want, got = Fold().feed_all(events), Fold().feed_all(decode(stream))
    assert got.error is not None
    assert got.reply().choices[0].text == want.reply().choices[0].text


@given(event_streams(end="open"))
def test_a_stream_without_its_end_has_no_terminator(events: list[Event]) -> None:
    assert not {"message_delta", "message_stop", "error"} & set(names(encode(events)))


def test_the_keep_alive_is_a_ping() -> None:
    assert pairs(DIALECT.keep_alive or b"") == [("ping", {"type": "ping"})]


@pytest.mark.fault("F20")
@pytest.mark.parametrize(
    "pieces", [('{"a":1}{"a":1}',), ('{"a"', ":1}", '{"a":1}'), ("  ", '{"a":1} ', "</tool_call>")]
)
def test_what_a_model_writes_behind_an_object_is_not_sent(pieces: tuple[str, ...]) -> None:
    """An SDK parses each piece with what came before, and raises for anything that is no object."""
    deltas: list[Event] = [ArgsDelta(0, piece) for piece in pieces]
    stream = encode([Start(), PartStart(0, PartKind.TOOL, 0, "c", "f"), *deltas, PartEnd(0), Finish(Reason.TOOL_CALLS)])
    sent = [json.loads(line[6:]) for line in stream.decode().splitlines() if line.startswith("data: ")]
    text = "".join(e["delta"]["partial_json"] for e in sent if e.get("delta", {}).get("type") == "input_json_delta")
    assert json.loads(text) == {"a": 1}

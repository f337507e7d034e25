from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.dialects.cohere_v1 import DIALECT
from rivermouth.dialects.cohere_v1.encoder import Encoder
from rivermouth.dialects.cohere_v1.transcript import CAP_BYTES
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
from rivermouth.ir.fold import Fold, unfold
from rivermouth.ir.lanes import WAITING_CAP_CHARS
from rivermouth.ir.reply import Reply
from tests.dialects.cohere_v1.case import NASTY, answer, decode, encode, lines, parse
from tests.strategies import event_streams, replies

TEXT, TOOL, REASONING = PartKind.TEXT, PartKind.TOOL, PartKind.REASONING
FAILURE = Error(ApiError(Kind.NETWORK, "the connection was lost"))
PLAIN: list[Event] = [
    Start("up", "their-name"),
    PartStart(0, TEXT),
    TextDelta(0, "Hel"),
    TextDelta(0, "lo"),
    PartEnd(0),
    Usage(input_tokens=9, output_tokens=2, cached_tokens=4),
    Finish(Reason.STOP),
]


def kinds(stream: bytes) -> list[str]:
    return [line["event_type"] for line in lines(stream)]


def said(stream: bytes) -> str:
    """What the pieces say; the response, if there is one, must say the same."""
    found = lines(stream)
    text = "".join(line["text"] for line in found if line["event_type"] == "text-generation")
    if found and found[-1]["event_type"] == "stream-end":
        response = found[-1]["response"]
        assert response["text"] == response["message"]["content"] == text
    return text


def called(stream: bytes) -> list[tuple[str, str, str]]:
    """The calls as their pieces say them."""
    calls: dict[int, list[str]] = {}
    for line in lines(stream):
        if line["event_type"] == "tool-calls-chunk":
            delta = line["tool_call_delta"]
            call = calls.setdefault(delta["index"], [delta.get("id"), delta.get("name"), ""])
            call[2] += delta.get("parameters", "")
    assert list(calls) == list(range(len(calls)))
    return [(a, b, c) for a, b, c in calls.values()]


@pytest.mark.promise(160, 161, 162)
def test_a_plain_answer() -> None:
    counts = {"input_tokens": 9, "output_tokens": 2}
    assert lines(encode(PLAIN)) == [
        {"is_finished": False, "event_type": "stream-start", "generation_id": "01J"},
        {"is_finished": False, "event_type": "text-generation", "text": "Hel"},
        {"is_finished": False, "event_type": "text-generation", "text": "lo"},
        {
            "is_finished": True,
            "event_type": "stream-end",
            "finish_reason": "COMPLETE",
            "response": {
                "response_id": "01J",
                "id": "01J",
                "generation_id": "01J",
                "text": "Hello",
                "message": {"role": "assistant", "content": "Hello"},
                "finish_reason": "COMPLETE",
                "meta": {
                    "api_version": {"version": "1"},
                    "billed_units": counts,
                    "tokens": counts,
                    "cached_tokens": 4,
                },
            },
        },
    ]
    assert DIALECT.surfaces[0].stream_type == "application/json"


@pytest.mark.promise(174)
def test_each_piece_of_text_is_sent_when_it_comes() -> None:
    stream = Encoder(answer())
    stream.feed([Start(), PartStart(0, TEXT)])
    sent = [stream.feed([TextDelta(0, piece)]) for piece in ("a", "b", "c")]
    assert [piece in data for piece, data in zip((b'"text":"a"', b'"text":"b"', b'"text":"c"'), sent, strict=True)]
    assert all(data.endswith(b"}\n") for data in sent)


@pytest.mark.fault("F5")
def test_separators_that_split_lines_are_escaped_in_every_place() -> None:
    stream = encode([Start(), PartStart(0, TEXT), TextDelta(0, NASTY), TextDelta(0, NASTY), Finish(Reason.STOP)])
    assert said(stream) == NASTY * 2


def test_half_an_emoji_is_in_the_response_what_it_was_in_the_pieces() -> None:
    halves: list[Event] = [TextDelta(0, "\ud83d"), TextDelta(0, "\ude00")]
    assert said(encode([Start(), PartStart(0, TEXT), *halves, PartEnd(0), Finish(Reason.STOP)])) == "\ufffd\ufffd"


@pytest.mark.fault("F24", "F26")
def test_calls_go_out_in_pieces_then_whole_and_whole_again() -> None:
    stream = encode(
        [
            Start(),
            PartStart(0, TEXT),
            TextDelta(0, "I look."),
            PartEnd(0),
            PartStart(1, TOOL, 0, "a", "f"),
            PartStart(2, TOOL, 0, "b", "g"),
            ArgsDelta(1, '{"x":'),
            PartEnd(2),
            ArgsDelta(1, "1}"),
            PartEnd(1),
            Finish(Reason.TOOL_CALLS),
        ]
    )
    assert called(stream) == [("a", "f", '{"x":1}'), ("b", "g", "")]
    whole = [{"id": "a", "name": "f", "parameters": {"x": 1}}, {"id": "b", "name": "g", "parameters": {}}]
    *_, generation, end = lines(stream)
    assert (generation["event_type"], generation["tool_calls"]) == ("tool-calls-generation", whole)
    assert (end["response"]["tool_calls"], end["finish_reason"]) == (whole, "COMPLETE")


@pytest.mark.parametrize(
    ("arguments", "parameters"),
    [("", {}), ("null", {}), ('{"a"', {"input": '{"a"'}), ("[1]", {"input": [1]}), ("say hi", {"input": "say hi"})],
)
def test_arguments_that_are_no_object_reach_the_client_as_one(arguments: str, parameters: Any) -> None:
    pieces: list[Event] = [ArgsDelta(0, arguments)] if arguments else []
    stream = encode([Start(), PartStart(0, TOOL, 0, "c", "f"), *pieces, PartEnd(0), Finish(Reason.LENGTH)])
    end = lines(stream)[-1]
    assert end["response"]["tool_calls"][0]["parameters"] == parameters
    assert end["finish_reason"] == "MAX_TOKENS"


@pytest.mark.fault("F23")
def test_reasoning_is_not_mixed_into_the_text() -> None:
    events: list[Event] = [
        Start(),
        PartStart(0, REASONING),
        ReasoningDelta(0, "hm"),
        Signature(0, "s"),
        PartEnd(0),
        PartStart(1, TEXT),
        TextDelta(1, "42"),
        PartEnd(1),
        Finish(Reason.STOP),
    ]
    stream = encode(events)
    assert said(stream) == "42"
    assert b"hm" not in stream


def test_the_history_of_the_response_is_what_the_client_sends_next() -> None:
    asked = parse(
        message="",
        chat_history=[{"role": "USER", "message": "Hi", "x": 1.50}],
        tool_results=[{"call": {"name": "f", "parameters": {}}, "outputs": [{"a": 1}]}],
    )
    end = lines(encode(PLAIN, request=asked))[-1]["response"]
    assert end["chat_history"] == [
        {"role": "USER", "message": "Hi", "x": 1.5},
        {"role": "TOOL", "tool_results": [{"call": {"name": "f", "parameters": {}}, "outputs": [{"a": 1}]}]},
        {"role": "CHATBOT", "message": "Hello"},
    ]
    end = lines(encode(PLAIN, request=parse(message="Hi")))[-1]["response"]
    assert end["chat_history"] == [{"role": "USER", "message": "Hi"}, {"role": "CHATBOT", "message": "Hello"}]


@pytest.mark.fault("F13", "F14")
def test_an_error_ends_the_stream_with_all_that_was_said() -> None:
    events: list[Event] = [
        Start(),
        PartStart(0, TEXT),
        TextDelta(0, "half"),
        PartStart(1, TOOL, 0, "c", "f"),
        ArgsDelta(1, '{"a'),
        Usage(input_tokens=7),
        FAILURE,
        TextDelta(0, "never"),
        Finish(Reason.STOP),
    ]
    stream = encode(events)
    assert said(stream) == "half"
    end = lines(stream)[-1]
    assert (end["finish_reason"], end["error"]) == ("ERROR", "the connection was lost")
    assert (end["response"]["finish_reason"], end["response"]["meta"]["tokens"]) == ("ERROR", {"input_tokens": 7})
    assert "tool-calls-generation" not in kinds(stream)


@pytest.mark.fault("F14")
def test_an_error_before_anything_else_is_an_end_without_text() -> None:
    assert kinds(encode([FAILURE])) == kinds(encode([Start(), FAILURE])) == ["stream-start", "stream-end"]


@pytest.mark.parametrize(
    ("finish", "word"),
    [
        (Finish(Reason.STOP), "COMPLETE"),
        (Finish(Reason.STOP, "END"), "COMPLETE"),
        (Finish(Reason.LENGTH), "MAX_TOKENS"),
        (Finish(Reason.CONTENT_FILTER), "ERROR_TOXIC"),
    ],
)
def test_why_it_ended(finish: Finish, word: str) -> None:
    end = lines(encode([Start(), finish]))[-1]
    assert (end["finish_reason"], end["response"]["finish_reason"]) == (word, word)


@pytest.mark.fault("F29")
def test_what_is_not_known_is_not_said() -> None:
    end = lines(encode([Start(), Usage(output_tokens=0), Finish(Reason.STOP)]))[-1]["response"]
    assert end["meta"]["tokens"] == {"output_tokens": 0}
    assert lines(encode([Start(), Finish(Reason.STOP)]))[-1]["response"]["meta"] == {"api_version": {"version": "1"}}


def test_media_becomes_a_sentence_and_other_choices_are_not_mixed_in() -> None:
    events: list[Event] = [
        Start(), PartStart(0, PartKind.IMAGE), MediaDelta(0, "image/png", data="QUJD"), PartEnd(0),
        PartStart(1, TEXT, choice=1), TextDelta(1, "another answer"), PartEnd(1), Warn("seed is ignored"),
        Unknown("x", b"{}"), PartStart(2, TOOL, 1, "c", "f"), ArgsDelta(2, "{}"), PartEnd(2),
        PartStart(3, PartKind.FILE, 1), MediaDelta(3, url="https://x"), PartEnd(3), Finish(Reason.STOP),
    ]  # fmt: skip
    assert said(encode(events)) == "[file: this protocol cannot carry it]"
    assert called(encode(events)) == []


@pytest.mark.fault("F35")
@pytest.mark.parametrize(
    ("start", "delta"),
    [
        (PartStart(0, TEXT), TextDelta(0, "x" * (CAP_BYTES - 2))),
        (PartStart(0, TOOL, 0, "c", "f"), ArgsDelta(0, "x" * CAP_BYTES)),
    ],
    ids=["text", "arguments"],
)
def test_what_is_repeated_at_the_end_is_bounded(start: PartStart, delta: Event) -> None:
    stream = Encoder(answer())
    stream.feed([Start(), start, delta])
    held = {"held_bytes": CAP_BYTES, "cap_bytes": CAP_BYTES}
    assert stream.statistics() == {**held, "waiting_chars": 0, "cap_chars": WAITING_CAP_CHARS}
    with pytest.raises(ApiError) as raised:
        stream.feed([delta])
    assert stream.statistics()["held_bytes"] == 0
    (end,) = lines(stream.feed([Error(raised.value)]))
    assert (end["finish_reason"], end["error"]) == ("ERROR", raised.value.message)
    assert end["response"]["text"] == end["response"]["message"]["content"] == ""
    assert "tool_calls" not in end["response"]


@pytest.mark.fault("F26")
def test_texts_that_overlap_are_said_one_after_the_other() -> None:
    events: list[Event] = [
        Start(), PartStart(0, TEXT), PartStart(1, PartKind.REFUSAL), PartStart(2, PartKind.IMAGE), TextDelta(1, "c"),
        TextDelta(0, "a"), MediaDelta(2, url="https://x"), PartEnd(1), TextDelta(0, "b"), PartEnd(2),
    ]  # fmt: skip
    assert said(encode([*events, PartEnd(0), Finish(Reason.STOP)])) == "abc[file](https://x)"
    end = lines(encode([*events, Error(ApiError(Kind.NETWORK, "cut"))]))[-1]
    assert end["response"]["text"] == "abc[file](https://x)"


@given(event_streams(noise=True), st.integers(0, 10_000))
def test_any_legal_stream_says_the_same_in_pieces_and_whole(events: list[Event], seed: int) -> None:
    stream = encode(events)
    said(stream)
    end = lines(stream)[-1]["response"]
    assert [c["id"] for c in end.get("tool_calls", [])] == [identity for identity, _, _ in called(stream)]
    batched = Encoder(answer())
    cut = seed % (len(events) + 1)
    assert batched.feed(events[:cut]) + batched.feed(events[cut:]) == stream


@given(event_streams(end="error", noise=True))
@pytest.mark.fault("F13", "F16")
def test_any_failed_stream_keeps_its_text(events: list[Event]) -> None:
    stream = encode(events)
    said(stream)
    assert lines(stream)[-1]["finish_reason"] == "ERROR"
    want, got = Fold().feed_all(events), Fold().feed_all(decode(stream))
    assert got.error is not None
    assert got.reply().choices[0].text == want.reply().choices[0].text


@given(event_streams(end="open"))
def test_a_stream_without_its_end_has_no_terminator(events: list[Event]) -> None:
    assert "stream-end" not in kinds(encode(events))


@pytest.mark.promise(60)
@given(replies(1, (TEXT, TOOL)))
def test_the_response_that_ends_a_stream_is_the_reply(reply: Reply) -> None:
    end = lines(encode(unfold(reply)))[-1]["response"]
    assert end == json.loads(DIALECT.encode_reply(reply, answer()))


def test_nothing_is_sent_while_waiting() -> None:
    assert DIALECT.keep_alive is None

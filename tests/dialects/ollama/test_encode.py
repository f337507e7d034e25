from __future__ import annotations

import json as stdlib_json
from typing import Any

import pytest
from hypothesis import given

from rivermouth.dialects.ollama.encode import Encoder, encode_reply, encode_standby, standby
from rivermouth.dialects.ollama.tables import DONE_REASONS
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
from rivermouth.ir.fold import unfold
from rivermouth.ir.reply import Choice, Reply
from rivermouth.ir.request import Local, Message, Reasoning, Request, Role, Text, ToolCall
from rivermouth.wire import json
from tests.dialects.ollama.case import STAMP, answer, encode, lines
from tests.strategies import event_streams, replies

ALL_KINDS = tuple(PartKind)


def content(frame: dict[str, Any]) -> Any:
    return frame["message"]["content"] if "message" in frame else frame["response"]


def text_events(*pieces: str, reason: Reason = Reason.STOP) -> list[Event]:
    deltas = [TextDelta(0, p) for p in pieces]
    return [Start(), PartStart(0, PartKind.TEXT), *deltas, PartEnd(0), Finish(reason)]


def call_events(arguments: str, reason: Reason = Reason.TOOL_CALLS) -> list[Event]:
    args = [ArgsDelta(0, a) for a in arguments]
    return [Start(), PartStart(0, PartKind.TOOL, id="c1", name="f"), *args, PartEnd(0), Finish(reason)]


@pytest.mark.promise(12, 15, 16, 21, 144, 146, 147)
def test_chat_frames() -> None:
    first, second, last = lines(encode(text_events("Hel", "lo"), total_ns=7))
    head = {"model": "m:1b", "created_at": STAMP}
    assert first == {**head, "message": {"role": "assistant", "content": "Hel"}, "done": False}
    assert second == {**head, "message": {"role": "assistant", "content": "lo"}, "done": False}
    assert last == {
        **head,
        "message": {"role": "assistant", "content": ""},
        "done": True,
        "done_reason": "stop",
        "total_duration": 7,
    }


@pytest.mark.promise(11, 15, 16, 20, 144, 146, 148)
def test_generate_frames() -> None:
    first, last = lines(encode(text_events("Hi"), "generate"))
    head = {"model": "m:1b", "created_at": STAMP}
    assert first == {**head, "response": "Hi", "done": False}
    assert last == {**head, "response": "", "done": True, "done_reason": "stop"}


@pytest.mark.promise(17)
@pytest.mark.fault("F24")
@pytest.mark.parametrize("kind", ["chat", "generate"])
@pytest.mark.parametrize(
    ("reason", "word"),
    [
        (Reason.STOP, "stop"),
        (Reason.LENGTH, "length"),
        (Reason.TOOL_CALLS, "stop"),
        (Reason.CONTENT_FILTER, "stop"),
    ],
)
def test_done_reason(kind: str, reason: Reason, word: str) -> None:
    assert lines(encode(text_events("x", reason=reason), kind))[-1]["done_reason"] == word


def test_every_reason_has_a_word() -> None:
    assert set(DONE_REASONS) == set(Reason)


@pytest.mark.promise(18, 19)
@pytest.mark.fault("F10", "F13")
@pytest.mark.parametrize("kind", ["chat", "generate"])
def test_a_failure_is_the_last_line_and_nothing_follows(kind: str) -> None:
    encoder = Encoder(answer(kind))
    failed = encoder.feed(
        [Start(), PartStart(0, PartKind.TEXT), TextDelta(0, "x"), Error(ApiError(Kind.NETWORK, "gone"))]
    )
    assert lines(failed)[1:] == [{"error": "gone"}]
    assert b'"done":true' not in failed
    assert encoder.feed([TextDelta(0, "late"), Finish(Reason.STOP)]) == b""


@pytest.mark.promise(18)
def test_the_error_is_never_an_empty_string() -> None:
    assert lines(encode([Error(ApiError(Kind.TIMEOUT, ""))])) == [{"error": "timeout"}]


@pytest.mark.fault("F28", "F29")
def test_counters_leave_out_zero_and_unknown() -> None:
    usage = Usage(input_tokens=5, output_tokens=0, cached_tokens=2, load_ns=1, prompt_ns=None, output_ns=3)
    (last,) = lines(encode([Start(), Usage(input_tokens=4), usage, Finish(Reason.STOP)], total_ns=9))
    counters = {k: v for k, v in last.items() if k.endswith(("_count", "_duration"))}
    assert counters == {"total_duration": 9, "load_duration": 1, "prompt_eval_count": 5, "eval_duration": 3}


@pytest.mark.fault("F23", "F25")
@pytest.mark.parametrize("kind", ["chat", "generate"])
def test_thinking_has_its_own_member(kind: str) -> None:
    events = [PartStart(0, PartKind.REASONING), ReasoningDelta(0, "hm"), Signature(0, "s"), PartEnd(0)]
    (frame,) = lines(encode([Start(), *events], kind))
    place = frame["message"] if kind == "chat" else frame
    assert place["thinking"] == "hm"
    assert place["content" if kind == "chat" else "response"] == ""


@pytest.mark.fault("F19")
def test_a_call_is_one_frame_with_an_object_however_its_arguments_were_cut() -> None:
    called, last = lines(encode(call_events('{"a": 1.50, "b": "\\u2028"}')))
    assert called["message"]["content"] == ""
    assert called["message"]["tool_calls"] == [
        {"id": "c1", "function": {"index": 0, "name": "f", "arguments": {"a": 1.5, "b": "\u2028"}}}
    ]
    assert called["done"] is False
    assert last["done_reason"] == "stop"


@pytest.mark.fault("F20")
@pytest.mark.parametrize("arguments", ["", "  ", "null", "{}"])
def test_no_arguments_are_an_empty_object(arguments: str) -> None:
    assert lines(encode(call_events(arguments)))[0]["message"]["tool_calls"][0]["function"]["arguments"] == {}


def test_arguments_over_several_lines_stay_in_one() -> None:
    assert lines(encode(call_events('{\n "a": [1,\r\n 2]\n}')))[0]["message"]["tool_calls"][0]["function"][
        "arguments"
    ] == {"a": [1, 2]}


@pytest.mark.parametrize("arguments", ['{"a": "cut o', "[1]", '"text"', "1e999", "nonsense", '{"a":"\n"}'])
@pytest.mark.parametrize("kind", ["chat", "generate"])
def test_a_call_that_is_no_object_is_passed_on_as_text(arguments: str, kind: str) -> None:
    stream = lines(encode(call_events(arguments, Reason.LENGTH), kind))
    text = stream[0]["message"]["content"] if kind == "chat" else stream[0]["response"]
    assert text == f'{{"name": "f", "arguments": {arguments}}}'
    assert "tool_calls" not in stdlib_json.dumps(stream)
    assert stream[-1]["done_reason"] == "length"


@pytest.mark.fault("F26")
def test_calls_that_interleave_are_sent_one_after_the_other() -> None:
    stream = lines(
        encode(
            [
                Start(),
                PartStart(0, PartKind.TOOL, id="a", name="f"),
                PartStart(1, PartKind.TOOL, id="b", name="g"),
                ArgsDelta(1, '{"y":'),
                ArgsDelta(0, '{"x":1}'),
                ArgsDelta(1, "2}"),
                PartEnd(1),
                PartEnd(0),
            ]
        )
    )
    calls = [c for f in stream for c in f["message"]["tool_calls"]]
    assert [(c["id"], c["function"]["index"], c["function"]["arguments"]) for c in calls] == [
        ("b", 0, {"y": 2}),
        ("a", 1, {"x": 1}),
    ]


@pytest.mark.fault("F35")
def test_arguments_without_end_are_an_error_and_not_memory() -> None:
    encoder = Encoder(answer(), cap_chars=10)
    encoder.feed([Start(), PartStart(0, PartKind.TOOL, id="a", name="f"), ArgsDelta(0, "x" * 10)])
    assert encoder.statistics() == {"waiting_chars": 10, "cap_chars": 10}
    with pytest.raises(ApiError, match="exceed 10 characters") as caught:
        encoder.feed([PartStart(1, PartKind.TEXT), TextDelta(1, "so far"), ArgsDelta(0, "x"), PartEnd(0)])
    assert caught.value.kind is Kind.UPSTREAM
    said, end = lines(encoder.feed([Error(caught.value)]))
    assert said["message"]["content"] == "so far"
    assert end == {"error": caught.value.message}
    assert encoder.feed([Finish(Reason.STOP)]) == b""


@pytest.mark.fault("F26")
@pytest.mark.parametrize("kind", ["chat", "generate"])
def test_texts_that_overlap_are_said_one_after_the_other(kind: str) -> None:
    """The stream says what the whole answer says; so with thinking, which has a place of its own."""
    events: list[Event] = [
        Start(),
        PartStart(0, PartKind.TEXT),
        PartStart(1, PartKind.REASONING),
        PartStart(2, PartKind.IMAGE),
        PartStart(3, PartKind.REFUSAL),
        TextDelta(3, "third"),
        PartEnd(3),
        ReasoningDelta(1, "hm"),
        MediaDelta(2, url="second"),
        TextDelta(0, "first"),
    ]
    encoder = Encoder(answer(kind))
    early = lines(encoder.feed(events))
    late = lines(encoder.feed([PartEnd(0), PartEnd(1), PartEnd(2), Finish(Reason.STOP)]))
    assert [content(f) for f in early] == ["", "first"]
    assert [content(f) for f in late] == ["![image](second)", "third", ""]


@pytest.mark.fault("F26", "F35")
def test_what_waits_is_bounded_and_told_when_the_stream_fails() -> None:
    encoder = Encoder(answer(), cap_chars=10)
    encoder.feed([Start(), PartStart(0, PartKind.TEXT), PartStart(1, PartKind.TEXT), TextDelta(1, "x" * 10)])
    assert encoder.statistics()["waiting_chars"] == 10
    with pytest.raises(ApiError) as caught:
        encoder.feed([TextDelta(0, "now"), TextDelta(1, "x")])
    told = lines(encoder.feed([Error(caught.value)]))
    assert [content(f) for f in told[:-1]] == ["now", "x" * 10]
    assert told[-1] == {"error": caught.value.message}


def test_only_the_first_choice_is_spoken() -> None:
    stream = encode(
        [
            Start(),
            PartStart(0, PartKind.TEXT),
            PartStart(1, PartKind.TEXT, choice=1),
            TextDelta(1, "no"),
            TextDelta(0, "yes"),
            PartStart(2, PartKind.TOOL, choice=1, id="a", name="f"),
            ArgsDelta(2, "{}"),
            PartEnd(2),
        ]
    )
    assert [f["message"]["content"] for f in lines(stream)] == ["yes"]


def test_a_refusal_is_content_and_media_are_links() -> None:
    stream = encode(
        [
            Start(),
            PartStart(0, PartKind.REFUSAL),
            TextDelta(0, "no"),
            PartEnd(0),
            PartStart(1, PartKind.IMAGE),
            MediaDelta(1, "image/png", "QUJD"),
            PartEnd(1),
            PartStart(2, PartKind.FILE),
            MediaDelta(2, url="https://x/y"),
            PartEnd(2),
        ]
    )
    assert [f["message"]["content"] for f in lines(stream)] == [
        "no",
        "![image](data:image/png;base64,QUJD)",
        "[file](https://x/y)",
    ]


def test_what_has_no_place_is_silent() -> None:
    assert encode([Start(), Warn("seed", "seed"), Unknown("ping", b"{}")]) == b""


@pytest.mark.fault("F5")
@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85", "\n", "\r", "\x0b", "\x0c", "\x1c", "\x1e"])
@pytest.mark.parametrize("kind", ["chat", "generate"])
def test_no_line_separator_of_any_client_is_in_a_frame(separator: str, kind: str) -> None:
    events: list[Event] = [
        Start(),
        PartStart(0, PartKind.TEXT),
        TextDelta(0, f"a{separator}b"),
        PartEnd(0),
        PartStart(1, PartKind.REASONING),
        ReasoningDelta(1, f"a{separator}b"),
        PartEnd(1),
        PartStart(2, PartKind.TOOL, id="c", name=f"f{separator}"),
        ArgsDelta(2, stdlib_json.dumps({"x": separator}, ensure_ascii=False)),
        PartEnd(2),
        Error(ApiError(Kind.UPSTREAM, separator)),
    ]
    stream = encode(events, kind, model=f"m{separator}")
    assert len(stream.decode().splitlines()) == 4
    assert len(lines(stream)) == 4


@given(event_streams(kinds=ALL_KINDS, noise=True))
def test_the_same_events_give_the_same_bytes_whatever_the_batches(events: list[Event]) -> None:
    whole = encode(events)
    encoder = Encoder(answer())
    assert b"".join(encoder.feed([e]) for e in events) == whole


@given(event_streams(kinds=ALL_KINDS, noise=True, n_choices=2))
def test_exactly_one_frame_is_done_and_it_is_the_last(events: list[Event]) -> None:
    for kind in ("chat", "generate"):
        assert [f["done"] for f in lines(encode(events, kind))][-1:] == [True]
        assert sum(f["done"] for f in lines(encode(events, kind))) == 1


@given(event_streams(kinds=ALL_KINDS, end="error"))
def test_exactly_one_line_is_the_error_and_it_is_the_last(events: list[Event]) -> None:
    stream = lines(encode(events))
    assert ["error" in f for f in stream] == [False] * (len(stream) - 1) + [True]


@pytest.mark.parametrize("kind", ["chat", "generate"])
@given(reply=replies())
def test_the_stream_adds_up_to_the_whole_reply(kind: str, reply: Reply) -> None:
    def place(frame: dict[str, object]) -> dict[str, object]:
        return frame["message"] if kind == "chat" else frame  # type: ignore[return-value]

    word = "content" if kind == "chat" else "response"
    stream = lines(encode(unfold(reply), kind, total_ns=3))
    whole = stdlib_json.loads(encode_reply(reply, answer(kind, total_ns=3)))
    assert "".join(place(f)[word] for f in stream) == place(whole)[word]  # type: ignore[misc]
    assert "".join(place(f).get("thinking", "") for f in stream) == place(whole).get("thinking", "")  # type: ignore[misc]
    assert [c for f in stream for c in place(f).get("tool_calls", [])] == place(whole).get("tool_calls", [])  # type: ignore[attr-defined]
    last = {k: v for k, v in stream[-1].items() if k not in ("message", "response")}
    assert last == {k: v for k, v in whole.items() if k not in ("message", "response", "thinking", "tool_calls")}


def test_a_whole_reply() -> None:
    choice = Choice((Reasoning("hm"), Text("Hi"), ToolCall("a", "f", "[]"), ToolCall("b", "g", "")), Reason.TOOL_CALLS)
    whole = stdlib_json.loads(encode_reply(Reply(choices=(choice,)), answer()))
    assert whole["message"] == {
        "role": "assistant",
        "content": 'Hi{"name": "f", "arguments": []}',
        "thinking": "hm",
        "tool_calls": [{"id": "b", "function": {"index": 0, "name": "g", "arguments": {}}}],
    }
    assert (whole["done"], whole["done_reason"]) == (True, "stop")


@pytest.mark.parametrize(
    ("keep_alive_s", "reason"), [(None, "load"), (5.0, "load"), (-1.0, "load"), (0.0, "unload"), (-0.0, "unload")]
)
@pytest.mark.parametrize("kind", ["chat", "generate"])
def test_nothing_to_answer_is_one_document_without_counters(kind: str, keep_alive_s: float, reason: str) -> None:
    request = Request(model="m", messages=(), stream=True, local=Local(keep_alive_s=keep_alive_s))
    assert standby(request) == reason
    document = stdlib_json.loads(encode_standby(request, answer(kind, total_ns=5)))
    said = {"message": {"role": "assistant", "content": ""}} if kind == "chat" else {"response": ""}
    assert document == {"model": "m:1b", "created_at": STAMP, **said, "done": True, "done_reason": reason}


def test_a_request_with_messages_is_no_standby() -> None:
    assert standby(Request(model="m", messages=(Message(Role.USER, ()),))) is None


def test_half_an_emoji_breaks_nothing() -> None:
    stream = encode(text_events("a\ud83d"))
    assert json.decode(stream.split(b"\n")[0])["message"]["content"] == "a\ufffd"

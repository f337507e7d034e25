from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.dialects.cohere_v1 import decoder as decoder_module
from rivermouth.dialects.cohere_v1.decoder import Decoder
from rivermouth.ir.errors import Kind, WireError
from rivermouth.ir.events import (
    Error,
    Event,
    Finish,
    PartEnd,
    PartKind,
    PartStart,
    Reason,
    Start,
    TextDelta,
    Unknown,
    Usage,
    Warn,
)
from rivermouth.ir.fold import fold
from rivermouth.ir.grammar import Grammar
from rivermouth.ir.request import Text, ToolCall
from rivermouth.wire.frame import Frame


def frame(kind: str | None, **members: Any) -> Frame:
    return Frame("", json.dumps({"event_type": kind, "is_finished": kind == "stream-end", **members}).encode())


START = frame("stream-start", generation_id="g1")


def text(said: str | None) -> Frame:
    return frame("text-generation", text=said)


def piece(index: Any, **said: Any) -> Frame:
    return frame("tool-calls-chunk", tool_call_delta={"index": index, **said})


def calls(*whole: dict[str, Any], **more: Any) -> Frame:
    return frame("tool-calls-generation", tool_calls=list(whole), **more)


def ending(word: str | None = "COMPLETE", error: Any = None, **response: Any) -> Frame:
    return frame("stream-end", finish_reason=word, error=error, response=response)


def run(*given: Frame) -> list[Event]:
    """All events of the lines and of the end of the stream, after the grammar has agreed to them."""
    decoder = Decoder()
    events = [e for f in given for e in decoder.feed(f)] + decoder.eof()
    Grammar().feed_all(events)
    return events


def parts(*given: Frame) -> tuple[Any, ...]:
    return fold(run(*given)).choices[0].parts


@pytest.mark.fault("F10")
def test_an_end_without_a_reason_is_no_good_end() -> None:
    last = run(START, text("a"), ending(None))[-1]
    assert isinstance(last, Error)
    assert last.error.kind is Kind.TRUNCATED
    assert run(START, text("a"), ending(None, finish_reason="MAX_TOKENS"))[-1] == Finish(Reason.LENGTH)


@pytest.mark.fault("F11")
@pytest.mark.parametrize(
    ("end", "kind", "message"),
    [
        (ending("ERROR", "it broke"), Kind.UPSTREAM, "it broke"),
        (ending("ERROR"), Kind.UPSTREAM, "the upstream reported an error"),
        (ending("TIMEOUT"), Kind.TIMEOUT, "the upstream reported an error"),
        (ending("USER_CANCEL"), Kind.CANCELLED, "the upstream reported an error"),
        (ending("COMPLETE", error="it broke"), Kind.UPSTREAM, "it broke"),
        (ending(None, {"message": "it broke"}), Kind.UPSTREAM, "it broke"),
        (Frame("", b'{"message":"it broke"}'), Kind.UPSTREAM, "it broke"),
        (Frame("", b'{"error":{"message":"it broke"}}'), Kind.UPSTREAM, "it broke"),
    ],
)
@pytest.mark.parametrize("before", [[], [START], [START, text("a")]])
def test_an_error_at_the_end_is_an_error(before: list[Frame], end: Frame, kind: Kind, message: str) -> None:
    events = run(*before, end, text("more"))
    assert isinstance(events[-1], Error)
    assert (events[-1].error.kind, events[-1].error.message) == (kind, message)


@pytest.mark.fault("F21", "F22")
def test_empty_text_is_no_part_and_the_first_piece_is_not_lost() -> None:
    assert parts(START, text(""), text(None), ending(text="")) == ()
    assert run(START, text(""), text("a"), ending())[1:-1] == [
        PartStart(0, PartKind.TEXT),
        TextDelta(0, "a"),
        PartEnd(0),
    ]


@pytest.mark.fault("F19")
@given(st.lists(st.integers(0, 30), max_size=6))
def test_arguments_do_not_depend_on_how_they_were_split(cuts: list[int]) -> None:
    whole = '{"city":"Zürich","n":[1,2]}'
    edges = [0, *sorted(min(c, len(whole)) for c in cuts), len(whole)]
    said = [piece(0, parameters=whole[a:b]) for a, b in itertools.pairwise(edges)]
    told = {"name": "f", "parameters": {"city": "Zürich", "n": [1, 2]}}
    assert parts(START, piece(0, name="f"), *said, calls(told), ending(tool_calls=[told])) == (
        ToolCall("call_g1_0", "f", whole),
    )


@pytest.mark.fault("F19", "F20")
def test_calls_are_said_once_whichever_line_says_them_first() -> None:
    f, g = {"name": "f", "parameters": {"a": 1}}, {"name": "g", "parameters": {}, "id": "mine"}
    want = (ToolCall("call_g1_0", "f", '{"a": 1}'), ToolCall("mine", "g", "{}"))
    assert parts(START, calls(f, g), calls(f, g), ending(tool_calls=[f, g])) == want
    assert parts(START, ending(tool_calls=[f, g])) == want
    streamed = (piece(0, name="f", parameters='{"a": 1}'), calls(f, g), ending(tool_calls=[f, g]))
    assert parts(START, *streamed) == want, "only the first came in pieces"


@pytest.mark.fault("F19", "F20")
def test_pieces_without_an_index_or_before_their_name() -> None:
    assert parts(
        START,
        piece(None, name="f", id="same"),
        piece(5, parameters='{"b"'),
        piece(5, name="g", parameters=":2}", id="same"),
        ending(),
    ) == (ToolCall("same", "f"), ToolCall("call_g1_1", "g", '{"b":2}'))
    assert parts(START, piece(float(10**9), name="f"), ending()) == (ToolCall("call_g1_0", "f"),)


def test_a_plan_comes_as_text_before_its_calls_and_once() -> None:
    f = {"name": "f", "parameters": {}}
    called = ToolCall("call_g1_0", "f", "{}")
    chunks = [frame("tool-calls-chunk", text="I "), frame("tool-calls-chunk", tool_call_delta={"text": "look."})]
    assert parts(START, *chunks, calls(f, text="I look."), ending(text="I look.")) == (Text("I look."), called)
    assert parts(START, calls(f, text="I look."), ending(text="I look.")) == (Text("I look."), called)
    assert parts(START, ending(text="I look.", tool_calls=[f])) == (Text("I look."), called)


@pytest.mark.fault("F24")
@pytest.mark.parametrize(
    ("word", "called", "reason"),
    [
        ("COMPLETE", True, Reason.TOOL_CALLS),
        ("COMPLETE", False, Reason.STOP),
        ("STOP_SEQUENCE", False, Reason.STOP),
        ("MAX_TOKENS", True, Reason.LENGTH),
        ("ERROR_LIMIT", False, Reason.LENGTH),
        ("ERROR_TOXIC", False, Reason.CONTENT_FILTER),
    ],
)
def test_the_reason_follows_what_was_emitted(word: str, called: bool, reason: Reason) -> None:
    assert run(START, piece(0, name="f") if called else text("a"), ending(word))[-1] == Finish(reason)


def test_an_unknown_reason_is_a_stop_with_a_warning() -> None:
    events = run(START, text("a"), ending("TIRED"))
    assert events[-1] == Finish(Reason.STOP)
    assert any(isinstance(e, Warn) and "TIRED" in e.message for e in events)


@pytest.mark.fault("F28", "F29")
def test_tokens_are_in_the_meta_of_the_response() -> None:
    meta = {"billed_units": {"input_tokens": 5.0}, "tokens": {"input_tokens": 9.0, "output_tokens": 0.0}}
    events = run(START, text("a"), ending(meta={**meta, "cached_tokens": 4}))
    assert [e for e in events if isinstance(e, Usage)] == [Usage(9, 0, 4)]
    assert not any(isinstance(e, Usage) for e in run(START, text("a"), ending(meta={"api_version": {}})))


def test_what_is_newer_passes_as_unknown_and_a_stream_may_lack_its_start() -> None:
    odd = [frame("search-results", documents=[]), frame("citation-generation", citations=[]), Frame("", b'{"x":1}')]
    events = run(*odd, text("a"), START, ending())
    assert events[0] == Start()
    assert [e.data for e in events if isinstance(e, Unknown)] == [f.data for f in odd]
    assert fold(events).choices[0].text == "a"


def test_nothing_follows_the_end() -> None:
    decoder = Decoder()
    for f in (START, text("a"), ending()):
        decoder.feed(f)
    assert decoder.feed(ending("ERROR")) == decoder.feed(Frame("", b"{")) == decoder.eof() == []


@pytest.mark.parametrize(
    "bad",
    [
        Frame("", b"{"),
        Frame("", b"[]"),
        Frame("", b'{"event_type":7}'),
        Frame("", b'{"event_type":"text-generation","text":{}}'),
        calls({"name": "", "parameters": {}}),
        frame("tool-calls-chunk", tool_call_delta="x"),
        frame("stream-end", finish_reason="COMPLETE", response="x"),
    ],
)
def test_a_malformed_line_is_a_wire_error(bad: Frame) -> None:
    decoder = Decoder()
    decoder.feed(START)
    with pytest.raises(WireError):
        decoder.feed(bad)


def test_a_call_that_never_got_its_name_is_a_wire_error() -> None:
    decoder = Decoder()
    decoder.feed(piece(0, parameters="{}"))
    with pytest.raises(WireError):
        decoder.feed(ending())


@pytest.mark.fault("F35")
def test_arguments_without_a_name_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder_module, "FRAME_CAP_BYTES", 10)
    decoder = Decoder()
    decoder.feed(piece(0, parameters="x" * 10))
    with pytest.raises(WireError):
        decoder.feed(piece(0, parameters="x"))


@pytest.mark.fault("F35")
@pytest.mark.parametrize("said", [{"parameters": "{"}, {"name": "f"}])
def test_calls_that_are_open_are_bounded_also_without_an_index(said: dict[str, str]) -> None:
    decoder = Decoder()
    for _ in range(decoder_module.CALLS_CAP):
        decoder.feed(piece(None, **said))
    with pytest.raises(WireError):
        decoder.feed(piece(None, **said))


values = st.one_of(st.none(), st.integers(-3, 3), st.text(max_size=4), st.just({}), st.just([]))
texts = st.one_of(st.text(max_size=4), values)
whole_calls = st.lists(
    st.fixed_dictionaries({}, optional={"name": texts, "parameters": values, "id": texts}), max_size=3
)
pieces = st.fixed_dictionaries(
    {}, optional={"index": values, "name": texts, "parameters": texts, "text": texts, "id": texts}
)
responses = st.fixed_dictionaries(
    {}, optional={"text": texts, "tool_calls": whole_calls, "finish_reason": values, "meta": values, "error": values}
)
KINDS = ("stream-start", "text-generation", "tool-calls-chunk", "tool-calls-generation", "stream-end", "x", None)
objects = st.fixed_dictionaries(
    {"event_type": st.sampled_from(KINDS)},
    optional={
        "text": texts,
        "tool_call_delta": pieces,
        "tool_calls": whole_calls,
        "generation_id": texts,
        "finish_reason": st.sampled_from(("COMPLETE", "ERROR", None, "odd")),
        "response": responses,
        "message": values,
    },
)
frames = st.builds(
    lambda data: Frame("", data if isinstance(data, bytes) else json.dumps(data).encode()),
    objects | st.binary(max_size=6),
)


@given(st.lists(frames, max_size=25))
def test_random_lines_raise_nothing_but_wire_errors_and_keep_the_grammar(some: list[Frame]) -> None:
    decoder, grammar = Decoder(), Grammar()
    for each in some:
        try:
            events = decoder.feed(each)
        except WireError:
            break  # the pump ends the stream there
        grammar.feed_all(events)
    else:
        grammar.feed_all(decoder.eof())
        assert grammar.done

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.dialects.gemini import DIALECT
from rivermouth.dialects.gemini.decoder import Decoder
from rivermouth.ir.errors import Kind, WireError
from rivermouth.ir.events import (
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
from rivermouth.ir.grammar import Grammar
from rivermouth.ir.request import Request, ToolCall
from tests.dialects.gemini.case import StreamDecoder, frame, response, run


def counts(prompt: int, answer: int | None = None) -> dict[str, Any]:
    said = {"promptTokenCount": prompt, "candidatesTokenCount": answer}
    return {"usageMetadata": {k: v for k, v in said.items() if v is not None}}


def text(said: str, **more: Any) -> dict[str, Any]:
    return {"text": said, **more}


def called(name: str | None = "f", **more: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, **more}}


@pytest.mark.fault("F10")
def test_text_without_a_finish_reason_was_cut() -> None:
    events = run(response(text("a"), **counts(3, 1)), response(text("b"), finish="FINISH_REASON_UNSPECIFIED"))
    assert events[-2:] == [Usage(3, 1), Error(events[-1].error)]  # type: ignore[union-attr]


@pytest.mark.fault("F11")
@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": 503, "message": "m", "status": "UNAVAILABLE"}, Kind.OVERLOADED),
        ({"code": 429, "message": "m", "status": "RESOURCE_EXHAUSTED"}, Kind.RATE_LIMITED),
        ({"code": 400, "message": "m", "status": "INVALID_ARGUMENT"}, Kind.INVALID_REQUEST),
        ({"code": 503, "message": "m", "status": "A_NEW_WORD"}, Kind.OVERLOADED),
        ({"code": 999, "message": "m"}, Kind.UPSTREAM),
        ({"message": "m"}, Kind.UPSTREAM),
        ("m", Kind.UPSTREAM),
    ],
)
@pytest.mark.parametrize("before", [[], [response(text("a"))], [response(text("a"))] * 4])
def test_an_error_frame_ends_the_stream_with_its_kind(error: Any, kind: Kind, before: list[Any]) -> None:
    events = run(*before, {"error": error}, response(text("more"), finish="STOP"))
    assert isinstance(events[-1], Error)
    assert (events[-1].error.kind, events[-1].error.message) == (kind, "m")
    assert not any(isinstance(e, Finish) for e in events)


@pytest.mark.parametrize("end", [lambda d: d.feed(frame({"error": {"code": 503, "message": "m"}})), Decoder.eof])
def test_nothing_follows_an_error_also_in_a_stream_whose_looks_are_known(end: Any) -> None:
    decoder = Decoder()
    more = frame(response(text("a")))
    for _ in range(4):
        decoder.feed(more)
    assert isinstance(end(decoder)[-1], Error)
    assert decoder.feed(more) == decoder.eof() == []


@pytest.mark.fault("F11")
def test_an_error_behind_candidates_is_seen_in_a_stream_whose_looks_are_known() -> None:
    plain = response(text("a"))
    events = run(plain, plain, plain, plain | {"error": {"code": 500, "message": "m", "status": "INTERNAL"}})
    assert isinstance(events[-1], Error)
    assert events[-1].error.message == "m"


@pytest.mark.fault("F21")
def test_parts_that_say_nothing_are_no_parts() -> None:
    odd = response(text(""), text("", thought=True), {}, {"videoMetadata": {}}, {"text": None})
    events = run(odd, {"candidates": [{"index": 0}]}, {"candidates": []}, response(finish="STOP", **counts(1, 0)))
    assert not any(isinstance(e, PartStart | PartEnd) for e in events)
    assert events[-2:] == [Usage(1, 0), Finish(Reason.STOP)]


@pytest.mark.fault("F23")
def test_the_kind_of_a_part_follows_what_is_said() -> None:
    thought = text("hm", thought=True)
    events = run(response(thought), response(thought, text("a")), response(text("b"), thought, finish="STOP"))
    assert [e for e in events if not isinstance(e, Start | Finish)] == [
        PartStart(0, PartKind.REASONING),
        ReasoningDelta(0, "hm"),
        ReasoningDelta(0, "hm"),
        PartEnd(0),
        PartStart(1, PartKind.TEXT),
        TextDelta(1, "a"),
        TextDelta(1, "b"),
        PartEnd(1),
        PartStart(2, PartKind.REASONING),
        ReasoningDelta(2, "hm"),
        PartEnd(2),
    ]


@pytest.mark.fault("F20", "F24")
def test_calls_come_whole_with_ids_and_end_with_tool_calls() -> None:
    events = run(
        response(called(args={"a": 1.0}, id="x"), called(args=None), responseId="r"),
        response(called("g", id="x", args={}), finish="STOP"),
    )
    assert fold(events).choices[0].parts == (
        ToolCall("x", "f", '{"a": 1.0}'),
        ToolCall("call_r_1", "f"),
        ToolCall("call_r_2", "g", "{}"),
    )
    assert events[-1] == Finish(Reason.TOOL_CALLS)
    assert run(response(called(args={}), finish="MAX_TOKENS"))[-1] == Finish(Reason.LENGTH)


def test_a_signature_belongs_to_the_thoughts_before_it_and_keeps_its_place() -> None:
    events = run(
        response(text("hm", thought=True), text("", thought=True, thoughtSignature="T")),
        response({**called(args={}), "thoughtSignature": "C"}, text("a", thoughtSignature="X")),
        response(text("", thoughtSignature="E"), finish="STOP"),
    )
    assert [e for e in events if isinstance(e, Signature)] == [
        Signature(0, "gemini:T"),
        Signature(1, "gemini-call:C"),
        Signature(4, "gemini-text:X"),
        Signature(5, "gemini-end:E"),
    ]
    kinds = [e.kind for e in events if isinstance(e, PartStart)]
    r, t = PartKind.REASONING, PartKind.TEXT
    assert kinds == [r, r, PartKind.TOOL, t, r, r]


@pytest.mark.parametrize(
    ("word", "reason"),
    [("STOP", Reason.STOP), ("MAX_TOKENS", Reason.LENGTH), ("SPII", Reason.CONTENT_FILTER)],
)
def test_a_finish_reason_in_the_words_of_the_protocol(word: str, reason: Reason) -> None:
    assert run(response(text("a"), finish=word))[-1] == Finish(reason)


def test_an_unknown_finish_reason_is_a_stop_with_a_warning() -> None:
    events = run(response(text("a"), finish="TIRED"))
    assert events[-1] == Finish(Reason.STOP)
    assert any(isinstance(e, Warn) and "TIRED" in e.message for e in events)


@pytest.mark.fault("F16")
@pytest.mark.parametrize("word", ["OTHER", "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "NO_IMAGE"])
def test_an_end_that_is_no_answer_is_an_error(word: str) -> None:
    events = run(response(text("a")), response(finish=word))
    assert isinstance(events[-1], Error)
    assert (events[-1].error.kind, events[-1].error.code) == (Kind.UPSTREAM, word.lower())
    assert word in events[-1].error.message


def test_a_blocked_prompt_is_an_answer_that_was_filtered() -> None:
    events = run({"promptFeedback": {"blockReason": "SAFETY", "blockReasonMessage": "not that"}, **counts(3)})
    assert events == [
        Start(),
        Usage(input_tokens=3),
        Warn("not that", "promptFeedback"),
        Usage(input_tokens=3),
        Finish(Reason.CONTENT_FILTER),
    ]
    fine = run(response(text("a"), finish="STOP", promptFeedback={"safetyRatings": []}))
    assert fine[-1] == Finish(Reason.STOP)


@pytest.mark.fault("F27", "F28", "F29")
@pytest.mark.parametrize(
    ("said", "usage"),
    [
        ({"promptTokenCount": 9, "candidatesTokenCount": 4, "totalTokenCount": 13}, Usage(9, 4)),
        ({"promptTokenCount": 9, "cachedContentTokenCount": 5, "candidatesTokenCount": 0}, Usage(9, 0, 5)),
        ({"promptTokenCount": 9, "candidatesTokenCount": 4, "thoughtsTokenCount": 3}, Usage(9, 7, reasoning_tokens=3)),
        ({"promptTokenCount": 9, "thoughtsTokenCount": 3}, Usage(9, 3, reasoning_tokens=3)),
        ({"promptTokenCount": 9, "toolUsePromptTokenCount": 30, "candidatesTokenCount": 1}, Usage(39, 1)),
        ({"promptTokenCount": 9, "totalTokenCount": 9}, Usage(9, 0)),
        ({"promptTokenCount": 9}, Usage(9)),
        ({}, None),
    ],
)
def test_thoughts_are_counted_and_a_zero_that_was_left_out_is_told_by_the_total(said: Any, usage: Usage | None) -> None:
    assert fold(run(response(text("a"), finish="STOP", usageMetadata=said))).usage == usage


@pytest.mark.fault("F27")
def test_the_last_counts_are_kept_though_frames_are_read_by_their_looks() -> None:
    growing = [response(text(str(i)), **counts(9, i)) for i in range(6)]
    last = response(text("x"), finish="STOP")
    assert fold(run(*growing, last)).usage == Usage(9, 5)
    assert fold(run(*growing, response(text("no counts")), last)).usage == Usage(9, 5)
    assert run(*growing)[-2] == Usage(9, 5)


def test_choices_are_told_apart_and_end_together() -> None:
    both = {"candidates": [*response(text("a"))["candidates"], *response(text("b"), index=1)["candidates"]]}
    events = run(both, response(text("A"), finish="STOP"), response(text("B"), finish="SAFETY", index=1), n=2)
    assert [c.text for c in fold(events).choices] == ["aA", "bB"]
    assert events[-1] == Finish(Reason.STOP, None, (Reason.STOP, Reason.CONTENT_FILTER))
    Grammar().feed_all(events)


@pytest.mark.fault("F10")
def test_a_choice_that_never_came_is_missed_only_while_the_stream_goes_on() -> None:
    decoder = Decoder(Request(model="m", messages=(), n=2))
    assert not any(isinstance(e, Finish) for e in decoder.feed(frame(response(text("a"), finish="STOP"))))
    assert decoder.eof() == [Finish(Reason.STOP)]
    assert isinstance(run(response(text("a"), finish="STOP"), response(text("b"), index=1), n=2)[-1], Error)


def test_media_become_parts_of_their_kind() -> None:
    url_safe = {"inlineData": {"mimeType": "image/png", "data": "_-8"}}
    reference = {"fileData": {"fileUri": "gs://x", "mimeType": "video/mp4"}}
    events = run(response(url_safe, reference, finish="STOP"))
    assert [e for e in events if isinstance(e, MediaDelta)] == [
        MediaDelta(0, "image/png", "/+8="),
        MediaDelta(1, "video/mp4", url="gs://x"),
    ]
    assert [e.kind for e in events if isinstance(e, PartStart)] == [PartKind.IMAGE, PartKind.FILE]


def test_the_vendors_own_tools_pass_as_unknown_with_one_warning() -> None:
    ran = {"executableCode": {"language": "PYTHON", "code": "1"}}
    events = run(response(ran), response(ran), response(text("a"), finish="STOP"))
    assert len([e for e in events if isinstance(e, Unknown)]) == 2
    assert len([e for e in events if isinstance(e, Warn)]) == 1
    assert [e for e in run({"brandNew": 1}) if isinstance(e, Unknown)] == [Unknown("", b'{"brandNew": 1}')]


def test_nothing_follows_the_end_and_done_is_nothing() -> None:
    decoder = Decoder()
    assert decoder.feed(frame(b"[DONE]")) == []
    decoder.feed(frame(response(text("a"), finish="STOP")))
    assert decoder.feed(frame(response(text("b")))) == decoder.feed(frame(b"[DONE]")) == decoder.eof() == []


@pytest.mark.parametrize(
    "bad",
    [
        b"{",
        b"[]",
        {"candidates": {}},
        response({"text": 1}),
        response(called(None)),
        response(called(args="{}")),
        response(called(args=[1])),
        response(called(willContinue=True)),
        response(called(partialArgs=[{"jsonPath": "$.a"}])),
        response(text("a"), index=-1),
        response(text("a"), index=1 << 40),
    ],
)
def test_a_malformed_frame_is_a_wire_error(bad: Any) -> None:
    with pytest.raises(WireError):
        Decoder().feed(frame(bad))


@pytest.mark.fault("F4")
def test_a_frame_of_a_megabyte_passes_whole() -> None:
    said = "x" * 1_000_000
    stream = b"".join(b"data: %b\n\n" % frame(response(text(t))).data for t in ("a", "b", "c", said))
    decoder = StreamDecoder()
    events = [e for at in range(0, len(stream), 4096) for e in decoder.feed(stream[at : at + 4096])]
    assert events[-1] == TextDelta(0, said)


strings = st.one_of(
    st.text(max_size=6), st.sampled_from(['"}]},"index":0}]', '"', "\\", "\u2028", '"error"', "\ud800"])
)


def either(value: dict[str, Any], kind: int) -> bytes:
    """The same object as different servers write it; half an emoji can only be escaped."""
    if kind == 0:
        return json.dumps(value).encode()
    if kind == 1:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")
    return json.dumps(value, indent=1, sort_keys=True).encode()


@pytest.mark.fault("F1", "F5")
@given(
    st.lists(st.tuples(strings, st.booleans(), st.booleans()), min_size=1, max_size=12),
    st.integers(0, 2),
    st.booleans(),
)
def test_a_frame_read_by_its_looks_says_what_it_says_when_read_whole(
    said: list[tuple[str, bool, bool]], kind: int, counting: bool
) -> None:
    """Each frame through a decoder that has seen the ones before, and through one that has only just begun."""
    decoder = Decoder()
    for i, (content, thought, growing) in enumerate(said):
        more = counts(5, i) if counting and growing else {}
        part = text(content, thought=True) if thought else text(content)
        data = either(response(part, **more, modelVersion="m", responseId="r"), kind)
        events, alone = decoder.feed(frame(data)), Decoder().feed(frame(data))
        assert [e.text for e in events if isinstance(e, TextDelta)] == [
            e.text for e in alone if isinstance(e, TextDelta)
        ]
        assert [e.text for e in events if isinstance(e, ReasoningDelta)] == [
            e.text for e in alone if isinstance(e, ReasoningDelta)
        ]


values = st.one_of(st.none(), st.integers(-3, 3), st.text(max_size=4), st.just({}), st.just([]), st.just({"a": 1}))
blobs = st.fixed_dictionaries({}, optional={"data": values, "mimeType": values, "fileUri": values})
calls = st.fixed_dictionaries({}, optional={"name": st.sampled_from(("f", "", None, 1)), "args": values, "id": values})
some_parts = st.fixed_dictionaries(
    {},
    optional={
        "text": values,
        "thought": st.one_of(st.booleans(), values),
        "thoughtSignature": values,
        "functionCall": calls,
        "inlineData": blobs,
        "fileData": blobs,
        "executableCode": values,
    },
)
candidates = st.fixed_dictionaries(
    {},
    optional={
        "content": st.one_of(values, st.fixed_dictionaries({}, optional={"parts": st.lists(some_parts, max_size=3)})),
        "finishReason": st.sampled_from(("STOP", "SAFETY", "OTHER", "NEW", "", None, 1)),
        "index": st.one_of(st.integers(-1, 2), values),
        "finishMessage": values,
    },
)
usages = st.fixed_dictionaries({}, optional={"promptTokenCount": values, "thoughtsTokenCount": values})
objects = st.fixed_dictionaries(
    {},
    optional={
        "candidates": st.one_of(values, st.lists(candidates, max_size=2)),
        "usageMetadata": st.one_of(values, usages),
        "promptFeedback": st.one_of(values, st.fixed_dictionaries({}, optional={"blockReason": values})),
        "error": st.one_of(values, st.fixed_dictionaries({}, optional={"code": values, "status": values})),
        "responseId": values,
    },
)


@given(st.lists(st.one_of(objects, st.binary(max_size=6)), max_size=12), st.integers(1, 2))
def test_random_frames_raise_nothing_but_wire_errors_and_keep_the_grammar(some: list[Any], n: int) -> None:
    decoder, grammar = DIALECT.decoder(Request(model="m", messages=(), n=n)), Grammar()
    for each in some:
        try:
            events: list[Event] = decoder.feed(frame(each))
        except WireError:
            break
        grammar.feed_all(events)
    grammar.feed_all(decoder.eof())
    assert grammar.done

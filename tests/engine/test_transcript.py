"""What is kept of what is said: all of it up to a cap, of attempts that all may be heard, and of no others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.engine.tally import Tally
from rivermouth.engine.transcript import ANSWER_CAP_CHARS, PROMPT_CAP_CHARS, Hearing, Transcript, bounded, said
from rivermouth.ir.events import (
    ArgsDelta,
    Event,
    Finish,
    PartEnd,
    PartKind,
    PartStart,
    Reason,
    ReasoningDelta,
    Start,
    TextDelta,
)
from rivermouth.ir.request import (
    EmbedRequest,
    File,
    Image,
    Message,
    Reasoning,
    Request,
    Role,
    Text,
    ToolCall,
    ToolResult,
)
from rivermouth.routing.endpoint import Candidate, Endpoint, Policy
from rivermouth.store.port import Said

ASKED = Request(model="m", messages=(Message(Role.USER, (Text("hi"),)),))


def spoken(*texts: str) -> list[Event]:
    return [Start(), PartStart(0, PartKind.TEXT), *(TextDelta(0, t) for t in texts), PartEnd(0), Finish(Reason.STOP)]


def candidate(*policies: Policy, records_text: bool = True) -> Candidate:
    endpoint = Endpoint(id="e", provider="p", model="m", records_text=records_text)
    return Candidate(endpoint, "configured", policies)


LOUD, MUTE = Policy(id="loud"), Policy(id="mute", records_text=False)


@given(st.lists(st.text(), max_size=8), st.data())
def test_what_is_heard_is_what_was_said_however_it_came(texts: list[str], data: st.DataObject):
    events = spoken(*texts)
    hearing, tally = Hearing(), Tally()
    at = 0
    while at < len(events):
        size = data.draw(st.integers(1, 4))
        batch = events[at : at + size]
        assert hearing.feed(batch) == tally.feed(batch)
        at += size
    assert hearing.text == "".join(texts)
    assert (hearing.text_chars, hearing.chunks, hearing.produced) == (tally.text_chars, tally.chunks, tally.produced)


def test_parts_are_apart_and_a_tools_call_has_its_name():
    hearing = Hearing()
    hearing.feed(
        [
            Start(),
            PartStart(0, PartKind.REASONING),
            ReasoningDelta(0, "hmm"),
            PartEnd(0),
            PartStart(1, PartKind.TEXT),
            TextDelta(1, "look"),
            PartEnd(1),
            PartStart(2, PartKind.TOOL, 0, "t", "weather"),
            ArgsDelta(2, '{"city":'),
            ArgsDelta(2, '"Bonn"}'),
            PartEnd(2),
            Finish(Reason.TOOL_CALLS),
        ]
    )
    assert hearing.text == 'hmm\nlook\nweather {"city":"Bonn"}'


@pytest.mark.parametrize("piece", [1000, ANSWER_CAP_CHARS, ANSWER_CAP_CHARS + 1])
def test_an_answer_is_kept_up_to_its_cap(piece: int):
    hearing = Hearing()
    pieces = ANSWER_CAP_CHARS // piece + 2
    hearing.feed(spoken(*["x" * piece] * pieces))
    assert hearing.text == "x" * ANSWER_CAP_CHARS
    assert hearing.cut
    assert hearing.text_chars == piece * pieces, "the count is of all of it"


@pytest.mark.parametrize(
    ("attempts", "kept"),
    [
        ([], False),
        ([candidate()], True),
        ([candidate(LOUD)], True),
        ([candidate(LOUD, MUTE)], False),
        ([candidate(records_text=False)], False),
        ([candidate(MUTE), candidate()], False),
        ([candidate(), candidate(records_text=False)], False),
        ([candidate(), candidate()], True),
    ],
)
def test_one_attempt_that_may_not_be_heard_is_enough(attempts: list[Candidate], kept: bool):
    transcript = Transcript()
    for one in attempts:
        transcript.heard(one).feed(spoken("ho"))
    text = transcript.text("id", 5, ASKED)
    assert (text is not None) == kept
    if text is not None:
        assert (text.call_id, text.prompt, text.answer, text.cut) == ("id", (Said("user", "hi"),), "ho", False)


def test_of_several_attempts_the_last_is_what_the_client_got():
    transcript = Transcript()
    transcript.heard(candidate()).feed([Start(), PartStart(0, PartKind.TEXT), TextDelta(0, "half a")])
    transcript.heard(candidate()).feed(spoken("whole"))
    text = transcript.text("id", 5, ASKED)
    assert text is not None
    assert text.answer == "whole"


def test_every_part_of_a_prompt_is_there_as_text():
    request = Request(
        model="m",
        system=(Text("be brief"), Text("be kind")),
        messages=(
            Message(Role.USER, (Text("look"), Image(data="AAAA"), File(text="a file"), File(data="AAAA"))),
            Message(Role.ASSISTANT, (Reasoning("hmm"), ToolCall("t", "weather", "{}"))),
            Message(Role.TOOL, (ToolResult("t", (Text("rain"), Image(url="u"))),)),
        ),
    )
    assert list(said(request)) == [
        Said("system", "be brief\nbe kind"),
        Said("user", "look\n[image]\na file\n[file]"),
        Said("assistant", "hmm\nweather {}"),
        Said("tool", "rain\n[image]"),
    ]
    assert list(said(EmbedRequest(model="m", input=("a", "b")))) == [Said("input", "a"), Said("input", "b")]


@given(st.lists(st.integers(0, PROMPT_CAP_CHARS), max_size=6))
def test_a_prompt_is_kept_up_to_its_cap(sizes: list[int]):
    messages = [Said("user", "x" * size) for size in sizes]
    kept, cut = bounded(iter(messages))
    assert sum(len(one.text) for one in kept) <= PROMPT_CAP_CHARS
    if cut:
        assert sum(len(one.text) + len(one.role) for one in kept) >= PROMPT_CAP_CHARS
    else:
        assert list(kept) == messages


def test_many_empty_messages_are_bounded_too():
    kept, cut = bounded(Said("user", "") for _ in range(10**6))
    assert cut
    assert len(kept) <= PROMPT_CAP_CHARS // len("user") + 1

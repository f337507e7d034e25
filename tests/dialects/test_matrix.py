"""Every client over every upstream, each way of asking in each dialect: answers, at the level of codecs.

    what a model said -> the upstream's wire -> neutral -> the client's wire -> what the client hears

No socket, no engine and no snapshot: what is heard is what was said, but for what the two protocols have no place for.
Requests have a matrix of their own (`test_matrix_requests`), and so has the whole server (`tests/http/test_matrix.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Final

import msgspec
import pytest

from rivermouth.dialects import discover
from rivermouth.dialects.dialect import Answer
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
    Usage,
)
from rivermouth.ir.fold import fold, unfold
from rivermouth.ir.reply import Reply
from tests.dialects.conformance import (
    CARRIES,
    COUNTS,
    DIALECTS,
    Carries,
    Decoded,
    Said,
    carries,
    counted,
    counted_alike,
    only_error,
    said,
)
from tests.goldens import cases
from tests.goldens.ways import WAYS, answer_of, dialect_of
from tests.in_turn import in_turn

STAND_IN: Final = re.compile(r"\[(?:image|file): this protocol cannot carry it\]|!\[image\]\(data:[^)]*\)")
upstreams = pytest.mark.parametrize("upstream", WAYS)

_INOUT: Final = frozenset({"input_tokens", "output_tokens"})
OTHERWISE: Final[dict[str, Carries]] = {
    "openai_chat-prefixed": msgspec.structs.replace(CARRIES["openai_chat"], counts=frozenset()),  # it asks for no usage
    "tgi-native": Carries(
        kinds=(PartKind.TEXT,),
        counts=_INOUT,
        demands=frozenset({"output_tokens"}),
        reasons={Reason.TOOL_CALLS: Reason.STOP, Reason.CONTENT_FILTER: Reason.STOP},
    ),
    "bedrock_invoke-titan": Carries(
        kinds=(PartKind.TEXT,),
        counts=_INOUT,
        demands=frozenset({"output_tokens"}),
        reasons={Reason.TOOL_CALLS: Reason.STOP},
    ),
    "bedrock_invoke-nova": CARRIES["bedrock_converse"],
    "bedrock_invoke-llama": Carries(
        kinds=(PartKind.TEXT,),
        counts=_INOUT,
        demands=frozenset({"output_tokens"}),
        reasons={Reason.TOOL_CALLS: Reason.STOP, Reason.CONTENT_FILTER: Reason.STOP},
    ),
    "bedrock_invoke-mistral": Carries(
        kinds=(PartKind.TEXT,),
        counts=frozenset(),  # a whole answer has none
        reasons={Reason.TOOL_CALLS: Reason.STOP, Reason.CONTENT_FILTER: Reason.STOP},
    ),
    "bedrock_invoke-cohere": CARRIES["cohere_v1"],
}
"""Ways of asking whose answers have a place for less than others of their dialect."""
NAMES_THE_STOP: Final = {"anthropic", "bedrock_converse", "bedrock_invoke", "bedrock_invoke-binary"}
"""Ways in which a client learns which stop sequence it was."""
SIGNED: Final = {
    "openai_chat",
    "openai_chat-prefixed",
    "openai_responses",
    "anthropic",
    "bedrock_converse",
    "bedrock_invoke",
    "bedrock_invoke-binary",
    "tgi",
}
"""Ways in which a signature has a place beside the reasoning that it signs."""


def part(number: int, kind: PartKind, *deltas: Event, id_: str | None = None, name: str | None = None) -> list[Event]:
    return [PartStart(number, kind, 0, id_, name), *deltas, PartEnd(number)]


def call(number: int, arguments: str, name: str = "weather") -> list[Event]:
    return part(number, PartKind.TOOL, ArgsDelta(number, arguments), id_=f"call_{number}", name=name)


def text(number: int, *pieces: str) -> list[Event]:
    return part(number, PartKind.TEXT, *(TextDelta(number, piece) for piece in pieces))


ANSWERS: Final[dict[str, list[Event]]] = {
    **{name: events[1:] for name, events in cases.ANSWERS.items() if isinstance(events[-1], Finish)},
    "call only": [*call(0, '{"city":"Köln"}'), Finish(Reason.TOOL_CALLS)],
    "call without arguments": [*part(0, PartKind.TOOL, id_="call_0", name="time"), Finish(Reason.TOOL_CALLS)],
    "three calls": [
        *call(0, '{"city":"a"}'),
        *call(1, '{"city":"b"}'),
        *call(2, "{}", "time"),
        Finish(Reason.TOOL_CALLS),
    ],
    "interleaved calls": [
        PartStart(0, PartKind.TOOL, 0, "call_0", "weather"),
        PartStart(1, PartKind.TOOL, 0, "call_1", "weather"),
        ArgsDelta(0, '{"city":'),
        ArgsDelta(1, '{"city"'),
        ArgsDelta(0, '"a"}'),
        PartEnd(0),
        ArgsDelta(1, ':"b"}'),
        PartEnd(1),
        Finish(Reason.TOOL_CALLS),
    ],
    "calls that end with stop": [*call(0, "{}", "time"), Finish(Reason.STOP)],
    "text after a call": [*call(0, '{"city":"a"}'), *text(1, "Done."), Finish(Reason.STOP)],
    "reasoning": [
        *part(0, PartKind.REASONING, ReasoningDelta(0, "h"), ReasoningDelta(0, "m…")),
        *text(1, "42"),
        Finish(Reason.STOP),
    ],
    "signed reasoning and a call": [
        *part(0, PartKind.REASONING, ReasoningDelta(0, "hm"), Signature(0, "c2ln")),
        *call(1, "{}", "time"),
        Finish(Reason.TOOL_CALLS),
    ],
    "reasoning, text, reasoning": [
        *part(0, PartKind.REASONING, ReasoningDelta(0, "one")),
        *text(1, "1"),
        *part(2, PartKind.REASONING, ReasoningDelta(2, "two")),
        *text(3, "2"),
        Finish(Reason.STOP),
    ],
    "image": [
        *text(0, "Here: "),
        *part(1, PartKind.IMAGE, MediaDelta(1, "image/png", cases.PIXEL)),
        Finish(Reason.STOP),
    ],
    "two choices": [
        *text(0, "a"),
        PartStart(1, PartKind.TEXT, 1),
        TextDelta(1, "b"),
        PartEnd(1),
        Finish(Reason.STOP, reasons=(Reason.STOP, Reason.LENGTH)),
    ],
    "nothing said": [Finish(Reason.STOP)],
    "length without content": [Finish(Reason.LENGTH)],
    "usage of zeros": [*text(0, "x"), Usage(5, 1, 0, 0, 0), Finish(Reason.STOP)],
    "usage in two": [Usage(input_tokens=9), *text(0, "x"), Usage(output_tokens=2), Finish(Reason.STOP)],
}  # fmt: skip


def can_of(way: str) -> Carries:
    return OTHERWISE.get(way, carries(WAYS[way].dialect))


def both(one: Carries, two: Carries) -> Carries:
    """What survives two protocols, the first of them first."""
    return Carries(
        kinds=tuple(k for k in one.kinds if k in two.kinds),
        blocks=one.blocks and two.blocks,
        choices=one.choices and two.choices,
        counts=one.counts & two.counts,
        zeros=one.zeros and two.zeros,
        demands=one.demands | two.demands,
        reasons={r: two.reasons.get(one.reasons.get(r, r), one.reasons.get(r, r)) for r in Reason},
    )


@cache
def _asked(way: str) -> Answer:
    return answer_of(WAYS[way])


def answer(way: str) -> Answer:
    """What an encoder knows of a call that came this way."""
    return msgspec.structs.replace(_asked(way))


def spoken(way: str, events: list[Event]) -> bytes:
    """The stream that a server sends to who asks this way."""
    return dialect_of(WAYS[way]).encoder(answer(way)).feed(events)


def heard(way: str, data: bytes) -> list[Event]:
    """What a client that asks this way makes of a stream."""
    request = _asked(way).request
    assert request is not None
    reader = Decoded(dialect_of(WAYS[way]), request)
    events = [*reader.feed(data), *reader.eof()]
    assert reader.grammar.done
    return events


def whole(way: str, reply: Reply) -> Reply:
    """The same without a stream: an answer as it is sent, and as it is read."""
    dialect = dialect_of(WAYS[way])
    return dialect.parse_reply(dialect.encode_reply(reply, answer(way)))


def over(client: str, upstream: str, events: list[Event]) -> list[Event]:
    return heard(client, spoken(client, heard(upstream, spoken(upstream, events))))


def each_way(upstream: str, events: list[Event]) -> Iterator[tuple[str, str, list[Event]]]:
    """Who asked, how it was answered, and what was heard: streams and documents, on either side."""
    streamed = heard(upstream, spoken(upstream, events))
    document = whole(upstream, fold(events))
    for client in WAYS:
        yield client, "stream over stream", relayed(client, tuple(streamed))
        yield client, "document over document", converted(client, document)
        yield client, "stream over document", relayed(client, tuple(unfold(document)))
        yield client, "document over stream", converted(client, fold(streamed))


@cache
def relayed(client: str, events: tuple[Event, ...]) -> list[Event]:
    """What a client hears of a stream; many upstreams say the same of a case."""
    return heard(client, spoken(client, list(events)))


@cache
def converted(client: str, document: Reply) -> list[Event]:
    return unfold(whole(client, document))


class TestAnswers:
    @upstreams
    @pytest.mark.fault("F7", "F19", "F23", "F24", "F26")
    @in_turn("case", ANSWERS)
    def test_every_client_hears_what_the_upstream_said(self, upstream: str, case: str) -> None:
        events: list[Event] = [Start("u", "up-model", 7), *ANSWERS[case]]
        compared: set[tuple[str, tuple[Event, ...]]] = set()
        for client, how, seen in each_way(upstream, events):
            if (client, tuple(seen)) in compared:  # it heard the very same another way
                continue
            compared.add((client, tuple(seen)))
            can = both(can_of(upstream), can_of(client))
            want = said(unfold(fold(events)), can)[: None if can.choices else 1]
            for choice in want:
                called = any(isinstance(p, tuple) and p[0] is PartKind.TOOL for p in choice.parts)
                choice.reason = Reason.TOOL_CALLS if called and choice.reason is Reason.STOP else choice.reason
            assert _without_stand_ins(said(unfold(fold(seen)), can), can) == want, f"{client}, {how}"
            assert counted_alike(seen, events, can), f"{client}, {how}"

    @upstreams
    def test_a_stop_sequence_is_named_where_both_have_a_place_for_it(self, upstream: str) -> None:
        named = {c for c, _, seen in each_way(upstream, cases.ANSWERS["stop_sequence"]) if _stopped_by(seen) == "three"}
        others = {c for c, _, seen in each_way(upstream, cases.ANSWERS["stop_sequence"]) if not _stopped_by(seen)}
        assert named == (NAMES_THE_STOP if upstream in NAMES_THE_STOP else set())
        assert others == set(WAYS) - named

    @upstreams
    @pytest.mark.fault("F25")
    def test_a_signature_stays_whole_where_both_have_a_place_for_it(self, upstream: str) -> None:
        for client, how, seen in each_way(upstream, cases.ANSWERS["reasoning_signed"]):
            signatures = [e.signature for e in seen if isinstance(e, Signature) and e.signature]
            if upstream in SIGNED and client in SIGNED:
                assert signatures == ["c2lnbmF0dXJl"], f"{client}, {how}"
            assert len(signatures) <= 1, f"{client}, {how}"

    @upstreams
    @pytest.mark.fault("F28", "F29")
    def test_cached_tokens_are_counted_once(self, upstream: str) -> None:
        for client, how, seen in each_way(upstream, cases.ANSWERS["usage_cached"]):
            can = both(can_of(upstream), can_of(client))
            said_of = counted(cases.ANSWERS["usage_cached"], Carries())
            for name, value in counted(seen, can).items():
                assert value == said_of[name], f"{client}, {how}: {name}"

    @upstreams
    @pytest.mark.fault("F11", "F14")
    @pytest.mark.parametrize("kind", [Kind.OVERLOADED, Kind.RATE_LIMITED, Kind.UPSTREAM, Kind.CONTENT_FILTERED])
    def test_an_error_after_content_is_an_error(self, upstream: str, kind: Kind) -> None:
        for client in WAYS:
            seen = over(client, upstream, [*cases.HALF, Error(ApiError(kind, "it broke"))])
            assert "it broke" in only_error(seen).error.message, client
            assert "".join(e.text for e in seen if isinstance(e, TextDelta)) == "Deep wat", client

    @upstreams
    @pytest.mark.fault("F10")
    def test_a_cut_upstream_is_an_error_for_the_client(self, upstream: str) -> None:
        stream = spoken(upstream, cases.ANSWERS["one_tool"])
        passed_on: set[tuple[object, ...]] = set()
        for cut in range(0, len(stream) - 20, 23):
            events = heard(upstream, stream[:cut])
            error = only_error(events).error
            assert error.kind is Kind.TRUNCATED
            if (*events[:-1], str(error)) in passed_on:  # within one frame, cuts are the same
                continue
            passed_on.add((*events[:-1], str(error)))
            for client in WAYS:
                only_error(heard(client, spoken(client, events)))

    @pytest.mark.parametrize("upstream", DIALECTS)
    @pytest.mark.fault("F15")
    @in_turn("kind", Kind)
    def test_an_error_before_content_keeps_its_meaning(self, upstream: str, kind: Kind) -> None:
        there = discover()[upstream]
        told = there.encode_error(ApiError(kind, "not today", retry_after_s=3), "c1")
        error = there.parse_error(told.status, told.headers, told.body)
        for client, here in discover().items():
            seen = here.encode_error(error, "c2")
            back = here.parse_error(seen.status, seen.headers, seen.body)
            assert "not today" in back.message, client
            if kind in (Kind.RATE_LIMITED, Kind.NOT_FOUND, Kind.INVALID_REQUEST, Kind.OVERLOADED):
                assert back.kind is kind, client
            elif kind not in (Kind.INTERNAL, Kind.CANCELLED):  # another server's own fault, or its own client's wish
                assert back.retryable is ApiError(kind, "").retryable, client


def _without_stand_ins(choices: list[Said], can: Carries) -> list[Said]:
    """What was said, without the words that stand for an image where one of the two has no place for it."""
    if PartKind.IMAGE not in can.kinds:
        for choice in choices:
            parts = [(p[0], STAND_IN.sub("", p[1])) if p[0] is PartKind.TEXT else p for p in choice.parts]
            choice.parts = [p for p in parts if p != (PartKind.TEXT, "")]
    return choices


def _stopped_by(seen: list[Event]) -> str | None:
    end = seen[-1]
    assert isinstance(end, Finish)
    return end.stop_sequence


def test_the_tables_name_only_what_exists() -> None:
    assert set(CARRIES) <= set(DIALECTS)
    assert all(c.counts <= COUNTS for c in CARRIES.values())
    assert {*OTHERWISE, *NAMES_THE_STOP, *SIGNED} <= set(WAYS)

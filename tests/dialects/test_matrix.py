"""Every client dialect over every upstream dialect, at the level of codecs: no socket, no engine.

request    what the client wants -> client's wire -> neutral -> upstream's wire: the upstream sees the same wish
answer     the upstream's wire -> neutral -> client's wire: the client sees the same answer
"""

from __future__ import annotations

from itertools import product
from typing import Any

import msgspec
import pytest

from rivermouth.dialects import discover
from rivermouth.dialects.dialect import Dialect
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.events import (
    ArgsDelta,
    Error,
    Event,
    Finish,
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
from rivermouth.ir.request import (
    Choose,
    Format,
    Image,
    Message,
    Request,
    ResponseFormat,
    Role,
    Sampling,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
)
from tests.dialects.conformance import (
    CARRIES,
    COUNTS,
    DIALECTS,
    Carries,
    answer,
    asked,
    carries,
    counted,
    counted_alike,
    decoded,
    encoded,
    generate_route,
    only_error,
    said,
    wanted,
)

PAIRS = list(product(DIALECTS, DIALECTS))
pairs = pytest.mark.parametrize(("client", "upstream"), PAIRS, ids=[f"{c}-over-{u}" for c, u in PAIRS])

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
WEATHER = Tool("weather", "Today's weather", SCHEMA)
TIME = Tool("time", None, {"type": "object", "properties": {}})


def part(number: int, kind: PartKind, *deltas: Event, id_: str | None = None, name: str | None = None) -> list[Event]:
    return [PartStart(number, kind, 0, id_, name), *deltas, PartEnd(number)]


def call(number: int, arguments: str, name: str = "weather") -> list[Event]:
    return part(number, PartKind.TOOL, ArgsDelta(number, arguments), id_=f"call_{number}", name=name)


def text(number: int, *pieces: str) -> list[Event]:
    return part(number, PartKind.TEXT, *(TextDelta(number, piece) for piece in pieces))


ANSWERS: dict[str, list[Event]] = {
    "text": [*text(0, "Hel", "lo ", '😀\u2028\n"é\\'), Finish(Reason.STOP)],
    "one call": [*text(0, "Let me see."), *call(1, '{"city":"Köln"}'), Finish(Reason.TOOL_CALLS)],
    "call only": [*call(0, '{"city":"Köln"}'), Finish(Reason.TOOL_CALLS)],
    "call without arguments": [*part(0, PartKind.TOOL, id_="call_0", name="time"), Finish(Reason.TOOL_CALLS)],
    "parallel calls": [
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
    "reasoning": [
        *part(0, PartKind.REASONING, ReasoningDelta(0, "h"), ReasoningDelta(0, "m…")),
        *text(1, "42"),
        Finish(Reason.STOP),
    ],
    "signed reasoning": [
        *part(0, PartKind.REASONING, ReasoningDelta(0, "hm"), Signature(0, "c2ln")),
        *call(1, "{}", "time"),
        Finish(Reason.TOOL_CALLS),
    ],
    "length": [*text(0, "Once upon a"), Finish(Reason.LENGTH)],
    "length without content": [Finish(Reason.LENGTH)],
    "filtered": [*text(0, "I"), Finish(Reason.CONTENT_FILTER)],
    "usage": [*text(0, "x"), Usage(120, 7, 100, 10, 3), Finish(Reason.STOP)],
    "usage of zeros": [*text(0, "x"), Usage(5, 1, 0, 0, 0), Finish(Reason.STOP)],
    "usage in two": [Usage(input_tokens=9), *text(0, "x"), Usage(output_tokens=2), Finish(Reason.STOP)],
}  # fmt: skip


def both(one: Carries, two: Carries) -> Carries:
    """What survives two protocols."""
    return Carries(
        kinds=tuple(k for k in one.kinds if k in two.kinds),
        blocks=one.blocks and two.blocks,
        choices=one.choices and two.choices,
        counts=one.counts & two.counts,
        zeros=one.zeros and two.zeros,
        demands=one.demands | two.demands,
        reasons={**two.reasons, **{k: two.reasons.get(v, v) for k, v in one.reasons.items()}},
    )


def over(client: Dialect, upstream: Dialect, events: list[Event]) -> list[Event]:
    """The events as a client of one dialect sees them from an upstream of another."""
    from_upstream = decoded(upstream, encoded(upstream, events, model="up-model"))
    return decoded(client, encoded(client, from_upstream))


def whole_over(client: Dialect, upstream: Dialect, events: list[Event]) -> list[Event]:
    """The same without a stream."""
    reply = upstream.parse_reply(upstream.encode_reply(fold(events), answer(upstream, model="up-model")))
    return unfold(client.parse_reply(client.encode_reply(reply, answer(client))))


class TestAnswers:
    @pairs
    @pytest.mark.fault("F19", "F23", "F24", "F26")
    @pytest.mark.parametrize("case", ANSWERS)
    def test_the_client_sees_what_the_upstream_said(self, client: str, upstream: str, case: str) -> None:
        can = both(carries(upstream), carries(client))
        events: list[Event] = [Start("u", "up-model", 7), *ANSWERS[case]]
        there, here = discover()[upstream], discover()[client]
        for seen in (over(here, there, events), whole_over(here, there, events)):
            want = said(events, can)
            if (
                any(isinstance(p, tuple) and p[0] is PartKind.TOOL for p in want[0].parts)
                and want[0].reason is Reason.STOP
            ):
                want[0].reason = Reason.TOOL_CALLS
            assert said(seen, can) == want
            assert counted_alike(seen, events, can)

    @pairs
    @pytest.mark.fault("F7")
    def test_a_stream_and_a_document_say_the_same(self, client: str, upstream: str) -> None:
        can = both(carries(upstream), carries(client))
        there, here = discover()[upstream], discover()[client]
        events: list[Event] = [Start(), *ANSWERS["one call"]]
        stream = decoded(there, encoded(there, events))
        expanded = unfold(there.parse_reply(there.encode_reply(fold(events), answer(there))))
        aggregated = here.parse_reply(here.encode_reply(fold(stream), answer(here)))
        assert said(decoded(here, encoded(here, expanded)), can) == said(unfold(aggregated), can) == said(events, can)

    @pairs
    @pytest.mark.fault("F11", "F14")
    @pytest.mark.parametrize("kind", [Kind.OVERLOADED, Kind.RATE_LIMITED, Kind.UPSTREAM, Kind.CONTENT_FILTERED])
    def test_an_error_after_content_is_an_error(self, client: str, upstream: str, kind: Kind) -> None:
        there, here = discover()[upstream], discover()[client]
        events: list[Event] = [
            Start(),
            PartStart(0, PartKind.TEXT),
            TextDelta(0, "x"),
            Error(ApiError(kind, "it broke")),
        ]
        seen = over(here, there, events)
        assert "it broke" in only_error(seen).error.message
        assert "".join(e.text for e in seen if isinstance(e, TextDelta)) == "x"

    @pairs
    @pytest.mark.fault("F10")
    def test_a_cut_upstream_is_an_error_for_the_client(self, client: str, upstream: str) -> None:
        there, here = discover()[upstream], discover()[client]
        stream = encoded(there, [Start(), *ANSWERS["one call"]])
        for cut in range(0, len(stream) - 20, 11):
            only_error(decoded(here, encoded(here, decoded(there, stream[:cut]))))

    @pairs
    @pytest.mark.fault("F15")
    @pytest.mark.parametrize("kind", [Kind.RATE_LIMITED, Kind.NOT_FOUND, Kind.INVALID_REQUEST, Kind.OVERLOADED])
    def test_an_error_before_content_keeps_its_kind(self, client: str, upstream: str, kind: Kind) -> None:
        there, here = discover()[upstream], discover()[client]
        told = there.encode_error(ApiError(kind, "not today", retry_after_s=3), "c1")
        seen = here.encode_error(there.parse_error(told.status, told.headers, told.body), "c2")
        back = here.parse_error(seen.status, seen.headers, seen.body)
        assert back.kind is kind
        assert "not today" in back.message

    @pairs
    @pytest.mark.fault("F28", "F29")
    def test_cached_tokens_are_counted_once(self, client: str, upstream: str) -> None:
        there, here = discover()[upstream], discover()[client]
        seen = counted(over(here, there, [Start(), *ANSWERS["usage"]]), Carries())
        assert seen["input_tokens"] == 120
        assert seen["output_tokens"] == 7
        for name, value in (("cached_tokens", 100), ("cache_write_tokens", 10), ("reasoning_tokens", 3)):
            assert seen.get(name, value) == value


QUESTION = (Message(Role.USER, (Text("How is it in Köln?"),)),)
REQUESTS: dict[str, Request] = {
    "text": Request(model="m", messages=QUESTION, system=(Text("Be brief."),)),
    "talk": Request(
        model="m",
        messages=(*QUESTION, Message(Role.ASSISTANT, (Text("Wet."),)), Message(Role.USER, (Text("And now?"),))),
    ),
    "limits": Request(
        model="m", messages=QUESTION, max_tokens=77, stop=("END", "STOP"), sampling=Sampling(temperature=0.5, top_p=0.5)
    ),
    "tools": Request(model="m", messages=QUESTION, tools=(WEATHER, TIME), tool_choice=ToolChoice(Choose.AUTO)),
    "results": Request(
        model="m",
        messages=(
            *QUESTION,
            Message(
                Role.ASSISTANT,
                (
                    Text("Two things."),
                    ToolCall("call_1", "weather", '{"city":"Köln"}'),
                    ToolCall("call_2", "time", "{}"),
                ),
            ),
            Message(Role.TOOL, (ToolResult("call_2", (Text("noon"),)),)),
            Message(Role.TOOL, (ToolResult("call_1", (Text("rain"),)),)),
            Message(Role.USER, (Text("So?"),)),
        ),
        tools=(WEATHER, TIME),
    ),
    "image": Request(
        model="m", messages=(Message(Role.USER, (Text("What is this?"), Image("image/png", "iVBORw0KGgo="))),)
    ),
    "schema": Request(
        model="m", messages=QUESTION, response_format=ResponseFormat(Format.JSON_SCHEMA, SCHEMA, "place")
    ),
    "thinking": Request(model="m", messages=QUESTION, max_tokens=32_000, thinking=Thinking(effort="high")),
    "no thinking": Request(model="m", messages=QUESTION, thinking=Thinking(enabled=False)),
}  # fmt: skip


def through(client: Dialect, upstream: Dialect, request: Request) -> tuple[Request, set[str]]:
    """What the upstream is asked when a client asks this, and what was lost, by name, on the way."""
    sent = client.build_request(request, "asked-model")
    parsed = client.parse_request(sent.body, generate_route(client), None)
    outgoing = upstream.build_request(parsed, "up-model")
    assert set(outgoing.losses) <= upstream.losses | set(parsed.unmodelled)
    return upstream.parse_request(outgoing.body, generate_route(upstream), None), {*sent.losses, *outgoing.losses}


class TestRequests:
    @pairs
    @pytest.mark.parametrize("stream", [True, False])
    @pytest.mark.parametrize("case", REQUESTS)
    def test_the_upstream_is_asked_what_the_client_wants(
        self, client: str, upstream: str, case: str, stream: bool
    ) -> None:
        request = msgspec.structs.replace(REQUESTS[case], stream=stream)
        seen, lost = through(discover()[client], discover()[upstream], request)
        assert seen.model == "up-model"
        assert seen.stream is stream
        assert wanted(seen) == wanted(request)
        assert [t.text for t in seen.system] == [t.text for t in request.system]
        assert [(t.name, t.description, t.parameters) for t in seen.tools] == [
            (t.name, t.description, t.parameters) for t in request.tools
        ]
        if request.max_tokens is not None:
            assert seen.max_tokens == request.max_tokens
        assert "stop" in lost or seen.stop == request.stop
        for field in ("temperature", "top_p"):
            assert field in lost or getattr(seen.sampling, field) == getattr(request.sampling, field)
        if request.response_format is not None:
            assert seen.response_format is not None
            assert seen.response_format.schema == SCHEMA
        if request.thinking is not None:
            assert seen.thinking is not None
            assert seen.thinking.enabled is request.thinking.enabled
            assert seen.thinking.effort in (request.thinking.effort, None) or "thinking.effort" in lost

    @pairs
    def test_a_forced_call_is_forced_or_refused(self, client: str, upstream: str) -> None:
        request = msgspec.structs.replace(REQUESTS["tools"], tool_choice=ToolChoice(Choose.NAMED, "weather"))
        try:
            seen, _ = through(discover()[client], discover()[upstream], request)
        except ApiError as error:
            refused = error
        else:
            assert seen.tool_choice == ToolChoice(Choose.NAMED, "weather")
            return
        assert (refused.kind, refused.param) == (Kind.INVALID_REQUEST, "tool_choice")

    @pairs
    def test_a_url_goes_on_as_a_url_or_is_refused(self, client: str, upstream: str) -> None:
        """R28: nobody here fetches it."""
        picture = Message(Role.USER, (Text("What is this?"), Image(url="https://example.org/x.png")))
        request = Request(model="m", messages=(picture,))
        try:
            seen, _ = through(discover()[client], discover()[upstream], request)
        except ApiError as error:
            refused = error
        else:
            assert [p.url for m in seen.messages for p in m.parts if isinstance(p, Image)] == [
                "https://example.org/x.png"
            ]
            return
        assert refused.kind is Kind.INVALID_REQUEST
        assert refused.param


def test_the_table_of_carries_names_only_dialects_that_exist() -> None:
    assert set(CARRIES) <= set(DIALECTS)
    assert all(c.counts <= COUNTS for c in CARRIES.values())
    assert asked().stream

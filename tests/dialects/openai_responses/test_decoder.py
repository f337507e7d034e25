from __future__ import annotations

import json
from typing import Any

import pytest

from rivermouth.dialects.openai_responses.decoder import ITEMS_CAP, Decoder
from rivermouth.ir.errors import Kind, WireError
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
    Unknown,
    Usage,
    Warn,
)
from rivermouth.ir.fold import fold
from rivermouth.ir.grammar import Grammar
from rivermouth.ir.request import Reasoning, Text, ToolCall
from rivermouth.wire.frame import FRAME_CAP_BYTES, Frame
from tests.cost import assert_linear
from tests.dialects.openai_responses.case import parse
from tests.dialects.openai_responses.test_tools import EVERY

CREATED: dict[str, Any] = {"type": "response.created", "response": {"id": "resp_1", "model": "up", "created_at": 7.0}}


def heard(*events: dict[str, Any], named: bool = True, tools: Any = None) -> list[Event]:
    """What the decoder makes of these, to their end; the order is checked."""
    decoder, grammar = Decoder(parse(tools=tools) if tools else None), Grammar()
    found: list[Event] = []
    for event in events:
        found += decoder.feed(Frame(event.get("type", "") if named else "", json.dumps(event).encode()))
    found += decoder.eof()
    grammar.feed_all(found)
    assert grammar.done
    return found


def completed(*items: Any, status: str = "completed", **more: Any) -> dict[str, Any]:
    response = {"id": "resp_1", "status": status, "output": list(items), **more}
    return {"type": f"response.{status}", "response": response}


def added(index: int, **item: Any) -> dict[str, Any]:
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def done(index: int, **item: Any) -> dict[str, Any]:
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def delta(kind: str, index: int, text: str, **more: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}.delta", "output_index": index, "delta": text, **more}


MESSAGE: dict[str, Any] = {"type": "message", "id": "msg_1", "role": "assistant"}
CALL: dict[str, Any] = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f"}


def content(*texts: str) -> dict[str, Any]:
    return {**MESSAGE, "content": [{"type": "output_text", "text": t} for t in texts]}


class TestOnce:
    """However often a text is told, and in whichever events, it is said once."""

    @pytest.mark.parametrize(
        "events",
        [
            [added(0, **MESSAGE), delta("output_text", 0, "Deep"), delta("output_text", 0, "."), completed()],
            [delta("output_text", 0, "Deep."), completed()],
            [delta("output_text", 0, "De"), done(0, **content("Deep.")), completed(content("Deep."))],
            [{"type": "response.output_text.done", "output_index": 0, "text": "Deep."}, completed()],
            [done(0, **content("Deep.")), completed(content("Deep."))],
            [done(0, **content("Deep.")), done(0, **content("Deep.")), completed(content("Deep."))],
            [delta("output_text", 0, "De"), completed(content("Deep."))],
            [completed(content("Deep."))],
            [completed({**MESSAGE, "content": "Deep."})],
        ],
    )
    @pytest.mark.parametrize("named", [True, False])
    def test_a_text(self, events: list[Any], named: bool) -> None:
        reply = fold(heard(CREATED, *events, named=named))
        assert reply.choices[0].parts == (Text("Deep."),)
        assert (reply.id, reply.model, reply.created) == ("resp_1", "up", 7)

    @pytest.mark.parametrize(
        "events",
        [
            [
                added(0, **CALL, arguments=""),
                delta("function_call_arguments", 0, '{"a"'),
                delta("function_call_arguments", 0, ":1}"),
                completed(),
            ],
            [
                added(0, **CALL, arguments='{"a":1}'),
                delta("function_call_arguments", 0, '{"a":1}'),
                done(0, **CALL, arguments='{"a":1}'),
                completed(),
            ],
            [
                added(0, **CALL),
                {"type": "response.function_call_arguments.done", "item_id": "fc_1", "arguments": '{"a":1}'},
                completed(),
            ],
            [delta("function_call_arguments", 0, '{"a"'), done(0, **CALL, arguments='{"a":1}'), completed()],
            [done(0, **CALL, arguments='{"a":1}'), completed({**CALL, "arguments": '{"a":1}'})],
            [completed({**CALL, "arguments": '{"a":1}'})],
        ],
    )
    def test_a_call(self, events: list[Any]) -> None:
        reply = fold(heard(CREATED, *events))
        assert reply.choices[0].parts == (ToolCall("call_1", "f", '{"a":1}'),)
        assert reply.choices[0].reason is Reason.TOOL_CALLS

    def test_a_thought(self) -> None:
        sealed = {"type": "reasoning", "id": "rs_1", "encrypted_content": "gA"}
        summary = [{"type": "summary_text", "text": t} for t in ("one", "two")]
        shown = {**sealed, "summary": summary}
        part = {"type": "response.reasoning_summary_part.added", "output_index": 0}
        streamed = [
            added(0, type="reasoning", id="rs_1", summary=[]),
            {**part, "summary_index": 0},
            delta("reasoning_summary_text", 0, "one", summary_index=0),
            {**part, "summary_index": 1},
            delta("reasoning_summary_text", 0, "two", summary_index=1),
            done(0, **shown),
        ]
        for events in ([*streamed, completed(shown)], [done(0, **shown), completed()], [completed(shown)]):
            assert fold(heard(CREATED, *events)).choices[0].parts == (Reasoning("one\n\ntwo", "openai:rs_1:gA"),)
        own = {
            "type": "reasoning",
            "id": "r",
            "summary": summary,
            "content": [{"type": "reasoning_text", "text": "ab"}],
        }
        spoken = [delta("reasoning_text", 0, "a", content_index=0), done(0, **own)]
        for events in ([*spoken, completed(own)], [completed(own)]):
            assert fold(heard(CREATED, *events)).choices[0].parts == (Reasoning("ab"),)

    def test_a_thought_that_is_nothing_but_sealed_is_hidden(self) -> None:
        sealed = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gA"}
        events = heard(CREATED, done(0, **sealed), completed(sealed))
        assert events[1:4] == [
            PartStart(0, PartKind.REASONING, redacted=True),
            Signature(0, "openai:rs_1:gA"),
            PartEnd(0),
        ]


class TestTolerance:
    @pytest.mark.fault("F26")
    def test_items_may_interleave(self) -> None:
        other = {**CALL, "id": "fc_2", "call_id": "call_2", "name": "g"}
        reply = fold(
            heard(
                CREATED,
                added(0, **CALL),
                added(1, **other),
                delta("function_call_arguments", 1, "[1"),
                delta("function_call_arguments", 0, "{}"),
                delta("function_call_arguments", 1, "]"),
                done(1, **other),
                done(0, **CALL),
                completed(),
            )
        )
        assert reply.choices[0].parts == (ToolCall("call_1", "f", "{}"), ToolCall("call_2", "g", "[1]"))

    def test_a_message_may_hold_texts_and_refusals(self) -> None:
        events = heard(
            CREATED,
            delta("output_text", 0, "a", content_index=0),
            delta("refusal", 0, "b", content_index=1),
            {"type": "response.refusal.done", "output_index": 0, "content_index": 1, "refusal": "bc"},
            completed(),
        )
        kinds = [e.kind for e in events if isinstance(e, PartStart)]
        assert kinds == [PartKind.TEXT, PartKind.REFUSAL]
        assert [e.text for e in events if isinstance(e, TextDelta)] == ["a", "b", "c"]

    @pytest.mark.fault("F20")
    def test_calls_without_an_id_or_with_the_same_get_their_own(self) -> None:
        nameless = {"type": "function_call", "name": "f", "arguments": "{}"}
        parts = fold(heard(CREATED, completed(nameless, CALL, CALL))).choices[0].parts
        ids = [p.id for p in parts if isinstance(p, ToolCall)]
        assert len(set(ids)) == 3
        assert "call_1" in ids
        assert ids == [p.id for p in fold(heard(CREATED, completed(nameless, CALL, CALL))).choices[0].parts]  # type: ignore[union-attr]

    def test_a_namespace_is_one_name(self) -> None:
        item = {**CALL, "name": "click", "namespace": "mcp__browser", "arguments": "{}"}
        for tools in (None, EVERY):
            (call,) = fold(heard(CREATED, completed(item), tools=tools)).choices[0].parts
            assert isinstance(call, ToolCall)
            assert call.name == "mcp__browser__click"

    def test_free_forms_are_wrapped(self) -> None:
        item = {"type": "custom_tool_call", "call_id": "c", "name": "sh"}
        events = [added(0, **item), delta("custom_tool_call_input", 0, 'a"\n'), done(0, **item, input='a"\nb')]
        (call,) = fold(heard(CREATED, *events, completed())).choices[0].parts
        assert isinstance(call, ToolCall)
        assert json.loads(call.arguments) == {"input": 'a"\nb'}

    def test_it_may_begin_in_the_middle(self) -> None:
        assert heard(delta("output_text", 0, "a"), completed())[0] == Start()

    def test_what_only_clients_of_this_dialect_know_passes_them_by(self) -> None:
        events = heard(
            CREATED,
            added(0, type="web_search_call", id="ws_1"),
            {"type": "response.web_search_call.searching", "output_index": 0},
            {"type": "response.audio.delta", "delta": {"odd": 1}},
            done(0, type="web_search_call", id="ws_1"),
            completed({"type": "web_search_call", "id": "ws_1"}),
        )
        assert [type(e) for e in events] == [Start, Unknown, Unknown, Unknown, Unknown, Finish]

    def test_a_call_without_a_name_is_no_call(self) -> None:
        with pytest.raises(WireError, match="without a name"):
            heard(CREATED, delta("function_call_arguments", 0, "{}"), completed())

    @pytest.mark.fault("F35")
    def test_what_has_to_wait_is_bounded(self) -> None:
        decoder = Decoder()
        piece = json.dumps(delta("function_call_arguments", 0, "x" * (FRAME_CAP_BYTES // 2))).encode()
        decoder.feed(Frame("", piece))
        decoder.feed(Frame("", piece))
        with pytest.raises(WireError, match="larger than a frame"):
            decoder.feed(Frame("", piece))

    @pytest.mark.fault("F35")
    def test_so_is_the_number_of_items(self) -> None:
        with pytest.raises(WireError, match="more than"):
            heard(CREATED, *(added(i, **MESSAGE) for i in range(ITEMS_CAP + 1)))

    def test_the_cost_grows_with_the_stream(self) -> None:
        def prepare(count: int) -> Any:
            events = [added(i, **{**MESSAGE, "id": f"m{i}"}) for i in range(count)]
            events += [delta("output_text", i, "x") for i in range(count)]
            sent = [Frame("", json.dumps(e).encode()) for e in events]

            def read() -> None:
                decoder = Decoder()
                for frame in sent:
                    decoder.feed(frame)

            return read

        assert_linear(prepare, 200)


class TestEnds:
    @pytest.mark.parametrize(
        ("why", "reason"),
        [({"reason": "max_output_tokens"}, Reason.LENGTH), ({"reason": "content_filter"}, Reason.CONTENT_FILTER)],
    )
    def test_incomplete_is_a_good_end(self, why: Any, reason: Reason) -> None:
        events = heard(CREATED, completed(content("a"), status="incomplete", incomplete_details=why))
        assert events[-1] == Finish(reason)

    @pytest.mark.parametrize("why", [None, {"reason": "steered"}, {}])
    def test_incomplete_for_another_reason_is_told(self, why: Any) -> None:
        events = heard(CREATED, completed(content("a"), status="incomplete", incomplete_details=why))
        assert isinstance(events[-2], Warn)
        assert events[-1] == Finish(Reason.LENGTH)

    def test_usage_comes_with_the_end(self) -> None:
        usage = {
            "input_tokens": 120,
            "input_tokens_details": {"cached_tokens": 100},
            "output_tokens": 7,
            "output_tokens_details": {"reasoning_tokens": 3},
        }
        assert heard(CREATED, completed(content("a"), usage=usage))[-2] == Usage(120, 7, 100, None, 3)
        assert not [e for e in heard(CREATED, completed(content("a"), usage={})) if isinstance(e, Usage)]

    @pytest.mark.fault("F10", "F27")
    def test_without_its_own_end_it_was_cut(self) -> None:
        for last in ([], [{"type": "response.output_text.done", "output_index": 0, "text": "a"}]):
            end = heard(CREATED, delta("output_text", 0, "a"), *last)[-1]
            assert isinstance(end, Error)
            assert end.error.kind is Kind.TRUNCATED
        decoder = Decoder()
        decoder.feed(Frame("response.created", json.dumps(CREATED).encode()))
        (end,) = decoder.feed(Frame("", b"[DONE]"))
        assert isinstance(end, Error)
        assert decoder.feed(Frame("response.completed", json.dumps(completed()).encode())) == []

    @pytest.mark.fault("F11", "F14")
    @pytest.mark.parametrize(
        ("event", "kind", "code"),
        [
            ({"type": "response.failed", "response": {"error": {"code": "server_error", "message": "m"}}},
             Kind.UPSTREAM, "server_error"),
            ({"type": "response.failed", "response": {"error": {"code": "rate_limit_exceeded", "message": "m"}}},
             Kind.RATE_LIMITED, "rate_limit_exceeded"),
            ({"type": "response.failed", "response": {"error": {"code": "invalid_prompt", "message": "m"}}},
             Kind.INVALID_REQUEST, "invalid_prompt"),
            ({"type": "response.completed", "response": {"status": "failed", "error": {"message": "m"}}},
             Kind.UPSTREAM, None),
            ({"type": "error", "message": "m", "code": "slow_down", "param": None}, Kind.OVERLOADED, "slow_down"),
            ({"type": "error", "error": {"message": "m", "type": "invalid_request_error"}},
             Kind.INVALID_REQUEST, None),
            ({"error": {"message": "m", "code": "server_is_overloaded"}}, Kind.OVERLOADED, "server_is_overloaded"),
        ],
    )  # fmt: skip
    @pytest.mark.parametrize("named", [True, False])
    def test_every_way_to_fail(self, event: Any, kind: Kind, code: str | None, named: bool) -> None:
        end = heard(CREATED, delta("output_text", 0, "a"), event, named=named)[-1]
        assert isinstance(end, Error)
        assert (end.error.kind, end.error.code, end.error.message) == (kind, code, "m")

    def test_nothing_follows_the_end(self) -> None:
        decoder = Decoder()
        for event in (CREATED, completed(content("a"))):
            decoder.feed(Frame(event["type"], json.dumps(event).encode()))
        assert decoder.feed(Frame("response.failed", json.dumps(completed()).encode())) == []
        assert decoder.eof() == []


def test_the_hot_path_says_what_the_long_way_says() -> None:
    """A delta without its name takes the long way."""
    pieces = [delta("output_text", 0, "a", content_index=0), delta("output_text", 0, "é\u2028", content_index=0)]
    ends = [{"type": "response.output_text.done", "output_index": 0, "content_index": 0, "text": "aé\u2028!"}]
    events = [CREATED, added(0, **MESSAGE), *pieces, *ends, completed()]
    assert heard(*events) == heard(*events, named=False)
    assert [e for e in heard(*events) if isinstance(e, TextDelta)] == [
        TextDelta(0, "a"),
        TextDelta(0, "é\u2028"),
        TextDelta(0, "!"),
    ]
    assert not [e for e in heard(*events) if isinstance(e, ArgsDelta | ReasoningDelta)]

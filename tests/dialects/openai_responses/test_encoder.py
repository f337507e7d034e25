from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.dialects.openai_responses import DIALECT
from rivermouth.dialects.openai_responses.encoder import CAP_BYTES, Encoder
from rivermouth.dialects.openai_responses.items import _WRITERS, MANNERS
from rivermouth.dialects.openai_responses.opaque import to_client
from rivermouth.ir.errors import ApiError, Kind, truncated
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
from tests.cost import assert_linear
from tests.dialects.openai_responses.case import answer, frames, kinds, parse, route, text
from tests.dialects.openai_responses.test_tools import EVERY
from tests.strategies import event_streams

REASONING, TOOL = PartKind.REASONING, PartKind.TOOL


def stream(*events: Event, request: Any = None) -> bytes:
    return Encoder(answer(request or parse())).feed([Start(), *events])


def ended(*events: Event, reason: Reason = Reason.STOP, request: Any = None) -> list[dict[str, Any]]:
    return frames(stream(*events, Finish(reason), request=request))


def call(part: int, name: str, *pieces: str) -> list[Event]:
    return [PartStart(part, TOOL, 0, f"call_{part}", name), *(ArgsDelta(part, p) for p in pieces), PartEnd(part)]


class TestGrammar:
    def test_a_message(self) -> None:
        assert kinds(stream(*text(0, "Deep", " water."), Finish(Reason.STOP))) == [
            "created",
            "in_progress",
            "output_item.added",
            "content_part.added",
            "output_text.delta",
            "output_text.delta",
            "output_text.done",
            "content_part.done",
            "output_item.done",
            "completed",
        ]

    def test_a_refusal(self) -> None:
        assert kinds(stream(*text(0, "No.", kind=PartKind.REFUSAL), Finish(Reason.STOP)))[2:-1] == [
            "output_item.added",
            "content_part.added",
            "refusal.delta",
            "refusal.done",
            "content_part.done",
            "output_item.done",
        ]

    def test_a_thought(self) -> None:
        events = [PartStart(0, REASONING), ReasoningDelta(0, "hm"), Signature(0, "anthropic:EqQB"), PartEnd(0)]
        seen = ended(*events)
        assert [e["type"].removeprefix("response.") for e in seen][2:-1] == [
            "output_item.added",
            "reasoning_summary_part.added",
            "reasoning_summary_text.delta",
            "reasoning_summary_text.done",
            "reasoning_summary_part.done",
            "output_item.done",
        ]
        assert seen[-2]["item"] == {
            "id": "rs_01J_0",
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": "hm"}],
            "encrypted_content": to_client("anthropic:EqQB"),
        }

    def test_a_hidden_thought_has_no_text(self) -> None:
        seen = ended(PartStart(0, REASONING, redacted=True), Signature(0, "x:y"), PartEnd(0))
        item = {"id": "rs_01J_0", "type": "reasoning", "summary": []}
        assert [e.get("item") for e in seen[2:-1]] == [
            item,
            {**item, "encrypted_content": to_client("x:y", redacted=True)},
        ]

    def test_a_call(self) -> None:
        seen = ended(*call(0, "weather", '{"a"', ":1}"), reason=Reason.TOOL_CALLS)
        assert [e["type"].removeprefix("response.") for e in seen][2:-1] == [
            "output_item.added",
            "function_call_arguments.delta",
            "function_call_arguments.delta",
            "function_call_arguments.done",
            "output_item.done",
        ]
        item = {"id": "fc_01J_0", "type": "function_call", "call_id": "call_0", "name": "weather"}
        assert seen[2]["item"] == {**item, "status": "in_progress", "arguments": ""}
        assert seen[-2]["item"] == {**item, "status": "completed", "arguments": '{"a":1}'}
        assert seen[-1]["response"]["status"] == "completed"

    def test_no_arguments_are_an_empty_object(self) -> None:
        seen = ended(*call(0, "time"))
        assert [e.get("delta") for e in seen if e["type"].endswith(".delta")] == ["{}"]
        assert seen[-1]["response"]["output"][0]["arguments"] == "{}"

    def test_a_call_of_free_form_is_taken_out_of_its_wrapping_as_it_comes(self) -> None:
        arguments = ['{"inp', 'ut": "*** Begin\\', 'n+\\"q\\" \\u00', "e9", '\\ud83d\\ude00"', "}"]
        seen = ended(*call(0, "apply_patch", *arguments), request=parse(tools=EVERY))
        deltas = [e["delta"] for e in seen if e["type"] == "response.custom_tool_call_input.delta"]
        assert deltas == ["*** Begin", '\n+"q" ', "é", "😀"]
        (done,) = [e for e in seen if e["type"] == "response.custom_tool_call_input.done"]
        assert done["input"] == '*** Begin\n+"q" é😀'
        item = seen[-1]["response"]["output"][0]
        assert (item["type"], item["name"], item["input"]) == ("custom_tool_call", "apply_patch", done["input"])

    @pytest.mark.parametrize("broken", ["ls -l", '{"cmd": "ls"}', '{"input": 7}', "x" * 1000])
    def test_a_broken_wrapping_is_what_the_model_wrote(self, broken: str) -> None:
        for pieces in ([broken], list(broken)):
            seen = ended(*call(0, "apply_patch", *pieces), request=parse(tools=EVERY))
            assert seen[-1]["response"]["output"][0]["input"] == broken

    def test_a_call_of_a_namespace_has_both_its_names(self) -> None:
        seen = ended(*call(0, "mcp__browser__click", "{}"), request=parse(tools=EVERY))
        item = seen[-1]["response"]["output"][0]
        assert (item["namespace"], item["name"]) == ("mcp__browser", "click")
        assert "namespace" not in ended(*call(0, "weather", "{}"), request=parse(tools=EVERY))[2]["item"]

    def test_a_picture_and_what_is_none(self) -> None:
        picture = [PartStart(0, PartKind.IMAGE), MediaDelta(0, "image/png", "iVBO"), PartEnd(0)]
        (item,) = ended(*picture)[-1]["response"]["output"]
        assert item == {
            "id": "ig_01J_0",
            "type": "image_generation_call",
            "status": "completed",
            "output_format": "png",
            "result": "iVBO",
        }
        linked = [PartStart(0, PartKind.IMAGE), MediaDelta(0, url="https://x.org/a.png"), PartEnd(0)]
        (item,) = ended(*linked)[-1]["response"]["output"]
        assert item["content"][0]["text"] == "[image](https://x.org/a.png)"

    def test_every_kind_of_part_has_its_manner_and_every_manner_its_writer(self) -> None:
        assert set(MANNERS) == set(PartKind)
        assert set(MANNERS.values()) <= set(_WRITERS)

    def test_parts_that_say_nothing_are_no_items(self) -> None:
        events = [*text(0, "a"), PartStart(1, PartKind.TEXT), PartEnd(1), PartStart(2, REASONING), PartEnd(2)]
        (item,) = ended(*events)[-1]["response"]["output"]
        assert item["content"][0]["text"] == "a"


class TestWhatIsSaidTwice:
    @given(events=event_streams(kinds=tuple(PartKind), noise=True))
    def test_what_is_done_is_what_the_deltas_said(self, events: list[Event]) -> None:
        seen = frames(Encoder(answer(parse())).feed(events))
        texts: dict[str, str] = {}
        added: dict[int, str] = {}
        done: list[Any] = []
        for event in seen:
            kind = event["type"]
            if kind == "response.output_item.added":
                assert event["output_index"] == len(added), "indices are dense"
                added[event["output_index"]] = event["item"]["id"]
            elif kind == "response.output_item.done":
                assert added[event["output_index"]] == event["item"]["id"], "ids never change"
                assert event["output_index"] == len(done), "one item is open at a time"
                done.append(event["item"])
            elif kind.endswith(".delta"):
                texts[event["item_id"]] = texts.get(event["item_id"], "") + event["delta"]
            elif kind.endswith(("text.done", "refusal.done")):
                assert texts[event["item_id"]] == event.get("text", event.get("refusal"))
        assert seen[-1]["response"]["output"] == done
        for item in done:
            said = item.get("content") or item.get("summary")
            whole = said[0].get("text", said[0].get("refusal")) if said else item.get("arguments", "")
            assert texts.get(item["id"], "") == whole
        assert len({e["response"]["id"] for e in seen if "response" in e}) == 1

    def test_an_answer_that_is_too_long_to_be_said_again_is_an_error_after_all_of_it(self) -> None:
        piece = "x" * (CAP_BYTES // 4)
        encoder = Encoder(answer())
        told = encoder.feed([Start(), PartStart(0, PartKind.TEXT), *(TextDelta(0, piece) for _ in range(3))])
        with pytest.raises(ApiError) as caught:
            encoder.feed([TextDelta(0, "before"), TextDelta(0, piece)])
        told += encoder.feed([Error(caught.value)])
        seen = frames(told)
        said = "".join(e.get("delta", "") for e in seen)
        assert said == piece * 3 + "before"
        assert (seen[-1]["type"], seen[-1]["response"]["output"]) == ("response.failed", [])
        assert encoder.statistics()["cap_bytes"] == CAP_BYTES

    def test_the_cost_grows_with_the_answer(self) -> None:
        def prepare(count: int) -> Any:
            deltas: list[Event] = [ArgsDelta(0, "\\n  ") for _ in range(count)]
            events = [Start(), PartStart(0, TOOL, 0, "c", "apply_patch"), *deltas, PartEnd(0), Finish(Reason.STOP)]
            request = parse(tools=EVERY)
            return lambda: Encoder(answer(request)).feed(events)

        assert_linear(prepare, 500)


class TestEnds:
    @pytest.mark.parametrize(
        ("reason", "status", "why"),
        [
            (Reason.STOP, "completed", None),
            (Reason.TOOL_CALLS, "completed", None),
            (Reason.LENGTH, "incomplete", "max_output_tokens"),
            (Reason.CONTENT_FILTER, "incomplete", "content_filter"),
        ],
    )
    def test_the_status_tells_how_it_ended(self, reason: Reason, status: str, why: str | None) -> None:
        last = ended(*text(0, "Once"), reason=reason)[-1]
        assert last["type"] == f"response.{status}"
        assert last["response"]["status"] == status
        assert last["response"]["incomplete_details"] == ({"reason": why} if why else None)
        assert ("completed_at" in last["response"]) is (status == "completed")

    def test_only_the_last_item_was_cut_off_by_the_limit(self) -> None:
        items = ended(*text(0, "One."), *call(1, "f", '{"a'), reason=Reason.LENGTH)[-1]["response"]["output"]
        assert [item["status"] for item in items] == ["completed", "incomplete"]

    @pytest.mark.fault("F10", "F13", "F14")
    def test_a_failure_leaves_the_open_item_open_and_tells_its_text(self) -> None:
        seen = frames(stream(*text(0, "One."), *call(1, "f", '{"a')[:-1], Error(truncated("lab"))))
        assert [e["type"] for e in seen if e["type"].endswith("_item.done")] == ["response.output_item.done"]
        last = seen[-1]
        assert last["type"] == "response.failed"
        response = last["response"]
        assert response["status"] == "failed"
        assert response["error"] == {
            "code": "server_error",
            "message": truncated("lab").message,
            "type": "server_error",
            "param": None,
        }
        assert [(i["status"], i.get("arguments")) for i in response["output"]] == [
            ("completed", None),
            ("incomplete", '{"a'),
        ]

    @pytest.mark.fault("F13", "F26")
    def test_what_waits_when_it_fails_is_said_in_an_item_of_its_own(self) -> None:
        overlap = [PartStart(0, PartKind.TEXT), PartStart(1, PartKind.TEXT), TextDelta(1, "b"), TextDelta(0, "a")]
        called = [PartStart(2, TOOL, 0, "c", "f"), PartStart(3, PartKind.TEXT), TextDelta(3, "d"), ArgsDelta(2, "{")]
        seen = frames(stream(*overlap, *called, Error(truncated("lab"))))
        deltas = [(e["item_id"], e["delta"]) for e in seen if e["type"].endswith(".delta")]
        assert deltas == [("msg_01J_0", "a"), ("msg_01J_1", "b"), ("fc_01J_2", "{"), ("msg_01J_3", "d")]

    def test_a_failure_before_anything_begins_the_stream_all_the_same(self) -> None:
        assert kinds(Encoder(answer()).feed([Error(ApiError(Kind.OVERLOADED, "busy"))])) == [
            "created",
            "in_progress",
            "failed",
        ]

    @pytest.mark.parametrize(
        ("error", "code"),
        [
            (ApiError(Kind.RATE_LIMITED, "m"), "rate_limit_exceeded"),
            (ApiError(Kind.RATE_LIMITED, "m", code="insufficient_quota"), "insufficient_quota"),
            (ApiError(Kind.INVALID_REQUEST, "m", code="context_length_exceeded"), "context_length_exceeded"),
            (ApiError(Kind.INVALID_REQUEST, "m", code="something"), "invalid_prompt"),
            (ApiError(Kind.OVERLOADED, "m"), "server_is_overloaded"),
        ],
    )
    def test_codes_that_agents_act_on(self, error: ApiError, code: str) -> None:
        assert frames(stream(Error(error)))[-1]["response"]["error"]["code"] == code

    def test_usage_has_both_its_details(self) -> None:
        usage = ended(*text(0, "x"), Usage(9, 4, 3, None, 1))[-1]["response"]["usage"]
        assert usage == {
            "input_tokens": 9,
            "input_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 0},
            "output_tokens": 4,
            "output_tokens_details": {"reasoning_tokens": 1},
            "total_tokens": 13,
        }
        assert ended(*text(0, "x"), Usage(input_tokens=9))[-1]["response"]["usage"] is None


@pytest.mark.fault("F26")
def test_parts_that_overlap_are_items_one_after_the_other() -> None:
    seen = ended(
        PartStart(0, TOOL, 0, "c0", "f"),
        PartStart(1, TOOL, 0, "c1", "g"),
        ArgsDelta(1, "[1]"),
        ArgsDelta(0, "{}"),
        PartEnd(1),
        PartEnd(0),
    )
    assert [(e["output_index"], e["delta"]) for e in seen if e["type"].endswith(".delta")] == [(0, "{}"), (1, "[1]")]


@given(data=st.data())
def test_the_same_events_give_the_same_bytes_whatever_the_batches(data: st.DataObject) -> None:
    events = data.draw(event_streams(kinds=tuple(PartKind)))
    one = Encoder(answer(parse(tools=EVERY)))
    assert b"".join(one.feed([e]) for e in events) == Encoder(answer(parse(tools=EVERY))).feed(events)


def test_what_was_asked_for_is_repeated() -> None:
    wish: dict[str, Any] = {
        "instructions": "Be brief.",
        "max_output_tokens": 77,
        "metadata": {"team": "y"},
        "reasoning": {"effort": "low", "summary": "auto"},
        "temperature": 0.5,
        "text": {"format": {"type": "json_object"}, "verbosity": "low"},
        "tool_choice": {"type": "custom", "name": "apply_patch"},
        "tools": EVERY,
        "truncation": "auto",
        "user": "u",
    }
    first = frames(stream(*text(0, "x"), request=parse(**wish)))[0]["response"]
    assert {name: first[name] for name in wish} == wish
    assert (first["object"], first["status"], first["output"], first["usage"]) == ("response", "in_progress", [], None)
    assert (first["store"], first["background"], first["previous_response_id"]) == (False, False, None)


def test_white_space_in_what_is_repeated_does_not_break_a_line() -> None:

    body = json.dumps({"model": "m", "input": "Hi", "tools": EVERY, "metadata": {"a": "x\u2028\ny"}}, indent=2)
    request = DIALECT.parse_request(body.encode(), route(), None)
    assert frames(stream(*text(0, "x"), request=request))[0]["response"]["metadata"] == {"a": "x\u2028\ny"}

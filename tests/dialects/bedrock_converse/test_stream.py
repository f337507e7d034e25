"""Streams: what the vendor's reader sees of ours, what we make of odd ones, and what passes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.dialects.bedrock_converse import DIALECT
from rivermouth.dialects.bedrock_converse.messages import passed
from rivermouth.dialects.bedrock_converse.opaque import hidden_from_wire, hidden_to_wire
from rivermouth.dialects.bedrock_converse.tables import (
    CHOICES,
    DOCUMENT_FORMATS,
    DOCUMENTS,
    FAILED_REASONS,
    IMAGE_FORMATS,
    IMAGES,
    MEMBERS,
    REASONS,
    STOP_REASONS,
)
from rivermouth.ir.errors import ApiError, Kind, WireError
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
    Warn,
)
from rivermouth.ir.request import Choose
from rivermouth.wire import json
from tests.dialects.bedrock_converse.case import answer, decode, encode, messages, parse
from tests.dialects.conformance import only_error

RECORDED = sorted((Path(__file__).parent / "streams").glob("*.bin"))
HELLO: list[Event] = [Start(), PartStart(0, PartKind.TEXT), TextDelta(0, "Hel"), TextDelta(0, "lo\u2028")]
ENDED: list[Event] = [*HELLO, PartEnd(0), Usage(120, 7, 100, 10), Finish(Reason.STOP)]


def stream(*events: tuple[str, Any]) -> bytes:
    return b"".join(passed(name, json.encode(value)) for name, value in events)


def delta(index: int, **said: Any) -> tuple[str, Any]:
    return "contentBlockDelta", {"contentBlockIndex": index, "delta": said}


def stop(index: int) -> tuple[str, Any]:
    return "contentBlockStop", {"contentBlockIndex": index}


START = ("messageStart", {"role": "assistant"})
SAYINGS: list[tuple[str, Any]] = [
    *(
        ("contentBlockDelta", {"delta": each})
        for each in (
            {"text": "a"},
            {"text": ""},
            {"reasoningContent": {"text": "hm"}},
            {"reasoningContent": {"signature": "EqQB"}},
            {"reasoningContent": {"redactedContent": "QUJD"}},
            {"image": {"source": {"bytes": "QUJD"}}},
            {"citation": {}},
        )
    ),
    ("contentBlockStart", {"start": {"toolUse": {"toolUseId": "a", "name": "f"}}}),
    ("contentBlockStart", {"start": {"image": {"format": "png"}}}),
    ("contentBlockStart", {"start": {"toolResult": {}}}),
    ("contentBlockStop", {}),
]
END = (("messageStop", {"stopReason": "end_turn"}), ("metadata", {"usage": {"inputTokens": 1, "outputTokens": 2}}))


class TestEncoder:
    def test_the_order_of_the_service_and_the_counts_after_the_end(self) -> None:
        got = messages(encode(ENDED, total_ns=1_500_000_000))
        assert got == [
            START,
            delta(0, text="Hel"),
            delta(0, text="lo\u2028"),
            stop(0),
            ("messageStop", {"stopReason": "end_turn"}),
            (
                "metadata",
                {
                    "usage": {
                        "inputTokens": 10,
                        "outputTokens": 7,
                        "totalTokens": 127,
                        "cacheReadInputTokens": 100,
                        "cacheWriteInputTokens": 10,
                    },
                    "metrics": {"latencyMs": 1500},
                },
            ),
        ]

    def test_only_calls_and_images_announce_themselves(self) -> None:
        events: list[Event] = [
            Start(),
            PartStart(0, PartKind.REASONING),
            ReasoningDelta(0, "hm"),
            Signature(0, "anthropic:EqQB"),
            PartEnd(0),
            PartStart(1, PartKind.TOOL, 0, "c1", "f"),
            ArgsDelta(1, '{"a":'),
            ArgsDelta(1, "1}"),
            PartEnd(1),
            PartStart(2, PartKind.IMAGE),
            MediaDelta(2, "image/png", "QUJD"),
            PartEnd(2),
            Finish(Reason.TOOL_CALLS),
        ]
        got = messages(encode(events, input_estimate=9))
        assert got[1:-2] == [
            delta(0, reasoningContent={"text": "hm"}),
            delta(0, reasoningContent={"signature": "EqQB"}),
            stop(0),
            ("contentBlockStart", {"contentBlockIndex": 1, "start": {"toolUse": {"toolUseId": "c1", "name": "f"}}}),
            delta(1, toolUse={"input": '{"a":'}),
            delta(1, toolUse={"input": "1}"}),
            stop(1),
            ("contentBlockStart", {"contentBlockIndex": 2, "start": {"image": {"format": "png"}}}),
            delta(2, image={"source": {"bytes": "QUJD"}}),
            stop(2),
        ]
        assert got[-2][1] == {"stopReason": "tool_use"}
        assert got[-1][1]["usage"] == {"inputTokens": 9, "outputTokens": 0, "totalTokens": 9}

    @pytest.mark.fault("F26")
    def test_blocks_never_overlap(self) -> None:
        events: list[Event] = [
            Start(),
            PartStart(0, PartKind.TEXT),
            PartStart(1, PartKind.TOOL, 0, "c1", "f"),
            ArgsDelta(1, "{}"),
            TextDelta(0, "a"),
            PartEnd(1),
            TextDelta(0, "b"),
            PartEnd(0),
            Finish(Reason.TOOL_CALLS),
        ]
        assert [value.get("contentBlockIndex") for _, value in messages(encode(events))] == [
            None, 0, 0, 0, 1, 1, 1, None, None,
        ]  # fmt: skip

    def test_which_sequence_it_was_is_said_to_who_asked(self) -> None:
        ended = [*HELLO, PartEnd(0), Finish(Reason.STOP, "END")]
        assert messages(encode(ended))[-2][1] == {"stopReason": "stop_sequence"}
        curious = parse({"messages": [{"role": "user", "content": [{"text": "Hi"}]}],
                         "additionalModelResponseFieldPaths": ["/stop_sequence"]})  # fmt: skip
        assert messages(encode(ended, request=curious))[-2][1] == {
            "stopReason": "stop_sequence",
            "additionalModelResponseFields": {"stop_sequence": "END"},
        }

    @pytest.mark.fault("F9", "F13", "F14")
    @pytest.mark.parametrize("kind", Kind)
    def test_a_failure_is_an_exception_of_the_streams_union_after_the_open_block(self, kind: Kind) -> None:
        got = messages(encode([*HELLO, Error(ApiError(kind, "it broke"))]))
        assert got[-2:] == [stop(0), (MEMBERS[kind], {"message": "it broke"})]
        union = {"internalServerException", "modelStreamErrorException", "validationException", "throttlingException",
                 "serviceUnavailableException"}  # fmt: skip
        assert MEMBERS[kind] in union

    @pytest.mark.fault("F13")
    def test_a_call_that_was_cut_stays_open(self) -> None:
        """Agents run a call when its block ends, and the failure comes too late for them."""
        called: list[Event] = [*HELLO, PartEnd(0), PartStart(1, PartKind.TOOL, 0, "c1", "f"), ArgsDelta(1, '{"a":')]
        failed = Error(ApiError(Kind.TRUNCATED, "cut"))
        names = [name for name, _ in messages(encode([*called, failed]))]
        assert names[-3:] == ["contentBlockStart", "contentBlockDelta", "modelStreamErrorException"]
        whole: list[Event] = [*HELLO, PartStart(1, PartKind.TOOL, 0, "c1", "f"), ArgsDelta(1, "{}"), PartEnd(1)]
        names = [name for name, _ in messages(encode([*whole, failed]))]
        assert names[-2:] == ["contentBlockStop", "modelStreamErrorException"]


class TestDecoder:
    @pytest.mark.fault("F19", "F20")
    def test_calls_without_ids_and_with_the_same_get_new_ones(self) -> None:
        def call(index: int, **use: Any) -> list[tuple[str, Any]]:
            start = {"contentBlockIndex": index, "start": {"toolUse": {"name": "f", **use}}}
            return [("contentBlockStart", start), delta(index, toolUse={"input": "{}"}), stop(index)]

        got = decode(stream(START, *call(0), *call(1, toolUseId="a"), *call(2, toolUseId="a"), *END))
        assert [e.id for e in got if isinstance(e, PartStart)] == ["call_0", "a", "call_2"]
        assert got[-1] == Finish(Reason.TOOL_CALLS)

    @pytest.mark.fault("F21", "F23")
    def test_a_part_opens_with_the_first_that_is_said_and_follows_its_kind(self) -> None:
        events = (
            ("contentBlockStart", {"contentBlockIndex": 0, "start": {}}),
            delta(0, text=""),
            delta(0, reasoningContent={"text": "hm"}),
            delta(0, text="a"),
            stop(0),
            delta(1, text=""),
            stop(1),
        )
        got = decode(stream(START, *events, *END))
        assert [e.kind for e in got if isinstance(e, PartStart)] == [PartKind.REASONING, PartKind.TEXT]

    @pytest.mark.fault("F21", "F23")
    @given(st.lists(st.tuples(st.sampled_from((0, 1)), st.sampled_from(SAYINGS)), max_size=8))
    def test_whatever_a_block_says_in_whichever_order_is_a_legal_stream(self, said: list[Any]) -> None:
        """`decode` sees to the grammar."""
        events = [(name, {"contentBlockIndex": index, **value}) for index, (name, value) in said]
        assert type(decode(stream(START, *events, *END))[-1]) is Finish

    def test_blocks_that_interleave_are_two_parts(self) -> None:
        got = decode(stream(START, delta(0, text="a"), delta(1, text="b"), delta(0, text="c"), stop(1), stop(0), *END))
        assert [(e.part, e.text) for e in got if isinstance(e, TextDelta)] == [(0, "a"), (1, "b"), (0, "c")]

    @pytest.mark.fault("F10")
    def test_it_is_whole_when_it_has_stopped_and_been_counted(self) -> None:
        stopped, counted = END
        assert decode(stream(START, delta(0, text="a"), counted, stopped))[-2:] == [PartEnd(0), Finish(Reason.STOP)]
        for missing in END:
            left = [event for event in END if event is not missing]
            assert only_error(decode(stream(START, delta(0, text="a"), *left))).error.kind is Kind.TRUNCATED

    @pytest.mark.fault("F10")
    def test_what_is_said_behind_the_stop_is_over_with_the_end(self) -> None:
        stopped, counted = END
        got = decode(stream(START, delta(0, text="a"), stop(0), stopped, delta(0, text="b"), counted))
        assert [type(e) for e in got[-5:]] == [PartStart, TextDelta, Usage, PartEnd, Finish]

    def test_what_begins_between_the_two_frames_of_the_end_is_ended_too(self) -> None:
        ended, counted = END
        late = ("contentBlockStart", {"contentBlockIndex": 1, "start": {"toolUse": {"toolUseId": "t", "name": "f"}}})
        assert decode(stream(START, delta(0, text="a"), ended, late, counted))[-3:] == [
            Usage(1, 2),
            PartEnd(1),
            Finish(Reason.TOOL_CALLS),
        ]

    @pytest.mark.parametrize("word", FAILED_REASONS)
    def test_ends_that_are_failures(self, word: str) -> None:
        got = decode(stream(START, delta(0, text="a"), stop(0), ("messageStop", {"stopReason": word})))
        assert (only_error(got).error.kind, only_error(got).error.code) == (Kind.UPSTREAM, word)
        body = json.encode({"output": {"message": {"content": []}}, "stopReason": word})
        with pytest.raises(ApiError, match="not valid"):
            DIALECT.parse_reply(body)

    def test_an_unknown_word_is_a_stop_with_a_warning(self) -> None:
        got = decode(stream(START, delta(0, text="a"), ("messageStop", {"stopReason": "odd"}), END[1]))
        assert [type(e) for e in got[-3:]] == [Warn, Usage, Finish]

    @pytest.mark.parametrize(
        "event",
        [
            delta(0, toolUse={"input": "{"}),
            ("contentBlockStart", {"contentBlockIndex": 0, "start": {"toolUse": {"toolUseId": "a"}}}),
            ("contentBlockDelta", {"delta": {"text": "a"}}),
        ],
    )
    def test_what_cannot_be_is_a_wire_error(self, event: tuple[str, Any]) -> None:
        with pytest.raises(WireError):
            decode(stream(START, event))

    def test_the_older_names_of_cached_counts(self) -> None:
        usage = {"inputTokens": 1, "outputTokens": 2, "cacheReadInputTokenCount": 3, "cacheWriteInputTokenCount": 4}
        got = decode(stream(START, END[0], ("metadata", {"usage": usage})))
        assert got[-2] == Usage(8, 2, 3, 4)


class TestRelay:
    @pytest.mark.parametrize("path", [p for p in RECORDED if p.stem not in ("cut", "error_inside", "malformed_call")],
                             ids=lambda p: p.stem)  # fmt: skip
    def test_messages_pass_as_they_came(self, path: Path) -> None:
        assert DIALECT.relay is not None
        decoder, relay = DIALECT.decoder(parse_nothing()), DIALECT.relay(answer())
        frames = DIALECT.reader().feed(path.read_bytes())
        assert b"".join(relay.feed(frame, decoder.feed(frame)) for frame in frames) == path.read_bytes()
        assert relay.fail(ApiError(Kind.NETWORK, "late")) == b""

    @pytest.mark.fault("F9", "F11", "F13")
    @pytest.mark.parametrize("name", ["error_inside", "malformed_call"])
    def test_a_failure_is_said_anew_after_the_open_block(self, name: str) -> None:
        assert DIALECT.relay is not None
        path = next(p for p in RECORDED if p.stem == name)
        decoder, relay = DIALECT.decoder(parse_nothing()), DIALECT.relay(answer())
        frames = DIALECT.reader().feed(path.read_bytes())
        got = messages(b"".join(relay.feed(frame, decoder.feed(frame)) for frame in frames))
        assert [n for n, _ in got].count("contentBlockStop") == 1
        assert got[-1][0] in ("throttlingException", "modelStreamErrorException")

    @pytest.mark.fault("F10", "F13")
    @pytest.mark.parametrize("frames", range(5))
    def test_a_cut_is_told_once(self, frames: int) -> None:
        assert DIALECT.relay is not None
        decoder, relay = DIALECT.decoder(parse_nothing()), DIALECT.relay(answer())
        read = DIALECT.reader().feed(encode(ENDED))[:frames]
        out = b"".join(relay.feed(frame, decoder.feed(frame)) for frame in read)
        out += relay.fail(ApiError(Kind.TRUNCATED, "cut"))
        assert relay.fail(ApiError(Kind.TRUNCATED, "again")) == b""
        names = [name for name, _ in messages(out)]
        assert names.count("contentBlockStop") == (frames > 1)
        only_error(decode(out))


def parse_nothing() -> Any:
    return parse({"messages": [{"role": "user", "content": [{"text": "Hi"}]}]})


class TestTables:
    def test_they_are_total(self) -> None:
        assert set(STOP_REASONS) == set(Reason)
        assert {REASONS[word] for word in STOP_REASONS.values()} == set(Reason)
        assert set(MEMBERS) == set(Kind)
        assert set(CHOICES) == set(Choose)
        assert {IMAGES[name]: name for name in IMAGES} == IMAGE_FORMATS
        assert {DOCUMENTS[name]: name for name in DOCUMENTS} == DOCUMENT_FORMATS

    def test_they_are_the_words_of_the_service(self) -> None:
        """As its own description has them."""
        from botocore.session import Session

        service = Session().get_service_model("bedrock-runtime")
        shape = service.shape_for
        assert {*REASONS, *FAILED_REASONS} == set(shape("StopReason").enum)
        assert set(IMAGES) == set(shape("ImageFormat").enum)
        assert set(DOCUMENTS) == set(shape("DocumentFormat").enum)
        assert set(MEMBERS.values()) <= set(shape("ConverseStreamOutput").members)

    @given(st.text() | st.binary().map(lambda data: "anthropic:" + data.hex()))
    def test_hidden_reasoning_survives_any_client(self, signature: str) -> None:
        """A client decodes the base64 and encodes it again."""
        from base64 import b64decode, b64encode

        wire = hidden_to_wire(signature)
        assert b64encode(b64decode(wire, validate=True)).decode() == wire
        assert hidden_from_wire(wire) == (signature or None)

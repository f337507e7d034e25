"""Every dialect that `discover()` finds, held to the contract."""

from __future__ import annotations

import json as reference
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rivermouth.dialects import discover
from rivermouth.dialects.dialect import Dialect, Operation
from rivermouth.ir.errors import ApiError, Kind, WireError
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
    Start,
    TextDelta,
    Usage,
)
from rivermouth.ir.fold import Fold, fold, unfold
from rivermouth.ir.grammar import Grammar
from rivermouth.ir.reply import Reply
from rivermouth.ir.request import Request, Sampling
from rivermouth.wire.aws_eventstream import MEDIA_TYPE as BINARY_TYPE
from rivermouth.wire.frame import Frame
from tests.dialects.conformance import (
    DIALECTS,
    FEWER,
    MODEL,
    Carries,
    Decoded,
    answer,
    arrived,
    asked,
    carries,
    counted_alike,
    decoded,
    encoded,
    generate_route,
    only_error,
    reparsed,
    said,
    survives,
    texts_of,
    wanted,
)
from tests.in_turn import in_turn
from tests.strategies import errors, event_streams, replies, requests

pytestmark = pytest.mark.parametrize("name", DIALECTS)

TOOLS: list[Event] = [
    Start("u", "m", 7),
    PartStart(0, PartKind.REASONING),
    ReasoningDelta(0, "hm"),
    PartEnd(0),
    PartStart(1, PartKind.TEXT),
    TextDelta(1, "é"),
    TextDelta(1, "😀\u2028"),
    PartEnd(1),
    PartStart(2, PartKind.TOOL, 0, "call_1", "f"),
    ArgsDelta(2, '{"a":'),
    ArgsDelta(2, "1}"),
    PartEnd(2),
    Usage(12, 5, 3, 0, 1),
    Finish(Reason.TOOL_CALLS),
]
CALL_AT = next(i for i, event in enumerate(TOOLS) if isinstance(event, PartStart) and event.kind is PartKind.TOOL)
TEXT: list[Event] = [
    Start(),
    PartStart(0, PartKind.TEXT),
    TextDelta(0, "hé"),
    PartEnd(0),
    Usage(3, 2),
    Finish(Reason.STOP),
]


def drawn(data: st.DataObject, can: Carries, **more: Any) -> list[Event]:
    """A stream of what the dialect carries."""
    count = data.draw(st.integers(1, 3)) if can.choices else 1
    return data.draw(event_streams(count, can.kinds, **{"signed": can.signed, **more}))


def asking(data: st.DataObject, can: Carries) -> Request:
    """What a client may ask, as far as the protocol goes."""
    return data.draw(requests(images=can.images, with_tools=can.talks))


def dialect_of(name: str) -> tuple[Dialect, Carries]:
    return discover()[name], carries(name)


class TestStreams:
    @given(data=st.data())
    def test_what_is_encoded_is_what_is_decoded(self, name: str, data: st.DataObject) -> None:
        dialect, can = dialect_of(name)
        events = drawn(data, can)
        back = decoded(dialect, encoded(dialect, events))
        assert said(back, can) == said(events, can)
        assert counted_alike(back, events, can)

    @given(data=st.data())
    @pytest.mark.fault("F19")
    def test_the_bytes_do_not_depend_on_how_events_were_batched(self, name: str, data: st.DataObject) -> None:
        dialect, _ = dialect_of(name)
        events = data.draw(event_streams(1, tuple(PartKind), noise=True))
        cuts = sorted(data.draw(st.sets(st.integers(0, len(events)), max_size=4)))
        encoder = dialect.encoder(answer(dialect))
        pieces = [encoder.feed(events[a:b]) for a, b in pairwise([0, *cuts, len(events)])]
        assert b"".join(pieces) == encoded(dialect, events)

    @FEWER
    @given(data=st.data())
    @pytest.mark.fault("F5")
    def test_every_kind_of_part_gives_a_stream_that_ends_well(self, name: str, data: st.DataObject) -> None:
        """What the protocol has no place for may be lost, but never the shape of the stream."""
        dialect, _ = dialect_of(name)
        events = data.draw(event_streams(1, tuple(PartKind), noise=True))
        back = decoded(dialect, encoded(dialect, events))
        assert isinstance(back[-1], Finish)
        stream = encoded(dialect, events)
        if dialect.surfaces[0].stream_type == BINARY_TYPE:  # no lines: then the JSON inside is one
            stream = b"\n".join(frame.data for frame in dialect.reader().feed(stream))
        lines = stream.decode().split("\n")
        assert all(len(line.splitlines()) <= 1 for line in lines), "one line for every way to split lines"

    @pytest.mark.fault("F1", "F2")
    @pytest.mark.parametrize("events", [TEXT, TOOLS], ids=["text", "tools"])
    def test_every_split_reads_the_same(self, name: str, events: list[Event]) -> None:
        dialect, _ = dialect_of(name)
        data = encoded(dialect, events)
        whole = Decoded(dialect).feed(data)
        assert isinstance(whole[-1], Finish)
        single = Decoded(dialect)
        assert [e for i in range(len(data)) for e in single.feed(data[i : i + 1])] == whole
        for cut in range(1, len(data)):
            reader = Decoded(dialect)
            assert [*reader.feed(data[:cut]), *reader.feed(data[cut:])] == whole, f"split at {cut}"

    @pytest.mark.fault("F10")
    @pytest.mark.promise(59)
    @pytest.mark.parametrize("events", [TEXT, TOOLS], ids=["text", "tools"])
    def test_cut_at_any_byte_it_is_one_error_and_no_finish(self, name: str, events: list[Event]) -> None:
        dialect, _ = dialect_of(name)
        data = encoded(dialect, events)
        for cut in range(len(data.rstrip(b"\n"))):
            assert only_error(decoded(dialect, data[:cut])).error.kind is Kind.TRUNCATED, f"cut at {cut}"

    @pytest.mark.fault("F10")
    @FEWER
    @given(data=st.data())
    def test_an_encoder_that_stops_in_the_middle_has_said_no_end(self, name: str, data: st.DataObject) -> None:
        dialect, can = dialect_of(name)
        events = drawn(data, can, end="open")
        assert only_error(decoded(dialect, encoded(dialect, events))).error.kind is Kind.TRUNCATED

    @pytest.mark.fault("F11", "F13", "F14", "F16")
    @pytest.mark.promise(4, 5, 18, 19)
    @given(data=st.data())
    def test_an_error_is_told_once_and_nothing_follows(self, name: str, data: st.DataObject) -> None:
        dialect, can = dialect_of(name)
        events = drawn(data, can, end="error")
        encoder = dialect.encoder(answer(dialect))
        stream = encoder.feed(events)
        assert encoder.feed([TextDelta(0, "late"), Usage(1, 1), Finish(Reason.STOP)]) == b""
        only_error(decoded(dialect, stream))

    @pytest.mark.fault("F13", "F26")
    @given(data=st.data())
    def test_a_failed_stream_keeps_its_text(self, name: str, data: st.DataObject) -> None:
        """Part by part, as the whole answer has it, and not in the order in which the pieces came."""
        dialect, can = dialect_of(name)
        events = drawn(data, can, end="error")
        assert text_so_far(decoded(dialect, encoded(dialect, events))) == text_so_far(events)

    @pytest.mark.fault("F10", "F13")
    @pytest.mark.parametrize("until", [CALL_AT + 1, CALL_AT + 2, CALL_AT + 3])
    def test_a_call_that_an_error_cuts_is_not_said_to_be_whole(self, name: str, until: int) -> None:
        """Agents run a call when it ends; what comes after that is too late."""
        dialect, _ = dialect_of(name)
        failed = [*TOOLS[:until], Error(ApiError(Kind.TRUNCATED, "cut"))]
        assert ended_calls(decoded(dialect, encoded(dialect, failed))) == []

    @FEWER
    @given(error=errors)
    def test_an_error_may_be_the_first_event(self, name: str, error: ApiError) -> None:
        dialect, _ = dialect_of(name)
        only_error(decoded(dialect, encoded(dialect, [Error(error)])))

    @pytest.mark.fault("F27")
    @FEWER
    @given(data=st.data())
    def test_nothing_follows_finish_on_either_side(self, name: str, data: st.DataObject) -> None:
        dialect, can = dialect_of(name)
        events = drawn(data, can)
        encoder = dialect.encoder(answer(dialect))
        stream = encoder.feed(events)
        assert encoder.feed([Usage(1, 1), Error(ApiError(Kind.UPSTREAM, "late"))]) == b""
        reader = Decoded(dialect)
        assert isinstance(reader.feed(stream)[-1], Finish)
        assert reader.feed(encoded(dialect, events)) == []
        assert reader.eof() == []

    def test_keep_alive_is_nothing_to_a_reader(self, name: str) -> None:
        dialect, _ = dialect_of(name)
        if dialect.keep_alive is not None:
            data = encoded(dialect, TEXT[:3]), encoded(dialect, TEXT)
            plain = Decoded(dialect).feed(data[1])
            reader = Decoded(dialect)
            rest = data[1].removeprefix(data[0])
            heard = [*reader.feed(dialect.keep_alive), *reader.feed(data[0]), *reader.feed(dialect.keep_alive * 2)]
            assert [*heard, *reader.feed(rest)] == plain


def text_so_far(events: list[Event]) -> str:
    """The text of all choices, of a stream that may have failed."""
    return "".join(choice.text for choice in Fold().feed_all(events).reply().choices)


def mutated(draw: st.DrawFn, data: bytes) -> bytes:
    """The bytes with up to three of them changed, dropped, doubled or swapped for something a parser fears."""
    out = bytearray(data)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, max(len(out) - 1, 0)))
        change = draw(st.sampled_from([b"", b"\n", b"\n\n", b"{", b'"', b"null", b"[]", b"\xff", b"\\", b"0", b"x"]))
        out[at : at + draw(st.integers(0, 4))] = change
    return bytes(out)


byte_mutations = st.composite(mutated)
ANY_JSON = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2),
    st.sampled_from(["", "x", "error", [], [None], [{}], {}, {"error": {}}, {"error": "x"}, 1.5, 10**30]),
)


@st.composite
def json_mutations(draw: st.DrawFn, value: Any) -> Any:
    """The JSON value with one member, somewhere, replaced, dropped or added."""
    if not isinstance(value, dict | list) or not value or draw(st.integers(0, 4)) == 0:
        return draw(ANY_JSON)
    if isinstance(value, list):
        at = draw(st.integers(0, len(value) - 1))
        return [*value[:at], draw(json_mutations(value[at])), *value[at + 1 :]]
    key = draw(st.sampled_from(sorted(value)))
    if draw(st.integers(0, 5)) == 0:
        return {k: v for k, v in value.items() if k != key}
    return {**value, key: draw(json_mutations(value[key]))}


class TestNonsense:
    @pytest.mark.fault("F17")
    @given(data=st.data())
    def test_mutated_bytes_are_events_or_a_wire_error(self, name: str, data: st.DataObject) -> None:
        dialect, _ = dialect_of(name)
        survives(dialect, [data.draw(byte_mutations(encoded(dialect, TOOLS)))])

    @given(junk=st.lists(st.binary(max_size=40), max_size=4))
    def test_random_bytes_are_an_error_or_a_wire_error(self, name: str, junk: list[bytes]) -> None:
        dialect, _ = dialect_of(name)
        events = survives(dialect, junk)
        assert events is None or isinstance(events[-1], Error)

    @pytest.mark.fault("F20", "F21")
    @given(data=st.data())
    def test_frames_of_another_shape_are_events_or_a_wire_error(self, name: str, data: st.DataObject) -> None:
        dialect, _ = dialect_of(name)
        frames = dialect.reader().feed(encoded(dialect, TOOLS))
        at = data.draw(st.integers(0, len(frames) - 1))
        assume(frames[at].data[:1] == b"{")
        changed = data.draw(json_mutations(reference.loads(frames[at].data)))
        reader = Decoded(dialect)
        decoder = dialect.decoder(asked())
        try:
            for frame in [*frames[:at], Frame(frames[at].name, reference.dumps(changed).encode()), *frames[at + 1 :]]:
                reader.grammar.feed_all(decoder.feed(frame))
            reader.grammar.feed_all(decoder.eof())
        except WireError:
            return
        assert reader.grammar.done

    @FEWER
    @given(data=st.data())
    def test_an_error_body_of_any_kind_is_an_error(self, name: str, data: st.DataObject) -> None:
        dialect, _ = dialect_of(name)
        told = reference.loads(dialect.encode_error(ApiError(Kind.RATE_LIMITED, "slow down"), "id").body)
        body = data.draw(
            st.one_of(
                st.binary(max_size=40),
                json_mutations(told).map(lambda v: reference.dumps(v).encode()),
                st.just(b"<html></html>"),
            )
        )
        status = data.draw(st.sampled_from([400, 401, 404, 418, 429, 500, 502, 529, 599]))
        error = dialect.parse_error(status, {"retry-after": data.draw(st.sampled_from(["3", "x", ""]))}, body)
        assert isinstance(error, ApiError)
        assert isinstance(error.kind, Kind)

    @given(data=st.data())
    def test_a_reply_body_of_any_kind_is_a_reply_or_an_error(self, name: str, data: st.DataObject) -> None:
        dialect, _ = dialect_of(name)
        body = dialect.encode_reply(fold(TOOLS), answer(dialect))
        changed = data.draw(
            json_mutations(reference.loads(body)).map(lambda v: reference.dumps(v).encode()) | byte_mutations(body)
        )
        try:
            reply = dialect.parse_reply(changed)
        except (WireError, ApiError):
            return
        assert reply.choices
        if dialect.read_reply is not None:
            events = dialect.read_reply(changed)
            grammar = Grammar()
            grammar.feed_all(events)
            assert grammar.done
            assert fold(events) == reply

    @given(data=st.data())
    def test_a_request_body_of_any_kind_is_a_request_or_an_invalid_request(
        self, name: str, data: st.DataObject
    ) -> None:
        dialect, can = dialect_of(name)
        body = dialect.build_request(asking(data, can), MODEL).body
        changed = data.draw(
            json_mutations(reference.loads(body)).map(lambda v: reference.dumps(v).encode()) | byte_mutations(body)
        )
        try:
            request = dialect.parse_request(changed, generate_route(dialect), None)
        except WireError:
            return
        except ApiError as refused:
            error = refused
        else:
            assert isinstance(request, Request)
            return
        assert 400 <= error.status < 500


class TestReplies:
    @given(data=st.data())
    def test_what_is_encoded_is_what_is_parsed(self, name: str, data: st.DataObject) -> None:
        dialect, can = dialect_of(name)
        reply = data.draw(replies(3 if can.choices else 1, can.kinds, signed=can.signed))
        back = dialect.parse_reply(dialect.encode_reply(reply, answer(dialect)))
        assert said(unfold(back), can) == said(unfold(reply), can)
        assert counted_alike(unfold(back), unfold(reply), can)

    @pytest.mark.promise(60)
    @FEWER
    @given(data=st.data())
    def test_a_reply_says_what_its_stream_says(self, name: str, data: st.DataObject) -> None:
        dialect, can = dialect_of(name)
        reply = data.draw(replies(1, can.kinds, signed=can.signed))
        streamed = decoded(dialect, encoded(dialect, unfold(reply)))
        whole = dialect.parse_reply(dialect.encode_reply(reply, answer(dialect)))
        assert said(streamed, can) == said(unfold(whole), can)

    @FEWER
    @given(reply=replies(1))
    def test_every_kind_of_part_gives_one_line_of_json(self, name: str, reply: Reply) -> None:
        dialect, _ = dialect_of(name)
        body = dialect.encode_reply(reply, answer(dialect))
        reference.loads(body)
        assert len(body.decode().splitlines()) == 1


class TestRequests:
    @FEWER
    @given(data=st.data())
    def test_what_is_built_is_what_is_parsed(self, name: str, data: st.DataObject) -> None:
        dialect, can = dialect_of(name)
        request = asking(data, can)
        outgoing = dialect.build_request(request, "up-model")
        assert set(outgoing.losses) <= dialect.losses
        back = reparsed(dialect, outgoing)
        lost = set(outgoing.losses)
        assert back.model == "up-model"
        assert back.stream is request.stream
        if can.talks:
            assert wanted(back) == wanted(request)
            assert "".join(t.text for t in back.system) == "".join(t.text for t in request.system)
        else:
            assert all(text in texts_of(back)[0] for text in texts_of(request))
        assert back.max_tokens == request.max_tokens
        if "stop" not in lost:
            assert back.stop == request.stop
        assert [(t.name, t.description, t.parameters) for t in back.tools] == [
            (t.name, t.description, t.parameters) for t in request.tools
        ]
        for field in Sampling.__struct_fields__:
            if field not in lost:
                assert getattr(back.sampling, field) == getattr(request.sampling, field), field

    @FEWER
    @given(data=st.data())
    def test_the_original_goes_back_byte_for_byte_but_for_the_model(self, name: str, data: st.DataObject) -> None:
        dialect, can = dialect_of(name)
        request = asking(data, can)
        sent = dialect.build_request(msgspec.structs.replace(request, stream=False), MODEL)
        route, model = arrived(dialect, sent.path)
        named = {} if model is not None else {"model": MODEL}
        unknown = reference.loads(sent.body) | {"x_unknown": {"deep": [1.5, "\u2028", None]}} | named
        parsed = dialect.parse_request(reference.dumps(unknown).encode(), route, model)
        again = dialect.build_request(parsed, "up-model")
        assert reference.loads(again.body) == unknown | ({"model": "up-model"} if named else {})
        assert arrived(dialect, again.path) == (route, None if named else "up-model")
        assert not again.losses

    def test_losses_are_named_and_known(self, name: str) -> None:
        dialect, _ = dialect_of(name)
        request = asked(
            sampling=Sampling(
                temperature=0.5, top_p=0.5, top_k=5, min_p=0.1, seed=7, frequency_penalty=0.1, presence_penalty=0.1,
                repetition_penalty=1.1, logit_bias={"1": 1.0}, logprobs=True, top_logprobs=2,
            ),
            metadata={"user_id": "x", "team": "y"},
            user="u",
        )  # fmt: skip
        outgoing = dialect.build_request(request, "up")
        assert set(outgoing.losses) <= dialect.losses
        back = reparsed(dialect, outgoing)
        for field in Sampling.__struct_fields__:
            kept = getattr(back.sampling, field) == getattr(request.sampling, field)
            assert kept or field in outgoing.losses, f"{field} was dropped without a word"

    @pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'"x"', b"\xff", b"[" * 100_000])
    def test_what_is_no_request_is_refused(self, name: str, body: bytes) -> None:
        dialect, _ = dialect_of(name)
        with pytest.raises((ApiError, WireError)):
            dialect.parse_request(body, generate_route(dialect), None)


class TestRelay:
    @FEWER
    @given(data=st.data())
    def test_frames_pass_byte_for_byte_but_for_the_model(self, name: str, data: st.DataObject) -> None:
        dialect, can = dialect_of(name)
        stream = encoded(dialect, drawn(data, can), model="up-model-7")
        assert relayed(dialect, stream) == stream.replace(b'"up-model-7"', b'"asked-model"')

    @FEWER
    @given(data=st.data())
    def test_a_relayed_error_is_told_once(self, name: str, data: st.DataObject) -> None:
        dialect, can = dialect_of(name)
        stream = encoded(dialect, drawn(data, can, end="error"), model="up-model-7")
        only_error(decoded(dialect, relayed(dialect, stream)))

    @pytest.mark.fault("F10", "F13")
    @FEWER
    @given(data=st.data())
    def test_a_relay_that_is_told_of_a_cut_says_so_once(self, name: str, data: st.DataObject) -> None:
        dialect, can = dialect_of(name)
        assert dialect.relay is not None
        decoder, relay = dialect.decoder(asked()), dialect.relay(answer(dialect))
        frames = dialect.reader().feed(encoded(dialect, drawn(data, can)))
        cut = data.draw(st.integers(0, len(frames) - 1))
        out = b"".join(relay.feed(frame, decoder.feed(frame)) for frame in frames[:cut])
        out += relay.fail(ApiError(Kind.TRUNCATED, "cut"))
        assert relay.fail(ApiError(Kind.TRUNCATED, "again")) == b""
        only_error(decoded(dialect, out))

    @pytest.mark.fault("F10", "F13")
    def test_a_relayed_call_that_is_cut_is_not_said_to_be_whole(self, name: str) -> None:
        dialect, _ = dialect_of(name)
        assert dialect.relay is not None
        frames = dialect.reader().feed(encoded(dialect, TOOLS))
        for cut in range(len(frames)):
            decoder, relay = dialect.decoder(asked()), dialect.relay(answer(dialect))
            seen: list[Event] = []
            out = b""
            for frame in frames[:cut]:
                events = decoder.feed(frame)
                seen += events
                out += relay.feed(frame, events)
            out += relay.fail(ApiError(Kind.TRUNCATED, "cut"))
            assert set(ended_calls(decoded(dialect, out))) <= set(ended_calls(seen)), f"cut after {cut} frames"

    def test_a_relayed_reply_keeps_what_we_do_not_model(self, name: str) -> None:
        dialect, _ = dialect_of(name)
        assert dialect.relay_reply is not None
        body = reference.loads(dialect.encode_reply(fold(TOOLS), answer(dialect, model="up-model-7")))
        body["x_unknown"] = {"deep": [1.5, None]}
        passed = reference.loads(dialect.relay_reply(reference.dumps(body).encode(), answer(dialect)))
        assert passed == reference.loads(reference.dumps(body).replace("up-model-7", MODEL))


def ended_calls(events: Sequence[Event]) -> list[int]:
    """The parts that are calls and have their end."""
    calls = {event.part for event in events if isinstance(event, PartStart) and event.kind is PartKind.TOOL}
    return [event.part for event in events if isinstance(event, PartEnd) and event.part in calls]


def relayed(dialect: Dialect, stream: bytes) -> bytes:
    assert dialect.relay is not None
    decoder, relay = dialect.decoder(asked()), dialect.relay(answer(dialect))
    return b"".join(relay.feed(frame, decoder.feed(frame)) for frame in dialect.reader().feed(stream))


class TestErrors:
    @pytest.mark.fault("F15")
    @in_turn("kind", Kind)
    def test_every_kind_has_an_http_answer_that_means_the_same(self, name: str, kind: Kind) -> None:
        dialect, _ = dialect_of(name)
        told = dialect.encode_error(ApiError(kind, "what happened", param="p", code="c"), "call-1")
        assert 400 <= told.status <= 599
        assert b"what happened" in told.body
        reference.loads(told.body)
        back = dialect.parse_error(told.status, {}, told.body)
        assert "what happened" in back.message
        if kind not in (Kind.INTERNAL, Kind.CANCELLED):  # another server's own fault, or its own client's wish
            assert back.retryable is ApiError(kind, "").retryable, (kind, back.kind)

    def test_a_status_of_its_own_is_kept(self, name: str) -> None:
        dialect, _ = dialect_of(name)
        assert dialect.encode_error(ApiError(Kind.INVALID_REQUEST, "m", status=405), "call-1").status == 405

    @in_turn("kind", Kind)
    def test_every_kind_can_be_told_in_a_stream(self, name: str, kind: Kind) -> None:
        dialect, _ = dialect_of(name)
        end = only_error(decoded(dialect, encoded(dialect, [*TEXT[:3], Error(ApiError(kind, "what happened"))])))
        assert "what happened" in end.error.message

    @in_turn("reason", Reason)
    def test_every_reason_comes_back_as_the_table_says(self, name: str, reason: Reason) -> None:
        dialect, can = dialect_of(name)
        events = [*(TOOLS if reason is Reason.TOOL_CALLS else TEXT)[:-1], Finish(reason)]
        last = decoded(dialect, encoded(dialect, events))[-1]
        assert isinstance(last, Finish)
        assert last.reason is can.reasons.get(reason, reason)

    @pytest.mark.fault("F24")
    def test_stop_with_calls_is_tool_calls(self, name: str) -> None:
        dialect, can = dialect_of(name)
        last = decoded(dialect, encoded(dialect, [*TOOLS[:-1], Finish(Reason.STOP)]))[-1]
        assert isinstance(last, Finish)
        assert last.reason is (Reason.TOOL_CALLS if PartKind.TOOL in can.kinds else Reason.STOP)


class TestContract:
    def test_it_can_be_served_and_called(self, name: str) -> None:
        dialect, _ = dialect_of(name)
        assert dialect.name == name
        assert dialect.surfaces
        assert any(r.operation is Operation.GENERATE and r.streams for r in dialect.routes)
        assert dialect.keys
        assert "k-1" in "".join(dialect.auth("k-1").values())
        assert dialect.relay is not None
        assert dialect.relay_reply is not None

    def test_readers_are_bounded(self, name: str) -> None:
        dialect, _ = dialect_of(name)
        reader = dialect.reader()
        reader.feed(b"{")
        assert reader.statistics() == {"buffered_bytes": 1, "cap_bytes": 16 * 1024 * 1024}

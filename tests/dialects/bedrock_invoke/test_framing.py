"""Both framings: which client gets which, and that everything holds in the binary one that holds in the plain."""

from __future__ import annotations

from base64 import b64encode
from itertools import permutations
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.dialects.bedrock_invoke import DIALECT
from rivermouth.dialects.bedrock_invoke.envelope import body_of_data
from rivermouth.dialects.bedrock_invoke.framing import BINARY_TYPE, PLAIN_TYPE, FrameReader, variant
from rivermouth.dialects.bedrock_invoke.tables import TITAN_OUT
from rivermouth.ir.errors import ApiError, Kind, WireError
from rivermouth.ir.events import Error, Event, Finish, PartKind, Reason, TextDelta, Usage
from rivermouth.vendors.bedrock.words import WORDINGS
from rivermouth.wire import aws_eventstream as wire
from rivermouth.wire.frame import Frame
from tests.dialects.bedrock_invoke.case import (
    BINARY,
    HELLO,
    PLAIN,
    STREAM,
    StreamDecoder,
    answer,
    asked,
    binary,
    decode,
    encode,
    plain,
)
from tests.dialects.conformance import CARRIES, FEWER, Carries, Decoded, counted_alike, only_error, said, survives
from tests.every_way import every_way
from tests.strategies import event_streams

TITAN = Carries(
    kinds=(PartKind.TEXT,),
    counts=frozenset({"input_tokens", "output_tokens"}),
    demands=frozenset({"output_tokens"}),
)
LLAMA = msgspec.structs.replace(TITAN, reasons={Reason.TOOL_CALLS: Reason.STOP, Reason.CONTENT_FILTER: Reason.STOP})
BODIES = {
    "titan": TITAN,
    "anthropic": CARRIES["bedrock_invoke"],
    "nova": CARRIES["bedrock_converse"],
    "llama": LLAMA,
    "mistral": msgspec.structs.replace(LLAMA, demands=frozenset()),
    "cohere": CARRIES["cohere_v1"],
}
FRAMINGS = ["plain", "binary"]
each_body = pytest.mark.parametrize("body", BODIES)
each_framing = pytest.mark.parametrize("framing", FRAMINGS)
CLIENTS: list[tuple[dict[str, str], dict[str, str], str]] = [
    ({}, {}, PLAIN_TYPE),
    ({}, {"accept": "*/*", "user-agent": "curl/8"}, PLAIN_TYPE),
    ({}, {"accept": "application/json", "x-amzn-trace-id": "Root=1"}, PLAIN_TYPE),
    ({}, {"authorization": "Bearer k"}, PLAIN_TYPE),
    ({}, {"authorization": "AWS4-HMAC-SHA256 Credential=K/..."}, BINARY_TYPE),
    ({"X-Amz-Signature": "f"}, {}, BINARY_TYPE),
    ({}, {"x-amz-date": "20261129T000000Z"}, BINARY_TYPE),
    ({}, {"amz-sdk-invocation-id": "1"}, BINARY_TYPE),
    ({}, {"x-amzn-bedrock-accept": "application/json"}, BINARY_TYPE),
    ({}, {"user-agent": "Boto3/1.44.8 md/Botocore#1.44.8"}, BINARY_TYPE),
    ({}, {"user-agent": "AnthropicBedrock/Python 2.14.0", "authorization": "Bearer k"}, BINARY_TYPE),
    ({}, {"accept": "application/vnd.amazon.eventstream"}, BINARY_TYPE),
    ({}, {"accept": "text/event-stream", "authorization": "AWS4-HMAC-SHA256 Credential=K"}, PLAIN_TYPE),
]  # fmt: skip


class TestVariant:
    @pytest.mark.promise(166)
    @pytest.mark.parametrize(("query", "headers", "media"), CLIENTS)
    def test_the_framing_follows_the_client(self, query: dict[str, str], headers: dict[str, str], media: str) -> None:
        surface = variant(PLAIN, STREAM, query, headers)
        assert surface.stream_type == media
        said_binary = DIALECT.encoder(answer(surface=surface)).feed(HELLO)[:1] == b"\0"
        assert said_binary is (media == BINARY_TYPE)

    def test_without_its_prefix_the_framing_is_binary_unless_the_other_is_accepted(self) -> None:
        assert variant(BINARY, STREAM, {}, {}).stream_type == BINARY_TYPE
        assert variant(BINARY, STREAM, {}, {"accept": "text/event-stream"}).stream_type == PLAIN_TYPE


class TestPlain:
    @pytest.mark.promise(166, 167, 168)
    def test_a_titan_stream_as_promised(self) -> None:
        stream = encode(HELLO)
        assert stream == (
            b'data:{"outputText":"Hel","index":0,"totalOutputTextTokenCount":null}\n\n'
            b'data:{"outputText":"lo \\u2028\xf0\x9f\x98\x80","index":0,"totalOutputTextTokenCount":null}\n\n'
            b'data:{"outputText":"","index":0,"totalOutputTextTokenCount":2,"completionReason":"FINISH",'
            b'"inputTextTokenCount":3}\n\n'
        )

    @pytest.mark.promise(168)
    def test_pieces_are_counted_where_tokens_are_not(self) -> None:
        last = plain(encode([e for e in HELLO if not isinstance(e, Usage)]))[-1]
        assert last == {"outputText": "", "index": 0, "totalOutputTextTokenCount": 2, "completionReason": "FINISH"}

    def test_anthropic_events_have_no_names_but_their_type(self) -> None:
        got = plain(encode(HELLO, "anthropic"))
        assert [o["type"] for o in got][:2] == ["message_start", "content_block_start"]
        assert got[-1] == {"type": "message_stop"}

    @pytest.mark.fault("F14")
    @pytest.mark.parametrize("kind", Kind)
    def test_a_failure_is_a_member_of_the_union(self, kind: Kind) -> None:
        got = plain(encode([*HELLO[:3], Error(ApiError(kind, "it broke"))]))
        assert got[-1] == {WORDINGS[kind].member: {"message": "it broke"}}
        assert "completionReason" not in got[-2]


class TestBinary:
    @each_body
    @FEWER
    @given(data=st.data())
    def test_what_is_encoded_is_what_is_decoded(self, body: str, data: st.DataObject) -> None:
        can = BODIES[body]
        events: list[Event] = data.draw(event_streams(1, can.kinds, signed=can.signed))
        for framing in FRAMINGS:
            back = decode(encode(events, body, framing))
            assert said(back, can) == said(events, can)
            assert counted_alike(back, events, can)

    @each_body
    def test_every_event_is_a_chunk_with_the_vendors_headers(self, body: str) -> None:
        for headers, payload in binary(encode(HELLO, body, "binary")):
            assert headers == {
                ":event-type": "chunk",
                ":content-type": "application/json",
                ":message-type": "event",
            }
            assert set(payload) == {"bytes"}

    @pytest.mark.fault("F1", "F2")
    @each_body
    @each_framing
    def test_every_split_reads_the_same(self, body: str, framing: str) -> None:
        data = encode(HELLO, body, framing)
        whole = decode(data)
        assert isinstance(whole[-1], Finish)
        every_way(StreamDecoder, data, whole)

    @pytest.mark.fault("F10")
    @each_body
    @each_framing
    def test_cut_at_any_byte_it_is_one_error_and_no_finish(self, body: str, framing: str) -> None:
        data = encode(HELLO, body, framing)
        for cut in range(len(data.rstrip(b"\n")) if framing == "plain" else len(data)):
            assert only_error(decode(data[:cut])).error.kind is Kind.TRUNCATED, f"cut at {cut}"

    @pytest.mark.fault("F9", "F13", "F14")
    @each_body
    @each_framing
    @FEWER
    @given(data=st.data())
    def test_an_error_is_told_once_and_nothing_follows(self, body: str, framing: str, data: st.DataObject) -> None:
        can = BODIES[body]
        events: list[Event] = data.draw(event_streams(1, can.kinds, signed=can.signed, end="error"))
        encoder = DIALECT.encoder(answer(body, framing))
        stream = encoder.feed(events)
        assert encoder.feed([TextDelta(0, "late"), Usage(1, 1), Finish(Reason.STOP)]) == b""
        only_error(decode(stream))

    @pytest.mark.fault("F13")
    def test_open_blocks_are_closed_before_the_exception(self) -> None:
        frames = binary(encode([*HELLO[:3], Error(ApiError(Kind.OVERLOADED, "busy"))], "anthropic", "binary"))
        headers, payload = frames[-1]
        assert headers[":exception-type"] == "serviceUnavailableException"
        assert payload == {"message": "busy"}
        closing = b64encode(b'{"type":"content_block_stop","index":0}').decode()
        assert frames[-2][1] == {"bytes": closing}

    @each_body
    @each_framing
    @FEWER
    @given(data=st.data())
    @pytest.mark.fault("F19")
    def test_the_bytes_do_not_depend_on_how_events_were_batched(
        self, body: str, framing: str, data: st.DataObject
    ) -> None:
        events: list[Event] = data.draw(event_streams(1, tuple(PartKind), noise=True))
        at = data.draw(st.integers(0, len(events)))
        encoder = DIALECT.encoder(answer(body, framing))
        assert encoder.feed(events[:at]) + encoder.feed(events[at:]) == encode(events, body, framing)

    @pytest.mark.parametrize("reason", Reason)
    def test_titan_words_for_reasons_come_back(self, reason: Reason) -> None:
        last = decode(encode([*HELLO[:-1], Finish(reason)]))[-1]
        assert last == Finish(Reason.STOP if reason is Reason.TOOL_CALLS else reason)
        assert set(TITAN_OUT) == set(Reason)


class TestReader:
    def test_padding_and_unknown_events_are_passed_over(self) -> None:
        chunk = wire.event_headers("chunk")
        data = (
            wire.message(wire.event_headers("initial-response"), b"{}")
            + wire.message(chunk, b'{"bytes":"e30=","p":"abcdefgh"}')
            + wire.message(chunk, b"{}")
        )
        every_way(FrameReader, data, [Frame("", b"{}"), Frame("", b"")])

    def test_what_is_no_base64_is_a_wire_error(self) -> None:
        with pytest.raises(WireError):
            FrameReader().feed(wire.message(wire.event_headers("chunk"), b'{"bytes":"*"}'))

    @pytest.mark.fault("F35")
    def test_the_cap_holds_in_both_framings(self) -> None:
        for data in (wire.message(wire.event_headers("chunk"), b"x" * 200), b"data:" + b"x" * 200):
            with pytest.raises(WireError):
                FrameReader(100).feed(data)

    @pytest.mark.fault("F9")
    @given(data=st.data())
    def test_spoilt_bytes_are_events_or_a_wire_error(self, data: st.DataObject) -> None:
        stream = bytearray(encode(HELLO, "anthropic", "binary"))
        stream[data.draw(st.integers(0, len(stream) - 1))] ^= data.draw(st.integers(1, 255))
        events = survives(DIALECT, [bytes(stream)])
        assert events is None or not isinstance(events[-1], Finish)

    def test_the_order_of_events_is_legal(self) -> None:
        for body in BODIES:
            reader = Decoded(DIALECT, asked(body))
            reader.feed(encode(HELLO, body, "binary"))
            assert reader.grammar.done


def relayed(stream: bytes, **how: Any) -> bytes:
    assert DIALECT.relay is not None
    decoder, relay = DIALECT.decoder(asked()), DIALECT.relay(answer(**how))
    return b"".join(relay.feed(frame, decoder.feed(frame)) for frame in DIALECT.reader().feed(stream))


class TestRelay:
    @each_body
    @pytest.mark.parametrize("upstream", FRAMINGS)
    @each_framing
    def test_objects_pass_in_the_clients_framing(self, body: str, upstream: str, framing: str) -> None:
        stream = encode(HELLO, body, upstream, model="up-model-7")
        got = decode(relayed(stream, body=body, framing=framing))
        assert said(got, BODIES[body]) == said(HELLO, BODIES[body])
        if upstream == framing == "plain":
            assert relayed(stream, body=body) == stream.replace(b"up-model-7", b"asked-model")

    @pytest.mark.parametrize(("body", "upstream"), [*permutations(BODIES, 2)])
    def test_another_body_is_written_anew(self, body: str, upstream: str) -> None:
        got = relayed(encode(HELLO, upstream, "binary"), body=body)
        assert body_of_data(msgspec.json.encode(plain(got)[0])).name == body
        assert said(decode(got), TITAN) == said(HELLO, TITAN)

    @pytest.mark.fault("F10", "F13")
    @pytest.mark.parametrize("frames", range(3))
    @each_body
    def test_a_cut_is_told_once(self, body: str, frames: int) -> None:
        assert DIALECT.relay is not None
        decoder, relay = DIALECT.decoder(asked()), DIALECT.relay(answer(body, "binary"))
        read = DIALECT.reader().feed(encode(HELLO, body))[:frames]
        out = b"".join(relay.feed(frame, decoder.feed(frame)) for frame in read)
        out += relay.fail(ApiError(Kind.TRUNCATED, "cut"))
        assert relay.fail(ApiError(Kind.TRUNCATED, "again")) == b""
        only_error(decode(out))

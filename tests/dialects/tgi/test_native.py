"""The native routes' answers: as promised, whatever the cuts, and back again."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.dialects.tgi import DIALECT
from rivermouth.dialects.tgi import encode as native
from rivermouth.dialects.tgi.tables import FINISH_OUT
from rivermouth.ir.errors import ApiError, Kind, WireError
from rivermouth.ir.events import (
    Error,
    Event,
    Finish,
    MediaDelta,
    PartEnd,
    PartKind,
    PartStart,
    Reason,
    Start,
    TextDelta,
    Usage,
    Warn,
)
from rivermouth.ir.reply import Choice, Reply
from rivermouth.ir.request import Reasoning, Text
from rivermouth.wire.frame import Frame
from tests.dialects.conformance import Carries, counted_alike, only_error, said, survives
from tests.dialects.tgi.case import HELLO, StreamDecoder, answer, asked, decode, encode, frames, plain
from tests.every_way import every_way
from tests.strategies import event_streams

NATIVE = Carries(
    kinds=(PartKind.TEXT,),
    counts=frozenset({"input_tokens", "output_tokens"}),
    demands=frozenset({"output_tokens"}),
    reasons={Reason.CONTENT_FILTER: Reason.STOP},
)
TOKEN = {"id": 7, "text": "Hi", "logprob": -0.5, "special": False}
END = {"finish_reason": "eos_token", "generated_tokens": 2, "input_length": 3, "seed": None}
LAST = {"index": 2, "token": {**TOKEN, "text": "</s>", "special": True}, "generated_text": "Hi", "details": END}


class TestEncoder:
    @pytest.mark.promise(163, 164, 165)
    def test_a_stream_as_promised(self) -> None:
        assert encode(HELLO) == (
            b'data:{"index":1,"token":{"id":1,"text":"Hel","logprob":0.0,"special":false},'
            b'"generated_text":null,"details":null}\n\n'
            b'data:{"index":2,"token":{"id":2,"text":"lo \\u2028\xf0\x9f\x98\x80","logprob":0.0,"special":false},'
            b'"generated_text":null,"details":null}\n\n'
            b'data:{"index":3,"token":{"id":0,"text":"","logprob":0.0,"special":true},'
            b'"generated_text":"Hello \\u2028\xf0\x9f\x98\x80",'
            b'"details":{"finish_reason":"eos_token","generated_tokens":2,"input_length":3,"seed":null}}\n\n'
        )

    @pytest.mark.promise(165)
    def test_pieces_are_counted_where_tokens_are_not(self) -> None:
        last = frames(encode([e for e in HELLO if not isinstance(e, Usage)]))[-1]
        assert last["details"] == {"finish_reason": "eos_token", "generated_tokens": 2, "seed": None}

    def test_the_seed_and_the_full_text_come_back_to_a_client_that_gave_them(self) -> None:
        last = frames(encode(HELLO, request=asked(seed=7, return_full_text=True)))[-1]
        assert last["generated_text"] == "HiHello \u2028😀"
        assert last["details"]["seed"] == 7

    @pytest.mark.parametrize(
        ("event", "word"),
        [
            (Finish(Reason.STOP), "eos_token"),
            (Finish(Reason.STOP, "END"), "stop_sequence"),
            (Finish(Reason.LENGTH), "length"),
            (Finish(Reason.LENGTH, "END"), "length"),
            (Finish(Reason.TOOL_CALLS), "eos_token"),
            (Finish(Reason.CONTENT_FILTER), "eos_token"),
        ],
    )
    def test_every_reason_has_a_word(self, event: Finish, word: str) -> None:
        assert set(FINISH_OUT) == set(Reason)
        assert frames(encode([*HELLO[:-1], event]))[-1]["details"]["finish_reason"] == word

    def test_media_is_said_in_a_sentence(self) -> None:
        events: list[Event] = [
            Start(),
            PartStart(0, PartKind.IMAGE),
            MediaDelta(0, url="https://x/y.png"),
            PartEnd(0),
            Finish(Reason.STOP),
        ]
        assert frames(encode(events))[0]["token"]["text"] == "[image](https://x/y.png)"

    @pytest.mark.fault("F14")
    @pytest.mark.parametrize("kind", Kind)
    def test_an_error_is_the_last_frame(self, kind: Kind) -> None:
        encoder = DIALECT.encoder(answer())
        got = frames(encoder.feed([*HELLO[:3], Error(ApiError(kind, "it broke"))]))
        assert got[-1]["error"] == "it broke"
        assert set(got[-1]) == {"error", "error_type"}
        assert got[-2]["generated_text"] is None
        assert encoder.feed([TextDelta(0, "late"), Finish(Reason.STOP)]) == b""

    @pytest.mark.fault("F26")
    @pytest.mark.parametrize("kind", [PartKind.TEXT, PartKind.REFUSAL])
    def test_texts_that_overlap_are_said_one_after_the_other(self, kind: PartKind) -> None:
        events: list[Event] = [
            Start(),
            PartStart(0, PartKind.TEXT),
            PartStart(1, kind),
            PartStart(2, PartKind.IMAGE),
            TextDelta(1, "b"),
            MediaDelta(2, url="u"),
            PartEnd(1),
            TextDelta(0, "a"),
            PartEnd(0),
            PartEnd(2),
            Finish(Reason.STOP),
        ]
        got = frames(encode(events))
        assert [f["token"]["text"] for f in got] == ["a", "b", "[image](u)", ""]
        assert [f["index"] for f in got] == [1, 2, 3, 4]
        assert got[-1]["generated_text"] == "ab[image](u)"

    def test_only_the_first_choice_speaks(self) -> None:
        events: list[Event] = [
            Start(),
            PartStart(0, PartKind.TEXT, 1),
            TextDelta(0, "no"),
            PartStart(1, PartKind.TEXT),
            TextDelta(1, "yes"),
            PartEnd(0),
            PartEnd(1),
            Finish(Reason.STOP),
        ]
        assert frames(encode(events))[-1]["generated_text"] == "yes"

    @pytest.mark.fault("F35")
    def test_the_text_that_is_kept_is_bounded(self) -> None:
        encoder = native.NativeEncoder(answer(), 4)
        said = encoder.feed(HELLO[:3])
        assert encoder.statistics() == {"text_chars": 3, "waiting_chars": 0, "cap_chars": 4}
        error = refused(encoder, [TextDelta(0, "l"), TextDelta(0, "o ")])
        said += encoder.feed([Error(error)])
        assert [f.get("error") or f["token"]["text"] for f in frames(said)] == ["Hel", "l", error.message]

    @pytest.mark.fault("F26", "F35")
    def test_what_waits_is_bounded_and_said_before_the_error(self) -> None:
        encoder = native.NativeEncoder(answer(), 4)
        said = encoder.feed([*HELLO[:2], PartStart(1, PartKind.TEXT), TextDelta(1, "late")])
        assert encoder.statistics()["waiting_chars"] == 4
        error = refused(encoder, [TextDelta(0, "a"), TextDelta(1, "r")])
        said += encoder.feed([Error(error)])
        assert [f.get("error") or f["token"]["text"] for f in frames(said)] == ["a", "late", error.message]

    @given(data=st.data())
    @pytest.mark.fault("F19")
    def test_the_bytes_do_not_depend_on_how_events_were_batched(self, data: st.DataObject) -> None:
        events: list[Event] = data.draw(event_streams(2, tuple(PartKind), noise=True))
        at = data.draw(st.integers(0, len(events)))
        encoder = DIALECT.encoder(answer())
        assert encoder.feed(events[:at]) + encoder.feed(events[at:]) == encode(events)


def refused(encoder: native.NativeEncoder, events: list[Event]) -> ApiError:
    with pytest.raises(ApiError) as raised:
        encoder.feed(events)
    assert raised.value.kind is Kind.UPSTREAM
    return raised.value


class TestDecoder:
    @given(data=st.data())
    def test_what_is_encoded_is_what_is_decoded(self, data: st.DataObject) -> None:
        events: list[Event] = data.draw(event_streams(1, NATIVE.kinds))
        back = decode(encode(events))
        assert said(back, NATIVE) == said(events, NATIVE)
        assert counted_alike(back, events, NATIVE)

    @pytest.mark.fault("F1", "F2")
    def test_every_split_reads_the_same(self) -> None:
        data = encode(HELLO)
        whole = decode(data)
        assert whole[-1] == Finish(Reason.STOP)
        every_way(StreamDecoder, data, whole)

    @pytest.mark.fault("F10")
    def test_cut_at_any_byte_it_is_one_error_and_no_finish(self) -> None:
        data = encode(HELLO)
        for cut in range(len(data.rstrip(b"\n"))):
            assert only_error(decode(data[:cut])).error.kind is Kind.TRUNCATED, f"cut at {cut}"

    def test_special_tokens_are_no_text_and_a_last_word_is(self) -> None:
        piece = {"index": 1, "token": TOKEN, "generated_text": None, "details": None}
        assert decode(plain(piece, LAST)) == [
            Start(),
            PartStart(0, PartKind.TEXT),
            TextDelta(0, "Hi"),
            PartEnd(0),
            Usage(3, 2),
            Finish(Reason.STOP),
        ]
        cut = {**LAST, "token": TOKEN, "details": {**END, "finish_reason": "length"}}
        assert decode(plain(piece, cut))[2:4] == [TextDelta(0, "Hi"), TextDelta(0, "Hi")]
        assert decode(plain(piece, cut))[-1] == Finish(Reason.LENGTH)

    @pytest.mark.parametrize("token", [None, LAST["token"]])
    def test_a_text_that_only_the_last_frame_has_is_not_lost(self, token: Any) -> None:
        told = decode(plain({**LAST, "token": token}))
        assert told[1:4] == [PartStart(0, PartKind.TEXT), TextDelta(0, "Hi"), PartEnd(0)]
        assert told[-1] == Finish(Reason.STOP)

    def test_details_may_be_missing_and_odd(self) -> None:
        piece = {"index": 1, "token": TOKEN, "generated_text": None, "details": None}
        assert decode(plain(piece, {**LAST, "details": None}))[-2:] == [PartEnd(0), Finish(Reason.STOP)]
        odd = decode(plain({**LAST, "details": {"finish_reason": "tired"}}))
        assert isinstance(odd[-2], Warn)
        assert odd[-1] == Finish(Reason.STOP)

    @pytest.mark.fault("F11")
    @pytest.mark.parametrize(
        ("frame", "kind"),
        [
            ({"error": "full", "error_type": "overloaded"}, Kind.OVERLOADED),
            ({"error": "x", "error_type": "generation"}, Kind.UPSTREAM),
            ({"error": "x", "error_type": "incomplete_generation"}, Kind.TRUNCATED),
            ({"error": {"message": "x", "http_status_code": 500}}, Kind.UPSTREAM),
            ({"error": "x", "error_type": "new"}, Kind.UPSTREAM),
        ],
    )
    def test_an_error_frame_is_an_error(self, frame: dict[str, Any], kind: Kind) -> None:
        piece = {"index": 1, "token": TOKEN, "generated_text": None, "details": None}
        for stream in (plain(frame), plain(piece, frame), plain(piece, frame, LAST)):
            assert only_error(decode(stream)).error.kind is kind

    @pytest.mark.parametrize("data", [b"data:{}\n\n", b"data:[]\n\n", b"data:x\n\n", b'data:{"token":3}\n\n'])
    def test_what_is_no_frame_is_a_wire_error(self, data: bytes) -> None:
        with pytest.raises(WireError):
            decode(data)

    @given(data=st.data())
    def test_mutated_bytes_are_events_or_a_wire_error(self, data: st.DataObject) -> None:
        stream = bytearray(encode(HELLO))
        stream[data.draw(st.integers(0, len(stream) - 1))] = data.draw(st.integers(0, 255))
        survives(DIALECT, [bytes(stream)])


class TestReplies:
    REPLY = Reply(choices=(Choice((Reasoning("hm"), Text("Hello")), Reason.LENGTH),), usage=Usage(3, 2))

    def test_details_come_only_when_asked_for(self) -> None:
        assert json.loads(DIALECT.encode_reply(self.REPLY, answer("generate"))) == {"generated_text": "Hello"}
        got = json.loads(DIALECT.encode_reply(self.REPLY, answer("generate", request=asked(details=True))))
        assert got["details"] == {
            "finish_reason": "length",
            "generated_tokens": 2,
            "input_length": 3,
            "seed": None,
            "prefill": [],
            "tokens": [],
        }

    def test_the_root_answers_with_a_list_of_one(self) -> None:
        assert json.loads(DIALECT.encode_reply(self.REPLY, answer("compat"))) == [{"generated_text": "Hello"}]

    @pytest.mark.parametrize("kind", ["generate", "compat"])
    def test_what_is_encoded_is_what_is_parsed(self, kind: str) -> None:
        body = DIALECT.encode_reply(self.REPLY, answer(kind, request=asked(details=True)))
        assert DIALECT.parse_reply(body) == Reply(choices=(Choice((Text("Hello"),), Reason.LENGTH),), usage=Usage(3, 2))

    def test_the_prompts_tokens_are_counted_where_they_are_listed(self) -> None:
        body = {"generated_text": "x", "details": {"generated_tokens": 1, "prefill": [{}, {}]}}
        assert DIALECT.parse_reply(json.dumps(body).encode()).usage == Usage(2, 1)

    @pytest.mark.parametrize("body", [b"{}", b"[]", b"3", b'{"error":"x","error_type":"generation"}', b"[{}]"])
    def test_what_is_no_reply_is_an_error(self, body: bytes) -> None:
        with pytest.raises((ApiError, WireError)):
            DIALECT.parse_reply(body)

    def test_a_relayed_reply_is_in_the_routes_form_with_the_details_that_were_asked_for(self) -> None:
        assert DIALECT.relay_reply is not None
        body = b'[{"generated_text":"x","details":{"seed":1},"more":1.50}]'
        relay = DIALECT.relay_reply
        assert relay(body, answer("generate")) == b'{"generated_text":"x","more":1.50}'
        assert relay(body, answer("compat", request=asked(details=True))) == body
        assert b"chat.completion" in relay(body, answer("chat"))
        chat = DIALECT.encode_reply(self.REPLY, answer("chat"))
        assert relay(chat, answer("generate")) == b'{"generated_text":"Hello"}'


class TestRelay:
    def test_frames_pass_as_they_came(self) -> None:
        piece = {"index": 1, "token": {**TOKEN, "top": [1]}, "generated_text": None, "details": None}
        assert relayed(plain(piece, LAST)) == plain(piece, LAST)

    def test_line_breaks_between_tokens_do_not_break_the_frame(self) -> None:
        data = b'{"token":\n{"text":"\xe2\x80\xa8"},"generated_text":"x"}'
        assert DIALECT.relay is not None
        events = DIALECT.decoder(asked()).feed(Frame("", data))
        out = DIALECT.relay(answer()).feed(Frame("", data), events)
        assert len(out.decode().splitlines()) == 2

    def test_a_native_client_of_chat_chunks_gets_native_frames(self) -> None:
        got = relayed(encode(HELLO, "chat"))
        assert said(decode(got), NATIVE) == said(HELLO, NATIVE)
        assert frames(got)[-1]["generated_text"] == "Hello \u2028😀"

    @pytest.mark.fault("F10")
    @pytest.mark.parametrize("passed", range(3))
    def test_a_cut_is_told_once(self, passed: int) -> None:
        assert DIALECT.relay is not None
        decoder, relay = DIALECT.decoder(asked()), DIALECT.relay(answer())
        read = DIALECT.reader().feed(encode(HELLO))[:passed]
        out = b"".join(relay.feed(frame, decoder.feed(frame)) for frame in read)
        out += relay.fail(ApiError(Kind.TRUNCATED, "cut"))
        assert relay.fail(ApiError(Kind.TRUNCATED, "again")) == b""
        assert only_error(decode(out)).error.kind is Kind.TRUNCATED


@pytest.mark.fault("F10")
def test_what_a_chat_says_beside_an_end_that_did_not_come_is_sent_before_the_error() -> None:
    assert DIALECT.relay is not None
    decoder, relay = DIALECT.decoder(asked()), DIALECT.relay(answer("chat"))
    data = b'{"id":"u","model":"m","choices":[{"index":0,"delta":{"content":"all of it"},"finish_reason":"stop"}]}'
    frame = Frame("", data)
    assert relay.feed(frame, decoder.feed(frame)) == b""
    said, error = (json.loads(f.data) for f in DIALECT.reader().feed(relay.fail(ApiError(Kind.TRUNCATED, "cut"))))
    assert said["choices"] == [{"index": 0, "delta": {"content": "all of it"}, "finish_reason": None}]
    assert error["error_type"]
    assert relay.fail(ApiError(Kind.TRUNCATED, "again")) == b""


def relayed(stream: bytes, kind: str = "generate_stream") -> bytes:
    assert DIALECT.relay is not None
    decoder, relay = DIALECT.decoder(asked()), DIALECT.relay(answer(kind))
    return b"".join(relay.feed(frame, decoder.feed(frame)) for frame in DIALECT.reader().feed(stream))

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.dialects.dialect import Answer
from rivermouth.dialects.openai_chat import DIALECT
from rivermouth.dialects.openai_chat.relay import Relay
from rivermouth.ir.errors import ApiError, Kind, truncated
from rivermouth.ir.events import Error
from rivermouth.ir.fold import fold
from rivermouth.wire.frame import Frame
from tests.dialects.openai_chat.case import (
    DONE,
    ROUTING,
    answer,
    asked,
    chunk,
    counted,
    decode,
    frame,
    payloads,
)

STREAMS = sorted((Path(__file__).parent / "streams").glob("*.sse"))
USAGE = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
NULL = {"usage": None}
STOP = chunk(finish="stop")


def relayed(frames: list[Frame], given: Answer | None = None) -> bytes:
    """What the client gets, the decoder tapping each frame as the call does."""
    relay = DIALECT.relay(given or answer()) if DIALECT.relay else None
    assert relay is not None
    decoder = DIALECT.decoder(asked())
    out = b"".join(relay.feed(f, decoder.feed(f)) for f in frames)
    ended = decoder.eof()
    return out + (relay.fail(ended[-1].error) if ended else b"")  # type: ignore[union-attr]


def sent(frames: list[Frame], given: Answer | None = None) -> list[Any]:
    return payloads(relayed(frames, given))


def frames_of(path: Path) -> list[Frame]:
    return DIALECT.reader().feed(path.read_bytes())


@pytest.mark.promise(2, 3, 51, 58)
def test_frames_pass_byte_for_byte_but_for_the_models_name() -> None:
    odd = [
        b'{ "id":"u", "model": "up-model", "choices":[{"index":0,"delta":{"role":"assistant","vendor":{"x":1.50}}}] }',
        b'{ "id":"u", "model": "up-model", "choices":[{"index":0,"delta":{"content":"caf\\u00e9"}}] }',
        b'{ "id":"u", "model": "up-model", "choices":[{"index":0,"delta":{"content":"\\"model\\": \\"up-model\\""}}] }',
        b'{ "id":"u", "model": "up-model", "choices":[{"index":0,"delta":{},"finish_reason":"stop"}], "x":[ ] }',
        b"[DONE]",
    ]
    stream = relayed([Frame("", data) for data in odd])
    wanted = [data.replace(b'"model": "up-model",', b'"model": "gpt-x",') for data in odd]
    assert stream == b"".join(b"data: %b\n\n" % data for data in wanted)


def test_a_name_that_stands_in_two_places_is_replaced_in_the_right_one() -> None:
    twice = chunk({"content": "a"}, x_vendor={"model": "up-model"})
    found = sent([chunk({"content": "b"}), twice, twice])
    assert found[1:3] == [{**json.loads(twice.data), "model": "gpt-x"}] * 2


def test_a_chunk_without_a_model_stays_without_one() -> None:
    bare = frame({"choices": [{"index": 0, "delta": {"content": "a"}}]})
    assert relayed([bare, bare, bare]).count(b'{"choices":[{"index":0,"delta":{"content":"a"}}]}') == 3


@pytest.mark.promise(143)
@pytest.mark.fault("F27")
def test_usage_goes_to_clients_that_asked_for_it_and_to_no_other() -> None:
    alone = frame({"id": "up-1", "model": "up-model", "choices": [], "usage": USAGE})
    frames = [chunk({"content": "a"}, **NULL), chunk({"content": "b"}, **NULL), STOP, alone, DONE]
    assert not any("usage" in p for p in sent(frames))
    *_, last, done = sent(frames, counted())
    assert (last["usage"], last["choices"], done) == (USAGE, [], "[DONE]")
    assert sent(frames, counted())[0]["usage"] is None


@pytest.mark.fault("F27")
@pytest.mark.parametrize("spaced", [False, True])
def test_usage_is_taken_out_wherever_it_stands_in_the_chunk(spaced: bool) -> None:
    first = {"usage": USAGE, "model": "up-model", "choices": [{"index": 0, "delta": {"content": "a"}}]}
    last = {"model": "up-model", "usage": USAGE, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    separators = (", ", ": ") if spaced else (",", ":")
    frames = [Frame("", json.dumps(c, separators=separators).encode()) for c in (first, first, last)]
    for before, after in zip((first, first, last), sent([*frames, DONE]), strict=False):
        assert after == {**{k: v for k, v in before.items() if k != "usage"}, "model": "gpt-x"}
    assert sent([*frames, DONE], counted())[-2]["usage"] == USAGE


@pytest.mark.promise(57, 71)
def test_the_routing_block_is_put_on_the_finish_chunk_of_the_choice_that_ends_last() -> None:
    alone = frame({"model": "up-model", "choices": [], "usage": USAGE})
    frames = [chunk({"content": "a"}), chunk(finish="stop", index=1), chunk({"content": "b"}), STOP, alone, DONE]
    found = sent(frames, counted(routing=ROUTING))
    assert [i for i, p in enumerate(found) if "llmeu" in p] == [3]
    assert found[3]["choices"][0] == {"index": 0, "delta": {}, "finish_reason": "stop"}
    assert found[3]["llmeu"] == ROUTING[1]
    assert found[4]["usage"] == USAGE


def test_the_routing_block_of_another_gateway_is_replaced() -> None:
    frames = [chunk({"content": "a"}), chunk(finish="stop", llmeu={"trace_id": "theirs"}), DONE]
    assert sent(frames, answer(routing=ROUTING))[1]["llmeu"] == ROUTING[1]


def test_the_routing_block_may_be_known_only_at_the_end() -> None:
    given = answer()
    relay, decoder = Relay(given), DIALECT.decoder(asked())
    assert relay.feed(STOP, decoder.feed(STOP)) == b""
    given.routing = ROUTING
    assert payloads(relay.feed(DONE, decoder.feed(DONE)))[0]["llmeu"] == ROUTING[1]


@pytest.mark.promise(4, 5, 59)
@pytest.mark.fault("F10", "F11")
@pytest.mark.parametrize(
    "frames",
    [
        [chunk({"content": "a"})],
        [chunk({"content": "a"}), DONE],
        [chunk({"content": "a"}), STOP],
        [chunk({"content": "a"}), frame({"error": {"message": "sk-abcdefgh broke", "type": "t", "code": 500}}), DONE],
        [chunk({"content": "a"}), STOP, frame({"error": "late"}), DONE],
    ],
    ids=["cut", "DONE without a reason", "no DONE", "error", "error after the finish"],
)
def test_a_stream_that_did_not_end_well_gets_our_error_and_no_terminator(frames: list[Frame]) -> None:
    found = sent(frames, answer(routing=ROUTING))
    assert list(found[-1]) == ["error"]
    assert set(found[-1]["error"]) == {"message", "type", "param", "code"}
    assert "sk-abcdefgh" not in found[-1]["error"]["message"]
    assert [p["choices"][0]["finish_reason"] for p in found[:-1]] == [None]


@pytest.mark.fault("F10")
def test_what_a_held_chunk_says_beside_its_end_is_not_lost_with_it() -> None:
    call = {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}]}
    for delta in ({"content": "!"}, call):
        begun = [chunk({"content": "hi"}), chunk(delta, "stop")]
        found = sent(begun)
        assert [list(p) for p in found][-1] == ["error"]
        assert [p["choices"][0]["delta"] for p in found[:-1]] == [{"content": "hi"}, delta]
        assert [p["choices"][0]["finish_reason"] for p in found[:-1]] == [None, None]
        *whole, done = sent([*begun, DONE])
        assert [p["choices"][0]["finish_reason"] for p in whole] == [None, "stop"]
        assert done == "[DONE]"


def test_after_its_end_it_says_nothing() -> None:
    relay, decoder = Relay(answer()), DIALECT.decoder(asked())
    for each in (STOP, DONE):
        relay.feed(each, decoder.feed(each))
    assert relay.feed(STOP, []) == b""
    assert relay.fail(truncated("x")) == b""
    failed = Relay(answer())
    assert failed.fail(ApiError(Kind.TIMEOUT, "idle")) != b""
    assert failed.fail(ApiError(Kind.TIMEOUT, "idle")) == b""


@pytest.mark.fault("F3")
def test_comments_are_not_sent_on_and_a_frame_of_several_lines_becomes_one() -> None:
    data = b": ping\n\n" + b'data: {"model":"up-model",\ndata: "choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'
    stream = relayed(DIALECT.reader().feed(data))
    assert stream.startswith(b'data: {"model":"gpt-x", "choices":[{"index":0,"delta":{"content":"a"}}]}\n\n')


@pytest.mark.fault("F5")
def test_line_separators_are_escaped() -> None:
    frames = [frame(f'{{"choices":[{{"delta":{{"content":"{t}\u2028\u0085"}}}}]}}'.encode()) for t in "abc"]
    stream = relayed(frames)
    assert stream.count(b"\\u2028\\u0085") == 3
    assert b"\xe2\x80\xa8" not in stream


@pytest.mark.parametrize("path", STREAMS, ids=lambda p: p.stem)
@pytest.mark.parametrize("given", [answer, counted])
def test_a_recorded_stream_means_the_same_behind_the_relay(path: Path, given: Any) -> None:
    frames = frames_of(path)
    before = decode(path.read_bytes())
    after = decode(relayed(frames, given(routing=ROUTING)))
    if path.stem == "error":
        assert after[-1] == before[-1]
        return
    if path.stem == "cut":  # what came stays, and the error says that it was cut
        assert after[1:-1] == before[1:-1]
        assert isinstance(after[-1], Error)
        assert after[-1].error.kind is Kind.TRUNCATED
        return
    old, new = fold(before), fold(after)
    assert new.choices == old.choices
    assert new.model == "gpt-x"
    assert new.usage == (old.usage if given is counted else None)


said = st.lists(
    st.text(max_size=6) | st.sampled_from(['","usage":"', '"model":"up-model"', "\\", "\u2028"]), max_size=8
)


@given(said, st.booleans(), st.booleans())
def test_quick_edits_are_exact_edits(texts: list[str], spaced: bool, wants_usage: bool) -> None:
    chunks = [json.loads(chunk({"content": t}, usage=None).data) for t in texts]
    separators = (", ", ": ") if spaced else (",", ":")
    frames = [frame(json.dumps(c, ensure_ascii=False, separators=separators).encode()) for c in chunks]
    found = sent([*frames, STOP, DONE], counted() if wants_usage else answer())
    for old, new in zip(chunks, found, strict=False):
        wanted = {k: v for k, v in old.items() if wants_usage or k != "usage"}
        assert new == {**wanted, "model": "gpt-x"}


def test_a_whole_reply_keeps_every_byte_but_the_name_and_the_block() -> None:
    body = b'{"id":"u" , "model": "up-model", "choices":[{"message":{"content":"a"}}], "usage":{"x":1.50}}'
    assert DIALECT.relay_reply is not None
    assert DIALECT.relay_reply(body, answer()) == body.replace(b"up-model", b"gpt-x")
    with_block = DIALECT.relay_reply(body, answer(routing=("k", {"a": 1})))
    assert with_block == body.replace(b"up-model", b"gpt-x")[:-1] + b',"k":{"a":1}}'

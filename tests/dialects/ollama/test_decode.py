from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.dialects.ollama.decode import Decoder, parse_reply
from rivermouth.ir.errors import ApiError, Kind, WireError
from rivermouth.ir.events import ArgsDelta, Error, Finish, PartKind, PartStart, Reason, TextDelta, Usage
from rivermouth.ir.fold import fold
from rivermouth.ir.grammar import Grammar
from rivermouth.ir.request import Text, ToolCall
from rivermouth.wire import json
from tests.dialects.ollama.case import decode, frame


@pytest.mark.fault("F11")
def test_an_error_object_ends_the_stream_and_nothing_follows() -> None:
    decoder = Decoder()
    (event,) = decoder.feed(frame('{"error":"out of memory"}'))
    assert isinstance(event, Error)
    assert (event.error.kind, event.error.message) == (Kind.UPSTREAM, "out of memory")
    assert decoder.feed(frame('{"message":{"role":"assistant","content":"x"},"done":true}')) == []
    assert decoder.eof() == []


@pytest.mark.fault("F11")
def test_an_error_wins_over_done_and_may_be_an_object() -> None:
    (event,) = decode(b'{"error":{"message":"no"},"done":true}\n')
    assert isinstance(event, Error)
    assert event.error.message == "no"


@pytest.mark.fault("F20")
def test_missing_ids_are_made_stable_unique_and_different_between_answers() -> None:
    def ids(stamp: str) -> list[str | None]:
        call = '{"function":{"name":"f","arguments":{}}}'
        line = f'{{"created_at":"{stamp}","message":{{"tool_calls":[{call},{call}]}},"done":true}}\n'
        return [e.id for e in decode(line.encode()) if isinstance(e, PartStart)]

    one, again, other = ids("2026-11-29T22:35:01.5Z"), ids("2026-11-29T22:35:01.5Z"), ids("2026-11-29T22:35:01.6Z")
    assert one == again
    assert len({*one, *other}) == 4


@pytest.mark.fault("F20")
def test_an_id_that_the_upstream_repeats_is_replaced() -> None:
    call = '{"id":"a","function":{"name":"f","arguments":{}}}'
    events = decode(f'{{"message":{{"tool_calls":[{call},{call}]}},"done":true}}\n'.encode())
    starts = [e for e in events if isinstance(e, PartStart)]
    assert starts[0].id == "a"
    assert starts[1].id not in ("", None, "a")


@pytest.mark.fault("F20")
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ('"arguments":{"a":1.50}', '{"a":1.50}'),
        ('"arguments":{}', "{}"),
        ('"arguments":null', ""),
        ('"x":1', ""),
        ('"arguments":"{\\"a\\":1}"', '{"a":1}'),
    ],
)
def test_arguments_are_always_text(arguments: str, text: str) -> None:
    events = decode(
        f'{{"message":{{"tool_calls":[{{"function":{{"name":"f",{arguments}}}}}]}},"done":true}}\n'.encode()
    )
    assert "".join(e.json for e in events if isinstance(e, ArgsDelta)) == text


@pytest.mark.fault("F19")
def test_calls_in_one_frame_and_in_several_give_the_same() -> None:
    a, b = '{"id":"a","function":{"name":"f","arguments":{}}}', '{"id":"b","function":{"name":"g","arguments":{}}}'
    end = '{"message":{"role":"assistant","content":""},"done":true}\n'
    together = decode(f'{{"message":{{"tool_calls":[{a},{b}]}}}}\n{end}'.encode())
    apart = decode(f'{{"message":{{"tool_calls":[{a}]}}}}\n{{"message":{{"tool_calls":[{b}]}}}}\n{end}'.encode())
    assert together == apart


@pytest.mark.fault("F21")
def test_empty_members_open_nothing() -> None:
    events = decode(b'{"message":{"content":"","thinking":"","tool_calls":[],"images":[]}}\n{"done":true}\n')
    assert not any(isinstance(e, PartStart) for e in events)


@pytest.mark.fault("F22", "F23")
def test_the_frame_that_opens_a_part_is_delivered_and_thinking_is_reasoning() -> None:
    reply = fold(decode(b'{"message":{"thinking":"t","content":"c"}}\n{"done":true}\n'))
    assert [type(p).__name__ for p in reply.choices[0].parts] == ["Reasoning", "Text"]
    assert reply.choices[0].text == "c"


@pytest.mark.promise(16, 17)
@pytest.mark.fault("F24")
@pytest.mark.parametrize(
    ("done_reason", "called", "reason"),
    [
        ("stop", False, Reason.STOP),
        ("length", False, Reason.LENGTH),
        ("something new", False, Reason.STOP),
        ("stop", True, Reason.TOOL_CALLS),
        ("length", True, Reason.LENGTH),
    ],
)
def test_the_reason_follows_from_what_was_emitted(done_reason: str, called: bool, reason: Reason) -> None:
    calls = '[{"function":{"name":"f"}}]' if called else "null"
    line = f'{{"message":{{"tool_calls":{calls}}},"done":true,"done_reason":"{done_reason}"}}\n'
    assert decode(line.encode())[-1] == Finish(reason)


@pytest.mark.fault("F27", "F29")
def test_a_count_that_is_absent_is_not_zero() -> None:
    def usage(members: str) -> list[Usage]:
        return [e for e in decode(f'{{"response":"","done":true{members}}}\n'.encode()) if isinstance(e, Usage)]

    assert usage("") == []
    assert usage(',"eval_count":3') == [Usage(output_tokens=3)]
    assert usage(',"prompt_eval_count":0') == [Usage(input_tokens=0)]


def test_text_after_a_call_opens_a_new_part() -> None:
    call = '{"message":{"tool_calls":[{"function":{"name":"f"}}]}}'
    events = decode(f'{{"response":"a"}}\n{call}\n{{"response":"b"}}\n{{"done":true}}\n'.encode())
    kinds = [e.kind for e in events if isinstance(e, PartStart)]
    assert kinds == [PartKind.TEXT, PartKind.TOOL, PartKind.TEXT]
    Grammar().feed_all(events)


@pytest.mark.fault("F25")
@pytest.mark.parametrize("route", ["chat", "generate"])
def test_reasoning_in_the_middle_of_text_is_not_lost(route: str) -> None:
    def line(**members: str) -> bytes:
        return json.encode({"message": members} if route == "chat" else {"response": "", **members}) + b"\n"

    word = "content" if route == "chat" else "response"
    events = decode(
        line(**{word: "a"}) + line(thinking="t") + line(**{word: "b", "thinking": "u"}) + b'{"done":true}\n'
    )
    assert [e.text for e in events if isinstance(e, TextDelta)] == ["a", "b"]
    assert [p.text for p in fold(events).choices[0].parts] == ["a", "tu", "b"]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "data",
    [
        b"[]",
        b"nonsense",
        b'{"message":"text"}',
        b'{"done":"yes"}',
        b'{"message":{"tool_calls":[{"function":{"name":""}}]}}',
        b'{"message":{"tool_calls":[{"function":{"name":"f","arguments":{"a":"\xff"}}}]}}',
        b'{"response":"\xff"}',
    ],
)
def test_what_is_no_frame_is_a_wire_error(data: bytes) -> None:
    with pytest.raises(WireError):
        Decoder().feed(frame(data))


scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.just([]) | st.just({})
calls = st.lists(
    st.fixed_dictionaries(
        {"function": st.fixed_dictionaries({"name": st.text(max_size=3), "arguments": scalars})},
        optional={"id": st.none() | st.text(max_size=2)},
    ),
    max_size=2,
)
messages = st.fixed_dictionaries(
    {}, optional={"content": scalars, "thinking": scalars, "tool_calls": calls | scalars, "images": scalars}
)
frames = st.fixed_dictionaries(
    {},
    optional={
        "model": st.text(max_size=3),
        "created_at": st.text(max_size=5) | scalars,
        "message": messages | scalars,
        "response": st.text(max_size=3) | scalars,
        "thinking": scalars,
        "done": st.booleans() | scalars,
        "done_reason": scalars,
        "error": scalars,
        "eval_count": scalars,
    },
)


@given(st.lists(frames.map(json.encode) | st.binary(max_size=8), max_size=6))
def test_any_frames_give_legal_events_or_a_wire_error(data: list[bytes]) -> None:
    decoder, grammar = Decoder(), Grammar()
    try:
        for each in data:
            grammar.feed_all(decoder.feed(frame(each)))
        grammar.feed_all(decoder.eof())
    except WireError:
        return
    assert grammar.done


def test_a_whole_reply_takes_the_path_of_the_stream() -> None:
    reply = parse_reply(
        b'{"model":"m","created_at":"2026-11-29T22:35:01Z","message":{"role":"assistant","content":"Hi",'
        b'"tool_calls":[{"id":"a","function":{"name":"f","arguments":{"x":1}}}]},"done":true,"done_reason":"stop",'
        b'"prompt_eval_count":3,"eval_count":4}'
    )
    assert reply.choices[0].parts == (Text("Hi"), ToolCall("a", "f", '{"x":1}'))
    assert reply.choices[0].reason is Reason.TOOL_CALLS
    assert reply.usage == Usage(input_tokens=3, output_tokens=4)
    assert (reply.model, reply.created) == ("m", 1795991701)


@pytest.mark.fault("F10", "F11")
@pytest.mark.parametrize(
    ("body", "kind"), [(b'{"error":"x"}', Kind.UPSTREAM), (b'{"response":"x","done":false}', Kind.TRUNCATED)]
)
def test_a_whole_reply_that_failed_or_is_unfinished_is_no_success(body: bytes, kind: Kind) -> None:
    with pytest.raises(ApiError) as caught:
        parse_reply(body)
    assert caught.value.kind is kind


def test_each_frame_of_text_is_one_event() -> None:
    events = decode(b'{"response":"x"}\n' * 1000 + b'{"done":true}\n')
    assert sum(isinstance(e, TextDelta) for e in events) == 1000
    assert fold(events).choices[0].text == "x" * 1000

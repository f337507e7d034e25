"""What the other side may make large or odd, and what then happens: names, talks, and what has to wait."""

from __future__ import annotations

import json as reference
import re
from collections.abc import Callable
from typing import Any

import pytest

from rivermouth.dialects import discover
from rivermouth.dialects.dialect import Dialect, Encoder, Operation, Route
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.events import ArgsDelta, Error, Event, Finish, PartKind, PartStart, Reason, Start, TextDelta
from rivermouth.ir.lanes import WAITING_CAP_CHARS
from rivermouth.ir.names import LOSS_NAMES, MODEL_CHARS, OTHERS
from rivermouth.ir.request import EmbedRequest, Local, Message, Request, Role, Text, ToolCall, ToolResult
from tests.cost import assert_linear
from tests.dialects.conformance import DIALECTS, MODEL, answer, asked, decoded, encoded, generate_route, only_error

pytestmark = pytest.mark.parametrize("name", DIALECTS)

ODD_MODELS = ["x" * (MODEL_CHARS + 1), "a\nb", "a\x00b", "a\x7f"]
EMBED = EmbedRequest(model=MODEL, input=("a", "b"))


def routes(dialect: Dialect, *operations: Operation) -> list[Route]:
    return [r for r in dialect.routes if r.operation in operations]


# -- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ODD_MODELS)
def test_a_model_name_that_is_none_is_refused_on_every_route(name: str, model: str) -> None:
    dialect = discover()[name]
    chat = dialect.build_request(asked(stream=False), model).body
    parsers: list[Callable[[], object]] = [
        lambda route=route: dialect.parse_request(chat, route, None)  # type: ignore[misc]
        for route in routes(dialect, Operation.GENERATE, Operation.COUNT_TOKENS)
    ]
    if dialect.build_embed is not None and dialect.parse_embed is not None:
        body, parse = dialect.build_embed(EMBED, model).body, dialect.parse_embed
        parsers += [
            lambda route=route: parse(body, route, None)  # type: ignore[misc]
            for route in routes(dialect, Operation.EMBED)
            if route.kind in ("", "embed")
        ]
    named = reference.dumps({"model": model, "source": model, "destination": model}).encode()
    parsers += [lambda parse=parse: parse(named) for parse in dialect.bodies.values()]  # type: ignore[misc]
    for refusing in parsers:
        with pytest.raises(ApiError) as caught:
            refusing()
        assert (caught.value.kind, caught.value.status) == (Kind.INVALID_REQUEST, 400)
        assert caught.value.param in ("model", "source")


def test_the_longest_model_name_is_taken(name: str) -> None:
    dialect, model = discover()[name], "x" * MODEL_CHARS
    body = dialect.build_request(asked(), model).body
    assert dialect.parse_request(body, generate_route(dialect), None).model == model


HOSTILE: dict[str, Any] = {"x" * 100: 1, "a\r\nx-evil: 1": 1, "é": 1, "a b": 1, **{f"k{i}": i for i in range(1, 1000)}}


def with_fields(body: bytes, fields: dict[str, Any]) -> bytes:
    return reference.dumps(reference.loads(body) | fields).encode()


@pytest.mark.fault("F36")
def test_a_clients_keys_are_losses_that_can_be_shown_and_are_few(name: str) -> None:
    dialect = discover()[name]
    odd: dict[str, Any] = {**HOSTILE, "options": HOSTILE}
    body = with_fields(dialect.build_request(asked(), MODEL).body, odd)
    found = [dialect.parse_request(body, generate_route(dialect), None).unmodelled]
    if dialect.build_embed is not None and dialect.parse_embed is not None:
        body = with_fields(dialect.build_embed(EMBED, MODEL).body, odd)
        found.append(dialect.parse_embed(body, routes(dialect, Operation.EMBED)[0], None).unmodelled)
    for names in found:
        assert len(names) == LOSS_NAMES + 1
        assert names[-1] == OTHERS
        assert all(re.fullmatch(r"[A-Za-z0-9_.\-\[\]]{1,64}", each) for each in names)


def test_every_field_that_is_not_read_is_named_but_for_those_that_ask_for_nothing(name: str) -> None:
    """R30."""
    dialect = discover()[name]
    body = dialect.build_request(asked(), MODEL).body
    assert dialect.parse_request(body, generate_route(dialect), None).unmodelled == ()
    odd: dict[str, Any] = {
        "context_management": {"edits": []},
        "speed": "fast",
        "inference_geo": "eu",
        "x": None,
        "y": False,
    }
    parsed = dialect.parse_request(with_fields(body, odd), generate_route(dialect), None)
    assert parsed.unmodelled == ("context_management", "speed", "inference_geo")
    for other in discover().values():
        kept = other.name == name
        assert set(parsed.unmodelled) <= {*other.build_request(parsed, "up").losses} or kept


def test_what_an_embedding_loses_is_named(name: str) -> None:
    dialect = discover()[name]
    if dialect.build_embed is None or dialect.parse_embed is None:
        pytest.skip("no embeddings")
    wishes: dict[str, dict[str, Any]] = {
        "truncate": {"truncate": False},
        "dimensions": {"dimensions": 7},
        "keep_alive_s": {"local": Local(keep_alive_s=0)},
        "context_tokens": {"local": Local(context_tokens=512)},
        "input_type": {"unmodelled": ("input_type",)},
    }
    route = routes(dialect, Operation.EMBED)[0]
    for wish, changes in wishes.items():
        outgoing = dialect.build_embed(EmbedRequest(model=MODEL, input=("a",), **changes), "up")
        assert set(outgoing.losses) <= dialect.losses | {"input_type"}
        back = dialect.parse_embed(outgoing.body, route, None)
        kept = all(getattr(back, field) == value for field, value in changes.items())
        assert (wish in outgoing.losses) is not kept
    body = with_fields(dialect.build_embed(EMBED, MODEL).body, {"input_type": "query"})
    parsed = dialect.parse_embed(body, route, None)
    assert parsed.unmodelled == ("input_type",)
    assert dialect.build_embed(parsed, "up").losses == (), "its own dialect gets all of it"


# -- talks ------------------------------------------------------------------------------------------------------------


def question(text: str = "q") -> Message:
    return Message(Role.USER, (Text(text),))


def test_instructions_alone_are_something_to_answer(name: str) -> None:
    """No client may end up asking a model to be loaded by what it says."""
    dialect = discover()[name]
    body = dialect.build_request(asked(messages=(Message(Role.SYSTEM, (Text("Tell me."),)),)), MODEL).body
    parsed = dialect.parse_request(body, generate_route(dialect), None)
    assert parsed.system == ()
    assert [m.text for m in parsed.messages] == ["Tell me."]


def same_ids(count: int) -> tuple[Message, ...]:
    calls = tuple(ToolCall("a", "f", "{}") for _ in range(count))
    return question(), Message(Role.ASSISTANT, calls), Message(Role.TOOL, tuple(ToolResult("a") for _ in calls))


def many_results(count: int) -> tuple[Message, ...]:
    calls = tuple(ToolCall(f"c{i}", "f", "{}") for i in range(count))
    results = (Message(Role.TOOL, (ToolResult(call.id, (Text("r"),)),)) for call in calls)
    return question(), Message(Role.ASSISTANT, calls), *results


def many_turns(count: int) -> tuple[Message, ...]:
    roles = (Role.SYSTEM, Role.USER, Role.USER, Role.ASSISTANT)
    return tuple(Message(roles[i % 4], (Text("a"),)) for i in range(count))


@pytest.mark.parametrize(("talk", "small"), [(same_ids, 200), (many_turns, 200), (many_results, 1000)])
def test_a_talk_costs_what_it_is_long(name: str, talk: Callable[[int], tuple[Message, ...]], small: int) -> None:
    dialect = discover()[name]

    def building(count: int) -> Callable[[], object]:
        request = asked(messages=talk(count))
        return lambda: dialect.build_request(request, MODEL)

    def parsing(count: int) -> Callable[[], object]:
        body = dialect.build_request(asked(messages=talk(count)), MODEL).body
        return lambda: dialect.parse_request(body, generate_route(dialect), None)

    assert_linear(building, 200)
    assert_linear(parsing, small)


def test_results_that_come_without_ids_cost_what_they_are(name: str) -> None:
    """Clients of some dialects leave ids out, so that results find their calls by name or by order."""
    dialect = discover()[name]

    def prepare(count: int) -> Callable[[], object]:
        sent = reference.loads(dialect.build_request(asked(messages=many_results(count)), MODEL).body)
        body = re.sub(r', "(?:tool_call_)?id": "c\d+"', "", reference.dumps(sent)).encode()

        def parse() -> None:
            try:
                dialect.parse_request(body, generate_route(dialect), None)
            except ApiError as error:
                assert "id" in (error.param or "")  # noqa: PT017 - some dialects refuse it, and some do not

        return parse

    assert_linear(prepare, 200)


# -- what has to wait -------------------------------------------------------------------------------------------------

PIECE = "b" * (WAITING_CAP_CHARS // 16)
OVERLAP: list[Event] = [Start("u", "m", 7), PartStart(0, PartKind.TEXT), PartStart(1, PartKind.TEXT)]


def failed(dialect: Dialect, encoder: Encoder, batches: list[list[Event]]) -> list[Event]:
    """What a client is told of batches that are too much to hold: the error, after all that could be said."""
    stream, error = b"", None
    for batch in batches:
        try:
            stream += encoder.feed(batch)
        except ApiError as raised:
            error = raised
    assert error is not None
    assert error.kind is Kind.UPSTREAM
    stream += encoder.feed([Error(error)])
    assert encoder.feed([Finish(Reason.STOP)]) == b""
    events = decoded(dialect, stream)
    assert error.message in only_error(events).error.message
    return events


@pytest.mark.fault("F13", "F26", "F35")
@pytest.mark.parametrize("together", [True, False])
def test_more_than_may_wait_is_an_upstream_error_after_all_that_was_said(name: str, together: bool) -> None:
    dialect = discover()[name]
    encoder = dialect.encoder(answer(dialect))
    last: list[Event] = [TextDelta(0, "a"), TextDelta(1, "b")]
    waiting: list[Event] = [TextDelta(1, PIECE) for _ in range(16)]
    events = failed(dialect, encoder, [[*OVERLAP, *waiting], *([last] if together else [last[:1], last[1:]])])
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == "a" + PIECE * 16


@pytest.mark.fault("F35")
def test_arguments_that_have_to_be_held_are_bounded(name: str) -> None:
    """Held where a wire has only whole calls, or has to see whether they are an object; and for a free-form tool."""
    dialect = discover()[name]
    encoder = dialect.encoder(answer(dialect, request=asked(original=custom_tool())))
    start: list[Event] = [Start(), PartStart(0, PartKind.TOOL, 0, "c", "f"), ArgsDelta(0, '"no object')]
    assert failed(dialect, encoder, [start, [ArgsDelta(0, PIECE) for _ in range(16)]])


def custom_tool() -> Any:
    """The original of a client that offered a free-form tool named "f"."""
    openai = discover()["openai_chat"]
    tools = [{"type": "custom", "custom": {"name": "f"}}]
    body = with_fields(openai.build_request(asked(), MODEL).body, {"tools": tools})
    return openai.parse_request(body, generate_route(openai), None).original


@pytest.mark.fault("F26")
def test_many_parts_that_overlap_are_written_one_after_the_other_and_cost_what_they_are(name: str) -> None:
    dialect = discover()[name]

    def stream(count: int) -> list[Event]:
        starts: list[Event] = [PartStart(i, PartKind.TEXT) for i in range(count)]
        return [Start(), *starts, *(TextDelta(i, f"{i};") for i in range(count - 1, -1, -1))]

    few = stream(3)
    told = decoded(dialect, encoded(dialect, [*few, Error(ApiError(Kind.NETWORK, "cut"))]))
    assert "".join(e.text for e in told if isinstance(e, TextDelta)) == "0;1;2;"
    assert_linear(lambda count: lambda: encoded(dialect, [*stream(count), Error(ApiError(Kind.NETWORK, "cut"))]), 200)


def test_a_request_without_a_word_is_refused_or_loads_a_model(name: str) -> None:
    """Only Ollama's clients ask for a model to be loaded, and they do it by saying nothing."""
    dialect = discover()[name]
    empty = reference.loads(dialect.build_request(asked(messages=(question(),)), MODEL).body) | {"messages": []}
    body = reference.dumps(empty).encode()
    try:
        parsed: Request | None = dialect.parse_request(body, generate_route(dialect), None)
    except ApiError as error:
        assert (error.kind, error.param) == (Kind.INVALID_REQUEST, "messages")  # noqa: PT017
        parsed = None
    assert (parsed is not None) is (Operation.GENERATE in dialect.documents)

"""What the other side may make large or odd, and what then happens: names, talks, and what has to wait."""

from __future__ import annotations

import json as reference
import re
from collections.abc import Callable
from typing import Any

import pytest

from rivermouth.dialects import discover
from rivermouth.dialects.dialect import Dialect, Operation, Outgoing, Route
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.events import ArgsDelta, Error, Event, Finish, PartKind, PartStart, Reason, Start, TextDelta
from rivermouth.ir.lanes import WAITING_CAP_CHARS
from rivermouth.ir.names import LOSS_NAMES, MODEL_CHARS, OTHERS
from rivermouth.ir.request import EmbedRequest, Local, Message, Request, Role, Text, ToolCall, ToolResult
from tests.cost import assert_linear
from tests.dialects.conformance import DIALECTS, MODEL, answer, asked, decoded, encoded, generate_route, only_error
from tests.dialects.forms import FORMS, Form, dialect_of, parsed, parsed_embed, sent, with_fields, without_ids
from tests.in_turn import in_turn

every_body = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
every_embedding = pytest.mark.parametrize("name", [n for n in DIALECTS if discover()[n].parse_embed is not None])

EMBED = EmbedRequest(model=MODEL, input=("a",))


def routes(dialect: Dialect, *operations: Operation) -> list[Route]:
    return [r for r in dialect.routes if r.operation in operations]


# -- names ------------------------------------------------------------------------------------------------------------


def path_model(route: Route, model: str) -> str | None:
    return model if "{model}" in route.path else None


def parsers(form: Form, model: str) -> list[Callable[[], object]]:
    """Everything of the dialect that takes a model's name."""
    dialect = dialect_of(form)
    body = dialect.build_request(asked(stream=False), model).body
    every: list[Callable[[], object]] = [
        lambda route=route: dialect.parse_request(form.sibling(route, body), route, path_model(route, model))  # type: ignore[misc]
        for route in routes(dialect, Operation.GENERATE, Operation.COUNT_TOKENS)
        if route.kind not in form.nameless
    ]
    if dialect.build_embed is not None and dialect.parse_embed is not None:
        texts, parse = dialect.build_embed(EMBED, model).body, dialect.parse_embed
        every += [
            lambda route=route: parse(texts, route, path_model(route, model))  # type: ignore[misc]
            for route in routes(dialect, Operation.EMBED)
            if route.kind in ("", "embed") or "{model}" in route.path
        ]
    named = reference.dumps({"model": model, "source": model, "destination": model}).encode()
    return every + [lambda parse=parse: parse(named) for parse in dialect.bodies.values()]


@every_body
@in_turn("odd", ["x" * MODEL_CHARS, "a\nb", "a\x00b", "a\x7f"])
def test_a_model_name_that_is_none_is_refused_on_every_route(form: Form, odd: str) -> None:
    for refusing in parsers(form, form.model + odd):
        with pytest.raises(ApiError) as caught:
            refusing()
        assert (caught.value.kind, caught.value.status) == (Kind.INVALID_REQUEST, 400)
        assert caught.value.param in (form.model_param, "source")


@every_body
def test_the_longest_model_name_is_taken(form: Form) -> None:
    model = form.name("x", MODEL_CHARS)
    outgoing = dialect_of(form).build_request(asked(), model)
    assert parsed(form, outgoing).model == model


HOSTILE: dict[str, Any] = {"x" * 100: 1, "a\r\nx-evil: 1": 1, "é": 1, "a b": 1, **{f"k{i}": i for i in range(1, 1000)}}
ODD: dict[str, Any] = {**HOSTILE, "options": HOSTILE}


def assert_few_and_shown(names: tuple[str, ...]) -> None:
    assert len(names) == LOSS_NAMES + 1
    assert names[-1] == OTHERS
    assert all(re.fullmatch(r"[A-Za-z0-9_.\-\[\]]{1,64}", each) for each in names)


@pytest.mark.fault("F36")
@every_body
def test_a_clients_keys_are_losses_that_can_be_shown_and_are_few(form: Form) -> None:
    outgoing = sent(form, asked())
    assert_few_and_shown(parsed(form, outgoing, with_fields(outgoing.body, ODD)).unmodelled)


@pytest.mark.fault("F36")
@every_embedding
def test_an_embeddings_keys_are_losses_that_can_be_shown_and_are_few(name: str) -> None:
    dialect = discover()[name]
    assert dialect.build_embed is not None
    outgoing = dialect.build_embed(EMBED, MODEL)
    assert_few_and_shown(parsed_embed(dialect, outgoing, with_fields(outgoing.body, ODD)).unmodelled)


@every_body
def test_every_field_that_is_not_read_is_named_but_for_those_that_ask_for_nothing(form: Form) -> None:
    """R30."""
    outgoing = sent(form, asked())
    assert parsed(form, outgoing).unmodelled == ()
    odd: dict[str, Any] = {
        "context_management": {"edits": []},
        "speed": "fast",
        "inference_geo": "eu",
        "x": None,
        "y": False,
    }
    came = parsed(form, outgoing, with_fields(outgoing.body, odd))
    assert came.unmodelled == ("context_management", "speed", "inference_geo")
    for other in FORMS.values():
        losses = set(sent(other, came).losses)
        assert set(came.unmodelled) <= losses or (other.body == form.body and not losses)


@every_embedding
def test_what_an_embedding_loses_is_named(name: str) -> None:
    dialect = discover()[name]
    assert dialect.build_embed is not None
    wishes: dict[str, dict[str, Any]] = {
        "truncate": {"truncate": False},
        "keep_end": {"keep_end": True},
        "dimensions": {"dimensions": 7},
        "keep_alive_s": {"local": Local(keep_alive_s=0)},
        "context_tokens": {"local": Local(context_tokens=512)},
        "purpose": {"unmodelled": ("purpose",)},
    }
    for wish, changes in wishes.items():
        outgoing = dialect.build_embed(EmbedRequest(model=MODEL, input=("a",), **changes), "up")
        assert set(outgoing.losses) <= dialect.losses | {"purpose"}
        back = parsed_embed(dialect, outgoing)
        kept = all(getattr(back, field) == value for field, value in changes.items())
        assert (wish in outgoing.losses) is not kept
    outgoing = dialect.build_embed(EMBED, MODEL)
    came = parsed_embed(dialect, outgoing, with_fields(outgoing.body, {"purpose": "query"}))
    assert came.unmodelled == ("purpose",)
    assert dialect.build_embed(came, "up").losses == (), "its own dialect gets all of it"


# -- talks ------------------------------------------------------------------------------------------------------------


def question(text: str = "q") -> Message:
    return Message(Role.USER, (Text(text),))


@every_body
def test_instructions_alone_are_something_to_answer(form: Form) -> None:
    """No client may end up asking a model to be loaded by what it says."""
    came = parsed(form, sent(form, asked(messages=(Message(Role.SYSTEM, (Text("Tell me."),)),))))
    assert came.system == ()
    assert [m.text for m in came.messages] == ["Tell me."]


def same_ids(count: int) -> tuple[Message, ...]:
    calls = tuple(ToolCall("a", "f", "{}") for _ in range(count))
    return question(), Message(Role.ASSISTANT, calls), Message(Role.TOOL, tuple(ToolResult("a") for _ in calls))


def many_results(count: int) -> tuple[Message, ...]:
    calls = tuple(ToolCall(f"c{i}", "f", "{}") for i in range(count))
    results = (Message(Role.TOOL, (ToolResult(call.id, (Text("r"),)),)) for call in calls)
    return question(), Message(Role.ASSISTANT, calls), *results


def many_turns(count: int) -> tuple[Message, ...]:
    """It ends with something to answer."""
    roles = (Role.USER, Role.SYSTEM, Role.ASSISTANT, Role.USER)
    return tuple(Message(roles[i % 4], (Text("a"),)) for i in range(count))


Talk = Callable[[int], tuple[Message, ...]]


def taken(form: Form, talk: Talk, count: int) -> bool:
    """False for a talk with tools where the protocol has no place for them, which is refused."""
    if form.tools or talk is many_turns:
        return True
    with pytest.raises(ApiError) as caught:
        sent(form, asked(messages=talk(count)))
    assert caught.value.kind is Kind.INVALID_REQUEST
    return False


@every_body
@pytest.mark.parametrize(("talk", "small"), [(same_ids, 200), (many_turns, 200), (many_results, 300)])
def test_a_talk_costs_what_it_is_long(form: Form, talk: Talk, small: int) -> None:
    built: dict[int, Outgoing] = {}

    def building(count: int) -> Callable[[], object]:
        request = asked(messages=talk(count))
        return lambda: built.update({count: sent(form, request)})

    def parsing(count: int) -> Callable[[], object]:
        return lambda: parsed(form, built[count])

    if taken(form, talk, small):
        assert_linear(building, small)
        assert_linear(parsing, small)


@every_body
def test_results_that_come_without_ids_cost_what_they_are(form: Form) -> None:
    """Clients of some dialects leave ids out, so that results find their calls by name or by order."""

    def prepare(count: int) -> Callable[[], object]:
        outgoing = sent(form, asked(messages=many_results(count)))
        body = without_ids(form, outgoing.body)

        def parse() -> None:
            try:
                parsed(form, outgoing, body)
            except ApiError as error:
                assert "id" in (error.param or "").lower()  # noqa: PT017 - some dialects refuse it, and some do not

        return parse

    if taken(form, many_results, 200):
        assert_linear(prepare, 200)


@every_body
def test_a_request_without_a_word_is_refused_or_loads_a_model(form: Form) -> None:
    """Only Ollama's clients ask for a model to be loaded, and they do it by saying nothing."""
    outgoing = sent(form, asked(messages=(question(),)))
    body = with_fields(outgoing.body, form.silence)
    loads = Operation.GENERATE in dialect_of(form).documents
    if loads:
        parsed(form, outgoing, body)
        return
    with pytest.raises(ApiError) as caught:
        parsed(form, outgoing, body)
    assert (caught.value.kind, caught.value.param) == (Kind.INVALID_REQUEST, form.silence_param)


# -- what has to wait -------------------------------------------------------------------------------------------------

PIECE = "b" * (WAITING_CAP_CHARS // 16)
OVERLAP: list[Event] = [Start("u", "m", 7), PartStart(0, PartKind.TEXT), PartStart(1, PartKind.TEXT)]


def client(form: Form) -> Request:
    """The request of a client that speaks this body."""
    return parsed(form, sent(form, asked()))


def failed(form: Form, request: Request, batches: list[list[Event]]) -> list[Event]:
    """What a client is told of batches that are too much to hold: the error, after all that could be said."""
    dialect = dialect_of(form)
    encoder = dialect.encoder(answer(dialect, request=request))
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
@every_body
@pytest.mark.parametrize("together", [True, False])
def test_more_than_may_wait_is_an_upstream_error_after_all_that_was_said(form: Form, together: bool) -> None:
    last: list[Event] = [TextDelta(0, "a"), TextDelta(1, "b")]
    waiting: list[Event] = [TextDelta(1, PIECE) for _ in range(16)]
    events = failed(form, client(form), [[*OVERLAP, *waiting], *([last] if together else [last[:1], last[1:]])])
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == "a" + PIECE * 16


@pytest.mark.fault("F35")
@pytest.mark.parametrize("name", sorted({f.dialect for f in FORMS.values() if f.tools}))
def test_arguments_that_have_to_be_held_are_bounded(name: str) -> None:
    """Held where a wire has only whole calls, or has to see whether they are an object; and for a free-form tool."""
    form = next(f for f in FORMS.values() if f.dialect == name and f.tools)
    start: list[Event] = [Start(), PartStart(0, PartKind.TOOL, 0, "c", "f"), ArgsDelta(0, '"no object')]
    pieces: list[Event] = [ArgsDelta(0, PIECE) for _ in range(16)]
    if form.holds_arguments:
        assert failed(form, asked(original=custom_tool()), [start, pieces])
    else:
        events = decoded(
            dialect_of(form), encoded(dialect_of(form), [*start, *pieces, Error(ApiError(Kind.NETWORK, ""))])
        )
        assert sum(len(e.json) for e in events if isinstance(e, ArgsDelta)) == len('"no object') + 16 * len(PIECE)


def custom_tool() -> Any:
    """The original of a client that offered a free-form tool named "f"."""
    openai = discover()["openai_chat"]
    tools = [{"type": "custom", "custom": {"name": "f"}}]
    body = with_fields(openai.build_request(asked(), MODEL).body, {"tools": tools})
    return openai.parse_request(body, generate_route(openai), None).original


@pytest.mark.fault("F26")
@every_body
def test_many_parts_that_overlap_are_written_one_after_the_other_and_cost_what_they_are(form: Form) -> None:
    dialect, request = dialect_of(form), client(form)

    def stream(count: int) -> list[Event]:
        starts: list[Event] = [PartStart(i, PartKind.TEXT) for i in range(count)]
        return [Start(), *starts, *(TextDelta(i, f"{i};") for i in range(count - 1, -1, -1))]

    def cut_off(events: list[Event]) -> bytes:
        return encoded(dialect, [*events, Error(ApiError(Kind.NETWORK, "cut"))], request=request)

    told = decoded(dialect, cut_off(stream(3)))
    assert "".join(e.text for e in told if isinstance(e, TextDelta)) == "0;1;2;"

    def prepare(count: int) -> Callable[[], object]:
        events = stream(count)
        return lambda: cut_off(events)

    assert_linear(prepare, 200)

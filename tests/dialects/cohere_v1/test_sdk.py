"""What the vendor's own client makes of our bytes, and what we make of its requests; no socket is opened.

The client swallows every line that it cannot read, so the lines it saw are counted.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import cohere
import httpx
import pytest
from cohere.core.api_error import ApiError as SdkError
from hypothesis import HealthCheck, Phase, given, settings

from rivermouth.dialects.cohere_v1 import DIALECT
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.events import (
    ArgsDelta,
    Error,
    Event,
    Finish,
    PartEnd,
    PartKind,
    PartStart,
    Reason,
    Start,
    TextDelta,
    Usage,
)
from rivermouth.ir.fold import fold
from rivermouth.ir.reply import EmbedReply, ModelInfo
from rivermouth.ir.request import Message, Role, Text, Tool, ToolCall, ToolResult
from tests.dialects.cohere_v1.case import NASTY, answer, encode, parse, route
from tests.strategies import event_streams

Handler = Callable[[httpx.Request], httpx.Response]
EVENTS: list[Event] = [
    Start(),
    PartStart(0, PartKind.TEXT),
    TextDelta(0, "Hi "),
    TextDelta(0, NASTY),
    PartEnd(0),
    PartStart(1, PartKind.TOOL, 0, "c1", "f"),
    ArgsDelta(1, '{"q":'),
    ArgsDelta(1, '"\u2028"}'),
    PartEnd(1),
    PartStart(2, PartKind.TOOL, 0, "c2", "f"),
    PartEnd(2),
    Usage(9, 4, 2),
    Finish(Reason.TOOL_CALLS),
]


def client(handler: Handler) -> cohere.Client:
    return cohere.Client(
        "k", base_url="http://127.0.0.1:1/cohere", httpx_client=httpx.Client(transport=httpx.MockTransport(handler))
    )


def answering(body: bytes, status: int = 200) -> Handler:
    return lambda request: httpx.Response(status, headers={"content-type": "application/json"}, content=body)


def read(events: list[Event], **changes: Any) -> list[Any]:
    """The events of the SDK, none of which may be lost."""
    data = encode(events, **changes)
    found = list(client(answering(data)).chat_stream(message="Hi"))
    assert len(found) == data.count(b"\n"), "no line is lost"
    return found


@pytest.mark.promise(160, 161, 162)
@pytest.mark.fault("F5")
def test_a_stream() -> None:
    found = read(EVENTS, request=parse())
    assert (found[0].event_type, found[0].generation_id, found[0].is_finished) == ("stream-start", "01J", False)
    assert "".join(e.text for e in found if e.event_type == "text-generation") == "Hi " + NASTY
    pieces = [e.tool_call_delta for e in found if e.event_type == "tool-calls-chunk"]
    assert [(p.index, p.name, p.parameters) for p in pieces] == [
        (0, "f", None),
        (0, None, '{"q":'),
        (0, None, '"\u2028"}'),
        (1, "f", None),
    ]
    end = found[-1]
    assert (end.event_type, end.finish_reason, end.is_finished) == ("stream-end", "COMPLETE", True)
    response = end.response
    assert (response.text, response.response_id, response.generation_id) == ("Hi " + NASTY, "01J", "01J")
    assert [(c.name, c.parameters) for c in response.tool_calls] == [("f", {"q": "\u2028"}), ("f", {})]
    assert (response.meta.tokens.input_tokens, response.meta.billed_units.output_tokens) == (9, 4)
    assert [m.role for m in response.chat_history] == ["USER", "CHATBOT"]
    assert (response.id, response.message) == ("01J", {"role": "assistant", "content": "Hi " + NASTY})


@settings(max_examples=20, phases=[Phase.explicit, Phase.generate], suppress_health_check=[HealthCheck.too_slow])
@given(event_streams(noise=True, kinds=(PartKind.TEXT, PartKind.TOOL)))
def test_the_sdk_gathers_what_the_events_say(events: list[Event]) -> None:
    found = read(events)
    parts = fold(events).choices[0].parts
    wrote = "".join(p.text for p in parts if isinstance(p, Text))
    assert "".join(e.text for e in found if e.event_type == "text-generation") == wrote
    assert found[-1].response.text == wrote
    calls = [p for p in parts if isinstance(p, ToolCall)]
    assert [(c.name, c.parameters) for c in found[-1].response.tool_calls or []] == [
        (p.name, json.loads(p.arguments)) for p in calls
    ]


@pytest.mark.fault("F11", "F14")
def test_a_failure_in_a_stream_is_its_end() -> None:
    events: list[Event] = [Start(), PartStart(0, PartKind.TEXT), TextDelta(0, "a")]
    end = read([*events, Error(ApiError(Kind.OVERLOADED, "busy"))])[-1]
    assert (end.finish_reason, end.error, end.response.text) == ("ERROR", "busy", "a")


def test_a_whole_reply() -> None:
    reply = client(answering(DIALECT.encode_reply(fold(EVENTS), answer()))).chat(message="Hi")
    assert (reply.text, reply.finish_reason, reply.generation_id) == ("Hi " + NASTY, "COMPLETE", "01J")
    assert [(c.name, c.parameters) for c in reply.tool_calls or []] == [("f", {"q": "\u2028"}), ("f", {})]


@pytest.mark.fault("F15")
@pytest.mark.parametrize(
    ("kind", "raises"),
    [
        (Kind.INVALID_REQUEST, cohere.BadRequestError),
        (Kind.AUTHENTICATION, cohere.UnauthorizedError),
        (Kind.PERMISSION, cohere.ForbiddenError),
        (Kind.NOT_FOUND, cohere.NotFoundError),
        (Kind.RATE_LIMITED, cohere.TooManyRequestsError),
        (Kind.INTERNAL, cohere.InternalServerError),
        (Kind.OVERLOADED, cohere.ServiceUnavailableError),
        (Kind.NETWORK, SdkError),
    ],
)
def test_errors_before_the_stream_are_the_sdks_own(kind: Kind, raises: type[SdkError]) -> None:
    failure = DIALECT.encode_error(ApiError(kind, "what happened"), "01J")
    sdk, once = client(answering(failure.body, failure.status)), {"max_retries": 0}
    with pytest.raises(raises) as raised:
        sdk.chat(message="Hi", request_options=once)  # type: ignore[arg-type]
    assert (raised.value.status_code, raised.value.body) == (failure.status, {"id": "01J", "message": "what happened"})
    with pytest.raises(raises):
        list(sdk.chat_stream(message="Hi", request_options=once))  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the SDK's own, where it merges batches
def test_embeddings_of_both_kinds() -> None:
    assert DIALECT.encode_embed is not None
    assert DIALECT.parse_embed is not None

    def embed(request: httpx.Request) -> httpx.Response:
        asked = DIALECT.parse_embed(request.content, route("/embed"), None)  # type: ignore[misc]
        vectors = tuple((float(len(text)),) for text in asked.input)
        reply = EmbedReply(model="m", vectors=vectors, input_tokens=3)
        return answering(DIALECT.encode_embed(reply, asked, answer()))(request)  # type: ignore[misc]

    sdk = client(embed)
    plain = sdk.embed(texts=["a", "bb"], model="m")
    assert (plain.response_type, plain.embeddings) == ("embeddings_floats", [[1.0], [2.0]])
    many = sdk.embed(texts=["x"] * 100, model="m", input_type="search_query", embedding_types=["float"])
    assert many.response_type == "embeddings_by_type"
    assert many.embeddings.float_ == [[1.0]] * 100  # type: ignore[union-attr]


def test_models() -> None:
    assert DIALECT.encode_models is not None
    assert DIALECT.encode_model is not None
    one = ModelInfo(id="lab/x", owner="lab", context_tokens=4096)
    listed = DIALECT.encode_models([one], route("/models"))
    found = client(answering(listed)).models.list(page_size=10)
    assert [(m.name, m.endpoints, m.context_length) for m in found.models] == [("lab/x", ["chat"], 4096)]
    assert found.next_page_token is None
    paths: list[str] = []

    def get(request: httpx.Request) -> httpx.Response:
        paths.append(request.url.raw_path.decode())
        return answering(DIALECT.encode_model(one, route("/models/{model}")))(request)  # type: ignore[misc]

    assert client(get).models.get("lab/x").name == "lab/x"
    assert paths[0].startswith("/cohere/v1/models/lab")


def test_what_the_sdk_sends_is_parsed_and_its_own_objects_come_back() -> None:
    """Two steps of tool use as the vendor's guide shows them: the ids that we added make the round trip."""
    sent: list[httpx.Request] = []

    def keep(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        asked = DIALECT.parse_request(request.content, route(), None)
        return answering(DIALECT.encode_reply(fold(EVENTS), answer(request=asked)))(request)

    sdk = client(keep)
    definition = cohere.ToolParameterDefinitionsValue(type="str", description="what", required=True)
    tools = [cohere.Tool(name="f", description="finds", parameter_definitions={"q": definition})]
    first = sdk.chat(message="Weather?", model="m", preamble="Be brief.", tools=tools)
    results = [cohere.ToolResult(call=c, outputs=[{"n": i}]) for i, c in enumerate(reversed(first.tool_calls or []))]
    sdk.chat(message="", model="m", tools=tools, chat_history=first.chat_history, tool_results=results)
    assert [r.url.path for r in sent] == ["/cohere/v1/chat"] * 2
    assert sent[0].headers["authorization"] == "Bearer k"
    asked = DIALECT.parse_request(sent[0].content, route(), None)
    assert asked.system == (Text("Be brief."),)
    schema = {"type": "object", "properties": {"q": {"type": "string", "description": "what"}}, "required": ["q"]}
    assert asked.tools == (Tool("f", "finds", schema),)
    again = DIALECT.parse_request(sent[1].content, route(), None)
    assert [(m.role, [type(p) for p in m.parts]) for m in again.messages] == [
        (Role.USER, [Text]),
        (Role.ASSISTANT, [Text, ToolCall, ToolCall]),
        (Role.TOOL, [ToolResult, ToolResult]),
    ]
    assert again.messages[0] == Message(Role.USER, (Text("Weather?"),))
    told = [(p.id, p.content) for p in again.messages[2].parts if isinstance(p, ToolResult)]
    assert told == [("c2", (Text('{"n":0}'),)), ("c1", (Text('{"n":1}'),))]

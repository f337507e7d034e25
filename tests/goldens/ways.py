"""How a client asks in each dialect: the request that each golden answers.  More than one way where bodies or framings
differ; the first is the dialect's main one, in which all of its cases are shown."""

from __future__ import annotations

import json
from typing import Any, Final
from urllib.parse import parse_qsl

import msgspec

from rivermouth.dialects import discover
from rivermouth.dialects.dialect import Answer, Dialect
from rivermouth.http.routes import Match, Routes

MODEL: Final = "asked-model"
_TALK: Final = [{"role": "user", "content": "Hi"}]
_CLAUDE: Final = {"anthropic_version": "bedrock-2023-05-31", "max_tokens": 99, "messages": _TALK}
_GEMINI: Final = {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}
_INVOKE: Final = "invoke-with-response-stream"


class Way(msgspec.Struct, frozen=True):
    """path: as the client asks it, its query included.  body: what it sends.  brief: only the `BRIEF` cases."""

    dialect: str
    path: str
    body: dict[str, Any]
    brief: bool = True


def _main(dialect: str, path: str, **body: Any) -> Way:
    return Way(dialect, path, body, brief=False)


WAYS: Final[dict[str, Way]] = {
    "openai_chat": _main(
        "openai_chat",
        "/v1/chat/completions",
        model=MODEL,
        messages=_TALK,
        stream=True,
        stream_options={"include_usage": True},
    ),
    "openai_chat-prefixed": Way(
        "openai_chat", "/openai/v1/chat/completions", {"model": MODEL, "messages": _TALK, "stream": True}
    ),
    "openai_completions": _main(
        "openai_completions",
        "/v1/completions",
        model=MODEL,
        prompt="Hi",
        stream=True,
        stream_options={"include_usage": True},
    ),
    "openai_responses": _main("openai_responses", "/v1/responses", model=MODEL, input="Hi", stream=True),
    "anthropic": _main("anthropic", "/v1/messages", model=MODEL, messages=_TALK, max_tokens=99, stream=True),
    "ollama": _main("ollama", "/api/chat", model=MODEL, messages=_TALK),
    "ollama-generate": Way("ollama", "/api/generate", {"model": MODEL, "prompt": "Hi"}),
    "gemini": _main("gemini", f"/gemini/v1beta/models/{MODEL}:streamGenerateContent?alt=sse", **_GEMINI),
    "gemini-array": Way("gemini", f"/v1beta/models/{MODEL}:streamGenerateContent", _GEMINI),
    "cohere_v1": _main("cohere_v1", "/cohere/v1/chat", model=MODEL, message="Hi", stream=True),
    "cohere_v2": _main("cohere_v2", "/cohere/v2/chat", model=MODEL, messages=_TALK, stream=True),
    "tgi": _main(
        "tgi",
        "/tgi/v1/chat/completions",
        model=MODEL,
        messages=_TALK,
        stream=True,
        stream_options={"include_usage": True},
    ),
    "tgi-native": Way("tgi", "/tgi/generate_stream", {"inputs": "Hi", "parameters": {"details": True}}),
    "bedrock_invoke": _main("bedrock_invoke", f"/bedrock/model/anthropic.{MODEL}/{_INVOKE}", **_CLAUDE),
    "bedrock_invoke-titan": Way("bedrock_invoke", f"/bedrock/model/amazon.titan/{_INVOKE}", {"inputText": "Hi"}),
    "bedrock_invoke-binary": Way("bedrock_invoke", f"/model/anthropic.{MODEL}/{_INVOKE}", _CLAUDE),
}

BRIEF: Final = ("text", "one_tool", "error_inside", "cut")


def match_of(way: Way) -> Match:
    """The route that the server finds for it, the surface as the request means it."""
    path, _, query = way.path.partition("?")
    dialect = dialect_of(way)
    found = Routes([dialect]).find("POST", path, [])
    assert isinstance(found, Match), way.path
    surface, route = found.surface, found.route
    if dialect.variant is not None:
        surface = dialect.variant(surface, route, dict(parse_qsl(query)), {})
    if dialect.reroute is not None:
        route = dialect.reroute(route, body_of(way), found.model)
    return msgspec.structs.replace(found, surface=surface, route=route)


def body_of(way: Way) -> bytes:
    return json.dumps(way.body).encode()


def answer_of(way: Way) -> Answer:
    """What the encoder knows of the call."""
    match = match_of(way)
    request = match.dialect.parse_request(body_of(way), match.route, match.model)
    return Answer(
        id="0196fa2b3c4d",
        model=request.model,
        created_ns=1_764_400_001_000_000_000,
        surface=match.surface,
        kind=match.route.kind,
        request=request,
        total_ns=1_500_000_000,
        input_estimate=11,
    )


def dialect_of(way: Way) -> Dialect:
    return discover()[way.dialect]

"""Where a path leads: the table made from the dialects, on raw paths."""

from __future__ import annotations

import pytest

from rivermouth.dialects import discover
from rivermouth.dialects.dialect import Operation
from rivermouth.http.headers import Header
from rivermouth.http.routes import Match, NoRoute, Routes
from tests.in_turn import in_turn

ROUTES = Routes(discover().values())
ANTHROPIC: list[Header] = [(b"anthropic-version", b"2023-06-01")]


def found(method: str, path: str, headers: list[Header] | None = None) -> Match:
    match = ROUTES.find(method, path, headers or [])
    assert isinstance(match, Match), match
    return match


def nothing(method: str, path: str, headers: list[Header] | None = None) -> NoRoute:
    missing = ROUTES.find(method, path, headers or [])
    assert isinstance(missing, NoRoute), missing
    return missing


EVERY = [
    (dialect, surface, route)
    for dialect in discover().values()
    for surface in dialect.surfaces
    for route in {(r.method, r.path, r.when_header): r for r in reversed(dialect.routes)}.values()
    if route.path not in surface.lacks
]
"""A path that does two things is found as the first of its routes; the body tells the other (`Dialect.reroute`)."""


@in_turn(("dialect", "surface", "route"), EVERY)
def test_every_route_of_every_dialect_is_found_at_its_place(dialect, surface, route) -> None:  # type: ignore[no-untyped-def]
    path = surface.prefix + route.path.replace("{model}", "some/model:tag").replace("{id}", "some/model:tag")
    headers = [(route.when_header.encode(), b"1")] if route.when_header else []
    match = found(route.method, path, headers)
    assert (match.dialect.name, match.surface, match.route) == (dialect.name, surface, route)
    assert match.model == ("some/model:tag" if "{" in route.path else None)


def test_what_a_surface_lacks_is_a_route_of_its_dialect_and_not_there() -> None:
    for dialect in discover().values():
        for surface in dialect.surfaces:
            assert surface.lacks <= {route.path for route in dialect.routes}
            for path in surface.lacks:
                where = surface.prefix + path.replace("{model}", "m")
                assert isinstance(ROUTES.find("POST", where, []), NoRoute)


@pytest.mark.parametrize(
    ("path", "model"),
    [
        ("/v1/models/gpt-x", "gpt-x"),
        ("/v1/models/lab/gpt-x", "lab/gpt-x"),
        ("/v1/models/lab%2Fgpt-x", "lab/gpt-x"),
        ("/v1/models/smollm2:135m", "smollm2:135m"),
        ("/v1/models/smollm2%3A135m", "smollm2:135m"),
        ("/v1/models/a%20b", "a b"),
        ("/v1/models/d%C3%A9j%C3%A0", "déjà"),
        ("/v1/models/100%25", "100%"),
        ("/v1/models/%2E%2E%2Fetc", "../etc"),
        ("/openai/v1/models/x/", "x"),
    ],
)
def test_a_models_name_in_a_path_is_decoded_once(path: str, model: str) -> None:
    assert found("GET", path).model == model


def test_the_same_path_belongs_to_whom_the_header_names() -> None:
    assert found("GET", "/v1/models").dialect.name == "openai_chat"
    assert found("GET", "/v1/models", ANTHROPIC).dialect.name == "anthropic"
    assert found("GET", "/v1/models/x", ANTHROPIC).dialect.name == "anthropic"
    assert found("POST", "/v1/messages").dialect.name == "anthropic"
    for doubled in ("/anthropic/v1", "/v1/v1", "/anthropic/v1/v1"):  # the SDK appends its own /v1
        assert found("GET", f"{doubled}/models").dialect.name == "anthropic"


@pytest.mark.parametrize("path", ["/v1/chat/completions/", "/v1/chat/completions//"])
def test_a_slash_at_the_end_does_not_count(path: str) -> None:
    assert found("POST", path).route.operation is Operation.GENERATE


@pytest.mark.parametrize(
    ("method", "path", "allowed", "dialect"),
    [
        ("GET", "/v1/chat/completions", ("POST",), "openai_chat"),
        ("PATCH", "/v1/models", ("GET",), "openai_chat"),
        ("HEAD", "/v1/models", ("GET",), "openai_chat"),
        ("DELETE", "/v1/messages", ("POST",), "anthropic"),
        ("GET", "/api/chat", ("POST",), "ollama"),
    ],
)
def test_another_method_is_told_which_are_taken(method: str, path: str, allowed: tuple[str, ...], dialect: str) -> None:
    missing = nothing(method, path)
    assert (missing.allowed, missing.dialect.name) == (allowed, dialect)


@pytest.mark.parametrize(
    ("path", "headers", "dialect", "served"),
    [
        ("/v1/audio/speech", [], "openai_chat", "POST /v1/chat/completions"),
        ("/v1/files", ANTHROPIC, "anthropic", "POST /v1/messages"),
        ("/openai/v1/batches", [], "openai_chat", "POST /openai/v1/chat/completions"),
        ("/anthropic/v1/files", [], "anthropic", "POST /anthropic/v1/messages"),
        ("/api/blobs/x", [], "ollama", "POST /api/chat"),
        ("/ollama/api/nothing", [], "ollama", "POST /ollama/api/generate"),
        ("/v1beta/models/x:explain", [], "gemini", "POST /v1beta/models/{model}:generateContent"),
        ("/gemini/v1/models/x", [], "gemini", "POST /gemini/v1/models/{model}:embedContent"),
        ("/gemini/models/x:predict", [], "gemini", "GET /gemini/models"),
        ("/cohere/v1/rerank", [], "cohere_v1", "POST /cohere/v1/chat"),
        ("/cohere/v2/rerank", [], "cohere_v2", "POST /cohere/v2/chat"),
        ("/cohere/chat", [], "cohere_v2", "POST /cohere/v2/chat"),
    ],
)
def test_what_is_not_served_is_told_in_whose_place_it_is_and_what_is(
    path: str, headers: list[Header], dialect: str, served: str
) -> None:
    missing = nothing("POST", path, headers)
    assert (missing.dialect.name, missing.allowed) == (dialect, ())
    assert served in missing.served
    assert len(set(missing.served)) == len(missing.served)


def test_the_sentence_about_base_urls_names_every_prefix() -> None:
    assert ROUTES.bases == (
        "Base URLs end in /v1 or /openai/v1 for OpenAI clients, in the port for Anthropic and Ollama ones, "
        "and in /bedrock, /cohere, /gemini, /tgi for those of that name."
    )


@pytest.mark.parametrize("path", ["/", "/health", "/metrics", "/schema", "/v1", "/v2/chat", "/apis/x", "/openai"])
def test_what_is_under_no_prefix_is_not_ours(path: str) -> None:
    assert not ROUTES.owns(path)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/anything", "/api/", "/openai/v1/x", "/anthropic/v1/y"])
def test_what_is_under_a_prefix_is(path: str) -> None:
    assert ROUTES.owns(path)

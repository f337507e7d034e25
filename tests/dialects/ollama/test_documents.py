from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from rivermouth.dialects.dialect import Operation
from rivermouth.dialects.ollama import DIALECT
from rivermouth.dialects.ollama.documents import (
    CopyRequest,
    encode_model,
    encode_models,
    encode_version,
    parse_copy,
    parse_models,
    parse_named,
)
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.reply import ModelInfo
from tests.dialects.ollama.case import answer, route

LOCAL = ModelInfo(
    id="smollm2:135m",
    owner="local",
    created=1_700_000_000,
    size_bytes=145_000_000,
    digest="sha256:" + "ab" * 32,
    family="llama",
    parameters="134.52M",
    quantization="Q8_0",
    format="gguf",
    context_tokens=8192,
    capabilities=("completion", "tools"),
    license="Apache-2.0",
    template="{{ .Prompt }}",
    expires_at=1_700_000_300.5,
)
REMOTE = ModelInfo(id="openai/gpt-x", owner="openai")
DETAILS = {
    "parent_model": "",
    "format": "gguf",
    "family": "llama",
    "families": ["llama"],
    "parameter_size": "134.52M",
    "quantization_level": "Q8_0",
}


def models(path: str, *infos: ModelInfo) -> list[dict[str, Any]]:
    return json.loads(encode_models(list(infos), route(path, "GET")))["models"]


@pytest.mark.parametrize(
    ("licence", "attribution", "told"),
    [
        ("Apache-2.0", "By somebody", "Apache-2.0\nBy somebody"),
        ("Apache-2.0", None, "Apache-2.0"),
        (None, "By somebody", "By somebody"),
        (None, None, None),
    ],
)
def test_the_licence_is_shown_with_whom_it_asks_to_name(
    licence: str | None, attribution: str | None, told: str | None
) -> None:
    model = msgspec.structs.replace(LOCAL, license=licence, attribution=attribution)
    assert json.loads(encode_model(model, route("/show"))).get("license") == told


def test_tags() -> None:
    local, remote = models("/tags", LOCAL, REMOTE)
    assert local == {
        "name": "smollm2:135m",
        "model": "smollm2:135m",
        "modified_at": "2023-11-14T22:13:20Z",
        "size": 145_000_000,
        "digest": "ab" * 32,
        "details": DETAILS,
        "capabilities": ["completion", "tools"],
    }
    assert (remote["size"], remote["modified_at"], len(remote["digest"])) == (0, "0001-01-01T00:00:00Z", 64)
    assert models("/tags") == []


def test_ps() -> None:
    local, forever = models("/ps", LOCAL, REMOTE)
    assert (local["expires_at"], local["size_vram"], local["context_length"]) == ("2023-11-14T22:18:20Z", 0, 8192)
    assert local["details"] == DETAILS
    assert forever["expires_at"] == "9999-12-31T23:59:59Z"


def test_show() -> None:
    shown = json.loads(encode_model(LOCAL, route("/show")))
    assert shown["model_info"] == {
        "general.architecture": "llama",
        "general.parameter_count": 134_520_000,
        "llama.context_length": 8192,
    }
    assert (shown["license"], shown["template"], shown["parameters"]) == ("Apache-2.0", "{{ .Prompt }}", "")
    assert shown["modelfile"] == 'FROM smollm2:135m\nTEMPLATE """{{ .Prompt }}"""\n'
    assert (shown["details"], shown["capabilities"]) == (DETAILS, ["completion", "tools"])
    assert json.loads(encode_model(REMOTE, route("/show")))["model_info"] == {}


def test_version() -> None:
    assert json.loads(encode_version("0.30.1", answer())) == {"version": "0.30.1"}


def test_an_upstreams_tags_come_back() -> None:
    (back,) = parse_models(encode_models([LOCAL], route("/tags", "GET")))
    same = ("id", "created", "size_bytes", "family", "parameters", "quantization", "format", "capabilities")
    assert [getattr(back, f) for f in same] == [getattr(LOCAL, f) for f in same]
    assert back.digest == "ab" * 32


def test_lean_and_failed_tags() -> None:
    assert [m.id for m in parse_models(b'{"models":[{"name":"a"},{"model":"b","details":{}},{}]}')] == ["a", "b"]
    assert parse_models(b'{"models":null}') == []
    with pytest.raises(ApiError):
        parse_models(b'{"error":"no"}')


def test_bodies() -> None:
    assert parse_copy(b'{"source":"a","destination":"b"}') == CopyRequest("a", "b")
    assert parse_named(b'{"model":"a","verbose":true}') == parse_named(b'{"name":"a"}') == "a"


@pytest.mark.promise(78)
@pytest.mark.parametrize(
    ("operation", "body", "param"),
    [
        (Operation.COPY, b"{}", "source"),
        (Operation.COPY, b'{"source":"a"}', "destination"),
        (Operation.COPY, b'{"source":"a","destination":"b","stream":true}', "stream"),
        (Operation.MODEL, b"{}", "model"),
        (Operation.MODEL, b'{"model":"a","stream":true}', "stream"),
        (Operation.DELETE, b'{"model":1}', "model"),
        (Operation.PULL, b"{}", "model"),
        (Operation.PULL, b'{"model":"m","insecure":"no"}', "insecure"),
        (Operation.PULL, b"nonsense", None),
    ],
)
def test_bad_bodies_are_named(operation: Operation, body: bytes, param: str | None) -> None:
    with pytest.raises(ApiError) as caught:
        DIALECT.bodies[operation](body)
    assert (caught.value.kind, caught.value.param) == (Kind.INVALID_REQUEST, param)


@pytest.mark.promise(14, 145)
def test_the_surfaces_differ_in_the_media_type_alone() -> None:
    assert {s.prefix: s.stream_type for s in DIALECT.surfaces} == {
        "/api": "application/x-ndjson",
        "/ollama/api": "application/json",
    }
    assert {r.path for r in DIALECT.routes if r.streams} == {"/generate", "/chat", "/pull"}
    assert DIALECT.keep_alive is None


def test_auth() -> None:
    assert DIALECT.auth("k") == {"Authorization": "Bearer k"}
    assert DIALECT.auth("") == {}

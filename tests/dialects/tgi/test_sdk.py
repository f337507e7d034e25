"""What the vendor's own client makes of our bytes, over a loopback socket."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import huggingface_hub as hub
import pytest
from huggingface_hub import errors as raised_by

from rivermouth.dialects.tgi import DIALECT
from rivermouth.http.keys import Keys
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.events import ArgsDelta, Error, Event, Finish, PartEnd, PartKind, PartStart, Reason, Start, Usage
from rivermouth.ir.request import Format
from tests.dialects.loopback import Loopback, loopback
from tests.dialects.tgi.case import HELLO

TEXT = "Hello \u2028😀"
CALLS: list[Event] = [
    Start(),
    PartStart(0, PartKind.TOOL, id="call_1", name="weather"),
    ArgsDelta(0, '{"city":'),
    ArgsDelta(0, '"Köln"}'),
    PartEnd(0),
    PartStart(1, PartKind.TOOL, id="call_2", name="time"),
    ArgsDelta(1, "{}"),
    PartEnd(1),
    Usage(12, 5),
    Finish(Reason.TOOL_CALLS),
]
ASK: Any = [{"role": "user", "content": "Hi"}]
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}}}


@pytest.fixture(autouse=True)
def no_telemetry(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client would ask its hub which coding agents there are, to name one in its user agent."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_TELEMETRY", True)


@pytest.fixture
def server() -> Iterator[Loopback]:
    with loopback(DIALECT, lambda request: HELLO) as served:
        yield served
    hub.close_session()


@pytest.fixture
def client(server: Loopback) -> Iterator[hub.InferenceClient]:
    """It must outlive its streams: its end closes them."""
    with hub.InferenceClient(base_url=server.url + "/tgi", api_key="k-1", timeout=10) as made:
        yield made


class TestText:
    @pytest.mark.promise(163, 164)
    def test_a_stream_of_text(self, server: Loopback, client: hub.InferenceClient) -> None:
        assert list(client.text_generation("Hi", stream=True)) == ["Hel", "lo \u2028😀", ""]
        assert server.requests[0].model == "tgi"

    @pytest.mark.promise(165)
    def test_a_stream_with_details(self, client: hub.InferenceClient) -> None:
        got = list(client.text_generation("Hi", stream=True, details=True))
        assert [f.index for f in got] == [1, 2, 3]
        last = got[-1]
        assert (last.token.id, last.token.text, last.token.special) == (0, "", True)
        assert last.generated_text == TEXT
        assert last.details is not None
        assert (last.details.finish_reason, last.details.generated_tokens) == ("eos_token", 2)

    def test_a_reply(self, server: Loopback, client: hub.InferenceClient) -> None:
        assert client.text_generation("Hi", max_new_tokens=5, seed=7, stop=["END"]) == TEXT
        (request,) = server.requests
        assert (request.max_tokens, request.stop, request.sampling.seed) == (5, ("END",), 7)

    def test_a_reply_with_details(self, client: hub.InferenceClient) -> None:
        got = client.text_generation("Hi", details=True)
        assert got.generated_text == TEXT
        assert got.details is not None
        assert (got.details.finish_reason, got.details.generated_tokens) == ("eos_token", 2)

    @pytest.mark.parametrize("path", ["/generate", "/generate_stream"])
    def test_the_routes_by_their_own_names(self, server: Loopback, path: str) -> None:
        native = hub.InferenceClient(model=f"{server.url}/tgi{path}", timeout=10)
        if path == "/generate":
            assert native.text_generation("Hi") == TEXT
        else:
            assert "".join(native.text_generation("Hi", stream=True)) == TEXT

    def test_a_stream_that_is_left_early_is_no_trouble(self, client: hub.InferenceClient) -> None:
        stream = client.text_generation("Hi", stream=True)
        assert next(iter(stream)) == "Hel"
        stream.close()  # type: ignore[attr-defined]

    @pytest.mark.fault("F15")
    @pytest.mark.parametrize(
        ("kind", "raises"),
        [
            (Kind.INVALID_REQUEST, raised_by.ValidationError),
            (Kind.RATE_LIMITED, raised_by.OverloadedError),
            (Kind.OVERLOADED, raised_by.OverloadedError),
            (Kind.UPSTREAM, raised_by.GenerationError),
            (Kind.TRUNCATED, raised_by.IncompleteGenerationError),
            (Kind.NOT_FOUND, raised_by.UnknownError),
        ],
    )
    def test_errors_are_the_sdks_own_before_and_in_the_stream(
        self, server: Loopback, client: hub.InferenceClient, kind: Kind, raises: type[Exception]
    ) -> None:
        server.say = lambda request: ApiError(kind, "not today")
        for stream in (True, False):
            with pytest.raises(raises, match="not today"):
                list(client.text_generation("Hi", stream=stream))
        server.say = lambda request: [*HELLO[:3], Error(ApiError(kind, "it broke"))]
        with pytest.raises(raises, match="it broke"):
            list(client.text_generation("Hi", stream=True))


class TestChat:
    def test_a_stream(self, server: Loopback, client: hub.InferenceClient) -> None:
        options: Any = {"include_usage": True}
        got = list(client.chat_completion(ASK, stream=True, stream_options=options))
        assert "".join(c.choices[0].delta.content or "" for c in got if c.choices) == TEXT
        assert [c.choices[0].finish_reason for c in got if c.choices][-1] == "stop"
        assert got[-1].usage is not None
        assert (got[-1].usage.prompt_tokens, got[-1].usage.completion_tokens) == (3, 2)
        assert server.requests[0].model == "dummy"

    def test_a_reply_with_calls(self, server: Loopback, client: hub.InferenceClient) -> None:
        server.say = lambda request: CALLS
        tools: Any = [{"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}]
        got = client.chat_completion(ASK, tools=tools, tool_choice="required", max_tokens=9)
        message = got.choices[0].message
        assert [(c.id, c.function.name) for c in message.tool_calls or ()] == [
            ("call_1", "weather"),
            ("call_2", "time"),
        ]
        assert got.choices[0].finish_reason == "tool_calls"
        assert [t.name for t in server.requests[0].tools] == ["weather"]

    def test_a_stream_with_calls(self, server: Loopback, client: hub.InferenceClient) -> None:
        server.say = lambda request: CALLS
        got = list(client.chat_completion(ASK, stream=True))
        pieces = [c for chunk in got for c in chunk.choices[0].delta.tool_calls or []]
        arguments = "".join(p.function.arguments for p in pieces if p.index == 0)
        assert arguments == '{"city":"Köln"}'

    def test_a_schema_arrives(self, server: Loopback, client: hub.InferenceClient) -> None:
        schema: Any = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}
        client.chat_completion(ASK, response_format=schema)
        wanted = server.requests[0].response_format
        assert wanted is not None
        assert (wanted.kind, wanted.schema) == (Format.JSON_SCHEMA, SCHEMA)

    @pytest.mark.fault("F15")
    @pytest.mark.parametrize("kind", [Kind.INVALID_REQUEST, Kind.NOT_FOUND, Kind.RATE_LIMITED, Kind.AUTHENTICATION])
    def test_errors_before_the_stream_are_http_errors(
        self, server: Loopback, client: hub.InferenceClient, kind: Kind
    ) -> None:
        server.say = lambda request: ApiError(kind, "not today")
        with pytest.raises(raised_by.HfHubHTTPError) as raised:
            client.chat_completion(ASK)
        assert raised.value.response.status_code == DIALECT.encode_error(ApiError(kind, "x"), "c").status

    @pytest.mark.fault("F14")
    def test_an_error_in_the_stream_raises(self, server: Loopback, client: hub.InferenceClient) -> None:
        server.say = lambda request: [*HELLO[:3], Error(ApiError(Kind.OVERLOADED, "busy"))]
        with pytest.raises(raised_by.OverloadedError, match="busy"):
            list(client.chat_completion(ASK, stream=True))


class TestServer:
    def test_info_and_health(self, server: Loopback) -> None:
        asking = hub.InferenceClient(provider="hf-inference", timeout=10)
        info = asking.get_endpoint_info(model=server.url + "/tgi")
        assert (info["model_id"], info["max_total_tokens"], info["version"]) == ("lab/x", 4096, "1.0")
        assert asking.health_check(model=server.url + "/tgi") is True

    def test_the_key_is_where_the_dialect_looks(self, server: Loopback, client: hub.InferenceClient) -> None:
        client.text_generation("Hi")
        headers = [(n.encode(), v.encode()) for n, v in server.headers[0].items()]
        assert Keys(["k-1"], (), DIALECT.keys).caller(headers, b"") is not None

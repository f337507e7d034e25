"""Tools, thoughts and forced answers of local models as clients see them: the vendors' SDKs, over sockets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import anthropic
import httpx
import ollama
import openai
import pytest

from rivermouth.local.models.registry import Registry
from rivermouth.store.port import Status
from tests.local.asking import install
from tests.local.test_generation import MODELS, OSLO
from tests.running import START_S, running
from tests.sdk.served import Served
from tests.tiny_gguf import build, cut

pytestmark = pytest.mark.timeout(START_S + 60)

CONFIG: Final = "[resilience]\nretries = 0\n[local]\nmax_models = 5\n"
SERVED: Final = ("hermes", "mistral", "llama3", "opens", "forced")
ASK: Final[list[dict[str, Any]]] = [{"role": "user", "content": "Hi"}]
SCHEMA: Final = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FUNCTION: Final[dict[str, Any]] = {"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}
CLOCK: Final[dict[str, Any]] = {"type": "function", "function": {"name": "time"}}
CLAUDE_TOOL: Final[dict[str, Any]] = {"name": "weather", "input_schema": SCHEMA}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("generates")
    registry = Registry(folder / "data" / "models")
    for name in SERVED:
        says, marks, template = MODELS[name]
        install(registry, name, build(folder / f"{name}.gguf", cut(says, marks), marks=marks, template=template))
    with running(folder, CONFIG, scripted=False) as started:
        seen = Served(started)
        yield seen
        seen.dispose()


@pytest.fixture(scope="module")
def openai_sdk(server: Served) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="any", max_retries=0) as sdk:
        yield sdk


@pytest.fixture(scope="module")
def ollama_sdk(server: Served) -> Iterator[ollama.Client]:
    with ollama.Client(host=server.url) as sdk:
        yield sdk


@pytest.fixture(scope="module")
def claude_sdk(server: Served) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=f"{server.url}/anthropic", api_key="any", max_retries=0) as sdk:
        yield sdk


@pytest.mark.promise(10, 49)
@pytest.mark.parametrize("model", ["hermes", "mistral", "llama3"])
def test_openai_calls_and_goes_on_with_the_result(openai_sdk: openai.OpenAI, model: str, server: Served) -> None:
    create: Any = openai_sdk.chat.completions.create
    with openai_sdk.chat.completions.stream(model=model, messages=ASK, tools=[FUNCTION, CLOCK]) as stream:  # type: ignore[arg-type, list-item]
        names = [event.type for event in stream]
        choice = stream.get_final_completion().choices[0]
    assert "tool_calls.function.arguments.delta" in names
    assert choice.finish_reason == "tool_calls"
    calls = choice.message.tool_calls
    assert calls
    assert (calls[0].function.name, calls[0].function.arguments) == ("weather", OSLO)
    assert server.last_record().status is Status.COMPLETED
    said = choice.message.model_dump(exclude_none=True, include={"role", "content", "tool_calls"})
    results = [{"role": "tool", "tool_call_id": call.id, "content": "warm"} for call in calls]
    again = create(model=model, messages=[*ASK, said, *results], tools=[FUNCTION, CLOCK])
    assert again.choices[0].finish_reason == "tool_calls"  # it knows nothing else to say
    assert [call.id for call in again.choices[0].message.tool_calls] != [call.id for call in calls]
    plain = create(model=model, messages=ASK)
    assert plain.choices[0].finish_reason == "stop"
    assert plain.choices[0].message.tool_calls is None


def test_openai_forces_a_call(openai_sdk: openai.OpenAI) -> None:
    create: Any = openai_sdk.chat.completions.create
    for choice in ("required", {"type": "function", "function": {"name": "weather"}}):
        reply = create(model="forced", messages=ASK, tools=[FUNCTION, CLOCK], tool_choice=choice).choices[0]
        (call,) = reply.message.tool_calls
        assert (reply.finish_reason, reply.message.content) == ("tool_calls", None)
        assert json.loads(call.function.arguments) == {"city": "Oslo"}
    none = create(model="hermes", messages=ASK, tools=[FUNCTION], tool_choice="none").choices[0]
    assert (none.finish_reason, none.message.tool_calls) == ("stop", None)


def test_openai_sees_thoughts_apart(openai_sdk: openai.OpenAI) -> None:
    create: Any = openai_sdk.chat.completions.create
    reply = create(model="opens", messages=ASK)
    assert reply.choices[0].message.content == "Hello!"
    assert reply.choices[0].message.reasoning_content == "Greet back."
    details = reply.usage.completion_tokens_details
    assert 0 < details.reasoning_tokens < reply.usage.completion_tokens


@pytest.mark.promise(17)
def test_openai_json_that_is_cut_says_so(openai_sdk: openai.OpenAI) -> None:
    create: Any = openai_sdk.chat.completions.create
    whole = create(model="forced", messages=ASK, response_format={"type": "json_object"})
    assert json.loads(whole.choices[0].message.content) == {"name": "weather", "arguments": {"city": "Oslo"}}
    cut_off = create(model="forced", messages=ASK, response_format={"type": "json_object"}, max_tokens=4)
    assert cut_off.choices[0].finish_reason == "length"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"n": 2}, "n"),
        ({"tools": [FUNCTION], "tool_choice": {"type": "function", "function": {"name": "other"}}}, "tool_choice"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "nonsense"}}}},
            "response_format",
        ),
        ({"stop": ["x" * 2000]}, "stop"),
    ],
)
def test_openai_is_refused_with_the_field(openai_sdk: openai.OpenAI, fields: dict[str, Any], param: str) -> None:
    create: Any = openai_sdk.chat.completions.create
    with pytest.raises(openai.BadRequestError) as refused:
        create(model="hermes", messages=ASK, **fields)
    assert refused.value.param == param


def test_ollama_calls_and_goes_on_with_the_result(ollama_sdk: ollama.Client) -> None:
    chat: Any = ollama_sdk.chat
    frames = list(chat(model="hermes", messages=ASK, tools=[FUNCTION, CLOCK], stream=True))
    calls = [call for frame in frames for call in frame.message.tool_calls or ()]
    assert [(call.function.name, call.function.arguments) for call in calls] == [("weather", {"city": "Oslo"})]
    assert "".join(frame.message.content for frame in frames) == "Let me see."
    assert (frames[-1].done, frames[-1].done_reason) == (True, "stop")
    said = {"role": "assistant", "content": "", "tool_calls": [calls[0].model_dump()]}
    result = {"role": "tool", "tool_name": "weather", "content": "warm"}
    again = chat(model="hermes", messages=[*ASK, said, result], tools=[FUNCTION, CLOCK])
    assert again.message.tool_calls
    assert again.prompt_eval_count > frames[-1].prompt_eval_count
    assert all(getattr(again, f"{of}_duration") for of in ("total", "eval", "prompt_eval"))


def test_ollama_thinks_or_does_not(ollama_sdk: ollama.Client) -> None:
    chat: Any = ollama_sdk.chat
    thought = chat(model="opens", messages=ASK, think=True)
    assert (thought.message.thinking, thought.message.content) == ("Greet back.", "Hello!")
    quiet = chat(model="opens", messages=ASK, think=False)
    assert quiet.message.thinking is None
    assert quiet.prompt_eval_count > thought.prompt_eval_count
    assert set(ollama_sdk.show("opens").capabilities or ()) == {"completion", "thinking"}
    assert set(ollama_sdk.show("hermes").capabilities or ()) == {"completion", "tools"}


def test_ollama_options_that_nobody_can_meet_are_named(server: Served) -> None:
    options = {"mirostat": 2, "repeat_last_n": 5, "tfs_z": 0.5, "num_keep": 3, "num_predict": 2}
    body = {"model": "hermes", "messages": ASK, "options": options, "stream": False}
    answer = httpx.post(f"{server.url}/api/chat", json=body)
    assert answer.json()["done_reason"] == "length"
    named = answer.headers["x-rivermouth-ignored"].split(", ")
    assert sorted(named) == ["options.mirostat", "options.num_keep", "options.repeat_last_n", "options.tfs_z"]


def test_anthropic_calls_and_goes_on_with_the_result(claude_sdk: anthropic.Anthropic) -> None:
    create: Any = claude_sdk.messages.create
    with claude_sdk.messages.stream(model="hermes", max_tokens=200, messages=ASK, tools=[CLAUDE_TOOL]) as stream:  # type: ignore[arg-type, list-item]
        reply = stream.get_final_message()
    assert reply.stop_reason == "tool_use"
    text, call = reply.content
    assert text.type == "text"
    assert text.text == "Let me see."
    assert call.type == "tool_use"
    assert (call.name, call.input) == ("weather", {"city": "Oslo"})
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "warm"}]}
    said = {"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in reply.content]}
    again = create(model="hermes", max_tokens=200, messages=[*ASK, said, result], tools=[CLAUDE_TOOL])
    assert again.stop_reason == "tool_use"
    assert again.usage.input_tokens > reply.usage.input_tokens


def test_anthropic_forces_a_call(claude_sdk: anthropic.Anthropic) -> None:
    create: Any = claude_sdk.messages.create
    for choice in ({"type": "any"}, {"type": "tool", "name": "weather"}):
        reply = create(model="forced", max_tokens=200, messages=ASK, tools=[CLAUDE_TOOL], tool_choice=choice)
        (call,) = reply.content
        assert (reply.stop_reason, call.type, call.input) == ("tool_use", "tool_use", {"city": "Oslo"})


def test_anthropic_sees_thoughts_apart(claude_sdk: anthropic.Anthropic) -> None:
    create: Any = claude_sdk.messages.create
    reply = create(model="opens", max_tokens=200, messages=ASK)
    thought, text = reply.content
    assert (thought.type, thought.thinking) == ("thinking", "Greet back.")
    assert (text.type, text.text) == ("text", "Hello!")

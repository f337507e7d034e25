"""The vendors' own SDKs over a wire that is cut every few hundred bytes: with `resuming` they do not notice."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, Final

import anthropic
import httpx
import httpx2
import openai
import pytest

import rivermouth
from rivermouth.store.port import Status
from tests.engine.lab import Lab, lab
from tests.engine.words import PLAIN
from tests.promises import DOCS, ROOT
from tests.resume.scissors import Scissors
from tests.sdk import node

pytestmark = pytest.mark.anyio

TEXT: Final = "Where the river meets the sea, what it carried becomes the shore. \u2028 caf\u00e9 \U0001f600"
WORDS: Final = " ".join(TEXT.split())
"""As the scripted model says it again."""
TALK: Final[list[Any]] = [{"role": "user", "content": TEXT}]
TOOL: Final[dict[str, Any]] = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
SEEDS: Final = range(10 if os.environ.get("RIVERMOUTH_THOROUGH") else 1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with lab(tmp_path_factory.mktemp("client"), PLAIN) as server:
        yield server


def said_to_openai(client: openai.OpenAI, **more: Any) -> tuple[str, str | None, Any]:
    with client.chat.completions.create(
        model="scripted/scripted", messages=TALK, stream=True, stream_options={"include_usage": True}, **more
    ) as stream:
        chunks = list(stream)
    choices = [choice for chunk in chunks for choice in chunk.choices]
    calls = [call for choice in choices for call in choice.delta.tool_calls or ()]
    text = "".join(choice.delta.content or "" for choice in choices)
    text += "".join(call.function.arguments or "" for call in calls if call.function is not None)
    return text, choices[-1].finish_reason, chunks[-1].usage


async def said_to_openai_async(client: openai.AsyncOpenAI) -> str:
    stream = await client.chat.completions.create(model="scripted/scripted", messages=TALK, stream=True)
    return "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("package", [httpx, httpx2], ids=["httpx", "httpx2"])
def test_openai(server: Lab, package: Any, seed: int) -> None:
    plain = openai.OpenAI(base_url=f"{server.url}/v1", api_key="any", max_retries=0)
    tools: list[Any] = [{"type": "function", "function": {"name": "weather", "parameters": TOOL}}]
    with (
        Scissors(server.port, seed) as wire,
        package.Client(transport=rivermouth.resuming(package.HTTPTransport())) as http,
    ):
        client = openai.OpenAI(base_url=f"{wire.url}/v1", api_key="any", max_retries=0, http_client=http)
        assert said_to_openai(client) == said_to_openai(plain)
        assert said_to_openai(client, tools=tools) == said_to_openai(plain, tools=tools)
        assert wire.cuts > 4
    plain.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_anthropic(server: Lab, seed: int) -> None:
    asked: dict[str, Any] = {"model": "scripted/scripted-think", "messages": TALK, "max_tokens": 4000}
    with (
        anthropic.Anthropic(base_url=server.url, api_key="any", max_retries=0) as plain,
        plain.messages.stream(**asked) as stream,
    ):
        whole = stream.get_final_message()
    http = httpx2.Client(transport=rivermouth.resuming(httpx2.HTTPTransport()))
    with Scissors(server.port, seed) as wire, http:
        client = anthropic.Anthropic(base_url=wire.url, api_key="any", max_retries=0, http_client=http)
        with client.messages.stream(**asked) as stream:
            again = stream.get_final_message()
        assert wire.cuts > 4
    assert (again.content, again.usage, again.stop_reason) == (whole.content, whole.usage, whole.stop_reason)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("package", [httpx, httpx2], ids=["httpx", "httpx2"])
async def test_openai_async(server: Lab, package: Any, seed: int) -> None:
    with Scissors(server.port, seed) as wire:
        async with package.AsyncClient(transport=rivermouth.resuming(package.AsyncHTTPTransport())) as http:
            client = openai.AsyncOpenAI(base_url=f"{wire.url}/v1", api_key="any", max_retries=0, http_client=http)
            assert WORDS in await said_to_openai_async(client)
        assert wire.cuts > 4


@pytest.mark.parametrize("seed", SEEDS)
async def test_anthropic_async(server: Lab, seed: int) -> None:
    with Scissors(server.port, seed) as wire:
        async with httpx2.AsyncClient(transport=rivermouth.resuming(httpx2.AsyncHTTPTransport())) as http:
            client = anthropic.AsyncAnthropic(base_url=wire.url, api_key="any", max_retries=0, http_client=http)
            asked: dict[str, Any] = {"model": "scripted/scripted", "messages": TALK, "max_tokens": 4000}
            async with client.messages.stream(**asked) as stream:
                assert WORDS in await stream.get_final_text()
        assert wire.cuts > 4


def shown(language: str) -> str:
    """The example of that language in the page."""
    page = (DOCS / "resume.md").read_text(encoding="utf-8")
    return page.partition(f"```{language}\n")[2].partition("```")[0]


def test_the_example_for_python(server: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    with Scissors(server.port, 5) as wire:
        code = shown("python").replace("http://127.0.0.1:8080", wire.url).replace('"scripted"', '"scripted/scripted"')
        inside: dict[str, Any] = {}
        exec(code, inside)
        inside["http"].close()
        assert wire.cuts > 4
    assert "Tell me of the river." in capsys.readouterr().out


@pytest.fixture(scope="module")
def seen(server: Lab) -> dict[str, Any]:
    try:
        node.install(node.IN_A_TEST_S)
    except node.NoPackages as error:
        pytest.fail(str(error), pytrace=False)
    with Scissors(server.port, 1) as wire:
        seen = node.run("resuming.mjs", wire.url, server.url)
        assert wire.cuts > 10
    return seen


class TestJs:
    """The same of `clients/js/resuming.mjs`, with the SDKs for JavaScript."""

    @pytest.mark.parametrize("name", ["openai", "anthropic"])
    def test_streams_are_what_they_are_without_cuts(self, seen: dict[str, Any], name: str) -> None:
        plain, resumed = seen[name]
        assert resumed == plain

    async def test_who_leaves_early_has_its_call_cancelled(self, server: Lab, seen: dict[str, Any]) -> None:
        assert seen["aborted"]["ended"] is None
        record = await server.record(seen["left"])
        assert (record.status, record.cancelled_by) == (Status.CANCELLED, "request")
        await server.idle()
        assert [r.cancelled_by for r in server.records()].count("request") == 2

    @pytest.mark.parametrize("how", ["gone", "dead"])
    def test_a_rest_that_is_not_there_is_the_error_that_it_was(self, seen: dict[str, Any], how: str) -> None:
        assert seen[how] is not None

    def test_the_example_in_the_page(self, server: Lab, seen: dict[str, Any]) -> None:
        helper = (ROOT / "clients" / "js" / "resuming.mjs").as_uri()
        code = shown("js").replace("./resuming.mjs", helper).replace("'scripted'", "'scripted/scripted'")
        code = code.replace("http://127.0.0.1:8080", server.url)
        assert "Tell me of the river." in node.said(code)

"""AzureOpenAI against a running server, and a server whose providers are Azure's two ways of being asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import openai
import pytest

from rivermouth.store.port import Status
from tests.sdk.conftest import KEY, served
from tests.sdk.said import ARGUMENTS, CITY, echo
from tests.sdk.served import Served

VERSION = "2024-10-21"
HI: Any = [{"role": "user", "content": "Hi"}]
WEATHER: Any = {"type": "function", "function": {"name": "weather", "parameters": CITY, "strict": True}}


def azure(served: Served, key: str = "any", **how: Any) -> openai.AzureOpenAI:
    return openai.AzureOpenAI(azure_endpoint=served.url, api_key=key, api_version=VERSION, max_retries=0, **how)


def text_of(chunks: Any) -> str:
    return "".join(c.delta.content or "" for chunk in chunks for c in chunk.choices)


class TestClient:
    def test_the_deployment_is_the_model(self, back: Served) -> None:
        with azure(back) as sdk:
            reply = sdk.chat.completions.create(model="scripted", messages=HI)
            assert (reply.choices[0].message.content, reply.model) == (echo("Hi"), "scripted")
            chunks = list(sdk.chat.completions.create(model="scripted", messages=HI, stream=True))
            assert text_of(chunks) == echo("Hi")
            assert back.last_record().surface == "/openai"

    def test_a_deployment_of_the_client_wins_over_what_the_call_names(self, back: Served) -> None:
        with azure(back, azure_deployment="scripted") as sdk:
            reply = sdk.chat.completions.create(model="gpt-4o", messages=HI)
        assert reply.model == "scripted"

    def test_a_deployment_with_a_provider_before_it(self, back: Served) -> None:
        with azure(back) as sdk:
            assert sdk.chat.completions.create(model="parrot/any", messages=HI).choices[0].message.content == "Hi"

    def test_tools(self, back: Served) -> None:
        with azure(back) as sdk, sdk.chat.completions.stream(model="scripted", messages=HI, tools=[WEATHER]) as stream:
            (call,) = stream.get_final_completion().choices[0].message.tool_calls or []
        assert call.function.parsed_arguments == ARGUMENTS

    def test_embeddings_and_models(self, back: Served) -> None:
        with azure(back) as sdk:
            assert len(sdk.embeddings.create(model="scripted-embed", input=["a", "b"]).data) == 2
            assert "scripted" in {model.id for model in sdk.models.list()}

    @pytest.mark.parametrize("base", ["/openai/v1", "/v1"])
    def test_the_newer_api_is_the_other_vendors(self, back: Served, base: str) -> None:
        with openai.OpenAI(base_url=back.url + base, api_key="any", max_retries=0) as sdk:
            assert sdk.chat.completions.create(model="scripted", messages=HI).choices[0].message.content == echo("Hi")

    def test_keys(self, keyed: Served) -> None:
        """R16: it has a header of its own; a token of its directory is a bearer's."""
        with azure(keyed, KEY) as sdk:
            assert sdk.chat.completions.create(model="scripted", messages=HI).choices
        with azure(keyed, "wrong") as sdk, pytest.raises(openai.AuthenticationError):
            sdk.chat.completions.create(model="scripted", messages=HI)
        how: Any = {"azure_endpoint": keyed.url, "api_version": VERSION, "max_retries": 0}
        with openai.AzureOpenAI(azure_ad_token=KEY, **how) as sdk:
            assert sdk.chat.completions.create(model="scripted", messages=HI).choices

    @pytest.mark.fault("F15")
    def test_errors_have_its_shape(self, back: Served) -> None:
        with azure(back) as sdk:
            with pytest.raises(openai.NotFoundError, match="nobody"):
                sdk.chat.completions.create(model="nobody", messages=HI)
            with pytest.raises(openai.NotFoundError, match="unknown url"):
                sdk.audio.speech.create(model="scripted", voice="alloy", input="Hi")
            with pytest.raises(openai.APIError, match="fails after 5 tokens"):
                list(sdk.chat.completions.create(model="scripted-error", messages=HI, stream=True))

    @pytest.mark.anyio
    async def test_asynchronously(self, back: Served, anyio_backend: str) -> None:
        how: Any = {"azure_endpoint": back.url, "api_key": "any", "api_version": VERSION, "max_retries": 0}
        async with openai.AsyncAzureOpenAI(**how) as sdk:
            reply = await sdk.chat.completions.create(model="scripted", messages=HI)
            chunks = [c async for c in await sdk.chat.completions.create(model="scripted", messages=HI, stream=True)]
        assert reply.choices[0].message.content == text_of(chunks) == echo("Hi")

    @pytest.mark.fault("F31")
    def test_an_early_close_reaches_the_model(self, back: Served) -> None:
        with azure(back) as sdk, sdk.chat.completions.create(model="scripted-slow", messages=HI, stream=True) as chunks:
            next(iter(chunks))
        back.idle()
        assert (back.last_record().status, back.last_record().cancelled_by) == (Status.CANCELLED, "client")


@pytest.fixture(scope="module")
def between(tmp_path_factory: pytest.TempPathFactory, keyed: Served) -> Iterator[Served]:
    """A server whose Azure is `keyed`, which demands its key: by the preset, and in the older way."""
    config = f"""
[resilience]
retries = 0
[providers.azure]
[providers.older]
dialect = "openai_chat"
base_url = "{keyed.url}/openai"
api_key = "env:AZURE_OPENAI_API_KEY"
key_header = "api-key"
api_version = "{VERSION}"
"""
    env = {"AZURE_OPENAI_API_KEY": KEY, "AZURE_OPENAI_ENDPOINT": keyed.url}
    with served(tmp_path_factory.mktemp("azure"), config, scripted=False, env=env) as server:
        yield server


@pytest.mark.parametrize("provider", ["azure", "older"])
class TestUpstream:
    def test_chats_and_embeddings(self, between: Served, keyed: Served, provider: str) -> None:
        with openai.OpenAI(base_url=f"{between.url}/v1", api_key="any", max_retries=0) as sdk:
            model = f"{provider}/scripted"
            assert sdk.chat.completions.create(model=model, messages=HI).choices[0].message.content == echo("Hi")
            chunks = list(sdk.chat.completions.create(model=model, messages=HI, stream=True))
            assert text_of(chunks) == echo("Hi")
            assert len(sdk.embeddings.create(model=f"{model}-embed", input="a river").data) == 1
        assert keyed.last_record().surface == ("/openai/v1" if provider == "azure" else "/openai")

    @pytest.mark.fault("F15")
    def test_errors_are_its_own(self, between: Served, provider: str) -> None:
        with openai.OpenAI(base_url=f"{between.url}/v1", api_key="any", max_retries=0) as sdk:
            with pytest.raises(openai.NotFoundError, match="nobody"):
                sdk.chat.completions.create(model=f"{provider}/nobody", messages=HI)
            with pytest.raises(openai.APIError, match="fails after 5 tokens"):
                list(sdk.chat.completions.create(model=f"{provider}/scripted-error", messages=HI, stream=True))

    def test_it_is_not_asked_what_it_has(self, between: Served, provider: str) -> None:
        """Its list has names of models, and not of deployments."""
        with openai.OpenAI(base_url=f"{between.url}/v1", api_key="any", max_retries=0) as sdk:
            assert [model.id for model in sdk.models.list() if model.id.startswith(provider)] == []

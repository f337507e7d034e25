"""Kept responses as OpenAI's SDKs have them: stored, gone on from, in the background, listed, cut off by a kill."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import openai
import pytest

from rivermouth.store.port import CallRecord, Status
from tests.engine.lab import Lab, lab
from tests.promises import DOCS
from tests.running import running
from tests.sdk import node
from tests.sdk.conftest import UPSTREAMS, provider
from tests.sdk.said import echo
from tests.sdk.served import Served, until

pytestmark = pytest.mark.anyio

OVER = frozenset({"completed", "failed", "cancelled", "incomplete"})


@pytest.fixture(scope="module")
def keeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A server of its own: of what `back` knows of its scripted model, nothing may be kept."""
    with lab(tmp_path_factory.mktemp("keeper")) as server:
        yield server


@pytest.fixture(scope="module")
def through(tmp_path_factory: pytest.TempPathFactory, keeper: Lab) -> Iterator[Lab]:
    """A server whose models are those of `keeper`, by each dialect."""
    config = "".join(provider(f"via-{upstream}", upstream, keeper.url) for upstream in UPSTREAMS)
    with lab(tmp_path_factory.mktemp("through"), config, scripted=False) as server:
        yield server


@pytest.fixture(autouse=True)
def nothing_runs_on_here(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "keeper" in request.fixturenames:
        server = request.getfixturevalue("keeper")
        until(lambda: server.inflight() == 0, "no call runs")


def record(server: Lab, response_id: str) -> CallRecord:
    """The final record of the call behind it."""

    def final() -> CallRecord | None:
        found = [r for r in server.records() if f"resp_{r.id}" == response_id and r.status is not Status.OPEN]
        return found[0] if found else None

    return until(final, "the record is final")


@pytest.fixture(scope="module")
def sdk(keeper: Lab) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{keeper.url}/v1", api_key="any", max_retries=0) as sdk:
        yield sdk


def test_create_retrieve_delete(sdk: openai.OpenAI, keeper: Lab) -> None:
    made = sdk.responses.create(model="scripted", input="Hi", metadata={"a": "b"}, instructions="be kind")
    assert (made.output_text, made.status, made.to_dict()["store"]) == (echo("Hi"), "completed", True)
    assert sdk.responses.retrieve(made.id).to_dict() == made.to_dict()
    assert record(keeper, made.id).status is Status.COMPLETED
    sdk.responses.delete(made.id)
    for again in (sdk.responses.retrieve, sdk.responses.delete, sdk.responses.cancel, sdk.responses.input_items.list):
        with pytest.raises(openai.NotFoundError) as gone:
            again(made.id)
        assert gone.value.code == "response_not_found"
    with pytest.raises(openai.BadRequestError) as refused:
        sdk.responses.create(model="scripted", input="Hi", previous_response_id=made.id)
    assert (refused.value.param, refused.value.code) == ("previous_response_id", "previous_response_not_found")


async def test_the_same_for_who_waits_otherwise(keeper: Lab) -> None:
    async with openai.AsyncOpenAI(base_url=f"{keeper.url}/openai/v1", api_key="any", max_retries=0) as sdk:
        made = await sdk.responses.create(model="scripted", input="Hi")
        assert (await sdk.responses.retrieve(made.id)).to_dict() == made.to_dict()
        then = await sdk.responses.create(model="scripted", input="more", previous_response_id=made.id)
        items = [item async for item in sdk.responses.input_items.list(then.id, limit=1, order="asc")]
        assert [item.type for item in items] == ["message"] * 3
        waiting = await sdk.responses.create(model="scripted", input="Hi", background=True)
        events = [event async for event in await sdk.responses.retrieve(waiting.id, stream=True)]
        assert events[-1].type == "response.completed"
        assert (await sdk.responses.retrieve(waiting.id)).output_text == echo("Hi")
        await sdk.responses.delete(made.id)
        with pytest.raises(openai.NotFoundError):
            await sdk.responses.retrieve(made.id)


@pytest.mark.parametrize("ways", [("via-openai", "via-anthropic"), ("via-anthropic", "via-ollama")])
def test_a_talk_goes_on_through_upstreams_of_two_dialects(through: Lab, ways: tuple[str, str]) -> None:
    first, second = ways
    with openai.OpenAI(base_url=f"{through.url}/v1", api_key="any", max_retries=0) as sdk:
        alone = sdk.responses.create(model=f"{second}/scripted", input="third")
        one = sdk.responses.create(model=f"{first}/scripted", input="first words")
        two = sdk.responses.create(model=f"{second}/scripted", input="second", previous_response_id=one.id)
        with sdk.responses.stream(model=f"{first}/scripted", input="third", previous_response_id=two.id) as stream:
            three = stream.get_final_response()
        assert three.output_text == echo("third")
        assert three.previous_response_id == two.id
        said = [item.content[0].text for item in sdk.responses.input_items.list(three.id, order="asc")]  # type: ignore[union-attr]
        assert said == ["first words", echo("first words"), "second", echo("second"), "third"]
        assert alone.usage is not None
        assert three.usage is not None
        assert three.usage.input_tokens > alone.usage.input_tokens + 20


def test_a_background_response_is_polled_until_it_is_there(sdk: openai.OpenAI) -> None:
    made = sdk.responses.create(model="scripted", input="Hi", background=True)
    assert made.status in ("queued", "in_progress")
    done = until(lambda: over(sdk.responses.retrieve(made.id)), "it is over")
    assert (done.status, done.output_text, done.id) == ("completed", echo("Hi"), made.id)
    assert done.usage is not None


def over(response: Any) -> Any:
    return response if response.status in OVER else None


def test_its_stream_goes_on_from_every_event(sdk: openai.OpenAI) -> None:
    with sdk.responses.create(model="scripted", input="Hi", background=True, stream=True) as stream:
        whole = [event.to_dict() for event in stream]
    response_id = whole[0]["response"]["id"]  # type: ignore[index]
    assert [event["sequence_number"] for event in whole] == list(range(len(whole)))
    for after in range(len(whole)):
        with sdk.responses.retrieve(response_id, stream=True, starting_after=after) as rest:  # type: ignore[arg-type]
            assert [event.to_dict() for event in rest] == whole[after + 1 :]


def test_the_sdks_own_stream_takes_it_up_again(sdk: openai.OpenAI) -> None:
    made = sdk.responses.create(model="scripted", input="Hi", background=True)
    with sdk.responses.stream(response_id=made.id, starting_after=5) as stream:
        events = list(stream)
        final = stream.get_final_response()
    assert (events[0].sequence_number, final.output_text) == (6, echo("Hi"))
    kept = sdk.responses.create(model="scripted", input="Hi", tools=[TOOL], tool_choice="required")
    with sdk.responses.stream(response_id=kept.id) as stream:  # no log of this one: the response says it again
        again = stream.get_final_response()
    assert [item.to_dict() for item in again.output] != []
    assert again.output[0].type == "function_call"


TOOL: Any = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}, "strict": False}


@pytest.mark.fault("F31")
def test_a_background_response_is_cancelled(sdk: openai.OpenAI, keeper: Lab) -> None:
    made = sdk.responses.create(model="scripted-slow", input="Hi", background=True)
    until(lambda: keeper.produced() > 0, "it says something")
    cancelled = sdk.responses.cancel(made.id)
    assert (cancelled.status, cancelled.id) == ("cancelled", made.id)
    assert sdk.responses.cancel(made.id).to_dict() == sdk.responses.retrieve(made.id).to_dict() == cancelled.to_dict()
    seen = record(keeper, made.id)
    assert (seen.status, seen.cancelled_by) == (Status.CANCELLED, "request")
    whole = sdk.responses.create(model="scripted", input="Hi")
    with pytest.raises(openai.BadRequestError):
        sdk.responses.cancel(whole.id)


def test_items_come_in_pages(sdk: openai.OpenAI) -> None:
    talk: Any = [{"role": "user", "content": f"number {n}"} for n in range(45)]
    made = sdk.responses.create(model="scripted", input=talk)
    for order, wanted in (("asc", range(45)), ("desc", range(44, -1, -1))):
        listed = list(sdk.responses.input_items.list(made.id, order=order))  # type: ignore[arg-type]
        assert [item.content[0].text for item in listed] == [f"number {n}" for n in wanted]  # type: ignore[union-attr]
        assert len({item.id for item in listed}) == 45


def test_a_kill_leaves_no_response_in_progress(tmp_path: Path) -> None:
    with running(tmp_path) as server, openai.OpenAI(base_url=f"{server.url}/v1", api_key="any") as sdk:
        made = [sdk.responses.create(model="scripted-slow", input=f"n{n}", background=True).id for n in range(3)]
        whole = sdk.responses.create(model="scripted", input="Hi")
        seen = Served(server)
        seen.record(whole.id.removeprefix("resp_"))  # a kill before that cuts its record off, and not the response
        seen.dispose()
        assert {sdk.responses.retrieve(name).status for name in made} == {"in_progress"}
        server.kill()
    with lab(tmp_path) as again, openai.OpenAI(base_url=f"{again.url}/v1", api_key="any") as sdk:
        for name in made:
            found = sdk.responses.retrieve(name)
            assert (found.status, found.id) == ("failed", name)
            assert found.error is not None
            assert (found.error.code, "interrupted" in found.error.message) == ("server_error", True)
            with sdk.responses.retrieve(name, stream=True) as stream:
                assert [event.type for event in stream][-1] == "response.failed"
        assert sdk.responses.retrieve(whole.id).to_dict() == whole.to_dict()
        ends = sorted(found.status.value for found in again.records())
    assert ends == ["completed", "interrupted", "interrupted", "interrupted"]


def test_a_response_is_had_with_its_key_alone(tmp_path: Path) -> None:
    keys = '[keys.anna]\nkey = "rm-anna-has-this-key"\n[keys.bob]\nkey = "rm-bob-has-this-other"\n'
    with (
        lab(tmp_path, keys) as server,
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="rm-anna-has-this-key", max_retries=0) as anna,
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="rm-bob-has-this-other", max_retries=0) as bob,
    ):
        made = anna.responses.create(model="scripted/scripted", input="Hi")
        assert anna.responses.retrieve(made.id).to_dict() == made.to_dict()
        with pytest.raises(openai.NotFoundError):
            bob.responses.retrieve(made.id)
        with pytest.raises(openai.BadRequestError):
            bob.responses.create(model="scripted/scripted", input="Hi", previous_response_id=made.id)
        with pytest.raises(openai.AuthenticationError):
            bob.with_options(api_key="nobody's").responses.retrieve(made.id)


def test_the_example_of_the_documentation_prints_the_answers(keeper: Lab) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (DOCS / "responses.md").read_text(encoding="utf-8"), re.DOTALL)
    said = io.StringIO()
    with redirect_stdout(said):
        exec(code.replace("http://127.0.0.1:8080", keeper.url), {})
    assert said.getvalue().splitlines() == [echo("And of the sea."), echo("Think for long.")]


def test_the_sdk_for_javascript(keeper: Lab) -> None:
    try:
        node.install(node.IN_A_TEST_S)
    except node.NoPackages as error:
        pytest.fail(str(error), pytrace=False)
    seen = node.run("kept.mjs", keeper.url)
    assert seen["made"]["output_text"] == seen["again"]["output_text"] == echo("Hi")
    assert seen["said"] == ["more", echo("Hi"), "Hi"]
    assert seen["background"]["status"] in ("queued", "in_progress")
    numbers = [event["sequence_number"] for event in seen["events"]]
    assert numbers == list(range(len(numbers)))
    assert seen["rest"] == seen["events"][5:]
    assert seen["final"] == echo("Hi")
    assert seen["cancelled"] == "cancelled"
    assert (seen["gone"]["type"], seen["gone"]["status"]) == ("NotFoundError", 404)

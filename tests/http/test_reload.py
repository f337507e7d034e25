"""Another configuration while calls run: each ends with the one that it began with, and none sees two."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from rivermouth.chat.choice import Chooser
from rivermouth.cli.reload import STATE_FILE
from rivermouth.editions import CurrentChooser, CurrentEngine, planned_again
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.routing.endpoint import Candidate, Endpoint, Plan
from rivermouth.store.port import Status
from tests.engine.client import Answer, asking, calling, connected
from tests.engine.lab import DEADLINE_S, Lab, lab, until
from tests.engine.place import gone
from tests.engine.words import END, OPENAI, PLAIN, ROLE, begin, model, provider, says, talk
from tests.fakes import JSON, Asked, FakeUpstream

pytestmark = pytest.mark.anyio

KEY: Final = {"authorization": "Bearer rm-a-key-of-some-length"}
NO_MODELS: Final = b'{"object":"list","data":[]}'
KEYED: Final = PLAIN + '[server]\nkeys = ["rm-a-key-of-some-length"]\n'


@pytest.fixture
async def upstream() -> AsyncIterator[FakeUpstream]:
    async with FakeUpstream() as made:
        yield made


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[[str], Lab]]:
    """A server with this configuration."""
    with ExitStack() as stack:
        yield lambda config: stack.enter_context(lab(tmp_path, config, reloads=True))


async def said(server: Lab, name: str, headers: dict[str, str] | None = None) -> tuple[int, Any]:
    """Status and document of one whole answer."""
    async with asking(server.port, OPENAI.path, talk(name, stream=False), headers) as answer:
        return answer.status, await answer.json()


async def test_a_stream_ends_with_the_provider_that_is_gone(make: Callable[[str], Lab], upstream: FakeUpstream) -> None:
    """Its connection is closed when it has ended, not before; new calls know nothing of it."""
    server = make(PLAIN + provider("old", upstream.url))
    async with streaming(server, "old/m", upstream, "one ") as (answer, old):
        state = await server.reload(PLAIN + provider("new", upstream.url))
        assert (state.problems, state.waiting) == ((), ())
        (status, _), _ = await asyncio.gather(said(server, "old/m"), lists_nothing(upstream))
        assert status == 404
        async with streaming(server, "new/m", upstream, "other") as (other, new):
            assert new.path.startswith("/new/")
            await new.end(END)
            assert OPENAI.text(await other.rest()) == "other"
        assert not old.is_gone
        await old.send(says("two"))
        await answer.until(b"two")
        await old.end(END)
        body = await answer.rest()
        assert (OPENAI.text(body), OPENAI.finished(body)) == ("one two", True)
        assert (await server.record(answer.call_id)).status is Status.COMPLETED
    await gone(old)
    assert len(server.inside.services.editions.living()) == 1


async def asked_of(upstream: FakeUpstream, text: str) -> Asked:
    """The upstream's side of a stream that has begun with this text; who asks for its models is told of none."""
    asked = await next_of(upstream)
    if asked.method == "GET":
        await asked.answer(200, JSON, NO_MODELS)
        asked = await next_of(upstream)
    await begin(asked, ROLE, says(text))
    return asked


async def lists_nothing(upstream: FakeUpstream) -> None:
    """The upstream is asked for its models, and has none."""
    asked = await next_of(upstream)
    assert asked.path.endswith("/models")
    await asked.answer(200, JSON, NO_MODELS)


async def next_of(upstream: FakeUpstream) -> Asked:
    async with asyncio.timeout(DEADLINE_S):
        return await upstream.asked()


@asynccontextmanager
async def streaming(server: Lab, name: str, upstream: FakeUpstream, text: str) -> AsyncIterator[tuple[Answer, Asked]]:
    """Both sides of a stream whose first text has reached the client."""
    async with calling(server.port, OPENAI.path, talk(name)) as client:
        asked = await asked_of(upstream, text)
        answer = await client.answer()
        await answer.until(text.encode())
        yield answer, asked


async def test_a_provider_that_is_as_it_was_keeps_its_connection(
    make: Callable[[str], Lab], upstream: FakeUpstream
) -> None:
    config = PLAIN + provider("lab", upstream.url)
    server = make(config)
    for number in range(3):
        async with streaming(server, "lab/m", upstream, "hi") as (answer, asked):
            await asked.end(END)
            await answer.rest()
        await server.reload(config + model(f"name{number}", "lab"))
    assert upstream.connections == 1
    await server.reload(config + "[timeouts]\nconnect_s = 3\n")
    await gone(asked)


async def test_a_file_that_cannot_be_used_changes_nothing(make: Callable[[str], Lab]) -> None:
    server = make(KEYED)
    state = await server.reload('[server]\nkeys = []\nprot = 1\n[http]\ntrusted_proxies = ["300.0.0.0/8"]\n')
    file = str(server.folder / "rivermouth.toml")
    assert state.problems == (f"{file}:3: server.prot: unknown key; did you mean port?",)
    assert (await said(server, "scripted"))[0] == 401
    assert (await said(server, "scripted", KEY))[0] == 200
    assert [line["problems"] for line in server.log if line["event"] == "config.refused"] == [list(state.problems)]
    told = json.loads((server.data_path / STATE_FILE).read_bytes())
    assert told["problems"] == list(state.problems)
    state = await server.reload(KEYED + '[http]\ntrusted_proxies = ["300.0.0.0/8"]\n')
    assert "300.0.0.0/8 is neither an address nor a network" in state.problems[0]
    (server.folder / "rivermouth.toml").unlink()
    await server.reread()
    assert "cannot be read" in server.reloader.state.problems[0]
    assert (await said(server, "scripted"))[0] == 401, "a file that is gone is no file without keys"
    assert (await server.reload(PLAIN)).problems == ()
    assert (await said(server, "scripted"))[0] == 200


async def test_reloads_are_counted_by_what_became_of_them(make: Callable[[str], Lab]) -> None:
    server = make(PLAIN)

    def counted() -> list[float]:
        told = server.on_loop(server.inside.services.metrics.render).decode().splitlines()
        name = "rivermouth_config_reloads_total"
        return [float(line.split()[1]) for line in told if line.startswith(name)]

    assert counted() == [0, 0]
    await server.reload(PLAIN + "[log]\ncalls = false\n")
    await server.reload("nothing = that can be\n")
    await server.reload(PLAIN)
    assert counted() == [2, 1]


async def test_what_needs_a_restart_is_named_and_waits(make: Callable[[str], Lab]) -> None:
    server = make(PLAIN)
    text = PLAIN + '[http]\nbase_path = "/ai"\n[local]\nmax_active = 3\n[server]\nkeys = ["rm-a-key-of-some-length"]\n'
    state = await server.reload(text)
    assert set(state.waiting) == {"http.base_path", "local.max_active"}
    assert (await said(server, "scripted", KEY))[0] == 200
    assert (await said(server, "scripted"))[0] == 401
    (line,) = (line for line in server.log if line["event"] == "config.reloaded")
    assert (line["changed"], set(line["after_restart"])) == (["server.keys"], set(state.waiting))


async def test_new_rules_hold_for_the_next_request_and_not_for_the_running_one(
    make: Callable[[str], Lab], upstream: FakeUpstream
) -> None:
    """Keys, hosts, the routing block: the running stream keeps its own to its last chunk."""
    server = make(PLAIN + provider("lab", upstream.url) + '[routing_block]\nkey = "before"\n')
    async with streaming(server, "lab/m", upstream, "hi") as (answer, asked):
        new = '[routing_block]\nkey = "after"\n[http]\nallowed_hosts = ["models.example.org"]\n'
        await server.reload(KEYED + provider("lab", upstream.url) + new)
        assert (await said(server, "scripted"))[0] == 401
        status, reply = await said(server, "scripted", {**KEY, "host": "models.example.org"})
        assert (status, "after" in reply, "before" in reply) == (200, True, False)
        await asked.end(END)
        body = await answer.rest()
        assert (b'"before":' in body, b'"after":' in body, OPENAI.finished(body)) == (True, False, True)


async def test_no_answer_is_made_of_two_configurations(make: Callable[[str], Lab]) -> None:
    """Each names its endpoint in the block of its own configuration, however often that changes meanwhile."""

    def config(letter: str) -> str:
        return PLAIN + (
            f'[endpoints.at-{letter}]\nprovider = "scripted"\nmodel = "scripted"\nregion = "{letter}"\n'
            f'[models.m]\nendpoints = ["at-{letter}"]\n[routing_block]\nkey = "of-{letter}"\n'
        )

    server = make(config("a"))
    seen: list[str] = []
    over = asyncio.Event()

    async def ask() -> None:
        async with connected(server.port) as client:
            while not over.is_set():
                answer = await client.ask("POST", OPENAI.path, talk("m", stream=False))
                reply = await answer.json()
                assert answer.status == 200, reply
                (key,) = (key for key in reply if key.startswith("of-"))
                assert (reply[key]["endpoint_id"], reply[key]["inference_region"]) == (f"at-{key[3:]}", key[3:])
                seen.append(key)

    async with asyncio.TaskGroup() as group:
        for _ in range(4):
            group.create_task(ask())
        for number in range(24):
            enough = len(seen) + 4
            await until(lambda enough=enough: len(seen) >= enough, "calls were answered")  # type: ignore[misc]
            await server.reload(config("ab"[number % 2]))
        over.set()
    assert set(seen) == {"of-a", "of-b"}
    await server.idle()
    assert server.on_loop(lambda: len(server.inside.services.editions.living())) == 1


async def test_a_shutdown_ends_the_calls_of_every_configuration(
    make: Callable[[str], Lab], upstream: FakeUpstream
) -> None:
    server = make(PLAIN + provider("lab", upstream.url))
    async with streaming(server, "lab/m", upstream, "hi") as (answer, _):
        await server.reload(PLAIN + "[timeouts]\ndrain_s = 0\n")
        assert server.inflight() == 1
        server.stop()
        assert "shutting down" in (OPENAI.failed(await answer.rest()) or "")
        await until(lambda: server.over, "the server has stopped, without the ten seconds of before")


async def test_a_chat_goes_on_with_the_new_configuration(make: Callable[[str], Lab], upstream: FakeUpstream) -> None:
    """The turn that runs ends at the provider of before; the next one of the same chat is planned anew."""
    lists = '[chat.models]\nold = "m"\nnew = "m"\n'
    server = make(PLAIN + lists + provider("old", upstream.url))
    async with asking(server.port, "/api/chats", {}) as answer:
        chat = (await answer.json())["chatId"]
    path = f"/api/chats/{chat}/stream"
    async with asking(server.port, path, {"content": "x", "model": "old"}) as stream:
        old = await asked_of(upstream, "one")
        await stream.until(b"one")
        await server.reload(PLAIN + lists + provider("new", upstream.url))
        await old.end(END)
        assert b'"event":"done"' in await stream.rest()
    async with asking(server.port, path, {"content": "y", "model": "new"}) as stream:
        new = await asked_of(upstream, "two")
        assert new.path.startswith("/new/")
        await new.end(END)
        assert b'"event":"done"' in await stream.rest()
    async with asking(server.port, path, {"content": "z", "model": "old"}) as refused:
        assert refused.status == 404


async def test_who_follows_a_chat_keeps_no_configuration_alive(make: Callable[[str], Lab]) -> None:
    server = make(PLAIN)
    async with asking(server.port, "/api/chats", {}) as answer:
        chat = (await answer.json())["chatId"]
    async with asking(server.port, f"/api/chats/{chat}/events", None, method="GET") as events:
        await events.until(b"caught_up")
        await server.reload(PLAIN + '[models.m]\nendpoints = ["scripted/scripted"]\n')
        assert server.on_loop(lambda: len(server.inside.services.editions.living())) == 1
        path = f"/api/chats/{chat}/stream"
        async with asking(server.port, path, {"content": "hello", "model": "m"}) as stream:
            assert b'"event":"done"' in await stream.rest()
        await events.until(b'"event":"done"')


class TestWhoOutlivesAnEdition:
    """A plan of before a reload, run after it."""

    @staticmethod
    def plan(name: str) -> Plan:
        return Plan(name, (Candidate(Endpoint(id="gone/m", provider="gone", model="m"), "as it was"),))

    async def test_a_plan_that_names_what_is_gone_is_made_again(self, make: Callable[[str], Lab]) -> None:
        server = make(PLAIN + model("m", "scripted"))
        editions = server.inside.services.editions
        edition = editions.current
        assert not edition.serves(self.plan("scripted"))
        found = await server.run(planned_again(edition, self.plan("scripted/scripted")))
        assert found is not None
        assert [c.endpoint.provider for c in found.candidates] == ["scripted"]
        assert await server.run(planned_again(edition, self.plan("nobody"))) is None

    async def test_the_chooser_says_nothing_of_what_is_gone(self, make: Callable[[str], Lab]) -> None:
        server = make(PLAIN)
        chooser = CurrentChooser(server.inside.services.editions)
        assert await server.run(chooser.window(self.plan("x"))) is None
        assert chooser.order() == server.inside.services.editions.current.chooser.order()
        with pytest.raises(ApiError) as caught:
            await server.run(chooser.check("nobody"))
        assert caught.value.kind is Kind.NOT_FOUND

    def test_they_have_every_method_that_the_chat_asks_for(self) -> None:
        """The chat is given them in the place of an engine and a chooser."""
        public = {name for name in vars(Chooser) if not name.startswith("_")}
        assert public == {name for name in vars(CurrentChooser) if not name.startswith("_")}
        assert hasattr(CurrentEngine, "generate")

"""Keys, limits and budgets as clients meet them: real sockets, a real server, its database."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, Final

import openai
import pytest

from rivermouth.config import Budget, RateLimits
from rivermouth.dialects import discover
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.platform.service import Issued, NewKey
from rivermouth.store.port import NANO, CallRecord, Status
from tests.engine.client import asking, calling
from tests.engine.lab import Lab, lab, until
from tests.engine.place import placed
from tests.engine.words import ALL, OPENAI, PLAIN, Speaks, begin, document, provider, says, talk
from tests.fakes import JSON, Asked
from tests.running import running

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("database")]

ADMIN: Final = "the-admins-own-key"
KEYED: Final = f'[keys.boss]\nkey = "{ADMIN}"\nrole = "admin"\n'
PAID: Final = """
[endpoints.paid]
provider = "scripted"
model = "scripted"
price = { input = 1.0, output = 1.0, currency = "EUR", per = 1 }
[endpoints.slow]
provider = "scripted"
model = "scripted-slow"
price = { input = 1.0, output = 1.0, currency = "EUR", per = 1 }
[endpoints.vectors]
provider = "scripted"
model = "scripted-embed"
price = { input = 1.0, output = 1.0, currency = "EUR", per = 1 }
[models.paid]
endpoints = ["paid"]
[models.slow]
endpoints = ["slow"]
"""
ME: Final = "cli:me"


names = (f"k{number}" for number in count())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """For tests that need nothing but keys of their own.  Its first key is there, so it asks for one."""
    with lab(tmp_path_factory.mktemp("keyed"), PAID + KEYED) as server:
        yield server


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}", "x-api-key": key}


async def made(server: Lab, **wanted: Any) -> Issued:
    """A key of the database, with a name of its own."""
    new = NewKey(**{"name": next(names), **wanted})
    return await server.run(server.inside.services.platform.create(new, ME))


def calls_of(server: Lab, issued: Issued) -> list[CallRecord]:
    """The records of that key's calls."""
    return [record for record in server.records() if record.key_name == issued.key.name]


async def asked(
    server: Lab, key: str, model: str = "scripted", spoken: Speaks = OPENAI, **more: Any
) -> tuple[int, dict[str, str], Any]:
    """The status, the headers and the body of one whole answer."""
    async with asking(server.port, spoken.path, talk(model, stream=False, **more), bearer(key)) as answer:
        body = await answer.rest()
        return answer.status, answer.headers, json.loads(body)


def budget_of(server: Lab, name: str) -> tuple[int, int]:
    """What is spent and what is reserved."""
    states = server.on_loop(server.inside.services.platform.budgets)
    return next((s.spent_nano, s.reserved_nano) for s in states if s.name == name)


# -- keys


async def test_a_key_opens_the_server_from_its_making_to_its_end(tmp_path: Path) -> None:
    with lab(tmp_path) as server:
        assert (await asked(server, "anything"))[0] == 200
        issued = await made(server, name="ci")
        assert (await asked(server, "anything"))[0] == 401
        assert (await asked(server, issued.secret.reveal()))[0] == 200
        assert (await server.last()).key_name == "ci"
        rotated = await server.run(server.inside.services.platform.rotate("ci", ME, 0))
        assert (await asked(server, issued.secret.reveal()))[0] == 401
        assert (await asked(server, rotated.secret.reveal()))[0] == 200
        await server.run(server.inside.services.platform.revoke("ci", ME))
        assert (await asked(server, rotated.secret.reveal()))[0] == 401
        assert (await asked(server, ""))[0] == 401
    with lab(tmp_path) as again:
        assert (await asked(again, ""))[0] == 401


async def test_a_strangers_page_may_come_as_near_as_the_first_key_lets_it(tmp_path: Path) -> None:
    """R26: without a key a page of another origin is refused; with one it needs the key."""
    headers = {"origin": "https://evil.example"}
    with lab(tmp_path) as server:
        async with asking(server.port, OPENAI.path, talk("scripted"), headers) as answer:
            assert answer.status == 403
        await made(server, name="ci")
        async with asking(server.port, OPENAI.path, talk("scripted"), headers) as answer:
            assert answer.status == 401


@pytest.mark.parametrize(
    ("wanted", "method", "path", "status"),
    [
        ({"role": "user"}, "POST", "/v1/chat/completions", 200),
        ({"role": "admin"}, "POST", "/v1/chat/completions", 200),
        ({"role": "auditor"}, "POST", "/v1/chat/completions", 403),
        ({"role": "auditor"}, "GET", "/v1/models", 200),
        ({"scopes": ("embed",)}, "POST", "/v1/chat/completions", 403),
        ({"scopes": ("embed",)}, "GET", "/v1/models", 403),
        ({"scopes": ("generate",)}, "POST", "/v1/chat/completions", 200),
        ({"scopes": ("generate",)}, "GET", "/api/chats", 403),
        ({"limits": RateLimits(concurrent=5)}, "GET", "/api/chats", 403),
        ({"role": "user"}, "GET", "/api/chats", 200),
        ({"role": "auditor"}, "GET", "/api/chats", 403),
        ({"models": ("gpt-*",)}, "POST", "/v1/chat/completions", 403),
        ({"models": ("scr*",)}, "POST", "/v1/chat/completions", 200),
    ],
)
async def test_what_a_key_may(server: Lab, wanted: dict[str, Any], method: str, path: str, status: int) -> None:
    key = (await made(server, **wanted)).secret.reveal()
    body = talk("scripted", stream=False) if method == "POST" else None
    async with asking(server.port, path, body, bearer(key), method=method) as answer:
        assert answer.status == status, await answer.rest()


async def test_a_policy_that_is_gone_from_the_configuration_lets_nobody_through(tmp_path: Path) -> None:
    policy = '[policies.any]\nproviders = ["*"]\n'
    with lab(tmp_path, policy, reloads=True) as server:
        key = (await made(server, name="k", policy="any")).secret.reveal()
        assert (await asked(server, key))[0] == 200
        await server.reload("")
        status, _, body = await asked(server, key)
        assert (status, body["error"]["code"]) == (403, "policy_refused")
        assert "any (not configured)" in body["error"]["message"]
        await server.reload(policy)
        assert (await asked(server, key))[0] == 200


async def test_the_first_admins_key_is_printed_once_and_opens_the_server(tmp_path: Path) -> None:
    config = "[server]\nrequire_keys = true\n"
    with running(tmp_path, config) as server:
        (line,) = [line for line in server.log if "first admin key" in line]
        key = line.split()[-1]
        async with asking(server.port, OPENAI.path, talk("scripted", stream=False), bearer(key)) as answer:
            assert answer.status == 200
        async with asking(server.port, OPENAI.path, talk("scripted", stream=False)) as answer:
            assert answer.status == 401
    with lab(tmp_path, config) as again:
        async with asking(again.port, OPENAI.path, talk("scripted", stream=False), bearer(key)) as answer:
            assert answer.status == 200


# -- limits


@pytest.mark.parametrize("spoken", ALL, ids=lambda spoken: spoken.name)
async def test_too_many_calls_a_minute(server: Lab, spoken: Speaks) -> None:
    issued = await made(server, limits=RateLimits(requests_per_minute=2))
    key = issued.secret.reveal()
    statuses = [(await asked(server, key, spoken=spoken))[0] for _ in range(2)]
    status, headers, body = await asked(server, key, spoken=spoken)
    assert [*statuses, status] == [200, 200, 429]
    assert 0 < int(headers["retry-after"]) <= 61
    assert spoken.refused(body) == f"the key '{issued.key.name}' may have 2 calls a minute"
    record = await server.record(headers["x-request-id"])
    assert (record.status, record.kind, record.attempts) == (Status.FAILED, Kind.RATE_LIMITED, ())


async def test_openais_clients_read_what_is_left(server: Lab) -> None:
    limits = RateLimits(requests_per_minute=5, tokens_per_minute=1000)
    key = (await made(server, limits=limits)).secret.reveal()
    async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key=key, max_retries=0) as client:
        raw = await client.chat.completions.with_raw_response.create(
            model="scripted", messages=[{"role": "user", "content": "hi"}], max_tokens=95
        )
        left = {name: raw.headers[f"x-ratelimit-{name}"] for name in ("limit-requests", "remaining-requests")}
        assert left == {"limit-requests": "5", "remaining-requests": "4"}
        assert raw.headers["x-ratelimit-limit-tokens"] == "1000"
        assert raw.headers["x-ratelimit-remaining-tokens"] == "900"
        assert raw.headers["x-ratelimit-reset-tokens"] in ("1m0s", "1m1s")
    status, headers, _ = await asked(server, key, max_tokens=990)
    assert status == 429
    assert int(headers["x-ratelimit-remaining-tokens"]) > 900


async def test_streams_and_anthropics_clients_read_it_too(server: Lab) -> None:
    spoken = next(s for s in ALL if s.name == "anthropic")
    key = (await made(server, limits=RateLimits(requests_per_minute=5))).secret.reveal()
    async with asking(server.port, spoken.path, talk("scripted"), bearer(key)) as answer:
        await answer.rest()
        assert answer.headers["anthropic-ratelimit-requests-limit"] == "5"
        assert answer.headers["anthropic-ratelimit-requests-remaining"] == "4"
        assert answer.headers["anthropic-ratelimit-requests-reset"].endswith("Z")
        assert "anthropic-ratelimit-tokens-limit" not in answer.headers
    async with asking(server.port, OPENAI.path, talk("scripted"), bearer(key)) as answer:
        await answer.rest()
        assert answer.headers["x-ratelimit-remaining-requests"] == "3"


async def test_a_key_without_limits_says_nothing_of_any(tmp_path: Path) -> None:
    with lab(tmp_path, "[limits]\nconcurrent = 9\n") as server:
        _, headers, _ = await asked(server, (await made(server, name="k")).secret.reveal())
        assert not [name for name in headers if "ratelimit" in name]


async def test_streams_at_once(tmp_path: Path) -> None:
    """A place is free again when its call has ended, also when its client only left."""
    async with placed(tmp_path, lambda url: PLAIN + provider("up", url)) as place:
        server = place.server
        key = (await made(server, name="k", limits=RateLimits(concurrent=2))).secret.reveal()
        async with calling(server.port, OPENAI.path, talk("up/m"), bearer(key)) as first:
            async with calling(server.port, OPENAI.path, talk("up/m"), bearer(key)) as second:
                for _ in range(2):
                    await begin(await place.asked(), says("hel"))
                assert (await second.answer()).status == 200
                status, headers, body = await asked(server, key, "up/m")
                assert (status, headers["retry-after"], body["error"]["code"]) == (429, "1", "rate_limit_exceeded")
                second.leave()
                await until(lambda: server.inflight() == 1, "the second call is over")
                async with calling(server.port, OPENAI.path, talk("up/m"), bearer(key)) as third:
                    await begin(await place.asked(), says("hel"))
                    assert (await third.answer()).status == 200
            assert (await first.answer()).status == 200
        await server.idle()
        assert server.on_loop(lambda: server.inside.services.platform.limits("k").running) == 0


async def test_the_whole_servers_limit_holds_without_a_key(tmp_path: Path) -> None:
    with lab(tmp_path, "[limits]\nrequests_per_minute = 1\n") as server:
        assert (await asked(server, ""))[0] == 200
        status, _, body = await asked(server, "")
        assert (status, body["error"]["message"]) == (429, "this server may have 1 calls a minute")


async def test_the_chat_is_within_the_whole_servers_limits(tmp_path: Path) -> None:
    with lab(tmp_path, "[limits]\nrequests_per_minute = 1\n") as server:
        async with asking(server.port, "/api/chats", {}) as answer:
            path = f"/api/chats/{(await answer.json())['chatId']}/stream"
        ends = []
        for _ in range(2):
            async with asking(server.port, path, {"content": "hi", "model": "scripted"}) as answer:
                data = [line for line in (await answer.rest()).splitlines() if line.startswith(b"data: ")]
                ends.append(json.loads(data[-1].removeprefix(b"data: ")))
        assert [end["event"] for end in ends] == ["done", "error"]
        await server.idle()
        await server.run(server.inside.services.recorder.flush())
        refused = next(record for record in server.records() if record.status is Status.FAILED)
        assert (refused.dialect, refused.kind, refused.key_name) == ("chat", Kind.RATE_LIMITED, None)


# -- budgets


@pytest.mark.parametrize("name", sorted(discover()))
def test_each_dialect_says_that_the_money_is_spent(name: str) -> None:
    error = ApiError(Kind.RATE_LIMITED, "the budget is spent", status=402, code="budget_exceeded", retry_after_s=60)
    failure = discover()[name].encode_error(error, "id")
    assert failure.status == 402
    assert b"the budget is spent" in failure.body
    assert failure.headers.get("x-should-retry", "false") == "false"


async def test_an_sdk_does_not_try_again_when_the_money_is_spent(server: Lab) -> None:
    issued = await made(server, budget=Budget(amount=1, currency="EUR"))
    key = issued.secret.reveal()
    async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key=key, max_retries=5) as client:
        with pytest.raises(openai.APIStatusError) as caught:
            await client.chat.completions.create(model="paid", messages=[{"role": "user", "content": "hi"}])
    assert caught.value.status_code == 402
    assert caught.value.code == "budget_exceeded"
    assert len(calls_of(server, issued)) == 1


async def test_two_hundred_calls_at_once_with_money_for_fifty(tmp_path: Path) -> None:
    """Nobody is answered before all have been let in or refused: what is reserved is all that holds them back."""
    held: list[Asked] = []
    price = 'price = { input = 1.0, output = 1.0, currency = "EUR", per = 1 }\n'

    async def hold(asked: Asked) -> None:
        held.append(asked)

    def config(url: str) -> str:
        return PLAIN + provider("up", url) + f'[endpoints.up]\nprovider = "up"\nmodel = "m"\n{price}'

    async with placed(tmp_path, config, hold) as place:
        server = place.server
        one = 5 + 10  # "hi" is a token, and four go around it
        key = (await made(server, name="k", budget=Budget(amount=50 * one, currency="EUR"))).secret.reveal()
        calls = [asyncio.ensure_future(asked(server, key, "up/m", max_tokens=10)) for _ in range(200)]
        await until(lambda: sum(c.done() for c in calls) == 150, "150 are refused")
        refused = [c for c in calls if c.done()]
        assert Counter(c.result()[0] for c in refused) == {402: 150}
        assert budget_of(server, "k") == (0, 50 * one * NANO)
        await until(lambda: len(held) == 50, "50 were let in")
        for each in held:
            await each.answer(200, JSON, document("hello"))  # says 3 tokens in, 5 out
        assert Counter(r[0] for r in await asyncio.gather(*calls)) == {200: 50, 402: 150}
        await server.idle()
        assert budget_of(server, "k") == (50 * 8 * NANO, 0)
        await server.run(server.inside.services.recorder.flush())
        assert sum(r.price_nano or 0 for r in server.records()) == 50 * 8 * NANO


@pytest.mark.promise(70)
async def test_a_race_for_the_last_money_never_overspends(tmp_path: Path) -> None:
    """Calls begin and end as they like, some are left in the middle; the records say what was spent."""
    amount = 700
    with lab(tmp_path, PAID) as server:
        key = (await made(server, name="k", budget=Budget(amount=amount, currency="EUR"))).secret.reveal()

        async def one(number: int) -> int:
            if number % 5:
                return (await asked(server, key, "paid", max_tokens=12))[0]
            async with calling(server.port, OPENAI.path, talk("slow", max_tokens=12), bearer(key)) as client:
                answer = await client.answer()
                if answer.status == 200:
                    await answer.until(b"content")
                    client.leave()
                return answer.status

        statuses = Counter(await asyncio.gather(*(one(number) for number in range(100))))
        await server.idle()
        await server.run(server.inside.services.recorder.flush())
        records = server.records()
        spent = sum(r.price_nano or 0 for r in records)
        assert set(statuses) == {200, 402}
        assert statuses[200] == sum(bool(r.attempts) for r in records)
        assert 0 < spent <= amount * NANO
        assert budget_of(server, "k") == (spent, 0)


@pytest.mark.promise(73, 74, 75)
async def test_a_stream_that_is_left_is_paid_for_as_far_as_it_came(tmp_path: Path) -> None:
    def config(url: str) -> str:
        price = 'price = { input = 1.0, output = 1.0, currency = "EUR", per = 1 }\n'
        return PLAIN + provider("up", url) + f'[endpoints.up]\nprovider = "up"\nmodel = "m"\n{price}'

    async with placed(tmp_path, config) as place:
        server = place.server
        key = (await made(server, name="k", budget=Budget(amount=1000, currency="EUR"))).secret.reveal()
        async with calling(server.port, OPENAI.path, talk("up/m"), bearer(key)) as client:
            upstream = await place.asked()
            await begin(upstream, says("hel"), says("lo"))
            await (answer := await client.answer()).until(b"lo")
            client.leave()
            record = await server.record(answer.call_id)
        assert record.status is Status.CANCELLED
        assert (record.input_tokens, record.output_tokens, record.estimated) == (5, 2, True)
        assert (record.price_nano, record.price_estimated) == (7 * NANO, True)
        assert budget_of(server, "k") == (7 * NANO, 0)


async def test_embeddings_are_paid_for_too(server: Lab) -> None:
    key = (await made(server, budget=Budget(amount=12, currency="EUR"))).secret.reveal()
    body = {"model": "scripted/scripted-embed", "input": ["four words are here", "and four more here"]}
    statuses = []
    for _ in range(2):
        async with asking(server.port, "/v1/embeddings", body, bearer(key)) as answer:
            statuses.append(answer.status)
    assert statuses == [200, 402]


async def test_an_endpoint_without_a_price_is_not_asked_under_a_budget(server: Lab) -> None:
    key = (await made(server, budget=Budget(amount=100, currency="EUR"))).secret.reveal()
    status, headers, body = await asked(server, key, "scripted-think")
    assert (status, body["error"]["code"]) == (403, "price_refused")
    record = await server.record(headers["x-request-id"])
    assert [d.allowed for d in record.decisions] == [False]


async def test_a_policys_budget_over_http(tmp_path: Path) -> None:
    policy = '[policies.lab]\nbudget = { amount = 40, currency = "EUR" }\n[server]\npolicy = "lab"\n'
    with lab(tmp_path, PAID + policy) as server:
        assert (await asked(server, "", "paid", max_tokens=20))[0] == 200
        assert (await asked(server, "", "paid", max_tokens=36))[0] == 402
        (state,) = server.on_loop(server.inside.services.platform.budgets)
        assert (state.kind, state.name, state.reserved_nano) == ("policy", "lab", 0)
        assert state.spent_nano == (await server.record(server.records()[-1].id)).price_nano


@pytest.mark.fault("F30")
async def test_a_killed_server_knows_again_what_was_spent(tmp_path: Path) -> None:
    config = PAID + KEYED + '[keys.k]\nkey = "the-key-called-k"\nbudget = { amount = 1000, currency = "EUR" }\n'
    key = "the-key-called-k"
    with running(tmp_path, config) as server:
        for _ in range(2):
            async with asking(server.port, OPENAI.path, talk("paid", stream=False), bearer(key)) as answer:
                assert answer.status == 200
                await answer.rest()
        async with asking(server.port, OPENAI.path, talk("slow"), bearer(key)) as answer:
            await answer.until(b"content")
            server.kill()
    with lab(tmp_path, config) as again:
        records = again.records()
        assert Counter(r.status for r in records) == {Status.COMPLETED: 2, Status.INTERRUPTED: 1}
        assert budget_of(again, "k") == (sum(r.price_nano or 0 for r in records), 0)
        assert budget_of(again, "k")[0] > 0


async def test_a_budget_that_a_reload_brings_counts_what_was_spent_before(tmp_path: Path) -> None:
    with lab(tmp_path, PAID + '[keys.k]\nkey = "the-key-called-k"\n', reloads=True) as server:
        assert not server.inside.services.platform.gate.active
        assert (await asked(server, "the-key-called-k", "paid"))[0] == 200
        await server.reload(PAID + '[keys.k]\nkey = "the-key-called-k"\nbudget = { amount = 500, currency = "EUR" }\n')
        platform = server.inside.services.platform
        await until(lambda: server.on_loop(lambda: all(s.known for s in platform.budgets())), "the budget is read")
        price_nano = (await server.last()).price_nano
        assert price_nano
        assert budget_of(server, "k") == (price_nano, 0)

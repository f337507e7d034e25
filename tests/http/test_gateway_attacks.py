"""What somebody with a key, or a slip of the hand, might try against the gateway's rules."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest

from rivermouth.ir.errors import Kind
from rivermouth.store.port import Status
from tests.engine.client import asking, connected
from tests.engine.lab import DEADLINE_S, Lab
from tests.engine.place import Place, placed
from tests.engine.words import ALL, END, OPENAI, PLAIN, ROLE, Speaks, begin, document, provider, says, talk
from tests.fakes import JSON, Asked

pytestmark = pytest.mark.anyio

HELD: Final[asyncio.Queue[Asked]] = asyncio.Queue()
"""Calls of the provider that the tests lead."""
ADMIN: Final = "key-of-ann-the-admin"
USER: Final = "key-of-bob-a-user"
NARROW: Final = "key-of-cy-who-may-little"
PROVIDERS: Final = "key-of-this-server-at-its-provider"
CONFIG: Final = """
[keys.ann]
key = "key-of-ann-the-admin"
role = "admin"
[keys.bob]
key = "key-of-bob-a-user"
[keys.cy]
key = "key-of-cy-who-may-little"
models = ["here", "up/here"]
[endpoints.there]
provider = "up"
model = "there"
region = "eu-west"
retention = "30d"
[endpoints.here]
provider = "up"
model = "here"
region = "eu-west"
retention = "none"
[models.some]
endpoints = ["there", "here"]
[policies.europe]
regions = ["eu-*"]
[policies.unkept]
retention_max = "none"
[policies.nowhere]
regions = []
"""


async def _answering(asked: Asked) -> None:
    if asked.method == "GET":
        await asked.answer(404, JSON, b"{}")
    elif asked.path.startswith("/held"):
        HELD.put_nowait(asked)
    else:
        await asked.answer(200, JSON, document(json.loads(asked.body)["model"]))


@pytest.fixture(scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    def config(url: str) -> str:
        return PLAIN + provider("up", url, more=f'api_key = "{PROVIDERS}"\n') + provider("held", url) + CONFIG

    async with placed(tmp_path_factory.mktemp("attacks"), config, _answering) as made:
        yield made


async def raw(server: Lab, headers: list[tuple[str, str]], speaks: Speaks = OPENAI) -> tuple[int, Any]:
    """Status and document of a call with exactly these headers."""
    body = json.dumps(talk("some", stream=False)).encode()
    head = [f"POST {speaks.path} HTTP/1.1", "host: localhost", f"content-length: {len(body)}"]
    head += [f"{name}: {value}" for name, value in [("authorization", f"Bearer {USER}"), *headers]]
    async with connected(server.port) as client:
        await client.raw("\r\n".join(head).encode("latin-1") + b"\r\n\r\n" + body)
        answer = await client.answer()
        return answer.status, await answer.json()


POLICY: Final = "x-rivermouth-policy"


@pytest.mark.parametrize("speaks", ALL, ids=lambda s: s.name)
async def test_every_header_that_asks_for_a_policy_counts(place: Place, speaks: Speaks) -> None:
    both = [(POLICY, "europe"), (POLICY, "unkept")]
    for headers in (both, both[::-1], [("X-Rivermouth-Policy", "europe , ,unkept")]):
        status, told = await raw(place.server, headers, speaks)
        assert (status, speaks.whole(told)) == (200, "here")
    status, _ = await raw(place.server, [(POLICY, "europe"), (POLICY, "nowhere")], speaks)
    assert status == 403


@pytest.mark.parametrize("value", ["", " ", ",", "${POLICY}", "Europe", "europe;unkept", "europ\xe9", "default"])
async def test_a_header_that_names_no_policy_is_refused(place: Place, value: str) -> None:
    status, told = await raw(place.server, [(POLICY, value)])
    assert (status, told["error"]["code"]) == (400, "unknown_policy")


@pytest.mark.fault("F36")
@pytest.mark.parametrize("speaks", ALL, ids=lambda s: s.name)
@pytest.mark.parametrize("secret", [ADMIN, f"up/{USER}", PROVIDERS, "rmk_" + "aB3d" * 10])
async def test_a_key_in_the_place_of_a_model_is_written_down_nowhere(place: Place, speaks: Speaks, secret: str) -> None:
    before = len(place.server.records())
    headers = {"authorization": f"Bearer {USER}"}
    async with asking(place.server.port, speaks.path, talk(secret, stream=False), headers) as answer:
        assert answer.status == 400
        assert secret not in speaks.refused(await answer.json())
    assert len(place.server.records()) == before


@pytest.mark.fault("F36")
async def test_a_key_as_a_clients_own_id_is_written_down_nowhere(place: Place) -> None:
    headers = {"authorization": f"Bearer {USER}"}
    for given, kept in ((USER, None), ("their-own-1", "their-own-1")):
        body, own = talk("some", stream=False), {**headers, "x-request-id": given}
        async with asking(place.server.port, OPENAI.path, body, own) as answer:
            assert answer.headers["x-client-request-id"] == given
            await answer.rest()
        assert (await place.server.record(answer.call_id)).client_request_id == kept


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("speaks", ALL, ids=lambda s: s.name)
async def test_who_asks_for_a_model_of_others_is_refused_and_recorded(
    place: Place, speaks: Speaks, stream: bool
) -> None:
    headers = {"authorization": f"Bearer {NARROW}"}
    async with asking(place.server.port, speaks.path, talk("some", stream=stream), headers) as answer:
        assert answer.status == 403
        speaks.refused(await answer.json())
    record = await place.server.record(answer.call_id)
    assert (record.status, record.kind, record.key_name) == (Status.FAILED, Kind.PERMISSION, "cy")
    assert (record.model_asked, record.attempts, record.decisions) == ("some", (), ())


async def test_a_response_that_is_refused_is_not_kept(place: Place) -> None:
    headers = {"authorization": f"Bearer {NARROW}"}
    for background in (False, True):
        body = {"model": "some", "input": "hi", "background": background}
        async with asking(place.server.port, "/v1/responses", body, headers) as answer:
            assert (answer.status, (await answer.json())["error"]["code"]) == (403, "model_not_allowed")
        assert (await place.server.record(answer.call_id)).status is Status.FAILED


async def test_a_chat_takes_no_policy_by_header(place: Place) -> None:
    """It would not hold there, so nobody may think that it does."""
    headers = {"authorization": f"Bearer {ADMIN}"}
    async with asking(place.server.port, "/api/chats", {}, headers) as made:
        path = f"/api/chats/{(await made.json())['id']}/stream"
    async with asking(place.server.port, path, {"content": "hi"}, {**headers, POLICY: "europe"}) as answer:
        assert (answer.status, (await answer.json())["error"]["param"]) == (400, POLICY)


async def admin(place: Place, method: str, path: str, body: Any = None) -> Any:
    headers = {"authorization": f"Bearer {ADMIN}"}
    async with asking(place.server.port, f"/platform/v1/{path}", body, headers, method=method) as answer:
        assert answer.status < 300, await answer.rest()
        return await answer.json()


@pytest.mark.parametrize("how", ["rotate", "revoke"])
async def test_a_key_that_ends_while_its_stream_runs(place: Place, how: str) -> None:
    """The stream ends as it began; nobody begins another one."""
    made = await admin(place, "POST", "keys", {"name": f"short-lived-{how}"})
    key, headers = made["key"], {"authorization": f"Bearer {made['secret']}"}
    async with connected(place.server.port) as client:
        await client.send("POST", OPENAI.path, talk("held/m"), headers)
        async with asyncio.timeout(DEADLINE_S):
            asked = await HELD.get()
        await begin(asked, ROLE, says("Hel"))
        answer = await client.answer()
        await answer.until(b"Hel")
        await admin(place, "POST", f"keys/{key['id']}/{how}", {"grace_s": 0} if how == "rotate" else None)
        async with asking(place.server.port, OPENAI.path, talk("held/m"), headers) as refused:
            assert refused.status == 401
        await asked.send(says("lo"))
        await asked.end(END)
        assert OPENAI.text(await answer.rest()) == "Hello"
    record = await place.server.record(answer.call_id)
    assert (record.status, record.key_name) == (Status.COMPLETED, key["name"])


async def _empty(asked: Asked) -> None:
    """No word, but a thousand tokens of a prompt to be paid."""
    usage = {"prompt_tokens": 1000, "completion_tokens": 0, "total_tokens": 1000}
    message = {"role": "assistant", "content": ""}
    choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
    reply = {"id": "up", "object": "chat.completion", "created": 1, "model": "m", "choices": choices, "usage": usage}
    await asked.answer(200, JSON, json.dumps(reply).encode())


@pytest.mark.parametrize(("money", "attempts"), [(0.5, 1), (1.5, 2), (2.5, 3), (9.0, 4)])
async def test_no_attempt_is_made_that_the_budget_does_not_pay(tmp_path: Path, money: float, attempts: int) -> None:
    """Each costs a euro; the call itself was let in for a few cents."""

    def config(url: str) -> str:
        poor = f'[keys.poor]\nkey = "{USER}"\nbudget = {{ amount = {money}, currency = "EUR" }}\n'
        priced = 'price = { input = 1, output = 1, currency = "EUR", per = 1000 }\n'
        endpoint = f'[endpoints.dear]\nprovider = "up"\nmodel = "m"\n{priced}'
        return f"[resilience]\nretries = 3\ncooldown = false\n{provider('up', url)}{poor}{endpoint}"

    async with placed(tmp_path, config, _empty) as place:
        body = talk("up/m", stream=False, max_tokens=1)
        async with asking(place.server.port, OPENAI.path, body, {"authorization": f"Bearer {USER}"}) as answer:
            assert (answer.status, (await answer.json())["error"]["code"]) == (502, "empty_answer")
        record = await place.server.record(answer.call_id)
        assert (len(record.attempts), record.price_nano) == (attempts, attempts * 10**9)

"""A server that is killed when an answer is stored and the record of its call is not closed: both say the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from rivermouth.engine.record import Recorder
from rivermouth.store.port import CallRecord, Status
from tests.engine.client import asking, calling
from tests.engine.lab import lab
from tests.engine.place import Place, placed
from tests.engine.words import END as FINISHED
from tests.engine.words import PLAIN, begin, data, document, provider, refusal, says
from tests.fakes import JSON
from tests.kept.asking import PATH, ask, begun, ended, got, wanted

pytestmark = [pytest.mark.anyio, pytest.mark.fault("F16", "F30")]

USAGE: Final = {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}
END: Final = data({"id": "up", "object": "chat.completion.chunk", "choices": [], "usage": USAGE}) + FINISHED


def config(url: str) -> str:
    price = "price = { input = 2, output = 10, currency = 'EUR' }"
    return PLAIN + provider("up", url) + f"[endpoints.e]\nprovider = 'up'\nmodel = 'm'\n{price}\n"


async def whole(place: Place) -> str:
    async with calling(place.server.port, PATH, wanted()) as client:
        await (await place.asked()).answer(200, JSON, document("one two"))
        return str((await (await client.answer()).json())["id"])


async def streamed(place: Place) -> str:
    async with calling(place.server.port, PATH, wanted(stream=True)) as client:
        asked = await place.asked()
        await begin(asked, says("one two"))
        answer = await client.answer()
        await asked.end(END)
        await answer.rest()
        return f"resp_{answer.call_id}"


async def behind(place: Place) -> str:
    response, asked = await begun(place)
    await begin(asked, says("one two"))
    await asked.end(END)
    return str((await ended(place.server, response["id"]))["id"])


async def stopped(place: Place) -> str:
    response, asked = await begun(place)
    await begin(asked, says("one "))
    async with asking(place.server.port, f"{PATH}/{response['id']}?stream=true", method="GET") as answer:
        await answer.until(b"one ")
        await ask(place.server, "POST", f"/{response['id']}/cancel")
    return str(response["id"])


async def failed(place: Place) -> str:
    response, asked = await begun(place)
    await asked.answer(500, JSON, refusal("it burst"))
    return str((await ended(place.server, response["id"]))["id"])


@pytest.mark.parametrize("way", [whole, streamed, behind, stopped, failed])
async def test_the_call_has_ended_with_its_answer(way: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    never: list[CallRecord] = []
    async with placed(tmp_path, config) as place:
        with monkeypatch.context() as killing:
            killing.setattr(Recorder, "close", lambda recorder, record, text=None: never.append(record))
            response_id = await way(place)
            await place.server.idle()
        before = await got(place.server, response_id)
    (lost,) = never
    with lab(tmp_path, PLAIN) as again:
        assert await got(again, response_id) == before
        (record,) = again.records()
    if way is failed:
        assert (before["status"], record.status, record.at_least) == ("failed", Status.INTERRUPTED, True)
        return
    assert before["status"] == lost.status == record.status
    assert record.output_tokens
    assert record.price_nano
    assert _comparable(record) == _comparable(lost)
    usage = before["usage"]
    if usage is not None:
        assert (usage["input_tokens"], usage["output_tokens"]) == (record.input_tokens, record.output_tokens)


def _comparable(record: CallRecord) -> dict[str, Any]:
    """All but when it was."""
    told: dict[str, Any] = json.loads(msgspec.json.encode(record))
    for line in (told, *told["attempts"]):
        line["ended_ns"] = bool(line["ended_ns"])
    return told

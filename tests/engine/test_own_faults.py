"""A fault of ours, or of what we stand on: the client is told, the record says so, and the next call is served."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from rivermouth.ir.errors import Kind
from rivermouth.ir.events import Event, Finish, PartKind, PartStart, Reason, Start, TextDelta
from rivermouth.ir.reply import EmbedReply, ModelInfo
from rivermouth.ir.request import EmbedRequest, Request
from rivermouth.providers.provider import NO_HEADERS, NOTHING, Batch, Lease, Onward
from rivermouth.store.datadir import DataDir
from rivermouth.store.port import Status
from tests.engine.client import asking, connected
from tests.engine.lab import Lab, lab
from tests.engine.words import ALL, OPENAI, PLAIN, Speaks, talk

pytestmark = pytest.mark.anyio

WORD: list[Event] = [Start(), PartStart(0, PartKind.TEXT), TextDelta(0, "well")]


class Broken:
    """A provider with a fault: these batches, and then that error, which is none that a provider may raise."""

    name = "broken"
    dialect = None
    headers = NO_HEADERS

    def __init__(self, *batches: list[Event], opens: bool = True) -> None:
        self._batches = batches
        self._opens = opens
        self.closed = 0

    async def prepare(self, request: Request | EmbedRequest, model: str) -> Lease:
        return NOTHING

    async def open(
        self, request: Request, model: str, lease: Lease, *, same_dialect: bool, warn: Callable[[str], None]
    ) -> Broken:
        if not self._opens:
            raise KeyError("a fault in open")
        self._left = list(self._batches)
        return self

    async def read(self, onward: Onward | None = None) -> Batch:
        if not self._left:
            raise ZeroDivisionError("a fault in read")
        return Batch(self._left.pop(0))

    async def close(self) -> None:
        self.closed += 1

    async def embed(
        self, request: EmbedRequest, model: str, lease: Lease, *, warn: Callable[[str], None]
    ) -> EmbedReply:
        raise ZeroDivisionError("a fault in embed")

    async def models(self) -> list[ModelInfo]:
        return []


def put(server: Lab, provider: Broken) -> Broken:
    """The server's provider of that name is this one from now on."""
    server.inside.services.engine._providers["scripted"] = provider  # type: ignore[index]
    return provider


FAULTS: dict[str, tuple[Broken, str]] = {
    "in open": (Broken(opens=False), "KeyError"),
    "in the first read": (Broken(), "ZeroDivisionError"),
    "before content": (Broken([Start()]), "ZeroDivisionError"),
    "an order that the grammar forbids": (Broken([TextDelta(0, "x")]), "GrammarError"),
    "a part left open": (Broken([Start(), PartStart(0, PartKind.TEXT), Finish(Reason.STOP)]), "GrammarError"),
}


@pytest.mark.fault("F15", "F16")
@pytest.mark.parametrize("fault", FAULTS)
async def test_before_content_it_is_an_internal_error_with_its_status(tmp_path: Path, fault: str) -> None:
    with lab(tmp_path, PLAIN, crashes=True) as server:
        broken = put(server, FAULTS[fault][0])
        for speaks in ALL:
            async with asking(server.port, speaks.path, talk("scripted/x")) as answer:
                assert answer.status == 500
                told = speaks.refused(await answer.json())
            assert f"internal error ({FAULTS[fault][1]})" in told
            assert "fault" not in told, "what went wrong in here is for the log"
            record = await server.record(answer.call_id)
            assert (record.status, record.kind) == (Status.FAILED, Kind.INTERNAL)
            assert any(line.get("call") == answer.call_id for line in server.log)
        assert server.inflight() == 0
        assert broken.closed == (0 if fault == "in open" else 3)


@pytest.mark.fault("F14", "F16")
@pytest.mark.parametrize("speaks", ALL, ids=lambda s: s.name)
async def test_after_content_it_is_the_error_in_the_stream(tmp_path: Path, speaks: Speaks) -> None:
    with lab(tmp_path, PLAIN, crashes=True) as server:
        broken = put(server, Broken(WORD))
        async with asking(server.port, speaks.path, talk("scripted/x")) as answer:
            body = await answer.rest()
        assert speaks.text(body) == "well"
        assert "internal error" in (speaks.failed(body) or "")
        assert not speaks.finished(body)
        record = await server.record(answer.call_id)
        assert (record.status, record.kind, record.text_chars) == (Status.FAILED, Kind.INTERNAL, 4)
        assert broken.closed == 1


async def test_of_embeddings_too(tmp_path: Path) -> None:
    with lab(tmp_path, PLAIN, crashes=True) as server:
        put(server, Broken())
        async with asking(server.port, "/v1/embeddings", {"model": "scripted/x", "input": "x"}) as answer:
            assert answer.status == 500
            assert "internal error (ZeroDivisionError)" in OPENAI.refused(await answer.json())


async def test_that_it_has_no_credentials_is_told_in_full_to_the_operator_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was sent, so the client does not hear that its provider refused anything."""
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    reason = "no AWS credentials for the profile nobody: profile not found"
    with lab(tmp_path, PLAIN + '[providers.bedrock]\nregion = "eu-west-1"\nprofile = "nobody"\n') as server:
        for speaks in ALL:
            async with asking(server.port, speaks.path, talk("bedrock/m")) as answer:
                assert answer.status == 500
                told = speaks.refused(await answer.json())
            assert told == "this server has no AWS credentials for bedrock; its log says why"
            record = await server.record(answer.call_id)
            assert (record.status, record.kind) == (Status.FAILED, Kind.INTERNAL)
            assert reason in (record.attempts[0].message or "")
            assert any(line.get("call") == answer.call_id and reason in line.get("reason", "") for line in server.log)


@pytest.mark.fault("F30")
async def test_without_a_row_in_the_store_there_is_no_answer(tmp_path: Path) -> None:
    """The table is gone: no call can be recorded, so none is answered; nothing hangs and nothing else stops."""
    with lab(tmp_path, PLAIN) as server:
        async with connected(server.port) as client:
            other = sqlite3.connect(DataDir(tmp_path / "data").database, isolation_level=None)
            try:
                other.execute("alter table calls rename to gone")
                for speaks in ALL:
                    for stream in (True, False):
                        answer = await client.ask("POST", speaks.path, talk("scripted", stream=stream))
                        assert answer.status in (500, 503, 529)
                        assert "could not be recorded" in speaks.refused(await answer.json())
                assert (await (await client.ask("GET", "/health")).json())["inflight"] == 0
                other.execute("alter table gone rename to calls")
            finally:
                other.close()
            answer = await client.ask("POST", OPENAI.path, talk("scripted"))
            assert OPENAI.finished(await answer.rest())
            assert (await server.record(answer.call_id)).status is Status.COMPLETED

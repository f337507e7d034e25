"""The log of a whole server, fed with secrets, prompts and hostile line breaks: none of them is in it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from rivermouth.store.datadir import DataDir
from rivermouth.store.port import CallRecord
from rivermouth.store.sqlite import SqliteCallStore
from tests.engine.client import Cut, asking, connected
from tests.engine.lab import DEADLINE_S, until
from tests.engine.words import ANTHROPIC, END, OLLAMA, OPENAI, PLAIN, ROLE, begin, data, model, provider, refusal, says
from tests.fakes import Asked, FakeUpstream
from tests.running import Running, running

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

PROMPT: Final = "TELL-ME-A-STORY"
ANSWER: Final = "ONCE-UPON-A-TIME"
FORGED: Final = '\r\n{"event":"forged","level":"info"}\n2026-01-01T00:00:00Z [info     ] forged\x1b[2J'
SECRETS: Final = {"THEIR_KEY": "client-key-4711", "OUR_KEY": "upstream-key-4712", "EXTRA": "header-value-4713"}

CONFIG: Final = """
[server]
keys = ["env:THEIR_KEY"]
[log]
level = "debug"
"""
UP: Final = 'api_key = "env:OUR_KEY"\nheaders = { x-extra = "env:EXTRA" }\n'


async def echoing(asked: Asked) -> None:
    """An upstream that says in every error what it was asked, and with which keys."""
    if asked.method == "GET":
        await asked.answer(200, "application/json", b'{"object":"list","data":[]}')
        return
    told = f"{PROMPT}{FORGED} {asked.headers.get('authorization')} {asked.headers.get('x-extra')}"
    wanted = json.loads(asked.body)["model"]
    if wanted.isdigit():
        await asked.answer(int(wanted), "application/json", refusal(told))
    elif wanted == "burst":
        await begin(asked, ROLE, says(ANSWER), data({"error": {"message": told, "type": "server_error", "code": None}}))
    elif wanted == "garbage":
        await begin(asked, ROLE, says(ANSWER), f"data: {{{told}\n\n".encode())
        asked.cut()
    else:
        await begin(asked, ROLE, says(ANSWER + FORGED))
        await asked.end(END)


async def answering(asked: Asked) -> None:
    """The same, also where the server has left."""
    with contextlib.suppress(ConnectionError):
        await echoing(asked)


def talk(name: str, **more: Any) -> dict[str, Any]:
    return {"model": name, "messages": [{"role": "user", "content": PROMPT + FORGED}], "max_tokens": 99, **more}


def records(server: Running) -> dict[str, CallRecord]:
    store = SqliteCallStore.reader(DataDir(server.data).database)
    try:
        return {record.id: record for record in store.list(1000)}
    finally:
        store.dispose()


async def ask(server: Running, path: str, body: Any, **headers: str) -> None:
    """One call, to whatever end."""
    sent = {"authorization": f"Bearer {SECRETS['THEIR_KEY']}", "user-agent": PROMPT, **headers}
    try:
        async with asking(server.port, path, body, sent) as answer:
            await answer.rest()
    except Cut:
        pass


async def inflight(server: Running) -> int:
    async with asking(server.port, "/health", method="GET") as answer:
        return int((await answer.json())["inflight"])


async def fed(server: Running) -> None:
    """Calls that end well, that fail in every way, and that are no calls."""
    for speaks in (OPENAI, ANTHROPIC, OLLAMA):
        await ask(server, speaks.path, talk("up/m", stream=True))
    for wanted in ("400", "401", "403", "429", "500", "burst", "garbage"):
        await ask(server, OPENAI.path, talk(f"up/{wanted}", stream=True))
        await ask(server, OPENAI.path, talk(f"up/{wanted}", stream=False))
    await ask(server, OPENAI.path, talk(f"invented{FORGED}{SECRETS['OUR_KEY']}"))
    await ask(server, OPENAI.path, talk("several", user=SECRETS["THEIR_KEY"], tools=PROMPT))
    await ask(server, OPENAI.path, f'{{"model": "{PROMPT}'.encode())
    await ask(server, f"/v1/{PROMPT}%0d%0aforged?key={SECRETS['THEIR_KEY']}", {})
    await ask(server, OPENAI.path, talk("up/m"), **{"x-request-id": SECRETS["THEIR_KEY"], "traceparent": PROMPT})
    await ask(server, OPENAI.path, talk("up/m"), authorization=f"Bearer {PROMPT}-{SECRETS['OUR_KEY']}")
    async with connected(server.port) as client:  # and one that leaves
        await client.send("POST", OPENAI.path, talk("up/m"), {"authorization": f"Bearer {SECRETS['THEIR_KEY']}"})
    async with asyncio.timeout(DEADLINE_S):
        while await inflight(server):
            await asyncio.sleep(0.01)


async def log_of(
    tmp_path: Path, form: str, env: Mapping[str, str] = SECRETS
) -> tuple[list[str], dict[str, CallRecord]]:
    """What a server that was fed has said since it started, and its records."""
    async with FakeUpstream(answering) as upstream:
        config = CONFIG + f'format = "{form}"\n' + PLAIN + provider("up", upstream.url, more=UP)
        with running(tmp_path, config + model("several", "up"), env=dict(env)) as server:
            await until(lambda: any("server.started" in line for line in server.log), "the start is in the log")
            await fed(server)
        started = next(number for number, line in enumerate(server.log) if "server.started" in line)
        return server.log[started:], records(server)


@pytest.mark.fault("F36")
@pytest.mark.parametrize("form", ["json", "text"])
async def test_nothing_of_what_was_said_is_in_the_log(tmp_path: Path, form: str) -> None:
    log, calls = await log_of(tmp_path, form)
    whole = "".join(log)
    assert len(calls) > 15
    assert [name for name in (PROMPT, ANSWER, *SECRETS.values()) if name in whole] == []
    assert not set("\r\x1b") & set(whole)
    if form == "json":
        lines = [json.loads(line) for line in log]
        assert [line for line in lines if line["event"] == "forged"] == []
        ended = [line for line in lines if line["event"] == "call.ended"]
        assert sorted(line["call"] for line in ended) == sorted(calls)
        for line in ended:
            record = calls[line["call"]]
            assert (line["status"], line.get("kind")) == (record.status, record.kind)
            assert (line.get("output_tokens"), line["key"]) == (record.output_tokens, record.key_name)
            assert line["level"] == ("warning" if record.status == "failed" else "info")
    else:
        begins = re.compile(r"\d{4}-\d\d-\d\dT\S+Z \[(debug|info|warning|error) +\] (?!forged)\S+")
        assert [line for line in log if not begins.match(line) and not line.startswith("    ")] == []
        assert len([line for line in log if " call.ended " in line]) == len(calls)

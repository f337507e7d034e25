"""The `curl` commands that the pages show, tried in their order against a server with scripted models.

Nobody needs curl for it: the few options that the pages use are read here, and another one is an error.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest

from rivermouth.wire import json
from tests.promises import DOCS, ROOT
from tests.running import START_S, Running, running
from tests.sdk.wire import Wire, frames
from tests.test_docs import PAGES, fenced

HERE = "127.0.0.1:8080"
CHAT = DOCS / "chat.md"
ACCOUNTS = DOCS / "accounts.md"
PLATFORM = DOCS / "platform.md"
README = ROOT / "README.md"
ENDS = {"/stream": b'"event":"done"', "/events": b'"event":"caught_up"'}


class Command(NamedTuple):
    """One request.  streams: it is read as it comes."""

    method: str
    path: str
    body: bytes | None
    headers: dict[str, str]
    streams: bool


def command(line: str) -> Command:
    """What curl would send.  Raises `ValueError` for what is not known here."""
    method, url, body, headers, streams = "", "", None, dict[str, str](), False
    words = iter(shlex.split(line)[1:])
    for word in words:
        match word:
            case "-N":
                streams = True
            case "-s":
                pass
            case "-X":
                method = next(words)
            case "-H":
                name, _, value = next(words).partition(": ")
                headers[name.lower()] = value
            case "--json":
                body = next(words).encode()
                headers["content-type"] = headers["accept"] = "application/json"
            case "-d":
                body = next(words).encode()
                headers.setdefault("content-type", "application/x-www-form-urlencoded")
            case _ if word.removeprefix("http://").startswith(f"{HERE}/") and not url:
                url = "http://" + word.removeprefix("http://")
            case _:
                raise ValueError(f"{word!r} in {line!r}")
    parts = urlsplit(url)
    path = f"{parts.path}?{parts.query}" if parts.query else parts.path
    return Command(method or ("POST" if body is not None else "GET"), path, body, headers, streams)


def shown(page: Path) -> list[str]:
    text = page.read_text(encoding="utf-8")
    blocks = "\n".join([*fenced(text, "sh"), *fenced(text, "")])
    return re.findall(r"^curl .*$", blocks, re.MULTILINE)


def tried(server: Running, page: Path) -> list[tuple[str, int, bytes]]:
    """Each command of the page with its answer: where it follows, up to the end that it waits for."""
    answers = []
    for line in shown(page):
        asked = command(line)
        with Wire(server.port, asked.method, asked.path, asked.body, asked.headers) as wire:
            ends = [end for name, end in ENDS.items() if urlsplit(asked.path).path.endswith(name)]
            assert bool(ends) is asked.streams, line
            body = wire.read_until(ends[0]) if ends and wire.status == 200 else wire.read()
            answers.append((line, wire.status, body))
    return answers


pytestmark = pytest.mark.timeout(START_S + 30)


def test_every_page_that_shows_one_is_tried_here() -> None:
    assert {page for page in PAGES if shown(page)} == {README, CHAT, ACCOUNTS, PLATFORM}


def test_each_does_what_its_page_says(tmp_path: Path) -> None:
    """On one server as a person starts it, with nothing configured; scripted models are in the place of real ones.
    The accounts come last: as soon as there is one, nobody is let in unasked."""
    with running(tmp_path) as server:
        check_the_chat(tried(server, CHAT))
        answers = tried(server, README)
        assert [status for _, status, _ in answers] == [201, 200, 200]
        assert b"You said: " in answers[-1][2]
        for line, status, body in tried(server, PLATFORM):
            assert (status, json.decode(body)["data"]) == (200, []), line
        with Wire(server.port, "POST", "/api/auth/signup", {"name": "anna", "password": "correct horse"}) as wire:
            assert wire.status == 201, wire.read()
        for line, status, body in tried(server, ACCOUNTS):
            assert (status, json.decode(body)["user"]["name"]) == (200, "anna"), line


def check_the_chat(answers: list[tuple[str, int, bytes]]) -> None:
    made, asked, history, again, followed, stopped = answers
    assert (made[1], json.decode(made[2])["chatId"]) == (201, 1)
    for line, status, body in (asked, again):
        told = frames(body)
        assert (status, told[0]["event"], told[-1]["event"]) == (200, "start", "done"), line
        assert "".join(frame.get("token", "") for frame in told).startswith('You said: "')
    messages: list[Any] = json.decode(history[2])["messages"]
    assert [(m["role"], m["state"]) for m in messages] == [("user", "completed"), ("assistant", "completed")]
    events = frames(followed[2])
    assert (events[0]["event"], events[0]["from"], events[0]["snapshot"]) == ("hello", "1-2", False)
    assert events[-1] == {"event": "caught_up"}
    assert [frame["event"] for frame in events].count("done") == 2
    assert json.decode(stopped[2]) == {"cancelled": False}


@pytest.mark.parametrize(
    "line", ["curl -k http://127.0.0.1:8080/", "curl http://elsewhere.example/", "curl --data-raw x"]
)
def test_what_is_not_known_is_no_example(line: str) -> None:
    with pytest.raises(ValueError, match=r"in 'curl"):
        command(line)

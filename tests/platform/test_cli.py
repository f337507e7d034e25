"""`rivermouth keys`: without a server, and beside one that runs."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from rivermouth.cli.keys import CLOSES
from rivermouth.cli.term import Exit
from rivermouth.store.database import open_database
from rivermouth.store.platform.sqlite import SqlitePlatformStore
from tests.cli.asking import Cli
from tests.engine.client import asking
from tests.engine.lab import lab, until
from tests.engine.words import OPENAI, talk

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("database")]


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes], tmp_path: Path) -> Cli:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RIVERMOUTH_DATA", str(tmp_path / "data"))
    return Cli(monkeypatch, capsysbinary)


def test_a_key_from_its_making_to_its_end(cli: Cli, tmp_path: Path) -> None:
    words = ("--role", "user", "--scope", "generate", "--model", "gpt-*", "--user", "Zoë", "--concurrent", "3")
    made = cli("keys", "create", "ci", *words, "--budget", "2.5 EUR/day", "--zone", "Europe/Berlin", "--days", "30")
    assert made.code == 0
    secret = made.out.strip()
    assert secret.startswith("rmk_")
    assert secret not in made.err
    shown = cli("keys", "show", "ci").out
    for fact in ("Zoë", "generate", "gpt-*", "3 at once", "2.5 EUR a day, midnight in Europe/Berlin", secret[:12]):
        assert fact in shown
    assert secret not in shown
    (view,) = json.loads(cli("keys", "list", "--json").out)
    assert (view["name"], view["status"], view["prefix"]) == ("ci", "active", secret[:12])
    rotated = cli("keys", "rotate", "ci", "--grace-s", "60")
    assert rotated.out.strip() not in ("", secret)
    assert "good until" in rotated.err
    assert cli("keys", "revoke", "ci").code == 0
    assert json.loads(cli("keys", "list", "--json").out) == []
    assert "revoked" in cli("keys", "list", "--revoked").out
    store = SqlitePlatformStore(open_database(tmp_path / "data" / "rivermouth.db"))
    assert [entry.action for entry in store.changes(9)] == ["key.revoked", "key.rotated", "key.created"]
    assert all(entry.who.startswith("cli:") for entry in store.changes(9))
    store.dispose()


def test_the_first_key_says_what_it_does(cli: Cli, tmp_path: Path) -> None:
    assert CLOSES in cli("keys", "create", "one").err
    assert cli("keys", "revoke", "one").code == 0
    assert CLOSES not in cli("keys", "create", "two").err
    (tmp_path / "rivermouth.toml").write_text("[server]\nrequire_keys = true\n", encoding="utf-8")
    assert CLOSES not in cli("keys", "create", "three", "--data-dir", "other").err


def test_json_has_the_secret_once(cli: Cli) -> None:
    made = json.loads(cli("keys", "create", "ci", "--json").out)
    assert made["secret"].startswith(made["key"]["prefix"])


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("create", "no good"), Exit.FAILED, "letters, digits"),
        (("create", "x", "--role", "king"), Exit.FAILED, "expected one of user, auditor, admin, not 'king'"),
        (("create", "x", "--policy", "eu"), Exit.FAILED, "no policy is called 'eu'"),
        (("create", "x", "--budget", "much"), Exit.USAGE, "50 EUR/month"),
        (("create", "x", "--budget", "50"), Exit.USAGE, "50 EUR/month"),
        (("create", "x", "--budget", "5 euro"), Exit.USAGE, "50 EUR/month"),
        (("create", "x", "--budget", "5 EUR/year"), Exit.USAGE, "50 EUR/month"),
        (("create", "x", "--budget", "5 EUR/day", "--zone", "Mars/Olympus"), Exit.FAILED, "Mars/Olympus"),
        (("revoke", "nobody"), Exit.NOT_FOUND, "no key 'nobody'"),
    ],
)
def test_what_cannot_be_is_said(cli: Cli, words: tuple[str, ...], code: Exit, says: str) -> None:
    ran = cli("keys", *words)
    assert ran.code == code
    assert says in ran.err
    assert ran.out == ""


def test_a_configuration_that_cannot_be_used_keeps_nobody_from_revoking(cli: Cli, tmp_path: Path) -> None:
    assert cli("keys", "create", "ci").code == 0
    (tmp_path / "rivermouth.toml").write_text('[keys.x]\nkey = "env:NOT_IN_THIS_SHELL"\n', encoding="utf-8")
    ran = cli("keys", "revoke", "ci")
    assert ran.code == 0
    assert "NOT_IN_THIS_SHELL is not set" in ran.err
    assert cli("keys", "create", "other").code == Exit.CONFIG


async def test_a_server_that_runs_goes_by_what_the_command_wrote(cli: Cli, tmp_path: Path) -> None:
    with lab(tmp_path) as server:

        async def status(secret: str) -> int:
            headers = {"authorization": f"Bearer {secret}"}
            async with asking(server.port, OPENAI.path, talk("scripted", stream=False), headers) as answer:
                return answer.status

        ring = server.inside.services.platform.ring
        secret = (await asyncio.to_thread(cli, "keys", "create", "ci")).out.strip()
        await until(lambda: server.on_loop(lambda: ring.asks), "the server has seen the key")
        assert (await status(secret), await status("")) == (200, 401)
        assert (await asyncio.to_thread(cli, "keys", "revoke", "ci")).code == 0
        views = server.inside.services.platform.keys
        await until(lambda: server.on_loop(views)[0].status == "revoked", "the server has seen that it is revoked")
        assert await status(secret) == 401


def test_a_file_that_cannot_be_used_keeps_nobody_from_revoking_in_its_own_place(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RIVERMOUTH_DATA")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "elsewhere"))
    file = tmp_path / "rivermouth.toml"
    file.write_text('data_dir = "data"\n', encoding="utf-8")
    assert cli("keys", "create", "ci").code == 0
    file.write_text('data_dir = "data"\n[server]\nprot = 1\n', encoding="utf-8")
    ran = cli("keys", "revoke", "ci")
    assert (ran.code, ran.err.splitlines()[-1]) == (0, "The key 'ci' is revoked.")
    assert "rivermouth.toml:3: server.prot" in ran.err
    file.write_text('data_dir "data"\n', encoding="utf-8")  # no TOML: nobody knows where
    assert cli("keys", "revoke", "ci").code == Exit.CONFIG
    assert cli("keys", "revoke", "ci", "--data-dir", "data").code == 0
    assert not (tmp_path / "elsewhere").exists()

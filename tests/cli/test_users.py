"""`rivermouth users`: beside a running server and without one."""

from __future__ import annotations

import io
import json
import stat
from pathlib import Path
from typing import Any

import pytest

from rivermouth.accounts.keyring import FILE
from rivermouth.cli.term import Exit
from tests.cli.asking import Cli, on_terminal
from tests.engine.lab import lab
from tests.http.accounting import PASSWORD, Browser


class FakeTerminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def listed(cli: Cli, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(cli("users", "list", "--json", *words).out)
    return found


def test_without_a_server_accounts_are_made_listed_and_reset(cli: Cli, data_dir: Path) -> None:
    assert cli("users", "list").err == "Nobody has an account.\n"
    assert listed(cli) == []
    assert not (data_dir / "rivermouth.db").exists()
    made = cli("users", "add", "  Zoë ")
    assert made.code == 0
    assert len(made.out.strip()) >= 16
    assert "Zoë" in made.err
    again = cli("users", "reset", "ZOE\u0308")
    assert again.code == 0
    assert again.out.strip() != made.out.strip()
    shown = cli("users", "list").out.splitlines()
    assert shown[0].split() == ["NAME", "SINCE", "LAST", "SEEN", "SESSIONS", "CHATS"]
    assert shown[1].startswith("Zoë")
    assert [(row["name"], row["sessions"], row["seen_ns"]) for row in listed(cli)] == [("Zoë", 0, None)]


def test_what_cannot_be_done_says_why(cli: Cli) -> None:
    assert cli("users", "reset", "anna").code == Exit.NOT_FOUND
    cli("users", "add", "anna")
    taken = cli("users", "add", "ANNA")
    assert (taken.code, taken.err) == (Exit.FAILED, "rivermouth: the name ANNA is taken\n")
    assert cli("users", "add", "x" * 65).code == Exit.FAILED
    assert cli("users", "add", "").code == Exit.FAILED


def test_a_password_can_come_by_a_pipe(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    for typed, code in (("short\n", Exit.FAILED), ("", Exit.FAILED), (f"{PASSWORD}\r\nmore\n", Exit.OK)):
        monkeypatch.setattr("sys.stdin", io.StringIO(typed))
        added = cli("users", "add", "anna", "--ask")
        assert added.code == code
        assert added.out == ""
        assert PASSWORD not in added.err


def test_a_password_can_be_typed_twice_and_is_not_shown(data_dir: Path) -> None:
    env = {"RIVERMOUTH_DATA": str(data_dir)}
    with on_terminal("users", "add", "anna", "--ask", env=env) as typing:
        typing.expect("New password: ")
        typing.press(f"{PASSWORD}\r")
        typing.expect("Once more: ")
        typing.press(f"{PASSWORD}\r")
        typing.expect("anna has the new password.")
    assert PASSWORD not in typing.shown


def test_a_password_that_was_mistyped_changes_nothing(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    typed = iter((PASSWORD, "correct hores"))
    monkeypatch.setattr("getpass.getpass", lambda prompt: next(typed))
    monkeypatch.setattr("sys.stdin", FakeTerminal())
    added = cli("users", "add", "anna", "--ask")
    assert (added.code, added.err) == (Exit.FAILED, "rivermouth: the two are not the same\n")
    assert listed(cli) == []


def test_beside_a_server_a_reset_ends_every_session_at_once(cli: Cli, tmp_path: Path) -> None:
    with lab(tmp_path / "served") as server:
        here = ("--data-dir", str(tmp_path / "served" / "data"))
        anna, bob, program = Browser(server), Browser(server), Browser(server)
        anna.enter("signup", "anna")
        bob.enter("signup", "bob")
        anna.chat()
        rows = {row["name"]: (row["sessions"], row["chats"]) for row in listed(cli, *here)}
        assert rows == {"anna": (1, 1), "bob": (1, 0)}
        password = cli("users", "reset", "anna", *here).out.strip()
        assert anna.ask("GET", "/api/chats").status == 401
        assert anna.ask("POST", "/api/auth/refresh", {}).status == 401
        assert bob.ask("GET", "/api/chats").status == 200
        old = program.ask("POST", "/api/auth/login", {"name": "anna", "password": PASSWORD})
        assert old.status == 401
        program.enter("login", "anna", password)
        added = cli("users", "add", "carol", *here).out.strip()
        program.enter("login", "carol", added)


def test_a_new_secret_signs_from_then_on_beside_a_server_too(cli: Cli, tmp_path: Path) -> None:
    with lab(tmp_path / "served") as server:
        accounts = server.inside.services.accounts
        data = tmp_path / "served" / "data"
        anna = Browser(server)
        anna.enter("signup", "anna")
        before = server.on_loop(lambda: accounts._keyring.signing.kid)
        assert cli("users", "rotate-secret", "--data-dir", data).code == 0
        assert stat.S_IMODE((data / FILE).stat().st_mode) == 0o600
        assert server.on_loop(accounts._keyring.reload)  # what it does by itself every few seconds
        assert server.on_loop(lambda: accounts._keyring.signing.kid) != before
        assert anna.ask("GET", "/api/chats").status == 200
        assert cli("users", "rotate-secret", "--now", "--data-dir", data).code == 0
        assert server.on_loop(accounts._keyring.reload)
        assert anna.ask("GET", "/api/chats").error == (401, "authentication", "invalid_token")
        anna.enter("refresh")
        assert anna.ask("GET", "/api/chats").status == 200

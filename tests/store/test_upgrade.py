"""A database of each version that there was becomes one of this version, with every row that it had."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from alembic import command
from sqlalchemy import create_engine

from rivermouth.store import database
from rivermouth.store.database import open_database
from rivermouth.store.migrations import known, settings
from rivermouth.store.sqlite import SqliteCallStore

OLD = (
    "calls_0001",
    "chats_0001",
    "accounts_0001",
    "gateway_0001",
    "records_0001",
    "platform_0001",
    "resume_0001",
    "kept_0001",
)
ROWS = {
    "calls_0001": (
        (
            "INSERT INTO calls (id, started_ns, operation, dialect, surface, model_asked, status, price_amount,"
            " price_currency, estimated) VALUES ('c1', 7, 'generate', 'ollama', '', 'm', 'completed', 0.25, 'EUR', 1)"
        ),
        (
            "INSERT INTO attempts (call_id, number, endpoint_id, provider, model, outcome, started_ns, output_tokens)"
            " VALUES ('c1', 1, 'lab/m', 'lab', 'm', 'completed', 7, 3)"
        ),
    ),
    "chats_0001": (
        "INSERT INTO chats (id, owner, title, created_ns, updated_ns) VALUES (5, 'guest', 'Rivers', 1, 1)",
        "INSERT INTO turns (id, chat_id, seqno, request_id, state, created_ns) VALUES (6, 5, 1, 'r', 'done', 1)",
        "INSERT INTO messages (id, chat_id, turn_id, role, text, created_ns) VALUES (7, 5, 6, 'user', 'hello', 1)",
        "INSERT INTO found_text (rowid, text, chat_id) VALUES (7, 'hello', 5)",
        "INSERT INTO preferences (owner, name, value) VALUES ('guest', 'model', 'auto')",
    ),
    "accounts_0001": (
        "INSERT INTO users (id, name, name_key, password, created_ns) VALUES ('u1', 'Anna', 'anna', 'x', 1)",
        (
            "INSERT INTO sessions (id, user_id, secret, created_ns, renewed_ns, expires_ns)"
            " VALUES ('s1', 'u1', 'd', 1, 1, 9)"
        ),
    ),
    "kept_0001": (
        (
            "INSERT INTO calls (id, started_ns, operation, dialect, surface, model_asked, status, kind, message)"
            " VALUES ('c2', 8, 'generate', 'ollama', '', 'm', 'failed', 'invalid_request', 'what is a river, you ask?')"
        ),
        (
            "INSERT INTO attempts (call_id, number, endpoint_id, provider, model, outcome, started_ns, kind, message)"
            " VALUES ('c2', 1, 'lab/m', 'lab', 'm', 'failed', 8, 'invalid_request', 'what is a river, you ask?')"
        ),
        "INSERT INTO calls_text (call_id, started_ns, prompt, answer) VALUES ('c2', 8, '[]', '')",
    ),
    "platform_0001": (
        (
            "INSERT INTO platform_keys (id, name, prefix, digest, role, created_ns, created_by)"
            " VALUES ('key_1', 'ci', 'rmk_a', 'd', 'user', 1, 'cli')"
        ),
    ),
}
"""What is written into a database of that version, and is there ever after."""
KEPT = {
    "calls_0001": (
        (
            (
                "SELECT id, started_ns, model_asked, status, price_nano, price_currency, price_estimated FROM calls"
                " WHERE id = 'c1'"
            ),
            [("c1", 7, "m", "completed", 250_000_000, "EUR", 1)],
        ),
        (
            "SELECT call_id, provider, output_tokens, price_nano FROM attempts WHERE call_id = 'c1'",
            [("c1", "lab", 3, None)],
        ),
    ),
    "chats_0001": (
        ("SELECT id, owner, title FROM chats", [(5, "guest", "Rivers")]),
        ("SELECT t.state, m.text FROM turns t JOIN messages m ON m.turn_id = t.id", [("done", "hello")]),
        ("SELECT chat_id FROM found_text WHERE found_text MATCH 'hello'", [(5,)]),
        ("SELECT value FROM preferences", [("auto",)]),
    ),
    "accounts_0001": (
        (
            "SELECT u.id, u.name, s.id FROM users u LEFT JOIN sessions s ON s.user_id = u.id ORDER BY u.id",
            [("guest", "", None), ("u1", "Anna", "s1")],
        ),
    ),
    "kept_0001": (
        ("SELECT kind, message FROM calls WHERE id = 'c2'", [("invalid_request", None)]),
        ("SELECT kind, message FROM attempts WHERE call_id = 'c2'", [("invalid_request", None)]),
        ("SELECT errors FROM calls_text", [("[]",)]),
    ),
    "platform_0001": (("SELECT id, name, resumable FROM platform_keys", [("key_1", "ci", 0)]),),
}


def made(path: Path, version: str) -> None:
    """A database as that version left it."""
    engine = create_engine(f"sqlite:///{path}")
    with engine.connect() as connection:
        config = settings()
        config.attributes["connection"] = connection
        command.upgrade(config, version)
        connection.commit()
    engine.dispose()


def until(version: str) -> list[str]:
    """The steps that a database of that version has seen."""
    return list(OLD[: OLD.index(version) + 1])


def test_the_versions_are_one_line() -> None:
    assert {*OLD, "words_0001"} == known()


@pytest.mark.parametrize("version", OLD)
def test_a_database_of_before_keeps_its_rows(tmp_path: Path, version: str) -> None:
    path = tmp_path / "rivermouth.db"
    for step in until(version):
        made(path, step)
        with sqlite3.connect(path) as raw:
            for statement in ROWS.get(step, ()):
                raw.execute(statement)
        raw.close()
    open_database(path).dispose()
    with sqlite3.connect(path) as raw:
        for step in until(version):
            for statement, rows in KEPT.get(step, ()):
                assert raw.execute(statement).fetchall() == rows, statement
        assert raw.execute("PRAGMA foreign_key_check").fetchall() == []
        assert raw.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    raw.close()
    store = SqliteCallStore.open(path)
    record = store.get("c1")
    store.dispose()
    assert record is not None
    assert (record.price_amount, record.attempts[0].provider) == (0.25, "lab")


def test_words_that_an_upgrade_takes_out_are_gone_from_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where SQLite is built to leave what is deleted in its place."""
    path = tmp_path / "rivermouth.db"
    words = "a mellifluous quokka, you ask?"
    made(path, "kept_0001")
    call = "INSERT INTO calls (id, started_ns, operation, dialect, surface, model_asked, status, kind, message) VALUES"
    with sqlite3.connect(path) as raw:
        for number in range(50):
            raw.execute(f"{call} ('c{number}', 8, 'generate', 'ollama', '', 'm', 'failed', 'upstream', ?)", (words,))
    raw.close()
    assert words.encode() in path.read_bytes()
    monkeypatch.setattr(database, "_PRAGMAS", (*database._PRAGMAS, "PRAGMA secure_delete=OFF"))
    engine = open_database(path)
    assert not [file.name for file in tmp_path.iterdir() if words.encode() in file.read_bytes()]
    engine.dispose()

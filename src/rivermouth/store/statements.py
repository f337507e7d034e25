"""The write statements of the call records, compiled once from Core, and the rows that fit them.

They are run by the driver with plain tuples: building a dictionary for each row and walking it would cost more than
SQLite itself.  Each statement knows the order of its values; the row functions beside it give exactly that order, and
a test compares the two.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Select, bindparam, func, literal_column, or_, select, update
from sqlalchemy.dialects import sqlite

from rivermouth.store.port import AttemptRecord, CallRecord, CallText, Checkpoint
from rivermouth.store.tables import attempts, calls, calls_text
from rivermouth.wire import json

Row = tuple[Any, ...]

OPEN: Final[ColumnElement[str]] = literal_column("'open'")
NO_LIST: Final = "[]"

OPENED: Final = (
    "id",
    "started_ns",
    "operation",
    "dialect",
    "surface",
    "model_asked",
    "stream",
    "client_request_id",
    "key_name",
    "end_user",
    "decisions",
)
ENDED: Final = (
    "status",
    "kind",
    "message",
    "cancelled_by",
    "endpoint_id",
    "provider",
    "model_used",
    "finish_reason",
    "input_tokens",
    "output_tokens",
    "cached_tokens",
    "reasoning_tokens",
    "estimated",
    "at_least",
    "text_chars",
    "chunks",
    "first_token_ns",
    "ended_ns",
    "held_by_keepalive",
    "price_currency",
    "decisions",
    "ignored",
    "model_version",
    "region",
    "sovereignty",
    "retention",
    "policy_id",
    "price_nano",
    "price_estimated",
)
NOTED: Final = tuple(name for name in ENDED if name not in ("status", "message"))
"""What an open row may say of its end already; without the status it is still open, and no checkpoint changes it."""
ATTEMPT: Final = tuple(c.name for c in attempts.columns)
TEXT: Final = tuple(c.name for c in calls_text.columns)


class Statement(NamedTuple):
    """SQL with `?`, and the names of its values in order."""

    sql: str
    names: tuple[str, ...]


def _compiled(statement: Any) -> Statement:
    compiled = statement.compile(dialect=sqlite.dialect(paramstyle="qmark"))
    return Statement(str(compiled), tuple(compiled.positiontup or ()))


def _insert_call(names: tuple[str, ...]) -> Statement:
    new = sqlite.insert(calls).values({n: bindparam(n) for n in names})
    return _compiled(new.on_conflict_do_nothing(index_elements=["id"]))


def _checkpoint_call() -> Statement:
    change: dict[str, Any] = {
        "output_tokens": func.coalesce(bindparam("tokens"), calls.c.output_tokens),
        "text_chars": bindparam("chars"),
        "estimated": bindparam("estimate"),
    }
    here = (calls.c.id == bindparam("call_id"), calls.c.status == OPEN, calls.c.ended_ns.is_(None))
    return _compiled(update(calls).values(change).where(*here))


def _end_call(names: tuple[str, ...]) -> Statement:
    change: dict[str, Any] = {n: bindparam(f"new_{n}") for n in names}
    return _compiled(update(calls).values(change).where(calls.c.id == bindparam("call_id"), calls.c.status == OPEN))


def _put_attempt(past: ColumnElement[bool]) -> Statement:
    """Inserts or replaces an attempt's line, unless that is true of its call."""
    ended = select(calls.c.id).where(calls.c.id == bindparam("of_call"), past).exists()
    line: Select[Any] = select(*(bindparam(n, type_=attempts.c[n].type) for n in ATTEMPT)).where(~ended)
    new = sqlite.insert(attempts).from_select(list(ATTEMPT), line)
    change = {n: new.excluded[n] for n in ATTEMPT if n not in ("call_id", "number")}
    return _compiled(new.on_conflict_do_update(index_elements=["call_id", "number"], set_=change))


def _put_text() -> Statement:
    """Inserts a text where its call is, and has none."""
    known = select(calls.c.id).where(calls.c.id == bindparam("of_call")).exists()
    line: Select[Any] = select(*(bindparam(n, type_=calls_text.c[n].type) for n in TEXT)).where(known)
    new = sqlite.insert(calls_text).from_select(list(TEXT), line)
    return _compiled(new.on_conflict_do_nothing(index_elements=["call_id"]))


INSERT_OPEN: Final = _insert_call(OPENED)
INSERT_ENDED: Final = _insert_call((*OPENED[:-1], *ENDED))
CHECKPOINT: Final = _checkpoint_call()
END: Final = _end_call(ENDED)
NOTE_END: Final = _end_call(NOTED)
PUT_ATTEMPT: Final = _put_attempt(calls.c.status != OPEN)
MARK_ATTEMPT: Final = _put_attempt(or_(calls.c.status != OPEN, calls.c.ended_ns.is_not(None)))
PUT_TEXT: Final = _put_text()


def opened_row(r: CallRecord) -> Row:
    """For `INSERT_OPEN`."""
    return (
        r.id,
        r.started_ns,
        r.operation,
        r.dialect,
        r.surface,
        r.model_asked,
        1 if r.stream else 0,
        r.client_request_id,
        r.key_name,
        r.end_user,
        _text(r.decisions),
    )


def ended_row(r: CallRecord) -> Row:
    """For `END` when followed by the id; for `INSERT_ENDED` when it follows `opened_row` without its decisions."""
    return (
        r.status.value,
        r.kind.value if r.kind is not None else None,
        r.message,
        r.cancelled_by,
        r.endpoint_id,
        r.provider,
        r.model_used,
        r.finish_reason,
        r.input_tokens,
        r.output_tokens,
        r.cached_tokens,
        r.reasoning_tokens,
        1 if r.estimated else 0,
        1 if r.at_least else 0,
        r.text_chars,
        r.chunks,
        r.first_token_ns,
        r.ended_ns,
        1 if r.held_by_keepalive else 0,
        r.price_currency,
        _text(r.decisions),
        _text(r.ignored),
        r.model_version,
        r.region,
        r.sovereignty,
        r.retention,
        r.policy_id,
        r.price_nano,
        1 if r.price_estimated else 0,
    )


def noted_row(r: CallRecord) -> Row:
    """For `NOTE_END`."""
    return (*(value for name, value in zip(ENDED, ended_row(r), strict=True) if name in NOTED), r.id)


def mark_row(m: Checkpoint) -> Row:
    """For `CHECKPOINT`."""
    guessed = m.estimated and m.output_tokens is not None
    return (m.output_tokens, 1 if guessed else 0, m.text_chars, m.call_id)


def attempt_row(call_id: str, a: AttemptRecord, outcome: str) -> Row:
    """For `PUT_ATTEMPT` and `MARK_ATTEMPT`."""
    return (
        call_id,
        a.number,
        a.endpoint_id,
        a.provider,
        a.model,
        outcome,
        a.started_ns,
        a.ended_ns,
        a.kind.value if a.kind is not None else None,
        a.status_code,
        a.message,
        a.output_tokens,
        a.text_chars,
        a.input_tokens,
        a.cached_tokens,
        1 if a.estimated else 0,
        a.price_nano,
        a.price_currency,
        call_id,
    )


def text_row(t: CallText) -> Row:
    """For `PUT_TEXT`."""
    return (t.call_id, t.started_ns, _text(t.prompt), t.answer, 1 if t.cut else 0, _text(t.errors), t.call_id)


def _text(values: tuple[Any, ...]) -> str:
    return json.encode(values).decode() if values else NO_LIST

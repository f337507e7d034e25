"""Rows of the database as the values of the port, and what a filter asks of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import ColumnElement, RowMapping, literal_column, or_
from sqlalchemy.sql.expression import ColumnCollection

from rivermouth.store.port import AttemptRecord, CallFilter, CallRecord, CallText, Decision, Quoted, Said, Status
from rivermouth.store.tables import calls
from rivermouth.wire import json

_decisions: Final = json.typed(tuple[Decision, ...])
_ignored: Final = json.typed(tuple[str, ...])
_said: Final = json.typed(tuple[Said, ...])
_quoted: Final = json.typed(tuple[Quoted, ...])

Columns = ColumnCollection[str, Any]

ASKED: Final = ("status", "kind", "model_asked", "model_used", "provider", "endpoint_id", "policy_id", "end_user")
"""The columns that `asked` looks at."""
NOT_COMPLETED: Final = calls.c.status != literal_column("'completed'")
"""What the index `calls_not_completed` holds, in its own words: a value bound to the query would not be recognised."""


def conditions(where: CallFilter) -> list[ColumnElement[bool]]:
    """All of them: what an index finds, then what each row is asked."""
    return [*indexed(where), *asked(where)]


def indexed(where: CallFilter) -> list[ColumnElement[bool]]:
    """The conditions under which calls are found in the order of their starts."""
    found: list[ColumnElement[bool]] = []
    if where.status not in (None, Status.COMPLETED) or where.kind is not None:
        found.append(NOT_COMPLETED)
    if where.key_name is not None:
        found.append(calls.c.key_name == where.key_name)
    if where.since_ns is not None:
        found.append(calls.c.started_ns >= where.since_ns)
    if where.until_ns is not None:
        found.append(calls.c.started_ns < where.until_ns)
    return found


def asked(where: CallFilter, row: Columns = calls.c) -> list[ColumnElement[bool]]:
    """The others, of `calls` or of rows with the same names."""
    found: list[ColumnElement[bool]] = []
    if where.status is not None:
        found.append(row.status == where.status.value)
    if where.kind is not None:
        found.append(row.kind == where.kind.value)
    if where.model is not None:
        found.append(or_(row.model_asked == where.model, row.model_used == where.model))
    if where.provider is not None:
        found.append(row.provider == where.provider)
    if where.endpoint_id is not None:
        found.append(row.endpoint_id == where.endpoint_id)
    if where.policy is not None:
        found.append(has_policy(where.policy, row))
    if where.end_user is not None:
        found.append(row.end_user == where.end_user)
    return found


def has_policy(name: str, row: Columns = calls.c) -> ColumnElement[bool]:
    """It is one of those that held: they are joined by "+"."""
    held: ColumnElement[str] = "+" + row.policy_id + "+"
    return held.contains(f"+{name}+", autoescape=True)


def joined(heads: Sequence[RowMapping], lines: Sequence[RowMapping]) -> list[CallRecord]:
    """Calls with their attempts."""
    by_call: dict[str, list[AttemptRecord]] = {}
    for line in lines:
        by_call.setdefault(line["call_id"], []).append(_attempt(line))
    return [_call(head, tuple(by_call.get(head["id"], ()))) for head in heads]


def text_of(row: RowMapping) -> CallText:
    """A row of `calls_text`."""
    values = plain(row)
    values["prompt"] = json.decode_as(_said, values["prompt"].encode())
    values["errors"] = json.decode_as(_quoted, values["errors"].encode())
    return msgspec.convert(values, CallText, strict=False)


def _call(row: RowMapping, lines: tuple[AttemptRecord, ...]) -> CallRecord:
    values = plain(row)
    del values["seq"]
    values["decisions"] = json.decode_as(_decisions, values["decisions"].encode())
    values["ignored"] = json.decode_as(_ignored, values["ignored"].encode())
    return msgspec.convert({**values, "attempts": lines}, CallRecord, strict=False)


def _attempt(row: RowMapping) -> AttemptRecord:
    values = plain(row)
    del values["call_id"]
    return msgspec.convert(values, AttemptRecord, strict=False)


def plain(row: RowMapping) -> dict[str, Any]:
    """With names that are exactly `str`: msgspec takes no subclass, and SQLAlchemy's are one."""
    return {str(name): value for name, value in row.items()}

"""`rivermouth calls`: what happened, from the records in the data directory, beside a running server or without one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec
import typer

from rivermouth.cli.places import configured, data_of
from rivermouth.cli.term import Exit, emit, fail, one_line, say, show, table
from rivermouth.cli.words import UNKNOWN, count, duration, moment, some
from rivermouth.store.datadir import DataDir
from rivermouth.store.port import (
    AttemptRecord,
    CallFilter,
    CallRecord,
    CallStore,
    CallText,
    Status,
    StoreError,
    UsageRow,
)
from rivermouth.store.sqlite import SqliteCallStore

PREFIX_CALLS: Final = 10_000


@contextmanager
def records(data_dir: Path | None, config_file: Path | None) -> Iterator[CallStore | None]:
    """The records, to be read; None when no server has ever kept any here.  Raises `StoreError`."""
    data = data_of(data_dir, config_file)
    if not data.database.exists():
        say(f"There are no records yet in {data.path}: no server has run there.")
        yield None
        return
    store = SqliteCallStore.reader(data.database)
    try:
        yield store
    finally:
        store.dispose()


def listed(
    *,
    status: str | None,
    model: str | None,
    limit: int,
    data_dir: Path | None,
    config_file: Path | None,
    as_json: bool,
) -> None:
    """The newest calls, one line each."""
    where = CallFilter(status=status_of(status), model=model)
    with records(data_dir, config_file) as store:
        found = store.list(limit, where) if store is not None else ()
    if as_json:
        emit(found)
    elif found:
        titles = ("TIME", "MODEL", "STATUS", "IN", "OUT", "DURATION", "ID")
        show(table(titles, map(_row, found)))
    elif store is not None:
        say("No call matches.")


def usage(*, data_dir: Path | None, config_file: Path | None, as_json: bool) -> None:
    """Sums of calls and tokens by model and status."""
    with records(data_dir, config_file) as store:
        rows = store.usage() if store is not None else ()
    if as_json:
        emit(rows)
    elif rows:
        titles = ("MODEL", "STATUS", "CALLS", "IN", "OUT", "CACHED", "REASONING", "COST")
        show(table(titles, map(_sums, rows)))
        _explain(rows)
    elif store is not None:
        say("There are no calls yet.")


def shown(call_id: str, *, data_dir: Path | None, config_file: Path | None, as_json: bool) -> None:
    """One call: who asked for what, what was tried, and how it ended."""
    with records(data_dir, config_file) as store:
        found = named(store, call_id) if store is not None else []
    if len(found) > 1:
        fail(f"several calls begin with {call_id!r}: {', '.join(one.id for one in found[:3])} ...", Exit.NOT_FOUND)
    if not found:
        fail(f"there is no call {call_id!r} in the records", Exit.NOT_FOUND)
    (call,) = found
    text = text_of(data_of(data_dir, config_file), call)
    if as_json:
        kept = text is not None if call.status is not Status.OPEN else None
        emit({**msgspec.structs.asdict(call), "text_kept": kept, "errors": text.errors if text is not None else ()})
    else:
        show("\n".join(one_line(line) for line in account(call, text)))


def purge(*, data_dir: Path | None, config_file: Path | None, as_json: bool) -> None:
    """Also beside a running server.  Raises `ConfigError`, `StoreError`."""
    from rivermouth.platform.retention import keeping
    from rivermouth.store.backup import schema_at
    from rivermouth.store.sqlite_archive import SqliteCallArchive
    from rivermouth.store.tables import HEAD

    config = configured(config_file)
    data = data_of(data_dir, config=config)
    if not data.database.exists():
        say(f"There are no records yet in {data.path}: no server has run there.")
        return
    if schema_at(data.database) != HEAD:
        raise StoreError(f"{data.database}: is not of this version; start the server once to bring it up")
    archive = SqliteCallArchive.open(data.database)
    try:
        gone = archive.purge(keeping(config, time.time_ns()))
    finally:
        archive.dispose()
    if as_json:
        emit(gone)
    else:
        say(f"{some(gone.calls, 'record')}, {some(gone.texts, 'text')} and {some(gone.answers, 'answer')} deleted.")


def named(store: CallStore, call_id: str) -> list[CallRecord]:
    """The call with this id, else those of the newest `PREFIX_CALLS` whose ids begin so."""
    call = store.get(call_id)
    if call is not None:
        return [call]
    return [call for call in store.list(PREFIX_CALLS) if call_id and call.id.startswith(call_id)]


def text_of(data: DataDir, call: CallRecord) -> CallText | None:
    """What was said, where that is kept.  Raises `StoreError`."""
    from rivermouth.store.sqlite_archive import SqliteCallArchive

    archive = SqliteCallArchive.reader(data.database)
    try:
        return archive.text(call.id)
    finally:
        archive.dispose()


def account(call: CallRecord, text: CallText | None = None) -> list[str]:
    """A call's record as lines for a person; of what was said only why its attempts failed."""
    kept = "" if call.status is Status.OPEN else ", kept" if text is not None else ", not kept"
    facts = {
        "call": call.id,
        "client's id": call.client_request_id or "",
        "started": moment(call.started_ns),
        "asked": f"{call.operation} of {call.model_asked} by {call.dialect} at {call.surface or '/'}"
        + (", streamed" if call.stream else ""),
        "key": call.key_name or "",
        "status": how(call),
        "reason": call.message or "",
        "asked last" if call.status is Status.FAILED else "answered by": " ".join(
            part for part in (call.provider, call.endpoint_id, call.model_used) if part
        ),
        "finish": call.finish_reason or "",
        "tokens": tokens(call),
        "text": f"{call.text_chars} characters in {call.chunks} pieces{kept}",
        "first token": duration(call.first_token_ns),
        "ended after": duration(call.ended_ns),
        "price": price(call.price_amount, call.price_currency),
        "ignored": ", ".join(call.ignored),
        "notes": "a keep-alive began the answer" if call.held_by_keepalive else "",
    }
    lines = [f"{name:<12} {fact}" for name, fact in facts.items() if fact not in ("", UNKNOWN)]
    lines += [f"decision     {d.candidate}: {d.why}" for d in call.decisions]
    lines += [line for attempt in call.attempts for line in _attempt(attempt)]
    return lines + [f"said         attempt {one.attempt}: {one.message}" for one in (text.errors if text else ())]


def how(call: CallRecord) -> str:
    """The status, and what made it so: failed (timeout), cancelled (client)."""
    why = call.kind or call.cancelled_by
    return f"{call.status} ({why})" if why else str(call.status)


def tokens(call: CallRecord) -> str:
    """In and out, with what is known of how sure they are."""
    parts = [f"{count(call.input_tokens)} in", f"{count(call.output_tokens)} out"]
    parts += [f"{call.cached_tokens} cached"] if call.cached_tokens else []
    parts += [f"{call.reasoning_tokens} reasoning"] if call.reasoning_tokens else []
    marks = [word for word, on in (("estimated", call.estimated), ("at least", call.at_least)) if on]
    return ", ".join(parts) + (f" ({', '.join(marks)})" if marks else "")


def price(amount: float | None, currency: str | None) -> str:
    """An amount in its currency; "" where none is known."""
    return f"{amount:.6g} {currency}" if amount is not None and currency else ""


def status_of(word: str | None) -> Status | None:
    """The status of that name; a wrong word is a wrong command line."""
    if word is None or word in [status.value for status in Status]:
        return Status(word) if word is not None else None
    raise typer.BadParameter(f"{word!r} is none of {', '.join(Status)}")


def _row(call: CallRecord) -> tuple[str, ...]:
    sure = "~" if call.estimated else ""
    least = "+" if call.at_least else ""
    return (
        moment(call.started_ns),
        call.model_asked,
        how(call),
        count(call.input_tokens),
        UNKNOWN if call.output_tokens is None else f"{sure}{call.output_tokens}{least}",
        duration(call.ended_ns),
        call.id,
    )


def _sums(row: UsageRow) -> tuple[str, ...]:
    sure = "~" if row.estimated else ""
    least = "+" if row.at_least else ""
    return (
        row.model,
        row.status,
        str(row.calls),
        str(row.input_tokens),
        f"{sure}{row.output_tokens}{least}",
        str(row.cached_tokens),
        str(row.reasoning_tokens),
        price(row.price_amount, row.currency) or UNKNOWN,
    )


def _explain(rows: object) -> None:
    assert isinstance(rows, list | tuple)
    marks = [
        text
        for text, on in (
            ("~ some of these were counted here, not by the model", any(row.estimated for row in rows)),
            ("+ some calls may have produced more than is counted", any(row.at_least for row in rows)),
        )
        if on
    ]
    for mark in marks:
        say(mark)


def _attempt(attempt: AttemptRecord) -> list[str]:
    spent = None if attempt.ended_ns is None else attempt.ended_ns - attempt.started_ns
    why = ", ".join(str(part) for part in (attempt.kind, attempt.status_code, attempt.message) if part is not None)
    head = f"attempt {attempt.number}    {attempt.provider}/{attempt.model} ({attempt.endpoint_id}): {attempt.outcome}"
    made = f"{count(attempt.output_tokens)} tokens, {count(attempt.text_chars)} characters"
    return [head + (f", {why}" if why else ""), f"             {duration(spent)}, {made}"]

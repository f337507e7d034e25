"""Structured logs on stderr: one event name per line ("turn.fenced"), key-value pairs beside it, as JSON or as text.

The standard library's loggers (uvicorn's, aiohttp's) come out the same way.  No line holds a prompt, an answer or a
secret: fields of such names are masked, every text is searched for the configured secrets and for what looks like a
key, and of an exception the class and the frames are told, not the message.  No value makes a line of its own: JSON
escapes line breaks, and the text form shows controls as escapes.

Lines are made and written by a thread of the log's own.  Whoever says something never waits for whoever reads stderr:
when nobody does, what no longer fits is dropped, and counted.
"""

from __future__ import annotations

import io
import logging
import re
import sys
import threading
from collections.abc import Callable, Iterable, MutableMapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import Any, Final, Literal, TextIO

import structlog

from rivermouth.ir.names import CONTROLS
from rivermouth.observe.backlog import Backlog, BacklogStatistics
from rivermouth.observe.call_lines import EVENT, NAMES, CallLine, Told, ended_at, line_of
from rivermouth.observe.tracebacks import without_messages
from rivermouth.secrets import MASK, Secret, redact
from rivermouth.wire import json

MASKED_FIELDS: Final = frozenset(
    {
        "answer",
        "api-key",
        "api_key",
        "authorization",
        "body",
        "content",
        "cookie",
        "delta",
        "messages",
        "password",
        "prompt",
        "request_body",
        "secret",
        "system",
        "text",
        "token",
        "x-api-key",
        "x-goog-api-key",
    }
)
"""Field names whose values are never logged, whatever they hold."""

QUIET: Final = {
    "alembic": logging.WARNING,
    "botocore": logging.WARNING,
    "uvicorn": logging.WARNING,
    "urllib3": logging.WARNING,
    "opentelemetry": logging.CRITICAL,  # what it has to say of a collector that is down, `traces.undelivered` says once
}
"""Loggers of others, and from which level on they are heard."""

NAMES_KEPT: Final = 1024
"""Names that are known to be without a secret, or what is left of them."""
LIMIT: Final = 8192
BATCH: Final = 256
LINGER_S: Final = 0.02
CLOSE_S: Final = 2.0
"""How long the end of the process waits for somebody to read what is left."""

EventDict = MutableMapping[str, Any]

_CONTROL: Final = re.compile(f"[{CONTROLS}]")
_PLAIN: Final = re.compile(r"[^\s\"'=\\]+")


class Masker:
    """A structlog processor: masks the fields of `MASKED_FIELDS`, and secrets inside every text."""

    name: Callable[[str], str]
    """A text without any secret, one of the few that nearly every line holds again: a model's, a key's."""

    def __init__(self, secrets: Iterable[Secret] = ()) -> None:
        self.secrets = tuple(secrets)

    @property
    def secrets(self) -> tuple[Secret, ...]:
        return self._secrets

    @secrets.setter
    def secrets(self, secrets: tuple[Secret, ...]) -> None:
        self._secrets = secrets
        self.name = lru_cache(NAMES_KEPT)(partial(redact, secrets=secrets))

    def __call__(self, logger: object, method: str, event: EventDict) -> EventDict:
        for name, value in event.items():
            if name == "_record":  # the standard library's own, taken out again before the line is written
                continue
            event[name] = MASK if name.lower() in MASKED_FIELDS and value is not None else self.masked(value)
        return event

    def masked(self, value: Any) -> Any:
        """The value without any secret; what is none of JSON's types, as text."""
        match value:
            case Secret():
                return MASK
            case str():
                return redact(value, self.secrets)
            case bool() | int() | float() | None:
                return value
            case list() | tuple():
                return [self.masked(item) for item in value]
            case dict():
                return {
                    str(k): MASK if str(k).lower() in MASKED_FIELDS else self.masked(item) for k, item in value.items()
                }
            case _:
                return redact(str(value), self.secrets)


def one_line(text: str) -> str:
    """The text with its controls and line separators as escapes: it neither ends a line nor paints a terminal."""
    return _CONTROL.sub(
        lambda found: f"\\x{ord(found[0]):02x}" if ord(found[0]) < 256 else f"\\u{ord(found[0]):04x}", text
    )


def _tamed(logger: object, method: str, event: EventDict) -> EventDict:
    """A structlog processor for the text form: values on one line, tracebacks indented."""
    for name, value in event.items():
        if name == "exception" and isinstance(value, str):
            event[name] = "\n".join(f"    {one_line(line)}" for line in value.splitlines())
        elif name != "_record" and not isinstance(value, int | float | None):
            event[name] = one_line(str(value))
    return event


def _when(logger: object, method: str, event: EventDict) -> EventDict:
    """A structlog processor for the standard library's records: when it was said, not when it is written."""
    said = datetime.fromtimestamp(event["_record"].created, UTC)
    event["timestamp"] = said.isoformat(timespec="microseconds").replace("+00:00", "Z")
    return event


class Lines(structlog.stdlib.ProcessorFormatter):
    """Formats every line of the log.  A call's own line is written straight, without the chain of processors."""

    def __init__(self, masker: Masker, *, as_json: bool, **plain: Any) -> None:
        super().__init__(**plain)
        self.masker = masker
        self._as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        if isinstance(record.msg, CallLine):
            return self._call_line(record, record.msg)
        return super().format(record)

    def _call_line(self, record: logging.LogRecord, line: CallLine) -> str:
        level, at = record.levelname.lower(), ended_at(line.call)
        told = line_of(line.call)
        told |= {name: self.masker.name(str(told[name])) for name in NAMES & told.keys()}
        if self._as_json:
            return json.encode(
                {"event": EVENT, "level": level, "logger": record.name, "timestamp": at, **told}
            ).decode()
        return f"{at} [{level:<9}] {EVENT:<30} " + " ".join(f"{name}={_shown(value)}" for name, value in told.items())


def _shown(value: Told) -> str:
    """A value of the text form, in quotes where it would be taken for several."""
    if not isinstance(value, str):
        return str(value)
    text = one_line(value)
    return text if _PLAIN.fullmatch(text) else repr(text)


class Behind(logging.Handler):
    """Keeps each record for a thread that writes to the stream what has come, all of it at once."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self.stream = stream
        self._page = io.StringIO()
        self._out = logging.StreamHandler(self._page)
        self._backlog: Backlog[logging.LogRecord | threading.Event] = Backlog(
            "log", self._write, limit=LIMIT, batch=BATCH, linger_s=LINGER_S
        )
        self._backlog.start()

    def setFormatter(self, fmt: logging.Formatter | None) -> None:  # noqa: N802 (the library's name)
        super().setFormatter(fmt)
        self._out.setFormatter(fmt)

    def emit(self, record: logging.LogRecord) -> None:
        self._backlog.put(record)  # by one thread at a time: `handle` has a lock

    def flush(self) -> None:
        """Returns when everything said before is written, or nobody has read it for `CLOSE_S`."""
        written = threading.Event()
        with self.lock or threading.Lock():
            self._backlog.put(written)
        written.wait(CLOSE_S)

    def close(self) -> None:
        self._backlog.close(CLOSE_S)
        super().close()

    def statistics(self) -> BacklogStatistics:
        return self._backlog.statistics()

    def _write(self, entries: list[logging.LogRecord | threading.Event]) -> None:
        for entry in entries:
            if isinstance(entry, threading.Event):
                self._put_out()
                entry.set()
            else:
                self._out.emit(entry)
        self._put_out()

    def _put_out(self) -> None:
        text = self._page.getvalue()
        if text:
            self._page.seek(0)
            self._page.truncate()
            with suppress(OSError, ValueError):  # nobody is there to be told that nobody is there
                self.stream.write(text)
                self.stream.flush()


def statistics() -> BacklogStatistics:
    """Of this process's log."""
    behind = _behind()
    return behind.statistics() if behind is not None else BacklogStatistics(0, 0, 0)


def _behind() -> Behind | None:
    return next((handler for handler in logging.getLogger().handlers if isinstance(handler, Behind)), None)


def configure_logging(
    form: Literal["auto", "json", "text"] = "auto",
    *,
    level: int = logging.INFO,
    secrets: Iterable[Secret] = (),
    stream: TextIO | None = None,
) -> None:
    """All logging of this process, structlog's and the standard library's, to `stream` (stderr), one line each.

    "auto" is text where the stream is a terminal, else JSON.
    """
    out = stream or sys.stderr
    as_json = form == "json" or (form == "auto" and not out.isatty())
    masker = Masker(secrets)
    ours: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        without_messages,
        masker,
    ]
    others: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        _when,
        without_messages,
        masker,
    ]
    last: list[structlog.typing.Processor] = (
        [structlog.processors.JSONRenderer()] if as_json else [_tamed, structlog.dev.ConsoleRenderer(colors=False)]
    )
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *ours,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    running = _behind()
    handler = running if running is not None and running.stream is out else Behind(out)
    handler.setFormatter(
        Lines(
            masker,
            as_json=as_json,
            foreign_pre_chain=others,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    root = logging.getLogger()
    replaced = [old for old in root.handlers if isinstance(old, Behind) and old is not handler]
    root.handlers[:] = [handler]
    for old in replaced:
        old.close()
    root.setLevel(level)
    for name, least in QUIET.items():
        logging.getLogger(name).setLevel(max(level, least))


def mask(secrets: Iterable[Secret]) -> None:
    """From now on these are masked in the log, and no others."""
    known = tuple(secrets)
    behind = _behind()
    if behind is not None and isinstance(behind.formatter, Lines):
        behind.formatter.masker.secrets = known

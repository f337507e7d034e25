"""One line of the log for each call that ended: what it was, how it ended, how much and how long.

No message is in it: a vendor's may quote the prompt.  The texts of the call have it, where these are kept.

The final record itself goes into the logging tree, where `logs.Lines` makes the line of it in the log's own thread:
the logger's chain of processors costs more than everything else that is done for a call.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from rivermouth.observe.ended import LONGEST_NAME, NS, EndedAttempt, EndedCall, word

LOGGER: Final = "rivermouth.calls"
EVENT: Final = "call.ended"
LEVELS: Final = {"failed": logging.WARNING}
"""Of a call by its status; INFO for those that are not here."""

Told = str | int | float | bool | None
Line = dict[str, Told]


def _ms(duration_ns: int | None) -> float | None:
    return None if duration_ns is None else round(duration_ns / 1e6, 3)


def _name(value: str | None) -> str | None:
    return None if value is None else value[:LONGEST_NAME]


def _last_status(call: EndedCall) -> int | None:
    last: EndedAttempt | None = call.attempts[-1] if call.attempts else None
    return last.status_code if last is not None else None


def _price(call: EndedCall) -> float | None:
    return None if call.price_nano is None else call.price_nano / NS


FIELDS: Final[dict[str, Callable[[EndedCall], Told]]] = {
    "call": lambda call: call.id,
    "status": lambda call: word(call.status),
    "kind": lambda call: word(call.kind) or None,
    "cancelled_by": lambda call: call.cancelled_by,
    "operation": lambda call: call.operation,
    "dialect": lambda call: call.dialect,
    "surface": lambda call: call.surface,
    "stream": lambda call: call.stream,
    "model": lambda call: _name(call.model_asked),
    "model_used": lambda call: _name(call.model_used),
    "provider": lambda call: call.provider,
    "endpoint": lambda call: _name(call.endpoint_id),
    "policy": lambda call: call.policy_id,
    "key": lambda call: call.key_name,
    "client_request_id": lambda call: call.client_request_id,
    "attempts": lambda call: len(call.attempts),
    "upstream_status": _last_status,
    "finish_reason": lambda call: call.finish_reason,
    "input_tokens": lambda call: call.input_tokens,
    "output_tokens": lambda call: call.output_tokens,
    "estimated": lambda call: call.estimated,
    "first_token_ms": lambda call: _ms(call.first_token_ns),
    "duration_ms": lambda call: _ms(call.ended_ns),
    "price": _price,
    "currency": lambda call: call.price_currency,
}
"""Name on the line -> what of the record it is.  What is not known is left out."""

NAMES: Final = frozenset({"model", "model_used", "endpoint", "key", "client_request_id"})
"""Those that others than this program chose, or may have: they are searched for secrets."""


def line_of(call: EndedCall) -> Line:
    """The line's own fields, beside event, level, logger and timestamp."""
    told = ((name, read(call)) for name, read in FIELDS.items())
    return {name: value for name, value in told if value is not None}


def ended_at(call: EndedCall) -> str:
    """ISO 8601, in UTC."""
    ended = datetime.fromtimestamp((call.started_ns + (call.ended_ns or 0)) / NS, UTC)
    return ended.isoformat(timespec="microseconds").replace("+00:00", "Z")


class CallLine:
    """The message of a log record: a call's line, made when it is written."""

    __slots__ = ("call",)

    def __init__(self, call: EndedCall) -> None:
        self.call = call

    def __str__(self) -> str:
        return EVENT


_logger: Final = logging.getLogger(LOGGER)
_BLANK: Final = dict(vars(logging.LogRecord(LOGGER, logging.INFO, __file__, 0, "", None, None)))
"""What all lines have in common.  To make a record from the start costs as much as all that is counted of a call."""


def tell(call: EndedCall) -> None:
    """Into the log with it, if its level is heard."""
    level = LEVELS.get(call.status, logging.INFO)
    if _logger.isEnabledFor(level):
        record = logging.LogRecord.__new__(logging.LogRecord)
        created = time.time()
        vars(record).update(
            _BLANK,
            msg=CallLine(call),
            levelno=level,
            levelname=logging.getLevelName(level),
            created=created,
            msecs=created % 1 * 1000,
        )
        _logger.handle(record)  # not by `log`, which walks the stack to find out who calls

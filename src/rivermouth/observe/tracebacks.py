"""Where something was raised, without what it said: an exception's message may quote a prompt, or hold a value."""

from __future__ import annotations

import asyncio
import re
import sys
import textwrap
import threading
import traceback
from collections.abc import Iterator, MutableMapping
from typing import Any, Final

import structlog

log: Final = structlog.stdlib.get_logger()

DEEPEST: Final = 8
"""Causes of causes, and groups within groups, that are told."""
WIDEST: Final = 8
"""Exceptions of one group."""


def told(error: BaseException) -> str:
    """The frames and the class of an exception, of what led to it (the first one first) and of those in a group."""
    return "\n\nand then, in consequence or while it was handled:\n\n".join(map(_one, _chain(error)))


def without_messages(logger: object, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A structlog processor, in the place of its own for `exc_info`."""
    raised = event.pop("exc_info", None)
    if raised is True:
        raised = sys.exc_info()
    if isinstance(raised, tuple):
        raised = raised[1]
    if isinstance(raised, BaseException):
        event["exception"] = told(raised)
    return event


def loop_failed(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """For `set_exception_handler`: what nobody waited for.  asyncio's own message repeats arguments and exceptions."""
    what = re.split(r"[(<\n]", str(context.get("message", "")), maxsplit=1)[0].strip()
    task = context.get("task") or context.get("future")
    name = task.get_name() if isinstance(task, asyncio.Task) else None
    log.error("loop.failed", what=what, task=name, exc_info=context.get("exception"))


def thread_failed(raised: threading.ExceptHookArgs) -> None:
    """For `threading.excepthook`."""
    name = raised.thread.name if raised.thread is not None else None
    log.error("thread.failed", thread=name, exc_info=raised.exc_value)


def _one(error: BaseException, depth: int = 0) -> str:
    frames = "".join(traceback.format_tb(error.__traceback__))
    name = f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")
    lines = [f"Traceback (most recent call last):\n{frames}{name}"]
    if isinstance(error, BaseExceptionGroup) and depth < DEEPEST:
        lines += [textwrap.indent(_one(each, depth + 1), "  ") for each in error.exceptions[:WIDEST]]
    return "\n".join(lines)


def _chain(error: BaseException) -> Iterator[BaseException]:
    chain: list[BaseException] = []
    at: BaseException | None = error
    # By identity: somebody else's `__eq__` may call two alike, or raise.
    while at is not None and len(chain) < DEEPEST and not any(at is each for each in chain):
        chain.append(at)
        at = at.__cause__ if at.__cause__ is not None or at.__suppress_context__ else at.__context__
    return reversed(chain)

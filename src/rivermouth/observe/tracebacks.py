"""Where something was raised, without what it said: an exception's message may quote a prompt, or hold a value."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator, MutableMapping
from typing import Any, Final

DEEPEST: Final = 8
"""Causes of causes that are told."""


def told(error: BaseException) -> str:
    """The frames and the class of an exception and of what led to it, the first one first."""
    blocks = []
    for each in _chain(error):
        frames = "".join(traceback.format_tb(each.__traceback__))
        blocks.append(f"Traceback (most recent call last):\n{frames}{_class(each)}")
    return "\n\nand then, in consequence or while it was handled:\n\n".join(blocks)


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


def _chain(error: BaseException) -> Iterator[BaseException]:
    chain: list[BaseException] = []
    at: BaseException | None = error
    while at is not None and at not in chain and len(chain) < DEEPEST:
        chain.append(at)
        at = at.__cause__ if at.__cause__ is not None or at.__suppress_context__ else at.__context__
    return reversed(chain)


def _class(error: BaseException) -> str:
    name = f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")
    if isinstance(error, BaseExceptionGroup):
        return f"{name} of {', '.join(_class(each) for each in error.exceptions)}"
    return name

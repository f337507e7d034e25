"""The command line's one seam: the exceptions that a command may end with, as a sentence and an exit code."""

from __future__ import annotations

from typing import Final

from rivermouth.cli.term import Exit, say
from rivermouth.config.problems import ConfigError
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.store.datadir import DataDirBusy
from rivermouth.store.port import StoreError

EXPECTED: Final[tuple[type[Exception], ...]] = (ApiError, ConfigError, DataDirBusy, StoreError)

OF_TYPE: Final[dict[type[Exception], Exit]] = {
    ConfigError: Exit.CONFIG,
    DataDirBusy: Exit.BUSY,
    StoreError: Exit.FAILED,
}
HINTS: Final[dict[type[Exception], str]] = {DataDirBusy: "; --data-dir names another one for this"}
"""What the command line can add to a reason."""
NO_KEY: Final = "; --api-key KEY gives one, or RIVERMOUTH_API_KEY"
"""The same where a server asks for a key: whom else a command asks, says so by another kind."""

OF_KIND: Final[dict[Kind, Exit]] = {
    Kind.INVALID_REQUEST: Exit.FAILED,
    Kind.AUTHENTICATION: Exit.FAILED,
    Kind.PERMISSION: Exit.FAILED,
    Kind.NOT_FOUND: Exit.NOT_FOUND,
    Kind.TOO_LARGE: Exit.FAILED,
    Kind.RATE_LIMITED: Exit.FAILED,
    Kind.OVERLOADED: Exit.FAILED,
    Kind.TIMEOUT: Exit.FAILED,
    Kind.NETWORK: Exit.UNREACHABLE,
    Kind.UPSTREAM: Exit.FAILED,
    Kind.TRUNCATED: Exit.FAILED,
    Kind.CONTENT_FILTERED: Exit.FAILED,
    Kind.CANCELLED: Exit.INTERRUPTED,
    Kind.INTERNAL: Exit.FAILED,
}


def exit_of(error: Exception) -> Exit:
    """The code that says what kind of failure it was."""
    if isinstance(error, ApiError):
        return OF_KIND[error.kind]
    return OF_TYPE[type(error)]


def tell(error: Exception) -> Exit:
    """Says why, and returns the code to leave with."""
    unknown = isinstance(error, ApiError) and error.kind is Kind.AUTHENTICATION
    say(f"rivermouth: {error}{NO_KEY if unknown else HINTS.get(type(error), '')}")
    return exit_of(error)

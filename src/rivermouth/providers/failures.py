"""How an HTTP provider's failures become `ApiError`s: in its name, and without a secret in their words."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Final, TypeVar

from rivermouth.ir.errors import ApiError, Kind, WireError
from rivermouth.secrets import Secret, redact

T = TypeVar("T")

LONGEST_S: Final = 86_400.0
"""No Retry-After is believed beyond a day: many clients cannot even read a longer one."""


class Failures:
    """Speaks for one provider.  `secrets` are masked wherever they turn up: an upstream may echo its key.

    passing: those that change while it runs.
    """

    def __init__(self, name: str, secrets: Iterable[str], passing: Callable[[], tuple[Secret, ...]] = tuple) -> None:
        self._name = name
        self._own = tuple(s if isinstance(s, Secret) else Secret(s) for s in secrets if s)
        self._passing = passing

    @property
    def _secrets(self) -> tuple[Secret, ...]:
        return self._own + self._passing()

    def failure(self, kind: Kind, message: str, code: str | None = None) -> ApiError:
        """A failure that this program noticed."""
        return ApiError(kind, message, code=code, provider=self._name)

    def malformed(self, error: WireError) -> ApiError:
        """The upstream's bytes are not its dialect."""
        return self.failure(Kind.UPSTREAM, f"malformed answer: {redact(str(error), self._secrets)}", "malformed")

    def cleaned(self, error: ApiError, *, foreign: bool = True) -> ApiError:
        """A failure that a decoder tells of, in the provider's name.  foreign: in the upstream's own words."""
        secrets = self._secrets
        return error.replace(
            message=redact(error.message, secrets),
            param=error.param and redact(error.param, secrets),
            code=error.code and redact(error.code, secrets),
            provider=self._name,
            foreign=foreign,
        )

    def parsed(self, parse: Callable[[bytes], T], body: bytes) -> T:
        """A whole body as a value.  Raises `ApiError` if it is none, or if it tells of a failure."""
        try:
            return parse(body)
        except WireError as error:
            raise self.malformed(error) from None
        except ApiError as error:
            raise self.cleaned(error) from None


def retry_after_s(headers: Mapping[str, str], now: datetime) -> float | None:
    """Seconds to wait, as an answer's headers (names in lower case) say: None when they do not, or say nonsense.

    `retry-after-ms` is finer and wins; SDKs of several vendors read it too.  `retry-after` is a number or an HTTP date.
    """
    millis = _number(headers.get("retry-after-ms"))
    if millis is not None:
        return millis / 1000
    value = headers.get("retry-after")
    seconds = _number(value)
    if seconds is not None or value is None:
        return seconds if seconds is None else min(seconds, LONGEST_S)
    try:
        return min(max((parsedate_to_datetime(value) - now).total_seconds(), 0.0), LONGEST_S)
    except (ValueError, TypeError, OverflowError):
        return None


def _number(value: str | None) -> float | None:
    """A finite number from 0 on."""
    try:
        number = float(value or "")
    except ValueError:
        return None
    return min(number, LONGEST_S * 1000) if math.isfinite(number) and number >= 0 else None

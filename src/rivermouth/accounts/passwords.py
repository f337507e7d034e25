"""Passwords as argon2id keeps them.

Each hash takes `MEMORY_KIB` and a moment of a core, so few are made at once, in threads of their own, and few may wait:
a flood of logins costs neither memory nor the loop.  A name that nobody has costs what a wrong password costs.
"""

from __future__ import annotations

import asyncio
import base64
import os
import threading
import unicodedata
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple, TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from rivermouth.ir.errors import ApiError, Kind, invalid

T = TypeVar("T")

TIME_COST: Final = 2
MEMORY_KIB: Final = 19 * 1024
LANES: Final = 1
AT_ONCE: Final = 2
WAITING: Final = 64
LONGEST: Final = 256
RETRY_S: Final = 2.0

Hashed = str
"""What is stored: the parameters, the salt and the hash, as argon2 writes them."""


class Checked(NamedTuple):
    """better: the password as today's parameters keep it, where it was kept by others."""

    right: bool
    better: Hashed | None = None


WRONG: Final = Checked(right=False)


def hasher() -> PasswordHasher:
    return PasswordHasher(time_cost=TIME_COST, memory_cost=MEMORY_KIB, parallelism=LANES)


def fitting(password: str, least_chars: int) -> str:
    """The password, if it may be one.  Raises `ApiError`."""
    if len(password) < least_chars:
        raise invalid(f"a password has at least {least_chars} characters", "password", "unfit_password")
    return bounded(password)


def bounded(password: str) -> str:
    """The password composed, so that it is the same from every keyboard.  Raises `ApiError` for one out of all
    bounds, before anything is looked up."""
    if len(password) > LONGEST:
        raise invalid(f"a password has at most {LONGEST} characters", "password", "unfit_password")
    return unicodedata.normalize("NFC", password)


class Passwords:
    """`hashed` and `check`, off the loop.  Both raise `ApiError` overloaded when too many wait."""

    def __init__(
        self, made_by: PasswordHasher | None = None, *, at_once: int = AT_ONCE, waiting: int = WAITING
    ) -> None:
        self._hasher = made_by or hasher()
        self._nobodys = _nobodys(self._hasher)
        self._threads = ThreadPoolExecutor(at_once, "rivermouth-passwords")
        self._counting = threading.Lock()
        self._most = at_once + waiting
        self._inside = self._busy = self._peak = self._refused = 0

    async def hashed(self, password: str) -> Hashed:
        return await self._run(lambda: self._hasher.hash(password))

    async def check(self, stored: Hashed | None, password: str) -> Checked:
        """Takes as long where nothing is stored."""
        found = await self._run(lambda: self._verified(stored or self._nobodys, password))
        return found if stored is not None else WRONG

    def statistics(self) -> dict[str, int]:
        """inside: that are made, or wait.  at_once: how many were ever made at the same time."""
        return {"inside": self._inside, "at_once": self._peak, "refused": self._refused}

    async def close(self) -> None:
        await asyncio.to_thread(self._threads.shutdown)

    def _verified(self, stored: Hashed, password: str) -> Checked:
        try:
            self._hasher.verify(stored, password)
        except (VerificationError, InvalidHashError):
            return WRONG
        outdated = self._hasher.check_needs_rehash(stored)
        return Checked(right=True, better=self._hasher.hash(password) if outdated else None)

    async def _run(self, work: Callable[[], T]) -> T:
        if self._inside >= self._most:
            self._refused += 1
            raise ApiError(
                Kind.OVERLOADED, "too many sign in at this moment", code="sign_in_busy", retry_after_s=RETRY_S
            )
        self._inside += 1
        running = asyncio.get_running_loop().run_in_executor(self._threads, lambda: self._counted(work))
        running.add_done_callback(self._left)
        return await asyncio.shield(running)

    def _left(self, running: asyncio.Future[Any]) -> None:
        """Also of one whose client has gone: it took its memory to the end."""
        self._inside -= 1
        if not running.cancelled():
            running.exception()

    def _counted(self, work: Callable[[], T]) -> T:
        with self._counting:
            self._busy += 1
            self._peak = max(self._peak, self._busy)
        try:
            return work()
        finally:
            with self._counting:
                self._busy -= 1


def _nobodys(made_by: PasswordHasher) -> Hashed:
    """What no password fits, and takes as long to find out as of a real one."""
    salt, digest = (
        base64.b64encode(os.urandom(size)).decode().rstrip("=") for size in (made_by.salt_len, made_by.hash_len)
    )
    costs = f"m={made_by.memory_cost},t={made_by.time_cost},p={made_by.parallelism}"
    return f"$argon2id$v=19${costs}${salt}${digest}"

"""Passwords: what may be one, what is kept of it, and that a flood of them costs a bounded amount."""

from __future__ import annotations

import asyncio
import threading
from typing import Literal

import pytest
from argon2 import PasswordHasher, extract_parameters

from rivermouth.accounts.passwords import (
    AT_ONCE,
    LANES,
    LONGEST,
    MEMORY_KIB,
    TIME_COST,
    WRONG,
    Checked,
    Passwords,
    bounded,
    fitting,
)
from rivermouth.ir.errors import ApiError
from tests.accounts.lab import cheap

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("password", ["", "1234567", "x" * (LONGEST + 1), "x" * 10_000_000])
async def test_what_is_no_password(password: str) -> None:
    with pytest.raises(ApiError) as caught:
        fitting(password, 8)
    assert (caught.value.status, caught.value.code) == (400, "unfit_password")


async def test_a_password_is_the_same_from_every_keyboard_and_otherwise_as_it_was_typed() -> None:
    assert bounded("pa\u0308sswort") == bounded("pässwort")
    assert fitting("  Spaces  \x00 count ", 8) == "  Spaces  \x00 count "


async def test_a_hash_is_argon2id_with_our_costs_and_a_salt_of_its_own() -> None:
    passwords = Passwords()
    one, other = await passwords.hashed("correct horse"), await passwords.hashed("correct horse")
    assert one != other
    assert "correct horse" not in one
    costs = extract_parameters(one)
    assert costs.type.name == "ID"
    assert (costs.memory_cost, costs.time_cost, costs.parallelism) == (MEMORY_KIB, TIME_COST, LANES)
    assert await passwords.check(one, "correct horse") == Checked(right=True)
    assert await passwords.check(one, "correct horsf") == WRONG
    await passwords.close()


async def test_what_was_hashed_with_other_costs_is_hashed_again_when_it_is_next_right() -> None:
    passwords = Passwords(PasswordHasher(time_cost=2, memory_cost=16, parallelism=1))
    old = cheap().hash("correct horse")
    checked = await passwords.check(old, "correct horse")
    assert checked.right
    assert checked.better is not None
    assert extract_parameters(checked.better).memory_cost == 16
    assert await passwords.check(checked.better, "correct horse") == Checked(right=True)
    assert await passwords.check(old, "wrong") == WRONG
    await passwords.close()


@pytest.mark.parametrize("stored", ["", "x", "$argon2id$v=19$m=8,t=1,p=1$AAAA$", "$2b$12$abcdefghijklmnopqrstuu"])
async def test_what_is_no_hash_fits_no_password(stored: str) -> None:
    passwords = Passwords(cheap())
    assert await passwords.check(stored, "") == WRONG
    await passwords.close()


async def test_a_name_that_nobody_has_costs_a_whole_hash() -> None:
    """Not measured, as that depends on the machine: what is looked at has the costs, and the length, of a real one."""
    passwords = Passwords()
    assert await passwords.check(None, "anything") == WRONG
    assert passwords.statistics()["at_once"] == 1
    real = await passwords.hashed("anything")
    assert extract_parameters(passwords._nobodys) == extract_parameters(real)
    assert len(passwords._nobodys) == len(real)
    await passwords.close()


class Paired(PasswordHasher):
    """Each check waits for another one to be made at the same time."""

    def __init__(self) -> None:
        super().__init__(time_cost=1, memory_cost=8, parallelism=1)
        self._both = threading.Barrier(2, timeout=10)

    def verify(self, hash: str | bytes, password: str | bytes) -> Literal[True]:  # noqa: A002 - the library's name
        self._both.wait()
        return super().verify(hash, password)


async def test_fifty_at_the_same_time_take_the_memory_of_two() -> None:
    passwords = Passwords(Paired())
    stored = await passwords.hashed("correct horse")
    checked = await asyncio.gather(*(passwords.check(stored, f"wrong {n}") for n in range(50)))
    assert checked == [WRONG] * 50
    assert passwords.statistics() == {"inside": 0, "at_once": AT_ONCE, "refused": 0}
    await passwords.close()


async def test_who_comes_when_too_many_wait_is_sent_away_at_once() -> None:
    passwords = Passwords(cheap(), at_once=1, waiting=3)
    answers = await asyncio.gather(*(passwords.hashed(f"password {n}") for n in range(10)), return_exceptions=True)
    refused = [error for error in answers if isinstance(error, ApiError)]
    assert len(refused) == 6
    assert {(error.status, error.code) for error in refused} == {(503, "sign_in_busy")}
    assert all(error.retry_after_s for error in refused)
    assert await passwords.hashed("later")
    await passwords.close()


async def test_a_client_that_leaves_gives_its_place_back_when_its_hash_is_made() -> None:
    passwords = Passwords(cheap(), at_once=1, waiting=0)
    asking = asyncio.create_task(passwords.hashed("password"))
    await asyncio.sleep(0)
    asking.cancel()
    assert passwords.statistics()["inside"] == 1
    await passwords.close()  # the threads are done with it
    await asyncio.sleep(0)
    assert passwords.statistics()["inside"] == 0

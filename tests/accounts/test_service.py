"""Signing up and in, guests, limits, leaving, and being deleted."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from argon2 import PasswordHasher
from structlog.testing import capture_logs

from rivermouth.accounts.passwords import Passwords
from rivermouth.accounts.service import SignedIn
from rivermouth.ir.errors import ApiError
from rivermouth.store.chats.port import NoSuchOwner
from tests.accounts.lab import HERE, AccountLab, account_lab, cheap, with_settings

pytestmark = pytest.mark.anyio

PASSWORD = "correct horse"


async def refused(status: int, code: str, asking: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        await asking
    assert (caught.value.status, caught.value.code) == (status, code)
    return caught.value


async def sign_up(lab: AccountLab, name: str = "anna", **more: Any) -> SignedIn:
    return await lab.accounts.sign_up(name, PASSWORD, **{"address": HERE, "guest": None, **more})


async def test_who_signed_up_signs_in_by_any_spelling_of_the_name(tmp_path: Path) -> None:
    async with account_lab(tmp_path) as lab:
        made = await sign_up(lab, " Zoë ")
        assert (made.user.name, made.user.guest, made.expires_in_s) == ("Zoë", False, 900)
        assert (await lab.accounts.of_token(made.access_token)).id == made.user.id
        entered = await lab.accounts.sign_in("ZOE\u0308", PASSWORD, address=HERE)
        assert entered.user == made.user
        assert entered.session != made.session


@pytest.mark.parametrize(
    ("name", "password"), [("anna", "wrong horse"), ("bob", PASSWORD), ("", PASSWORD), ("\x00", ""), ("anna", "")]
)
async def test_what_is_wrong_is_not_told(tmp_path: Path, name: str, password: str) -> None:
    async with account_lab(tmp_path) as lab:
        await sign_up(lab)
        error = await refused(401, "wrong_password", lab.accounts.sign_in(name, password, address=HERE))
        assert error.message == "name or password is not right"
        assert lab.accounts.statistics()["at_once"] == 1


async def test_a_guest_has_no_password_to_guess(tmp_path: Path) -> None:
    async with account_lab(tmp_path) as lab:
        await lab.accounts.be_guest(address=HERE)
        for name in ("", "guest", "None"):
            await refused(401, "wrong_password", lab.accounts.sign_in(name, "", address=HERE))


async def test_a_name_is_taken_in_every_spelling_and_stays_whose_it_was(tmp_path: Path) -> None:
    async with account_lab(tmp_path) as lab:
        made = await sign_up(lab, "Anna")
        error = await refused(
            409, "name_taken", lab.accounts.sign_up("ＡＮＮＡ", "other one", address=HERE, guest=None)
        )
        assert error.param == "name"
        assert (await lab.accounts.sign_in("anna", PASSWORD, address=HERE)).user == made.user
        await refused(401, "wrong_password", lab.accounts.sign_in("anna", "other one", address=HERE))


async def test_of_many_who_want_one_name_at_once_one_gets_it(tmp_path: Path) -> None:
    async with account_lab(tmp_path) as lab:
        answers = await asyncio.gather(*(sign_up(lab) for _ in range(20)), return_exceptions=True)
        made = [answer for answer in answers if isinstance(answer, SignedIn)]
        failed = [answer for answer in answers if isinstance(answer, ApiError)]
        assert (len(made), len(failed)) == (1, 19)
        assert {error.code for error in failed} == {"name_taken"}
        assert len(await lab.store.read(lambda tx: tx.accounts())) == 1


# -- guests


async def test_a_guest_who_signs_up_stays_who_it_was_with_all_that_is_theirs(tmp_path: Path) -> None:
    async with account_lab(tmp_path) as lab:
        guest = await lab.accounts.be_guest(address=HERE)
        elsewhere = await lab.accounts.be_guest(address=HERE, shared=guest.user)
        chat = await lab.chat(guest.user.id)
        made = await sign_up(lab, guest=guest.user)
        assert made.user.id == guest.user.id == await lab.owner(chat)
        assert (made.user.name, made.user.guest) == ("anna", False)
        for old in (guest, elsewhere):  # whoever was the same guest is not the same account
            await refused(401, "session_ended", lab.accounts.of_token(old.access_token))
            await refused(401, "session_ended", lab.accounts.renew(str(old.session)))
        assert (await lab.accounts.of_token(made.access_token)).name == "anna"


async def test_a_guest_becomes_one_account_whatever_is_asked_at_once(tmp_path: Path) -> None:
    async with account_lab(tmp_path) as lab:
        guest = (await lab.accounts.be_guest(address=HERE)).user
        chat = await lab.chat(guest.id)
        made = await asyncio.gather(*(sign_up(lab, f"anna{n}", guest=guest) for n in range(5)))
        ids = {one.user.id for one in made}
        assert len(ids) == 5
        assert await lab.owner(chat) == guest.id
        assert sum(one.user.id == guest.id for one in made) == 1


async def test_a_taken_name_leaves_the_guest_a_guest(tmp_path: Path) -> None:
    async with account_lab(tmp_path) as lab:
        await sign_up(lab)
        guest = await lab.accounts.be_guest(address=HERE)
        await refused(409, "name_taken", sign_up(lab, guest=guest.user))
        assert (await lab.accounts.of_token(guest.access_token)).guest


async def test_each_guest_is_one_of_its_own(tmp_path: Path) -> None:
    async with account_lab(tmp_path) as lab:
        one, other = [(await lab.accounts.be_guest(address=HERE)).user for _ in range(2)]
        assert one.guest
        assert other.guest
        assert one.id != other.id


async def test_the_local_guest_is_there_until_somebody_has_an_account_and_the_shared_one_always(tmp_path: Path) -> None:
    async with account_lab(tmp_path) as lab:
        local = await lab.accounts.local_guest()
        assert local is not None
        assert local.id == "guest"
        assert await lab.accounts.shared_guest() == local
        await sign_up(lab, "bob")
        assert await lab.accounts.local_guest() is None
        assert await lab.accounts.shared_guest() == local
        made = await sign_up(lab, "anna", guest=local)
        assert made.user.id == "guest"
        another = await lab.accounts.shared_guest()
        assert (another.guest, another.shared) == (True, True)
        assert another.id != "guest"
        assert await lab.accounts.shared_guest() == another


# -- limits


async def test_one_name_is_not_tried_for_ever_from_wherever_and_nobody_else_is_kept_out(tmp_path: Path) -> None:
    async with account_lab(tmp_path, with_settings(login_tries=3, window_s=30.0)) as lab:
        await sign_up(lab)
        await sign_up(lab, "bob")
        for n in range(3):
            await refused(401, "wrong_password", lab.accounts.sign_in("anna", "wrong", address=f"10.0.0.{n}"))
        error = await refused(429, "too_many_tries", lab.accounts.sign_in("ANNA", PASSWORD, address="10.0.1.1"))
        assert error.retry_after_s == pytest.approx(10.0)
        await lab.accounts.sign_in("bob", PASSWORD, address=HERE)
        lab.time.s += 10.0
        await lab.accounts.sign_in("anna", PASSWORD, address="10.0.1.1")


async def test_one_address_does_not_try_all_names(tmp_path: Path) -> None:
    async with account_lab(tmp_path, with_settings(address_tries=4)) as lab:
        for n in range(4):
            await refused(401, "wrong_password", lab.accounts.sign_in(f"name{n}", "wrong", address=HERE))
        error = await refused(429, "too_many_tries", lab.accounts.sign_in("name9", "wrong", address=HERE))
        assert error.retry_after_s
        await refused(401, "wrong_password", lab.accounts.sign_in("name9", "wrong", address="10.0.0.1"))


async def test_tries_at_the_same_time_are_counted_before_they_are_judged(tmp_path: Path) -> None:
    async with account_lab(tmp_path, with_settings(login_tries=5)) as lab:
        await sign_up(lab)
        asking = (lab.accounts.sign_in("anna", f"wrong {n}", address=f"10.0.0.{n}") for n in range(50))
        answers = await asyncio.gather(*asking, return_exceptions=True)
        statuses = [answer.status for answer in answers if isinstance(answer, ApiError)]
        assert (statuses.count(401), statuses.count(429)) == (5, 45)


async def test_the_right_password_can_be_given_for_ever(tmp_path: Path) -> None:
    async with account_lab(tmp_path, with_settings(login_tries=2, address_tries=2)) as lab:
        await sign_up(lab)
        for _ in range(6):
            await lab.accounts.sign_in("anna", PASSWORD, address=HERE)


async def test_one_address_does_not_make_guests_and_accounts_without_end(tmp_path: Path) -> None:
    async with account_lab(tmp_path, with_settings(address_tries=3)) as lab:
        await lab.accounts.be_guest(address=HERE)
        await lab.accounts.be_guest(address=HERE)
        await sign_up(lab)
        await refused(429, "too_many_tries", sign_up(lab, "bob"))
        await refused(429, "too_many_tries", lab.accounts.be_guest(address=HERE))
        await sign_up(lab, "bob", address="10.0.0.1")


async def test_bad_input_costs_neither_a_try_nor_a_hash(tmp_path: Path) -> None:
    async with account_lab(tmp_path, with_settings(address_tries=1, password_min_chars=12)) as lab:
        await refused(400, "unfit_password", lab.accounts.sign_up("anna", "elevenchars", address=HERE, guest=None))
        await refused(400, "unfit_name", lab.accounts.sign_up("", PASSWORD, address=HERE, guest=None))
        await refused(400, "unfit_password", lab.accounts.sign_in("anna", "x" * 1_000_000, address=HERE))
        assert lab.accounts.statistics()["at_once"] == 0
        await sign_up(lab)


# -- passwords that change


async def test_a_password_that_was_hashed_more_cheaply_is_hashed_anew(tmp_path: Path) -> None:
    async with account_lab(tmp_path) as lab:
        await sign_up(lab)
    dearer = Passwords(PasswordHasher(time_cost=2, memory_cost=16, parallelism=1))
    async with account_lab(tmp_path, passwords=dearer) as lab:
        before = await lab.store.read(lambda tx: tx.user_of_name("anna"))
        await lab.accounts.sign_in("anna", PASSWORD, address=HERE)
        after = await lab.store.read(lambda tx: tx.user_of_name("anna"))
        assert before is not None
        assert after is not None
        assert before.password != after.password
        await lab.accounts.sign_in("anna", PASSWORD, address=HERE)
        again = await lab.store.read(lambda tx: tx.user_of_name("anna"))
        assert again == after


async def test_a_reset_beside_the_server_holds_at_once(tmp_path: Path) -> None:
    async with account_lab(tmp_path) as lab:
        made = await sign_up(lab)

        def reset(tx: Any) -> None:
            tx.set_password(made.user.id, cheap().hash("a new one"))
            tx.end_sessions(made.user.id)

        await lab.store.run(reset)
        await refused(401, "session_ended", lab.accounts.of_token(made.access_token))
        await refused(401, "session_ended", lab.accounts.renew(str(made.session)))
        await refused(401, "wrong_password", lab.accounts.sign_in("anna", PASSWORD, address=HERE))
        await lab.accounts.sign_in("anna", "a new one", address=HERE)


async def test_a_reset_while_the_old_password_is_looked_at_wins(tmp_path: Path) -> None:
    async with account_lab(tmp_path) as lab:
        made = await sign_up(lab)
        entering = asyncio.create_task(lab.accounts.sign_in("anna", PASSWORD, address=HERE))
        while lab.accounts.statistics()["inside"] == 0:
            await asyncio.sleep(0)
        await lab.store.run(lambda tx: tx.set_password(made.user.id, cheap().hash("a new one")))
        await refused(401, "session_ended", entering)


# -- leaving


async def test_who_leaves_is_out_at_once_with_either_token_and_only_here(tmp_path: Path) -> None:
    async with account_lab(tmp_path) as lab:
        made = await sign_up(lab)
        entered = [await lab.accounts.sign_in("anna", PASSWORD, address=HERE) for _ in range(2)]
        await lab.accounts.leave(shown=str(made.session), access_token=None)
        await lab.accounts.leave(shown=None, access_token=entered[0].access_token)
        for gone in (made, entered[0]):
            await refused(401, "session_ended", lab.accounts.of_token(gone.access_token))
            await refused(401, "session_ended", lab.accounts.renew(str(gone.session)))
        assert await lab.accounts.of_token(entered[1].access_token)
        for nonsense in ("", "x", "a" * 32 + "." + "b" * 32):
            await lab.accounts.leave(shown=nonsense, access_token=nonsense)
        assert entered[1].session is not None
        await lab.accounts.leave(shown=f"{entered[1].session.handle}.{'b' * 32}", access_token=None)
        assert await lab.accounts.of_token(entered[1].access_token)


@pytest.mark.promise(97)
async def test_who_is_deleted_is_gone_with_everything_and_what_comes_late_is_not_kept(tmp_path: Path) -> None:
    async with account_lab(tmp_path) as lab:
        anna, bob = await sign_up(lab), await sign_up(lab, "bob")
        hers, his = await lab.chat(anna.user.id), await lab.chat(bob.user.id)
        await lab.chats.run(lambda tx: tx.prefer(anna.user.id, "model", "groq"))
        await lab.accounts.delete(anna.user)
        assert lab.told == [("quiet", anna.user.id), ("forgotten", (anna.user.id, [hers]))]
        assert (await lab.owner(hers), await lab.owner(his)) == (None, bob.user.id)
        assert await lab.chats.read(lambda tx: tx.preference(anna.user.id, "model")) is None
        await refused(401, "session_ended", lab.accounts.of_token(anna.access_token))
        await refused(401, "session_ended", lab.accounts.renew(str(anna.session)))
        await refused(401, "wrong_password", lab.accounts.sign_in("anna", PASSWORD, address=HERE))
        with pytest.raises(NoSuchOwner):  # a request that had been let in before
            await lab.chat(anna.user.id)
        with pytest.raises(NoSuchOwner):
            await lab.chats.run(lambda tx: tx.prefer(anna.user.id, "model", "groq"))
        again = await sign_up(lab)
        assert again.user.id != anna.user.id


async def test_a_deletion_goes_on_when_whoever_asked_has_gone(tmp_path: Path) -> None:
    async with account_lab(tmp_path) as lab:
        made = await sign_up(lab)
        asking = asyncio.create_task(lab.accounts.delete(made.user))
        await asyncio.sleep(0)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        while lab.accounts.statistics()["keeping"]:
            await asyncio.sleep(0)
        assert await lab.store.read(lambda tx: tx.user(made.user.id)) is None


async def test_a_guest_who_can_never_come_back_is_deleted_and_nobody_else(tmp_path: Path) -> None:
    async with account_lab(tmp_path, with_settings(refresh_s=3_600.0)) as lab:
        shared = await lab.accounts.shared_guest()
        anna = (await sign_up(lab)).user
        gone = (await lab.accounts.be_guest(address=HERE)).user
        chats = {user.id: await lab.chat(user.id) for user in (shared, anna, gone)}
        lab.time.s += 1_800
        here = (await lab.accounts.be_guest(address=HERE)).user
        lab.time.s += 1_801
        await lab.accounts.sweep()
        left = [user for user in (shared, anna, gone, here) if await lab.store.read(lambda tx, u=user: tx.user(u.id))]
        assert left == [shared, anna, here]
        assert [await lab.owner(chats[user.id]) for user in (shared, anna, gone)] == [shared.id, anna.id, None]


async def test_no_secret_is_logged(tmp_path: Path) -> None:
    with capture_logs() as log:
        async with account_lab(tmp_path) as lab:
            made = await sign_up(lab)
            lab.time.s += 60
            await lab.accounts.renew(str(made.session))
            lab.time.s += 60
            await refused(401, "session_ended", lab.accounts.renew(str(made.session)))
            await refused(401, "wrong_password", lab.accounts.sign_in("anna", "wrong horse", address=HERE))
            await lab.accounts.delete(made.user)
    said = repr(log)
    assert "session.replayed" in said
    assert made.session is not None
    for secret in (PASSWORD, "wrong horse", made.access_token, made.session.secret, made.session.handle):
        assert secret not in said

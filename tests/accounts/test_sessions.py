"""How a session goes on: whoever has the secret of now, and nobody else, however they take turns."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rivermouth.accounts.renewal import NS, Renewal, judge
from rivermouth.accounts.service import SignedIn
from rivermouth.accounts.tokens import SessionToken
from rivermouth.ir.errors import ApiError
from rivermouth.store.accounts.port import Session
from tests.accounts.lab import HERE, AccountLab, account_lab, with_settings

pytestmark = pytest.mark.anyio

GRACE_S = 30.0
SESSION = Session(
    id="s", user_id="u", secret="now", previous="before", created_ns=0, renewed_ns=100 * NS, expires_ns=1_000 * NS
)


@pytest.mark.parametrize(
    ("session", "digest", "at_s", "means"),
    [
        (SESSION, "now", 100, Renewal.GO_ON),
        (SESSION, "now", 999, Renewal.GO_ON),
        (SESSION, "now", 1_000, Renewal.OVER),
        (SESSION, "before", 1_000, Renewal.OVER),
        (SESSION, "before", 100, Renewal.REPEAT),
        (SESSION, "before", 130, Renewal.REPEAT),
        (SESSION, "before", 131, Renewal.REPLAYED),
        (SESSION, "other", 100, Renewal.REPLAYED),
        (msgspec.structs.replace(SESSION, previous=None), "before", 100, Renewal.REPLAYED),
        (None, "now", 100, Renewal.OVER),
    ],
)
async def test_what_a_secret_means(session: Session | None, digest: str, at_s: int, means: Renewal) -> None:
    assert judge(session, digest, at_s * NS, GRACE_S) is means


async def signed_out(lab: AccountLab, shown: object) -> None:
    with pytest.raises(ApiError) as caught:
        await lab.accounts.renew(str(shown))
    assert (caught.value.status, caught.value.code) == (401, "session_ended")


async def enter(lab: AccountLab, name: str = "anna") -> tuple[SignedIn, SessionToken]:
    made = await lab.accounts.sign_up(name, "correct horse", address=HERE, guest=None)
    assert made.session is not None
    return made, made.session


async def test_each_use_gives_another_secret_and_another_access_token(tmp_path: Path) -> None:
    async with account_lab(tmp_path) as lab:
        made, token = await enter(lab)
        seen = {str(token)}
        for _ in range(5):
            lab.time.s += 60
            renewed = await lab.accounts.renew(str(token))
            assert renewed.session is not None
            assert (await lab.accounts.of_token(renewed.access_token)).id == made.user.id
            token = renewed.session
            seen.add(str(token))
        assert len(seen) == 6


async def test_a_replayed_secret_ends_the_session_for_both(tmp_path: Path) -> None:
    async with account_lab(tmp_path) as lab:
        _, stolen = await enter(lab)
        thief = await lab.accounts.renew(str(stolen))
        lab.time.s += GRACE_S + 1
        await signed_out(lab, stolen)
        await signed_out(lab, thief.session)
        with pytest.raises(ApiError):
            await lab.accounts.of_token(thief.access_token)
        _, other = await enter(lab, "bob")  # other sessions go on
        assert (await lab.accounts.renew(str(other))).session is not None


async def test_a_repeat_within_the_grace_gets_the_same_answer_again(tmp_path: Path) -> None:
    """Two tabs at once, or a first answer that never arrived: both end up with the one secret that is good."""
    async with account_lab(tmp_path) as lab:
        _, token = await enter(lab)
        first, second = await asyncio.gather(*(lab.accounts.renew(str(token)) for _ in range(2)))
        assert first.session == second.session != token
        lab.time.s += GRACE_S - 1
        third = await lab.accounts.renew(str(token))
        assert third.session == first.session
        lab.time.s += 3_600
        assert (await lab.accounts.renew(str(first.session))).session is not None


async def test_a_repeat_after_the_next_use_is_a_replay(tmp_path: Path) -> None:
    async with account_lab(tmp_path) as lab:
        _, token = await enter(lab)
        first = await lab.accounts.renew(str(token))
        second = await lab.accounts.renew(str(first.session))
        await signed_out(lab, token)
        await signed_out(lab, second.session)


async def test_a_session_that_is_not_used_ends(tmp_path: Path) -> None:
    async with account_lab(tmp_path, with_settings(refresh_s=3_600.0)) as lab:
        made, token = await enter(lab)
        lab.time.s += 3_599
        renewed = await lab.accounts.renew(str(token))
        lab.time.s += 3_600
        await signed_out(lab, renewed.session)
        await lab.accounts.sweep()
        assert await lab.store.read(lambda tx: tx.session(token.session_id)) is None
        assert await lab.store.read(lambda tx: tx.user(made.user.id)) is not None


@pytest.mark.parametrize("shown", ["", ".", "x", "a" * 32 + "." + "b" * 32, "ä" * 32 + "." + "b" * 32, "a" * 100_000])
async def test_what_is_no_sessions_token_is_told_nothing(tmp_path: Path, shown: str) -> None:
    async with account_lab(tmp_path) as lab:
        await enter(lab)
        await signed_out(lab, shown)


async def test_a_guessed_secret_of_a_known_access_token_ends_nothing(tmp_path: Path) -> None:
    """An access token names its session by a digest, from which the handle of the session does not follow."""
    async with account_lab(tmp_path) as lab:
        made, token = await enter(lab)
        claim = lab.accounts._tokens.verify(made.access_token)
        await signed_out(lab, f"{claim.session_id[:32]}.{'b' * 32}")
        assert (await lab.accounts.renew(str(token))).session is not None


async def test_the_store_has_nothing_that_could_be_shown(tmp_path: Path) -> None:
    async with account_lab(tmp_path) as lab:
        made, token = await enter(lab)
        renewed = await lab.accounts.renew(str(token))
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert made.user.id.encode() in kept
    for secret in (token.secret, token.handle, renewed.access_token, "correct horse"):
        assert secret.encode() not in kept
    assert renewed.session is not None
    assert renewed.session.secret.encode() not in kept


async def test_an_old_browser_gives_way_when_a_user_has_too_many(tmp_path: Path) -> None:
    async with account_lab(tmp_path, with_settings(sessions_per_user=3, address_tries=100)) as lab:
        _, first = await enter(lab)
        entered = []
        for _ in range(3):
            lab.time.s += 1
            entered.append((await lab.accounts.sign_in("anna", "correct horse", address=HERE)).session)
        await signed_out(lab, first)
        for token in entered:
            await lab.accounts.renew(str(token))


class Family:
    """What a session ought to do, told by the rules alone."""

    def __init__(self) -> None:
        self.count = 0
        self.renewed_s = 0.0
        self.alive = True

    def shown(self, number: int, now_s: float) -> Renewal:
        """number: of the secret, counted from the first."""
        if not self.alive:
            return Renewal.OVER
        if number == self.count:
            self.count, self.renewed_s = self.count + 1, now_s
            return Renewal.GO_ON
        if number == self.count - 1 and now_s - self.renewed_s <= GRACE_S:
            return Renewal.REPEAT
        self.alive = False
        return Renewal.REPLAYED


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0, 1, 29, 31, 600])), max_size=14))
def test_any_order_of_old_and_new_secrets_does_what_the_rules_say(steps: list[tuple[int, int]]) -> None:
    async def story(lab: AccountLab) -> None:
        _, token = await enter(lab)
        secrets, family = [token], Family()
        for back, after_s in steps:
            lab.time.s += after_s
            number = max(len(secrets) - 1 - back, 0)
            means = family.shown(number, lab.time.s)
            if means in (Renewal.OVER, Renewal.REPLAYED):
                await signed_out(lab, secrets[number])
                continue
            answered = await lab.accounts.renew(str(secrets[number]))
            assert answered.session is not None
            assert await lab.accounts.of_token(answered.access_token)
            if means is Renewal.GO_ON:
                secrets.append(answered.session)
            assert answered.session == secrets[-1]

    _tell(story)


def _tell(story: Callable[[AccountLab], Any]) -> None:
    async def told() -> None:
        with tempfile.TemporaryDirectory() as folder:
            async with account_lab(Path(folder)) as lab:
                await story(lab)

    asyncio.run(told())

"""Signing up and in, going on, leaving, being deleted; and whose an access token is.

Nothing is kept in memory but how often somebody tried: a reset, a deletion or an end that another process writes holds
from the next request on.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import msgspec
import structlog

from rivermouth.accounts import names
from rivermouth.accounts.keyring import Keyring
from rivermouth.accounts.limits import Tries
from rivermouth.accounts.passwords import Passwords, bounded, fitting
from rivermouth.accounts.ports import Belongings
from rivermouth.accounts.renewal import NS, Renewal, judge
from rivermouth.accounts.settings import AccountSettings
from rivermouth.accounts.tokens import AccessTokens, Claim, SessionToken
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.store.accounts.port import AccountStore, AccountTx, Session, User
from rivermouth.store.chats.port import NoSuchOwner, Taken
from rivermouth.store.port import StoreError

log = structlog.get_logger()

T = TypeVar("T")

SWEEP: Final = 100


class SignedIn(msgspec.Struct, frozen=True):
    """session: the token that gets the next access token; None where the client has it already."""

    user: User
    access_token: str
    expires_in_s: int
    session: SessionToken | None


class Accounts:
    """`async with Accounts(...)`.  now_s: a clock that does not jump.  The store's own clock says when a token ends."""

    def __init__(
        self,
        store: AccountStore,
        keyring: Keyring,
        belongings: Belongings,
        settings: AccountSettings,
        *,
        now_s: Callable[[], float],
        unix_s: Callable[[], float],
        passwords: Passwords | None = None,
    ) -> None:
        self._store = store
        self._keyring = keyring
        self._belongings = belongings
        self.settings = settings
        self._now_s = now_s
        self._tokens = AccessTokens(keyring, unix_s)
        self.passwords = passwords or Passwords()
        self._names = Tries(settings.login_tries, settings.window_s)
        self._addresses = Tries(settings.address_tries, settings.window_s)
        self._newcomers = Tries(settings.address_tries, settings.window_s)
        self._keeping: set[asyncio.Task[Any]] = set()
        self._loops: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self._keyring.open)
        self._loops = [
            asyncio.create_task(self._repeat(self._reload, self.settings.reload_s)),
            asyncio.create_task(self._repeat(self.sweep, self.settings.sweep_s)),
        ]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for loop in self._loops:
            loop.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)
        if self._keeping:
            await asyncio.wait(self._keeping)
        await self.passwords.close()

    def adopt(self, settings: AccountSettings) -> None:
        """From now on these.  A token that was given, and a session, end when they were to."""
        self.settings = settings
        self._names.allow(settings.login_tries, settings.window_s)
        self._addresses.allow(settings.address_tries, settings.window_s)
        self._newcomers.allow(settings.address_tries, settings.window_s)

    def statistics(self) -> dict[str, int]:
        tries = len(self._names) + len(self._addresses) + len(self._newcomers)
        return {"tries": tries, "keeping": len(self._keeping), **self.passwords.statistics()}

    # -- whose a request is

    async def of_token(self, token: str) -> User:
        """The user whose access token it is.  Raises `ApiError` authentication, also when the session has ended."""
        claim = self._tokens.verify(token)

        def find(tx: AccountTx) -> User | None:
            session = tx.session(claim.session_id)
            return tx.user(claim.user_id) if session is not None and session.user_id == claim.user_id else None

        user = await self._read(find)
        if user is None:
            raise _signed_out()
        return user

    async def local_guest(self) -> User | None:
        """The shared guest, as long as nobody has an account."""
        if await self._read(lambda tx: tx.any_account()):
            return None
        return await self.shared_guest()

    async def shared_guest(self) -> User:
        """The guest whom all are who are told apart by nothing; made anew when the last one became an account."""
        found = await self._read(lambda tx: tx.shared_guest())
        if found is not None:
            return found
        return await self._run(lambda tx: tx.shared_guest() or tx.insert_shared_guest(_new_id()))

    # -- coming

    async def sign_up(self, name: str, password: str, *, address: str, guest: User | None) -> SignedIn:
        """A new account; where a guest signs up, theirs from now on is what was the guest's.

        Raises `ApiError`: invalid_request (409: the name is taken), rate_limited, overloaded.
        """
        plain = names.shown(name)
        fit = fitting(password, self.settings.password_min_chars)
        self._once(self._newcomers, address)
        hashed = await self.passwords.hashed(fit)

        def enter(tx: AccountTx) -> User:
            key = names.key(plain)
            if guest is not None and tx.name_guest(guest.id, name=plain, name_key=key, password=hashed):
                tx.end_sessions(guest.id)  # other browsers were this guest too, and are not this account
                return _there(tx.user(guest.id))
            return tx.insert_user(_new_id(), name=plain, name_key=key, password=hashed)

        try:
            signed_in = await self._whole(self._enter(enter))
        except Taken:
            raise ApiError(
                Kind.INVALID_REQUEST, "this name is taken", param="name", code="name_taken", status=409
            ) from None
        if guest is not None:
            self._belongings.send_away(guest.id)
        log.info("account.made", user=signed_in.user.id, was_guest=guest is not None)
        return signed_in

    async def sign_in(self, name: str, password: str, *, address: str) -> SignedIn:
        """Raises `ApiError`: authentication, which does not tell if there is such a name; rate_limited, overloaded."""
        key, fit = names.key(name[: names.MOST_TYPED]), bounded(password)
        self._once(self._addresses, address)
        self._once(self._names, key)
        found = await self._read(lambda tx: tx.user_of_name(key))
        checked = await self.passwords.check(found.password if found is not None else None, fit)
        if found is None or not checked.right:
            raise ApiError(Kind.AUTHENTICATION, "name or password is not right", code="wrong_password")
        self._addresses.give_back(address)
        self._names.give_back(key)
        stored, better = found.password, checked.better

        def enter(tx: AccountTx) -> User:
            now = tx.user(found.id)
            if now is None or now.password != stored:  # deleted, or reset, while this one was looked at
                raise NoSuchOwner(found.id)
            if better is not None:
                tx.set_password(now.id, better)
            return now

        return await self._whole(self._enter(enter))

    async def be_guest(self, *, address: str, shared: User | None = None) -> SignedIn:
        """As that guest, or as a new one."""
        if shared is not None:
            return await self._whole(self._enter(lambda tx: _there(tx.user(shared.id))))
        self._once(self._newcomers, address)
        return await self._whole(self._enter(lambda tx: tx.insert_user(_new_id())))

    async def _enter(self, who: Callable[[AccountTx], User]) -> SignedIn:
        """A new session of the user whom this finds or makes, in one transaction."""
        token = SessionToken.new()

        def enter(tx: AccountTx) -> User:
            user = who(tx)
            tx.insert_session(token.session_id, user.id, secret=token.digest, expires_ns=self._ends_ns(tx))
            tx.end_sessions(user.id, keep=self.settings.sessions_per_user)
            return user

        return self._signed_in(await self._run(enter), token.session_id, token)

    # -- going on

    async def renew(self, shown: str) -> SignedIn:
        """Another access token for a session token, and the one that takes its place.  Raises `ApiError`."""
        token = SessionToken.parse(shown)
        if token is None:
            raise _signed_out()
        return await self._whole(self._renew(token))

    async def _renew(self, token: SessionToken) -> SignedIn:
        following = token.next(self._keyring)

        def renew(tx: AccountTx) -> tuple[Renewal, User | None, Session | None]:
            session = tx.session(token.session_id)
            means = judge(session, token.digest, tx.now_ns(), self.settings.grace_s)
            if session is None:
                return means, None, None
            if means is Renewal.REPLAYED:
                tx.end_session(session.id)
            elif means is Renewal.GO_ON:
                tx.renew_session(session.id, was=token.digest, secret=following.digest, expires_ns=self._ends_ns(tx))
            return means, tx.user(session.user_id), session

        means, user, session = await self._run(renew)
        if means is Renewal.REPLAYED and session is not None:
            self._belongings.send_away(session.user_id)
            log.warning("session.replayed", user=session.user_id)
        if user is None or session is None or means in (Renewal.REPLAYED, Renewal.OVER):
            raise _signed_out()
        again = means is Renewal.GO_ON or following.digest == session.secret
        return self._signed_in(user, session.id, following if again else None)

    # -- leaving

    async def leave(self, *, shown: str | None, access_token: str | None) -> None:
        """The sessions of both tokens end, as far as they are good."""
        ids, users = set[str](), set[str]()
        token = SessionToken.parse(shown) if shown is not None else None
        if token is not None:
            known = await self._read(lambda tx: tx.session(token.session_id))
            if known is not None and token.digest in (known.secret, known.previous):
                ids.add(known.id)
                users.add(known.user_id)
        if access_token is not None:
            try:
                claim = self._tokens.verify(access_token)
                ids.add(claim.session_id)
                users.add(claim.user_id)
            except ApiError:
                log.debug("session.token_was_no_good")
        if ids:
            await self._whole(self._run(lambda tx: [tx.end_session(session_id) for session_id in ids]))
        for user_id in users:
            self._belongings.send_away(user_id)

    async def delete(self, user: User) -> None:
        """With everything that is theirs.  What runs for them is stopped first."""
        await self._whole(self._delete(user.id))

    async def _delete(self, user_id: str) -> None:
        await self._belongings.quiet(user_id)
        chat_ids = await self._run(lambda tx: tx.delete_user(user_id))
        await self._belongings.forgotten(user_id, chat_ids)
        log.info("account.deleted", user=user_id, chats=len(chat_ids))
        try:
            await self._store.wipe()
        except StoreError as error:
            log.info("account.not_wiped", reason=str(error))  # the rows are gone; their pages go with the next one

    # -- what happens by itself

    async def sweep(self) -> None:
        """Sessions that have run out end, and guests who can never come back are deleted."""
        await self._run(lambda tx: tx.end_expired())
        while stranded := await self._read(lambda tx: tx.stranded(SWEEP)):
            for user in stranded:
                await self._delete(user.id)

    async def _reload(self) -> None:
        await asyncio.to_thread(self._keyring.reload)

    async def _repeat(self, work: Callable[[], Awaitable[None]], every_s: float) -> None:
        while True:
            try:
                await work()
            except (ApiError, StoreError) as error:
                log.warning("accounts.failed", work=getattr(work, "__name__", ""), reason=str(error))
            except Exception:  # a loop that ended would leave sessions and guests for ever, without a word
                log.exception("accounts.loop_failed", work=getattr(work, "__name__", ""))
            await asyncio.sleep(every_s)

    # -- what they are made of

    def _once(self, tries: Tries, key: str) -> None:
        wait_s = tries.take(key, self._now_s())
        if wait_s > 0:
            raise ApiError(Kind.RATE_LIMITED, "too many tries", code="too_many_tries", retry_after_s=wait_s)

    def _signed_in(self, user: User, session_id: str, token: SessionToken | None) -> SignedIn:
        good_s = self.settings.access_s
        return SignedIn(user, self._tokens.issue(Claim(user.id, session_id), good_s), int(good_s), token)

    def _ends_ns(self, tx: AccountTx) -> int:
        return tx.now_ns() + int(self.settings.refresh_s * NS)

    async def _whole(self, work: Awaitable[T]) -> T:
        """Done to its end, also when whoever asked for it is gone meanwhile."""
        task: asyncio.Task[T] = asyncio.ensure_future(work)
        self._keeping.add(task)
        task.add_done_callback(self._kept)
        return await asyncio.shield(task)

    def _kept(self, task: asyncio.Task[Any]) -> None:
        self._keeping.discard(task)
        if not task.cancelled():
            task.exception()  # whoever asked has it, or has gone

    async def _run(self, work: Callable[[AccountTx], T]) -> T:
        return await _named(self._store.run(work))

    async def _read(self, work: Callable[[AccountTx], T]) -> T:
        return await _named(self._store.read(work))


async def _named(work: Awaitable[T]) -> T:
    """The store's failures as the client is told of them."""
    try:
        return await work
    except NoSuchOwner:
        raise _signed_out() from None
    except StoreError as error:
        log.error("accounts.store_failed", reason=str(error))
        kind = Kind.OVERLOADED if error.passing else Kind.INTERNAL
        raise ApiError(kind, "accounts cannot be looked up now", retry_after_s=1.0 if error.passing else None) from None


def _signed_out() -> ApiError:
    return ApiError(Kind.AUTHENTICATION, "the session has ended: sign in", code="session_ended")


def _there(user: User | None) -> User:
    if user is None:
        raise NoSuchOwner("the guest")
    return user


def _new_id() -> str:
    """Of a user; never used again."""
    return os.urandom(12).hex()

"""What a store of accounts must do, and the values it keeps.

A *user* is whoever owns chats.  Most have an account: a name and a password.  A *guest* has neither, and becomes an
account by being given both, under the same id: nothing that is theirs moves, and no turn that is being written notices.
At most one guest is *shared*: everybody whom the server knows only as "who is at this machine", or "has a key", is that
one.

A *session* is one browser, or one program, of a user.  Its secrets are here as digests alone: the one that renews it
next, and the one before, so that a repeated one is told from a foreign one.

Times are Unix nanoseconds by the store's clock.  The contract suite in tests/accounts/test_store.py runs over every
adapter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import msgspec

T = TypeVar("T")


class User(msgspec.Struct, frozen=True, kw_only=True):
    """name: as it was typed; "" for a guest.  name_key: by which it is looked up.  password: as `passwords` keeps it.

    Equal ids are one person for ever: none is used again.
    """

    id: str
    name: str
    name_key: str | None
    password: str | None
    guest: bool
    shared: bool
    created_ns: int


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """secret, previous: digests.  renewed_ns: when `secret` took the place of `previous`."""

    id: str
    user_id: str
    secret: str
    previous: str | None
    created_ns: int
    renewed_ns: int
    expires_ns: int


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """An account as a list shows it.  seen_ns: when a session of it was last renewed; None without one."""

    id: str
    name: str
    created_ns: int
    seen_ns: int | None
    sessions: int
    chats: int


class AccountTx(Protocol):
    """One transaction.  Its methods block; it is good only inside the function that was given it."""

    def now_ns(self) -> int: ...

    # users

    def insert_user(
        self, user_id: str, *, name: str = "", name_key: str | None = None, password: str | None = None
    ) -> User:
        """An account where there is a name, else a guest.  Raises `Taken` for a name that somebody has."""
        ...

    def user(self, user_id: str) -> User | None: ...

    def user_of_name(self, name_key: str) -> User | None: ...

    def any_account(self) -> bool: ...

    def accounts(self) -> Sequence[Listed]:
        """Without guests, in the order of their names."""
        ...

    def shared_guest(self) -> User | None: ...

    def insert_shared_guest(self, user_id: str) -> User:
        """Raises `Taken` when there is one."""
        ...

    def name_guest(self, user_id: str, *, name: str, name_key: str, password: str) -> bool:
        """A guest becomes an account, and is shared no more.  False for who is no guest.  Raises `Taken`."""
        ...

    def set_password(self, user_id: str, password: str) -> None: ...

    def delete_user(self, user_id: str) -> Sequence[int]:
        """With the sessions, the chats and all else that is theirs.  The ids of the chats that there were."""
        ...

    def stranded(self, limit: int) -> Sequence[User]:
        """Guests who can never come back: not the shared one, and without a session."""
        ...

    # sessions

    def insert_session(self, session_id: str, user_id: str, *, secret: str, expires_ns: int) -> Session: ...

    def session(self, session_id: str) -> Session | None: ...

    def renew_session(self, session_id: str, *, was: str, secret: str, expires_ns: int) -> bool:
        """False, and nothing is written, where the secret is another than `was`."""
        ...

    def end_session(self, session_id: str) -> bool: ...

    def end_sessions(self, user_id: str, *, keep: int = 0) -> int:
        """All of a user but the `keep` that were renewed last.  How many."""
        ...

    def end_expired(self) -> int: ...


class AccountStore(Protocol):
    """The port.  Adapters rename their engine's exceptions to `StoreError`, and to `Taken`."""

    async def run(self, work: Callable[[AccountTx], T]) -> T:
        """One writing transaction, as `ChatStore.run`."""
        ...

    async def read(self, work: Callable[[AccountTx], T]) -> T:
        """One consistent reading; nothing can be written in it."""
        ...

    async def wipe(self) -> None:
        """What was deleted is overwritten wherever the adapter kept copies of it, as far as nobody is in the way."""
        ...

    async def close(self) -> None:
        """Release connections and threads.  Idempotent."""
        ...

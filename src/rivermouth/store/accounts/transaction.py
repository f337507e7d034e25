"""One transaction over the tables of the accounts, in SQLAlchemy Core."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec
from sqlalchemy import Connection, RowMapping, Select, and_, delete, exists, func, insert, select, update

from rivermouth.store.accounts.port import Listed, Session, User
from rivermouth.store.accounts.tables import sessions, users
from rivermouth.store.chats.port import NoSuchOwner
from rivermouth.store.chats.tables import chats
from rivermouth.store.chats.transaction import SqlTx

S = TypeVar("S", bound=msgspec.Struct)


class SqlAccountTx:
    """The port `AccountTx`."""

    def __init__(self, connection: Connection, clock_ns: Callable[[], int]) -> None:
        self._connection = connection
        self._clock_ns = clock_ns

    def now_ns(self) -> int:
        return self._clock_ns()

    # users

    def insert_user(
        self, user_id: str, *, name: str = "", name_key: str | None = None, password: str | None = None
    ) -> User:
        return self._insert(self._new(user_id, name=name, name_key=name_key, password=password))

    def user(self, user_id: str) -> User | None:
        return self._one(select(users).where(users.c.id == user_id), User)

    def user_of_name(self, name_key: str) -> User | None:
        return self._one(select(users).where(users.c.name_key == name_key), User)

    def any_account(self) -> bool:
        return self._connection.execute(select(users.c.id).where(users.c.guest == 0).limit(1)).first() is not None

    def accounts(self) -> Sequence[Listed]:
        theirs = sessions.c.user_id == users.c.id
        owned = select(func.count()).select_from(chats).where(chats.c.owner == users.c.id).scalar_subquery()
        here = select(func.count()).select_from(sessions).where(theirs).scalar_subquery()
        seen = select(func.max(sessions.c.renewed_ns)).where(theirs).scalar_subquery()
        query = select(
            users.c.id,
            users.c.name,
            users.c.created_ns,
            seen.label("seen_ns"),
            here.label("sessions"),
            owned.label("chats"),
        )
        return self._all(query.where(users.c.guest == 0).order_by(users.c.name_key), Listed)

    def shared_guest(self) -> User | None:
        return self._one(select(users).where(users.c.shared == 1), User)

    def insert_shared_guest(self, user_id: str) -> User:
        return self._insert(self._new(user_id, shared=True))

    def name_guest(self, user_id: str, *, name: str, name_key: str, password: str) -> bool:
        here = and_(users.c.id == user_id, users.c.guest == 1)
        values = {"name": name, "name_key": name_key, "password": password, "guest": 0, "shared": 0}
        return self._connection.execute(update(users).where(here).values(values)).rowcount > 0

    def set_password(self, user_id: str, password: str) -> None:
        self._connection.execute(update(users).where(users.c.id == user_id).values(password=password))

    def delete_user(self, user_id: str) -> Sequence[int]:
        self.end_sessions(user_id)
        theirs = SqlTx(self._connection, self._clock_ns).delete_owner(user_id)
        self._connection.execute(delete(users).where(users.c.id == user_id))
        return theirs

    def stranded(self, limit: int) -> Sequence[User]:
        alone = and_(users.c.guest == 1, users.c.shared == 0)
        gone = ~exists().where(sessions.c.user_id == users.c.id)
        return self._all(select(users).where(alone, gone).limit(limit), User)

    # sessions

    def insert_session(self, session_id: str, user_id: str, *, secret: str, expires_ns: int) -> Session:
        must_exist(self._connection, user_id)
        now_ns = self.now_ns()
        made = Session(
            id=session_id,
            user_id=user_id,
            secret=secret,
            previous=None,
            created_ns=now_ns,
            renewed_ns=now_ns,
            expires_ns=expires_ns,
        )
        self._connection.execute(insert(sessions).values(msgspec.structs.asdict(made)))
        return made

    def session(self, session_id: str) -> Session | None:
        return self._one(select(sessions).where(sessions.c.id == session_id), Session)

    def renew_session(self, session_id: str, *, was: str, secret: str, expires_ns: int) -> bool:
        here = and_(sessions.c.id == session_id, sessions.c.secret == was)
        values = {"secret": secret, "previous": was, "renewed_ns": self.now_ns(), "expires_ns": expires_ns}
        return self._connection.execute(update(sessions).where(here).values(values)).rowcount > 0

    def end_session(self, session_id: str) -> bool:
        return self._connection.execute(delete(sessions).where(sessions.c.id == session_id)).rowcount > 0

    def end_sessions(self, user_id: str, *, keep: int = 0) -> int:
        kept = (
            select(sessions.c.id)
            .where(sessions.c.user_id == user_id)
            .order_by(sessions.c.renewed_ns.desc(), sessions.c.id)
            .limit(keep)
        )
        theirs = and_(sessions.c.user_id == user_id, sessions.c.id.not_in(kept))
        return self._connection.execute(delete(sessions).where(theirs)).rowcount

    def end_expired(self) -> int:
        return self._connection.execute(delete(sessions).where(sessions.c.expires_ns <= self.now_ns())).rowcount

    # what they are made of

    def _new(
        self,
        user_id: str,
        *,
        name: str = "",
        name_key: str | None = None,
        password: str | None = None,
        shared: bool = False,
    ) -> User:
        return User(
            id=user_id,
            name=name,
            name_key=name_key,
            password=password,
            guest=name_key is None,
            shared=shared,
            created_ns=self.now_ns(),
        )

    def _insert(self, user: User) -> User:
        values = {**msgspec.structs.asdict(user), "guest": int(user.guest), "shared": int(user.shared)}
        self._connection.execute(insert(users).values(values))
        return user

    def _one(self, query: Select[Any], shape: type[S]) -> S | None:
        row = self._connection.execute(query).mappings().first()
        return _value(row, shape) if row is not None else None

    def _all(self, query: Select[Any], shape: type[S]) -> list[S]:
        return [_value(row, shape) for row in self._connection.execute(query).mappings()]


def _value(row: RowMapping, shape: type[S]) -> S:
    return msgspec.convert({str(name): value for name, value in row.items()}, shape, strict=False)


def must_exist(connection: Connection, user_id: str) -> None:
    """Raises `NoSuchOwner`: what is written after a deletion would never be deleted."""
    if connection.execute(select(users.c.id).where(users.c.id == user_id)).first() is None:
        raise NoSuchOwner(user_id)

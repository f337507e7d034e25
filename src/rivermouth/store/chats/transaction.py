"""One transaction over the tables of the chats, in SQLAlchemy Core."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec
from sqlalchemy import (
    ColumnElement,
    Connection,
    RowMapping,
    Select,
    Table,
    and_,
    bindparam,
    delete,
    func,
    insert,
    or_,
    select,
    text,
    update,
)

from rivermouth.store.chats.port import Answer, AtWork, Chat, Hit, Message, Pulse, Turn
from rivermouth.store.chats.tables import chats, messages, preferences, turns, workers

S = TypeVar("S", bound=msgspec.Struct)

MOST_AT_ONCE: Final = 10_000
"""Of the parameters of one statement."""

_FIND: Final = text(
    "SELECT f.rowid AS message_id, c.id AS chat_id, c.title AS title,"
    " snippet(found_text, 0, '', '', '…', 12) AS snippet"
    " FROM found_text AS f JOIN chats AS c ON c.id = f.chat_id"
    " WHERE found_text MATCH :words AND c.owner = :owner ORDER BY f.rank LIMIT :many"
)
_ADD: Final = text("INSERT INTO found_text (rowid, text, chat_id) VALUES (:id, :text, :chat_id)")
_FORGET: Final = text("DELETE FROM found_text WHERE rowid = :id")
_FORGET_DELETED: Final = text("INSERT INTO found_text (found_text) VALUES ('optimize')")
"""Until its pieces are merged, a full-text index still holds the words of rows that are gone."""
_FORGET_CHAT: Final = text("DELETE FROM found_text WHERE rowid IN (SELECT id FROM messages WHERE chat_id = :chat_id)")


def _pulses() -> Select[Any]:
    active = turns.alias()
    last = select(func.max(turns.c.seqno)).where(turns.c.chat_id == chats.c.id).scalar_subquery()
    return (
        select(
            *(chats.c.id, chats.c.generation, chats.c.updated_ns, chats.c.active_turn),
            *(last.label("seqno"), active.c.state, messages.c.folded_to),
        )
        .select_from(chats)
        .outerjoin(active, active.c.id == chats.c.active_turn)
        .outerjoin(messages, messages.c.id == active.c.assistant_message_id)
        .where(chats.c.id.in_(bindparam("chat_ids", expanding=True)))
    )


def _heads() -> Select[Any]:
    waiting = (
        select(func.min(turns.c.seqno).label("seqno"), turns.c.chat_id.label("chat_id"))
        .where(turns.c.state == bindparam("queued"))
        .group_by(turns.c.chat_id)
        .subquery()
    )
    idle = select(turns).join(waiting, and_(turns.c.chat_id == waiting.c.chat_id, turns.c.seqno == waiting.c.seqno))
    return idle.join(chats, chats.c.id == turns.c.chat_id).where(chats.c.active_turn.is_(None))


_PULSES: Final = _pulses()
_HEADS: Final = _heads()
"""Asked every second for as long as the server runs: to build them takes longer than to answer them."""


class SqlTx:
    """The port `Tx`.  must_exist: raises `NoSuchOwner` for who may own nothing; None: anybody may."""

    def __init__(
        self,
        connection: Connection,
        clock_ns: Callable[[], int],
        must_exist: Callable[[Connection, str], None] | None = None,
    ) -> None:
        self._connection = connection
        self._clock_ns = clock_ns
        self._must_exist = must_exist

    def now_ns(self) -> int:
        return self._clock_ns()

    # chats

    def insert_chat(self, owner: str, title: str, *, titled: bool, instructions: str) -> Chat:
        self._check(owner)
        now_ns = self.now_ns()
        made = self._insert(
            chats,
            owner=owner,
            title=title,
            titled=titled,
            instructions=instructions,
            created_ns=now_ns,
            updated_ns=now_ns,
        )
        return self._known(self.chat(made))

    def chat(self, chat_id: int, owner: str | None = None) -> Chat | None:
        mine = chats.c.id == chat_id if owner is None else and_(chats.c.id == chat_id, chats.c.owner == owner)
        return self._one(select(chats).where(mine), Chat)

    def chats(self, owner: str, limit: int, before: tuple[int, int] | None) -> Sequence[Chat]:
        query = select(chats).where(chats.c.owner == owner)
        if before is not None:
            at_ns, last = before
            earlier = and_(chats.c.updated_ns == at_ns, chats.c.id < last)
            query = query.where(or_(chats.c.updated_ns < at_ns, earlier))
        return self._all(query.order_by(chats.c.updated_ns.desc(), chats.c.id.desc()).limit(limit), Chat)

    def pulses(self, chat_ids: Sequence[int]) -> Mapping[int, Pulse]:
        found: dict[int, Pulse] = {}
        for begin in range(0, len(chat_ids), MOST_AT_ONCE):
            some = chat_ids[begin : begin + MOST_AT_ONCE]
            found |= {pulse.id: pulse for pulse in self._all(_PULSES, Pulse, chat_ids=some)}
        return found

    def update_chat(self, chat_id: int, **values: Any) -> bool:
        return self._changed(chats, chats.c.id == chat_id, values)

    def delete_chat(self, chat_id: int) -> bool:
        self._connection.execute(_FORGET_CHAT, {"chat_id": chat_id})
        self._connection.execute(delete(messages).where(messages.c.chat_id == chat_id))
        self._connection.execute(delete(turns).where(turns.c.chat_id == chat_id))
        return self._connection.execute(delete(chats).where(chats.c.id == chat_id)).rowcount > 0

    # turns

    def insert_turn(self, chat_id: int, **values: Any) -> Turn:
        last = self._connection.execute(select(func.max(turns.c.seqno)).where(turns.c.chat_id == chat_id)).scalar()
        made = self._insert(turns, chat_id=chat_id, seqno=(last or 0) + 1, created_ns=self.now_ns(), **values)
        return self._known(self.turn(made))

    def turn(self, turn_id: int) -> Turn | None:
        return self._one(select(turns).where(turns.c.id == turn_id), Turn)

    def turns(self, chat_id: int, states: Iterable[str] | None = None) -> Sequence[Turn]:
        query = select(turns).where(turns.c.chat_id == chat_id).order_by(turns.c.seqno)
        return self._all(query if states is None else query.where(_in(states)), Turn)

    def turn_of_request(self, chat_id: int, request_id: str) -> Turn | None:
        here = and_(turns.c.chat_id == chat_id, turns.c.request_id == request_id)
        return self._one(select(turns).where(here), Turn)

    def move_turn(
        self,
        turn_id: int,
        sources: Iterable[str],
        to: str,
        *,
        generation: int | None = None,
        new_generation: int | None = None,
        **values: Any,
    ) -> bool:
        here = and_(turns.c.id == turn_id, _in(sources))
        if generation is not None:
            here = and_(here, turns.c.generation == generation)
        if new_generation is not None:
            values["generation"] = new_generation
        return self._changed(turns, here, {**values, "state": to})

    def set_turns(self, turn_ids: Iterable[int], **values: Any) -> None:
        self._changed(turns, turns.c.id.in_(list(turn_ids)), values)

    # messages

    def insert_message(self, chat_id: int, turn_id: int, role: str, parts: str, text: str) -> Message:
        made = self._insert(
            messages, chat_id=chat_id, turn_id=turn_id, role=role, parts=parts, text=text, created_ns=self.now_ns()
        )
        if text:
            self._connection.execute(_ADD, {"id": made, "text": text, "chat_id": chat_id})
        return self._known(self.message(made))

    def messages(self, chat_id: int, role: str | None = None) -> Sequence[Message]:
        query = select(messages).where(messages.c.chat_id == chat_id).order_by(messages.c.id)
        return self._all(query if role is None else query.where(messages.c.role == role), Message)

    def message(self, message_id: int) -> Message | None:
        return self._one(select(messages).where(messages.c.id == message_id), Message)

    def answer(self, message_id: int) -> Answer | None:
        shown = select(messages.c.id, turns.c.state, messages.c.folded_to, messages.c.text)
        here = messages.c.id == message_id
        return self._one(shown.join(turns, turns.c.id == messages.c.turn_id).where(here), Answer)

    def folded(self, chat_id: int) -> Mapping[int, str]:
        answers = and_(messages.c.chat_id == chat_id, messages.c.role == "assistant")
        found = self._connection.execute(select(messages.c.id, messages.c.folded_to).where(answers))
        return {row.id: row.folded_to for row in found}

    def write_message(self, message_id: int, *, searchable: bool = False, **values: Any) -> None:
        if self._changed(messages, messages.c.id == message_id, values) and searchable:
            self._connection.execute(_FORGET, {"id": message_id})
            said = select(messages.c.text, messages.c.chat_id).where(messages.c.id == message_id)
            for row in self._connection.execute(said):
                if row.text:
                    self._connection.execute(_ADD, {"id": message_id, "text": row.text, "chat_id": row.chat_id})

    def delete_message(self, message_id: int) -> None:
        self._connection.execute(_FORGET, {"id": message_id})
        self._connection.execute(delete(messages).where(messages.c.id == message_id))

    # workers

    def beat(self, boot_id: str) -> None:
        now_ns = self.now_ns()
        if not self._changed(workers, workers.c.boot_id == boot_id, {"beat_ns": now_ns}):
            self._connection.execute(insert(workers).values(boot_id=boot_id, beat_ns=now_ns))

    def turns_of(self, boot_id: str, states: Iterable[str]) -> Sequence[Turn]:
        return self._all(select(turns).where(turns.c.worker == boot_id, _in(states)), Turn)

    def orphans(self, states: Iterable[str], *, beat_before_ns: int, now_ns: int) -> Sequence[Turn]:
        alive = select(workers.c.boot_id).where(workers.c.beat_ns >= beat_before_ns)
        lost = or_(turns.c.worker.is_(None), turns.c.worker.not_in(alive))
        late = or_(turns.c.stop_deadline_ns < now_ns, turns.c.hard_deadline_ns < now_ns)
        recovering = and_(turns.c.state == "recovering", lost)
        return self._all(
            select(turns).where(_in(states), or_(recovering, and_(turns.c.state != "recovering", or_(lost, late)))),
            Turn,
        )

    def foreign(self, states: Iterable[str], boot_id: str) -> Sequence[Turn]:
        return self._all(select(turns).where(_in(states), func.coalesce(turns.c.worker, "") != boot_id), Turn)

    def heads(self, queued: str) -> Sequence[Turn]:
        return self._all(_HEADS, Turn, queued=str(queued))

    def forget_workers(self, beat_before_ns: int) -> None:
        self._connection.execute(delete(workers).where(workers.c.beat_ns < beat_before_ns))

    def count_unended(self, owner: str, states: Iterable[str]) -> int:
        query = select(func.count()).select_from(turns).join(chats, chats.c.id == turns.c.chat_id)
        return int(self._connection.execute(query.where(chats.c.owner == owner, _in(states))).scalar_one())

    def at_work(self, states: Iterable[str]) -> Sequence[AtWork]:
        named = [turns.c[name] for name in AtWork.__struct_fields__ if name not in ("owner", "folded_to")]
        query = select(*named, chats.c.owner, func.coalesce(messages.c.folded_to, "").label("folded_to"))
        query = query.join(chats, chats.c.id == turns.c.chat_id)
        query = query.outerjoin(messages, messages.c.id == turns.c.assistant_message_id)
        return self._all(query.where(_in(states)).order_by(turns.c.id), AtWork)

    def beats(self) -> dict[str, int]:
        return {str(boot_id): beat_ns for boot_id, beat_ns in self._connection.execute(select(workers))}

    # people

    def preference(self, owner: str, name: str) -> str | None:
        here = and_(preferences.c.owner == owner, preferences.c.name == name)
        return self._connection.execute(select(preferences.c.value).where(here)).scalar()

    def prefer(self, owner: str, name: str, value: str) -> None:
        self._check(owner)
        here = and_(preferences.c.owner == owner, preferences.c.name == name)
        if not self._changed(preferences, here, {"value": value}):
            self._connection.execute(insert(preferences).values(owner=owner, name=name, value=value))

    def delete_owner(self, owner: str) -> list[int]:
        theirs = list(self._connection.execute(select(chats.c.id).where(chats.c.owner == owner)).scalars())
        for chat_id in theirs:
            self.delete_chat(chat_id)
        self._connection.execute(delete(preferences).where(preferences.c.owner == owner))
        if theirs:
            self._connection.execute(_FORGET_DELETED)
        return theirs

    def search(self, owner: str, words: Sequence[str], limit: int) -> Sequence[Hit]:
        if not words:
            return []
        titled = select(chats.c.id, chats.c.title).where(chats.c.owner == owner)
        for word in words:
            titled = titled.where(chats.c.title.icontains(word, autoescape=True))
        found = [
            Hit(chat_id=row.id, title=row.title, message_id=None, snippet=row.title)
            for row in self._connection.execute(titled.order_by(chats.c.updated_ns.desc()).limit(limit))
        ]
        asked = {"words": " ".join(_quoted(word) for word in words), "owner": owner, "many": limit}
        found += [
            Hit(chat_id=row.chat_id, title=row.title, message_id=row.message_id, snippet=row.snippet)
            for row in self._connection.execute(_FIND, asked)
        ]
        return found[:limit]

    # what they are made of

    def _check(self, owner: str) -> None:
        if self._must_exist is not None:
            self._must_exist(self._connection, owner)

    def _insert(self, table: Table, **values: Any) -> int:
        made = self._connection.execute(insert(table).values(_stored(values))).inserted_primary_key
        if made is None:
            raise TypeError("an insert gives its key")
        return int(made[0])

    def _changed(self, table: Table, where: ColumnElement[bool], values: dict[str, Any]) -> bool:
        return self._connection.execute(update(table).where(where).values(_stored(values))).rowcount > 0

    def _one(self, query: Select[Any], shape: type[S]) -> S | None:
        row = self._connection.execute(query).mappings().first()
        return _value(row, shape) if row is not None else None

    def _all(self, query: Select[Any], shape: type[S], **given: Any) -> list[S]:
        return [_value(row, shape) for row in self._connection.execute(query, given).mappings()]

    def _known(self, value: S | None) -> S:
        if value is None:
            raise LookupError("a row that was just written is not there")
        return value


def _in(states: Iterable[str]) -> ColumnElement[bool]:
    return turns.c.state.in_([str(state) for state in states])


def _stored(values: dict[str, Any]) -> dict[str, Any]:
    """Flags are 0 or 1, and words of an enumeration plain words."""
    return {name: _plain(value) for name, value in values.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, bool):
        return int(value)
    return str(value) if isinstance(value, str) else value


def _value(row: RowMapping, shape: type[S]) -> S:
    return msgspec.convert({str(name): value for name, value in row.items()}, shape, strict=False)


def _quoted(word: str) -> str:
    """A word for FTS5 as a plain beginning of words, whatever characters it has."""
    return '"' + word.replace("\x00", " ").replace('"', '""') + '"*'

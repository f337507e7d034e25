"""What a store of chats must do, and the values it keeps.

The store knows rows and not their meaning: which move is legal is `rivermouth.chat.machine`'s business.  A caller hands
`run` a function of a transaction (`Tx`); all that it does is committed together or not at all, and no other transaction
sees, or touches, the same chat meanwhile.  Two facts are the database's own, whatever the code above does: a chat has
at most one turn in a live state, and a request id at most one turn.

States and reasons are words of the machine.  Times are Unix nanoseconds by the store's clock (`Tx.now_ns`), which is
one for all processes that share a store.  Ids of chats, turns and messages are positive, grow, and are never used
again.  The contract suite in tests/chat/test_store.py runs over every adapter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import msgspec

T = TypeVar("T")


class Chat(msgspec.Struct, frozen=True, kw_only=True):
    """generation: how many writers its turns have had.  titled: by a person, so nothing renames it.

    instructions: of the person, for every answer of this chat.
    """

    id: int
    owner: str
    title: str
    titled: bool
    instructions: str
    generation: int
    active_turn: int | None
    created_ns: int
    updated_ns: int


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One user message and its answer.

    seqno: its place in the chat, from 1.  worker: the boot id of its writer.  parent_id: the turn that it does again.
    discarded: left out of prompts, kept for the record.  asked: the model asked for; None: the saved choice.
    error, usage: JSON.
    """

    id: int
    chat_id: int
    seqno: int
    request_id: str
    state: str
    generation: int
    worker: str | None
    reason: str | None
    stop_deadline_ns: int | None
    hard_deadline_ns: int | None
    upstream_called: bool
    user_message_id: int
    assistant_message_id: int | None
    parent_id: int | None
    discarded: bool
    asked: str | None
    provider: str | None
    model: str | None
    call_id: str | None
    error: str | None
    usage: str | None
    created_ns: int
    ended_ns: int | None


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """parts: JSON.  text: what a person sees of it.  folded_to: the frame id that `parts` includes.

    context_from: the first message that the answer's prompt held, where that was not the first of the chat.
    """

    id: int
    chat_id: int
    turn_id: int
    role: str
    parts: str
    text: str
    folded_to: str
    context_from: int | None
    created_ns: int


class AtWork(msgspec.Struct, frozen=True, kw_only=True):
    """A turn as who looks after a server sees it: nothing of what is said in it.

    folded_to: the frame id that its answer's row includes, "" where there is none yet.
    """

    id: int
    chat_id: int
    owner: str
    state: str
    generation: int
    worker: str | None
    reason: str | None
    stop_deadline_ns: int | None
    hard_deadline_ns: int | None
    created_ns: int
    folded_to: str


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """A place where a search found something.  message_id: None where it is the title."""

    chat_id: int
    title: str
    message_id: int | None
    snippet: str


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a reader is shown of an answer's row.  state: of its turn, from the same read."""

    id: int
    state: str
    folded_to: str
    text: str


class Pulse(msgspec.Struct, frozen=True, kw_only=True):
    """What tells that something in a chat is not as it was, for whoever follows it.

    seqno: of its last turn.  active_turn, state, folded_to: of its active turn and that one's answer.
    """

    id: int
    generation: int
    updated_ns: int
    seqno: int | None
    active_turn: int | None
    state: str | None
    folded_to: str | None


class Tx(Protocol):
    """One transaction.  Its methods block; it is good only inside the function that was given it."""

    def now_ns(self) -> int:
        """The store's clock."""
        ...

    # chats

    def insert_chat(self, owner: str, title: str, *, titled: bool, instructions: str) -> Chat:
        """Raises `NoSuchOwner` where owners are known and this is none."""
        ...

    def chat(self, chat_id: int, owner: str | None = None) -> Chat | None:
        """The chat, if there is one and it is the owner's; held for this transaction."""
        ...

    def chats(self, owner: str, limit: int, before: tuple[int, int] | None) -> Sequence[Chat]:
        """The owner's, the one touched last first; before: the (updated_ns, id) of the last one of the page before."""
        ...

    def pulses(self, chat_ids: Sequence[int]) -> Mapping[int, Pulse]:
        """Of those that are there, by their ids; one question, however many they are."""
        ...

    def update_chat(self, chat_id: int, **values: Any) -> bool: ...

    def delete_chat(self, chat_id: int) -> bool:
        """With its turns, messages and what a search would find."""
        ...

    # turns

    def insert_turn(self, chat_id: int, **values: Any) -> Turn:
        """With the next `seqno`.  Raises `Taken` for a request id or a live state that the chat has already."""
        ...

    def turn(self, turn_id: int) -> Turn | None: ...

    def turns(self, chat_id: int, states: Iterable[str] | None = None) -> Sequence[Turn]:
        """In the order of their `seqno`; all, or those in such a state."""
        ...

    def turn_of_request(self, chat_id: int, request_id: str) -> Turn | None: ...

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
        """Set the state and these values where the turn stands in one of `sources`, and, if one is given, has that
        generation.  False, and nothing is written, where it does not.  Raises `Taken` for a second live turn."""
        ...

    def set_turns(self, turn_ids: Iterable[int], **values: Any) -> None:
        """Values that are no part of the machine."""
        ...

    # messages

    def insert_message(self, chat_id: int, turn_id: int, role: str, parts: str, text: str) -> Message: ...

    def messages(self, chat_id: int, role: str | None = None) -> Sequence[Message]:
        """In the order of their ids; all, or those of one role."""
        ...

    def message(self, message_id: int) -> Message | None: ...

    def answer(self, message_id: int) -> Answer | None:
        """A message without its parts, which are as long again."""
        ...

    def folded(self, chat_id: int) -> Mapping[int, str]:
        """Up to which frame each answer of the chat is written, by its id."""
        ...

    def write_message(self, message_id: int, *, searchable: bool = False, **values: Any) -> None:
        """searchable: `text` is final and may be found from now on."""
        ...

    def delete_message(self, message_id: int) -> None: ...

    # workers

    def beat(self, boot_id: str) -> None:
        """The process lives, now."""
        ...

    def turns_of(self, boot_id: str, states: Iterable[str]) -> Sequence[Turn]:
        """Those whose writer is that process."""
        ...

    def orphans(self, states: Iterable[str], *, beat_before_ns: int, now_ns: int) -> Sequence[Turn]:
        """Turns in such a state whose worker has not beaten since, or one of whose deadlines has passed."""
        ...

    def foreign(self, states: Iterable[str], boot_id: str) -> Sequence[Turn]:
        """Turns in such a state whose writer is another process."""
        ...

    def heads(self, queued: str) -> Sequence[Turn]:
        """The first waiting turn of each chat that has no active one."""
        ...

    def forget_workers(self, beat_before_ns: int) -> None: ...

    def count_unended(self, owner: str, states: Iterable[str]) -> int:
        """How many turns of that person's chats are in such a state."""
        ...

    def at_work(self, states: Iterable[str]) -> Sequence[AtWork]:
        """The turns of all chats that are in such a state, the oldest first."""
        ...

    def beats(self) -> dict[str, int]:
        """When each process last gave a sign of life, by its boot id."""
        ...

    # people

    def preference(self, owner: str, name: str) -> str | None: ...

    def prefer(self, owner: str, name: str, value: str) -> None:
        """Raises `NoSuchOwner` as `insert_chat` does."""
        ...

    def delete_owner(self, owner: str) -> Sequence[int]:
        """Everything that is theirs, what a search read of it included.  The ids of the chats that there were."""
        ...

    def search(self, owner: str, words: Sequence[str], limit: int) -> Sequence[Hit]:
        """Chats of the owner in whose title, or one message of which, every word begins some word; best first."""
        ...


class Taken(Exception):
    """What may be there once is there already."""


class NoSuchOwner(Exception):
    """Whoever is to own this has gone meanwhile."""


class ChatStore(Protocol):
    """The port.  Adapters rename their engine's exceptions to `StoreError`."""

    async def run(self, work: Callable[[Tx], T]) -> T:
        """One writing transaction.  Whatever `work` raises undoes it.

        Cancelled while it runs, it still returns only when the transaction is over.
        """
        ...

    async def read(self, work: Callable[[Tx], T]) -> T:
        """One consistent reading; nothing can be written in it."""
        ...

    async def close(self) -> None:
        """Release connections and threads.  Idempotent."""
        ...

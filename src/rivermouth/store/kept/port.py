"""What a store of kept answers must do, and the values it keeps.

A kept answer is what a client asked for and what it was answered, in the words of its dialect, so that it can be had
again by its id, gone on from, or waited for.  It belongs to the key that made it: to every other it is not there.

A row is written once when its call has ended; that of a call in the background already when it begins, so that a kill
leaves something to be told of it.  What was deleted meanwhile does not come back, nor does what was erased with its
call's record.

Times are Unix nanoseconds.  `now_ns` is asked for wherever a row may have run out: one that has is not there, whether
or not anybody has deleted it yet.  The contract suite in tests/kept/test_store.py runs over every adapter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import msgspec

from rivermouth.store.port import CallRecord


class Owner(NamedTuple):
    """Whose it is: the name and the id of the key; both None where no key was asked for."""

    key_name: str | None
    key_id: str | None


class KeptAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One kept answer.

    id: as its clients call it.  call_id: of its call.  previous: the id of the answer that it goes on from.
    answer: the answer as a document.  input: what was new in its request, a JSON array of items.
    last: the number of the last event of its stream.  ended_ns: None while its call runs.
    expires_ns: when it may not be there any more.
    """

    id: str
    call_id: str
    dialect: str
    owner: Owner
    created_ns: int
    expires_ns: int
    input: bytes
    answer: bytes
    previous: str | None = None
    background: bool = False
    ended_ns: int | None = None
    last: int = 0


class KeptStore(Protocol):
    """The port.  Raises `StoreError`."""

    async def put(self, kept: KeptAnswer, call: CallRecord | None = None) -> bool:
        """A new one; False, and nothing is written, where its call's record has been erased.

        One of that id that is there is left as it is.  call: its call's record as it ends, written with the answer but
        for the status: a call whose record is not closed any more has then ended with its answer (`interrupt_open`).
        """
        ...

    async def finish(self, kept: KeptAnswer, call: CallRecord | None = None) -> bool:
        """The answer, the end and the last number of one that was put before it ended.  call: as with `put`.

        False, and nothing is written, where it is not there any more, has an end, or was erased.
        """
        ...

    async def get(self, answer_id: str, owner: Owner, now_ns: int) -> KeptAnswer | None:
        """None also for somebody else's."""
        ...

    async def chain(
        self, answer_id: str, owner: Owner, now_ns: int, limit: int, limit_bytes: int
    ) -> Sequence[KeptAnswer]:
        """That answer, the one that it goes on from, and so on, as far as they are there.

        At most `limit` of them, and none behind the one with which they come to more than `limit_bytes`.
        """
        ...

    async def holding(self, text: str, owner: Owner, now_ns: int, limit: int) -> Sequence[KeptAnswer]:
        """Of the newest `limit` of that owner, those in whose input or answer the text stands, the newest first."""
        ...

    async def delete(self, answer_id: str, owner: Owner, now_ns: int) -> bool:
        """True when it was there.  What is deleted is overwritten, in the database and in its log."""
        ...

    async def unended(self) -> Sequence[KeptAnswer]:
        """Those without an end.  At the start of a server: what a kill left behind."""
        ...

    async def close(self) -> None:
        """Release what it holds.  Idempotent."""
        ...

"""The slots of a running process: what it alone knows of each chat that is written or followed.

A slot is the one place in which a chat's answer can be.  Everything else about it is in the store, which may be read
beside the process; that part is not repeated here, and nothing of what is said is told.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from rivermouth.chat.ports import slot_key
from rivermouth.log.port import ZERO, LogError, StreamLog


class Slot(msgspec.Struct, frozen=True, kw_only=True):
    """last_id: of the newest frame in its log; None where there is no log.  followers: the clients that follow it."""

    slot: str
    chat: int
    last_id: str | None
    followers: int


class Slots(msgspec.Struct, frozen=True):
    """worker: the boot id of the process that tells this."""

    worker: str
    slots: list[Slot]


async def look(log: StreamLog, chats: Iterable[tuple[str, int]], followers: dict[int, int]) -> list[Slot]:
    """One slot for each chat, given as its owner and its id, in the order of the ids."""
    found = []
    for owner, chat_id in sorted(set(chats), key=lambda chat: chat[1]):
        key = slot_key(owner, chat_id)
        found.append(
            Slot(slot=key, chat=chat_id, last_id=await _last_id(log, key), followers=followers.get(chat_id, 0))
        )
    return found


async def _last_id(log: StreamLog, key: str) -> str | None:
    try:
        last = (await log.read(key, ZERO, 1)).last
    except LogError:
        return None
    return str(last) if last is not None else None

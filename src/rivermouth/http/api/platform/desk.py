"""What the routes work with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import msgspec

from rivermouth.chat.slots import Slots
from rivermouth.engine.call import Call
from rivermouth.local.machine.places import Queue
from rivermouth.platform.service import PlatformService
from rivermouth.store.archive import CallArchive
from rivermouth.store.pseudonyms import Pseudonyms


class Desk(msgspec.Struct, frozen=True, kw_only=True):
    """breakers: endpoints whose breaker is not closed.  flush: what has ended is in the database when it returns.

    inflight: the calls that run.  queues: of the local models.  turns: of the chats.
    """

    archive: CallArchive
    platform: PlatformService
    pseudonyms: Pseudonyms
    breakers: Callable[[], Mapping[str, str]]
    inflight: Callable[[], list[Call]]
    queues: Callable[[], list[Queue]]
    turns: Callable[[], Awaitable[Slots]]
    now_ns: Callable[[], int]

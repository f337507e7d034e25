"""What the chat stands on, put together by the composition root."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from rivermouth.chat.choice import Chooser
from rivermouth.chat.clock import Clock
from rivermouth.chat.settings import ChatSettings
from rivermouth.doorbell.port import Doorbell
from rivermouth.engine.engine import Engine
from rivermouth.log.port import StreamLog
from rivermouth.observe import ChatMetrics
from rivermouth.store.chats.port import ChatStore


class Ports(msgspec.Struct, frozen=True, kw_only=True):
    """new_id: of calls and requests, never twice the same."""

    store: ChatStore
    log: StreamLog
    doorbell: Doorbell
    clock: Clock
    engine: Engine
    chooser: Chooser
    settings: ChatSettings
    metrics: ChatMetrics
    new_id: Callable[[], str]


CLAIMS = "claims"
"""Rung when a turn may be there for any worker."""


def chat_channel(chat_id: int) -> str:
    """Rung when something was written of that chat."""
    return f"d:{chat_id}"


def worker_channel(boot_id: str) -> str:
    """Rung when a turn of that worker is to stop."""
    return f"w:{boot_id}"


def slot_key(owner: str, chat_id: int) -> str:
    """The one place in which a chat's answer can be: the key of its log, and its name in lines of the server's log."""
    return f"u{owner}:c{chat_id}"

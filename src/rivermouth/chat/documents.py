"""A chat as a document: what `/api/chats` and its siblings answer.  Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from rivermouth.chat.draft import decode_parts
from rivermouth.chat.feed import Rows
from rivermouth.chat.machine import LIVE, TERMINAL, State
from rivermouth.chat.moves import fold_point
from rivermouth.chat.prompt import visible
from rivermouth.chat.wire import REASONS
from rivermouth.store.chats.port import Chat, Message, Turn
from rivermouth.wire import json

NS: Final = 1_000_000_000


class Summary(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A chat in a list.  Times are in UTC.  page: `?before=` this one gives what comes after it in the list.

    snippet: where the words of a search stand.
    """

    id: int
    title: str
    instructions: str
    generation: int
    live: bool
    created_at: str
    updated_at: str
    page: str
    snippet: str = ""


class MessageView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One message.

    content: what a person sees of it.  parts: the same in its parts, with reasoning, tool calls and our own warnings.
    state: of its turn, "interrupted" for one that failed with a part of its text, as its stream told it.
    context_from: the first message that the model was sent, where older ones were left out.
    replaced: done again by another turn, or rolled back, so no model is sent it.
    redoes: the turn that its own turn does again.
    """

    id: int
    role: str
    turn: int
    content: str
    created_at: str
    state: str
    parts: list[Any] = []
    generation: int = 0
    provider: str | None = None
    model: str | None = None
    error: Any = None
    interrupted: Any = None
    reason: str | None = None
    usage: Any = None
    cost: Any = None
    context_from: int | None = None
    replaced: bool = False
    redoes: int | None = None


class ChatView(msgspec.Struct, frozen=True, kw_only=True):
    """A chat with its history.  cursor: follow from there, and nothing is missed or doubled.

    session: the same as `chat`.  live: the turn that is being written, or the first that waits.
    """

    chat: Summary
    session: Summary
    messages: list[MessageView]
    cursor: str
    live: dict[str, Any] | None


def utc(at_ns: int) -> str:
    return datetime.fromtimestamp(at_ns / NS, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def summary(chat: Chat, snippet: str = "") -> Summary:
    return Summary(
        id=chat.id,
        title=chat.title,
        instructions=chat.instructions,
        generation=chat.generation,
        live=chat.active_turn is not None,
        created_at=utc(chat.created_ns),
        updated_at=utc(chat.updated_ns),
        page=f"{chat.updated_ns}-{chat.id}",
        snippet=snippet,
    )


def chat_view(chat: Chat, rows: Rows) -> ChatView:
    turns = {turn.id: turn for turn in rows.turns}
    shown = {turn.id for turn in visible(rows.turns) if not turn.discarded}
    head = summary(chat)
    unended = [turn for turn in rows.turns if turn.state not in TERMINAL]
    live = min(unended, key=lambda turn: (turn.state not in LIVE, turn.seqno), default=None)
    return ChatView(
        chat=head,
        session=head,
        messages=[
            message_view(message, turns[message.turn_id], replaced=message.turn_id not in shown)
            for message in rows.messages.values()
        ],
        cursor=str(fold_point(rows.messages.values())),
        live=live_view(live) if live is not None else None,
    )


def live_view(turn: Turn) -> dict[str, Any]:
    """A turn that has not ended."""
    return {
        "turn": turn.id,
        "state": turn.state,
        "message_id": turn.assistant_message_id,
        "user_message_id": turn.user_message_id,
        "generation": turn.generation,
    }


def message_view(message: Message, turn: Turn, *, replaced: bool) -> MessageView:
    return MessageView(
        id=message.id,
        role=message.role,
        turn=turn.id,
        content=message.text,
        created_at=utc(message.created_ns),
        parts=list(decode_parts(message.parts)),
        generation=turn.generation,
        context_from=message.context_from,
        replaced=replaced,
        redoes=turn.parent_id,
        **(_answered(message, turn) if message.id == turn.assistant_message_id else {"state": State.COMPLETED.value}),
    )


def _answered(message: Message, turn: Turn) -> dict[str, Any]:
    """How the turn stands, for its answer."""
    usage = json.decode(turn.usage.encode()) if turn.usage is not None else None
    error = json.decode(turn.error.encode()) if turn.error is not None else None
    state = turn.state
    if state in (State.FAILED, State.INTERRUPTED):
        state = State.INTERRUPTED if message.text else State.FAILED
    priced = usage is not None and usage.get("cost") is not None
    return {
        "state": str(state),
        "provider": turn.provider,
        "model": turn.model,
        "error": error,
        "interrupted": {"type": error["type"]} if error is not None and message.text else None,
        "reason": REASONS.get(State(turn.state)),
        "usage": usage,
        "cost": {"amount": usage["cost"], "currency": usage["currency"]} if usage is not None and priced else None,
    }

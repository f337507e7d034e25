"""The machine's moves as transactions: each function is one, or part of one, and each asks the table first.

What the table cannot say is here: which rows a move writes besides the turn's own.  The user's message, the queued turn
and the empty answer are inserted together, so whatever was accepted is in the history, and a reload finds the turn
before its first token.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from rivermouth.chat.draft import Part, decode_parts, encode_parts
from rivermouth.chat.machine import LIVE, POLICIES, RULES, Move, OnBusy, Standing, State, owns, permits
from rivermouth.chat.settings import NS, ChatSettings
from rivermouth.ir.errors import ApiError, Kind, invalid
from rivermouth.ir.request import File, Image, Text
from rivermouth.log.port import ZERO, FrameId
from rivermouth.store.chats.port import Chat, Message, Turn, Tx

UNENDED: Final = LIVE | {State.QUEUED}
TITLE_CHARS: Final = 60

USER: Final = "user"
ASSISTANT: Final = "assistant"


class Fenced(Exception):
    """The writer is not the writer any more: drop the upstream and end quietly."""


class Busy(Exception):
    """The chat has a turn that has not ended, and the submit would not touch it."""

    def __init__(self, turn: Turn, cursor: FrameId) -> None:
        super().__init__(f"turn {turn.id} of this chat has not ended")
        self.turn = turn
        self.cursor = cursor


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """What a user asks for.  content: None to ask `redo` again.  redo: a message of the turn that this one does again,
    with other words (an edit) or the same (a regeneration).  attachments: images and files of it; None: none, or
    those of the message that is edited."""

    owner: str
    chat_id: int
    request_id: str
    content: str | None = None
    on_busy: OnBusy = OnBusy.INTERRUPT
    asked: str | None = None
    redo: int | None = None
    attachments: tuple[Image | File, ...] | None = None


class Submitted(msgspec.Struct, frozen=True, kw_only=True):
    """fresh: false where the request id had its turn already.  withdrawn: turns that this ended in the queue.
    stopping: turns that this asked to stop."""

    turn: Turn
    fresh: bool
    withdrawn: tuple[Turn, ...] = ()
    stopping: tuple[Turn, ...] = ()


class Stopped(msgspec.Struct, frozen=True, kw_only=True):
    """running: live turns that end, now or soon.  withdrawn: those that ended in the queue."""

    running: tuple[Turn, ...] = ()
    withdrawn: tuple[Turn, ...] = ()


def no_chat() -> ApiError:
    """Also for the chat of somebody else: nobody learns that it exists."""
    return ApiError(Kind.NOT_FOUND, "there is no such chat", param="chat_id", code="chat_not_found")


def chat_of(tx: Tx, chat_id: int, owner: str) -> Chat:
    """Raises `ApiError` not_found."""
    chat = tx.chat(chat_id, owner)
    if chat is None:
        raise no_chat()
    return chat


# -- the API's moves


def submit(tx: Tx, wanted: Submission, settings: ChatSettings) -> Submitted:
    """T1, with T4 and T6 for what the policy supersedes.  Raises `ApiError`, `Busy`."""
    chat = chat_of(tx, wanted.chat_id, wanted.owner)
    before = tx.turn_of_request(chat.id, wanted.request_id)
    if before is not None:
        said = tx.message(before.user_message_id)
        if wanted.content is not None and said is not None and said.text != wanted.content:
            text = "this Idempotency-Key belongs to another message"
            raise ApiError(
                Kind.INVALID_REQUEST, text, status=422, param="Idempotency-Key", code="idempotency_key_reused"
            )
        return Submitted(turn=before, fresh=False)
    parent, parts, content = _meant(tx, chat, wanted)
    unended = tx.turns(chat.id, UNENDED)
    policy = POLICIES[wanted.on_busy]
    if policy.refuses and unended:
        raise Busy(_active(unended), cursor_of(tx, chat))
    if not policy.supersedes and len(unended) > settings.queued_per_chat:
        raise ApiError(
            Kind.RATE_LIMITED, "too many messages wait in this chat", code="chat_queue_full", retry_after_s=5.0
        )
    others = tx.count_unended(wanted.owner, UNENDED) - (len(unended) if policy.supersedes else 0)
    if others >= settings.live_per_owner:
        text = "too many answers are being written for you"
        raise ApiError(Kind.RATE_LIMITED, text, code="too_many_turns", retry_after_s=5.0)
    stopping: list[Turn] = []
    withdrawn: list[Turn] = []
    if policy.supersedes:
        stopping, withdrawn = _end_all(tx, unended, State.SUPERSEDED, settings)
    if policy.discards:
        tx.set_turns([turn.id for turn in unended], discarded=True)
    turn = _insert(tx, chat, wanted, (parts, content), parent)
    return Submitted(turn=turn, fresh=True, withdrawn=tuple(withdrawn), stopping=tuple(stopping))


def _meant(tx: Tx, chat: Chat, wanted: Submission) -> tuple[Turn | None, str, str]:
    """The turn that is done again, and the user's message: its parts and its words."""
    parent: Turn | None = None
    if wanted.redo is not None:
        message = tx.message(wanted.redo)
        parent = tx.turn(message.turn_id) if message is not None and message.chat_id == chat.id else None
        if parent is None:
            raise ApiError(Kind.NOT_FOUND, "this chat has no such message", param="redo", code="message_not_found")
    said = tx.message(parent.user_message_id) if parent is not None else None
    if wanted.content is not None:
        attached: Iterable[Part] = wanted.attachments or ()
        if wanted.attachments is None and said is not None:
            attached = (part for part in decode_parts(said.parts) if isinstance(part, Image | File))
        words = [Text(wanted.content)] if wanted.content else []
        return parent, encode_parts([*words, *attached]), wanted.content
    if said is None:
        raise invalid("a message needs its content", "content")
    return parent, said.parts, said.text


def _insert(tx: Tx, chat: Chat, wanted: Submission, said: tuple[str, str], parent: Turn | None) -> Turn:
    parts, content = said
    turn = tx.insert_turn(
        chat.id,
        request_id=wanted.request_id,
        state=State.QUEUED,
        parent_id=parent.id if parent is not None else None,
        asked=wanted.asked,
    )
    user = tx.insert_message(chat.id, turn.id, USER, parts, content)
    answer = tx.insert_message(chat.id, turn.id, ASSISTANT, "[]", "")
    tx.set_turns([turn.id], user_message_id=user.id, assistant_message_id=answer.id)
    title = chat.title or title_of(content)
    tx.update_chat(chat.id, title=title, updated_ns=tx.now_ns())
    return msgspec.structs.replace(turn, user_message_id=user.id, assistant_message_id=answer.id)


def title_of(content: str) -> str:
    """The first words of a message, on one line."""
    words = " ".join(content.split())
    if len(words) <= TITLE_CHARS:
        return words
    cut = words[:TITLE_CHARS]
    return (cut.rpartition(" ")[0] or cut) + "…"


def stop(
    tx: Tx, chat_id: int, owner: str, settings: ChatSettings, *, generation: int | None, message_id: int | None
) -> Stopped:
    """T4 and T6 for the turn that has this generation or this answer; without either, for all that have not ended."""
    chat = chat_of(tx, chat_id, owner)
    meant = [
        turn
        for turn in tx.turns(chat.id, UNENDED)
        if (generation is None or turn.generation == generation)
        and (message_id is None or turn.assistant_message_id == message_id)
    ]
    _, withdrawn = _end_all(tx, meant, State.STOPPED, settings)
    if withdrawn:
        tx.update_chat(chat.id, updated_ns=tx.now_ns())
    running = tuple(turn for turn in meant if turn.state in LIVE)
    return Stopped(running=running, withdrawn=tuple(withdrawn))


def _end_all(tx: Tx, turns: Iterable[Turn], reason: State, settings: ChatSettings) -> tuple[list[Turn], list[Turn]]:
    """(asked to stop, ended in the queue)."""
    deadline_ns = tx.now_ns() + int(settings.stop_s * NS)
    stopping: list[Turn] = []
    withdrawn: list[Turn] = []
    for turn in turns:
        if _move(tx, Move.STOP, turn, State.STOPPING, reason=reason, stop_deadline_ns=deadline_ns):
            stopping.append(turn)
        elif _move(tx, Move.WITHDRAW, turn, reason, reason=reason, assistant_message_id=None, ended_ns=tx.now_ns()):
            if turn.assistant_message_id is not None:
                tx.delete_message(turn.assistant_message_id)
            withdrawn.append(msgspec.structs.replace(turn, reason=reason))
    return stopping, withdrawn


# -- the worker's and the owner's


def claim(tx: Tx, chat_id: int, boot_id: str, settings: ChatSettings) -> Turn | None:
    """T2 for the first in the queue; None when there is none, or the chat is busy."""
    chat = tx.chat(chat_id)
    waiting = tx.turns(chat_id, {State.QUEUED})
    if chat is None or not waiting:
        return None
    head = waiting[0]
    generation = chat.generation + 1
    moved = _move(
        tx,
        Move.CLAIM,
        head,
        State.STARTING,
        slot_free=chat.active_turn is None,
        new_generation=generation,
        worker=boot_id,
        hard_deadline_ns=settings.hard_deadline_ns(tx.now_ns()),
    )
    if not moved:
        return None
    tx.update_chat(chat_id, generation=generation, active_turn=head.id)
    return tx.turn(head.id)


def call(tx: Tx, turn: Turn, call_id: str) -> bool:
    """T3.  False when the turn is to stop before it began; raises `Fenced` when it is another's."""
    now = _mine(tx, turn)
    generation = turn.generation
    return _move(tx, Move.CALL, now, State.STREAMING, generation=generation, upstream_called=True, call_id=call_id)


def checkpoint(
    tx: Tx, turn: Turn, message_id: int, row: dict[str, Any], folded_to: FrameId, provider: str | None
) -> str | None:
    """What has been said so far, and by whom.  The turn's reason, if it is to stop.  Raises `Fenced`."""
    now = _mine(tx, turn)
    if provider != now.provider:
        tx.set_turns([turn.id], provider=provider)
    tx.write_message(message_id, folded_to=str(folded_to), **row)
    return now.reason


def still_mine(tx: Tx, turn: Turn) -> None:
    """Raises `Fenced`."""
    _mine(tx, turn)


class End(msgspec.Struct, frozen=True, kw_only=True):
    """How a turn ended.  row: the columns of its answer.  end: the id of its last frame."""

    state: State
    row: dict[str, Any]
    end: FrameId
    error: str | None = None
    usage: str | None = None
    provider: str | None = None
    model: str | None = None
    context_from: int | None = None


def finish(tx: Tx, turn: Turn, end: End) -> State:
    """T5.  A turn that was asked to stop ends as it was asked, whatever came of it meanwhile.  Raises `Fenced`."""
    now = _mine(tx, turn)
    state = State(now.reason) if now.reason is not None else end.state
    kept = msgspec.structs.replace(end, state=state, error=None) if now.reason is not None else end
    if not _end(tx, Move.FINISH, now, turn.generation, kept):
        raise Fenced
    return state


def _mine(tx: Tx, turn: Turn) -> Turn:
    now = tx.turn(turn.id)
    if now is None or not owns(now.state, now.generation, turn.generation):
        raise Fenced
    return now


# -- the reaper's


def take_over(tx: Tx, turn_id: int, boot_id: str) -> Turn | None:
    """T7; None when it has ended meanwhile."""
    turn = tx.turn(turn_id)
    chat = tx.chat(turn.chat_id) if turn is not None else None
    if turn is None or chat is None:
        return None
    generation = chat.generation + 1
    if not _move(tx, Move.TAKE_OVER, turn, State.RECOVERING, new_generation=generation, worker=boot_id):
        return None
    tx.update_chat(chat.id, generation=generation)
    return tx.turn(turn_id)


def finalise(tx: Tx, turn: Turn, end: End) -> bool:
    """T8, with the turn as `take_over` gave it."""
    now = tx.turn(turn.id)
    return now is not None and _end(tx, Move.FINALISE, now, turn.generation, end)


# -- what they are made of


def _end(tx: Tx, move: Move, turn: Turn, generation: int, end: End) -> bool:
    values: dict[str, Any] = {"provider": end.provider, "model": end.model} if end.provider is not None else {}
    moved = _move(
        tx,
        move,
        turn,
        end.state,
        generation=generation,
        error=end.error,
        usage=end.usage,
        ended_ns=tx.now_ns(),
        **values,
    )
    if not moved:
        return False
    if turn.assistant_message_id is not None:
        kept = {"context_from": end.context_from} if end.context_from is not None else {}
        tx.write_message(turn.assistant_message_id, searchable=True, folded_to=str(end.end), **end.row, **kept)
    tx.update_chat(turn.chat_id, active_turn=None, updated_ns=tx.now_ns())
    return True


def _move(
    tx: Tx,
    move: Move,
    turn: Turn,
    to: State,
    *,
    generation: int | None = None,
    slot_free: bool = False,
    **values: Any,
) -> bool:
    """Made if the table permits it; the row's own condition is asked once more where it is written."""
    rule = RULES[move]
    at = Standing(state=turn.state, generation=turn.generation, reason=turn.reason, slot_free=slot_free)
    if not permits(rule, at, to, generation=generation):
        return False
    return tx.move_turn(turn.id, rule.sources, to, generation=generation if rule.fenced else None, **values)


def _active(turns: Iterable[Turn]) -> Turn:
    """The live one, else the first that waits."""
    return min(turns, key=lambda turn: (turn.state not in LIVE, turn.seqno))


def cursor_of(tx: Tx, chat: Chat) -> FrameId:
    """Up to which frame the rows of a chat are folded: a reader of them goes on from there."""
    return fold_point(tx.messages(chat.id))


def fold_point(messages: Iterable[Message]) -> FrameId:
    """The largest frame id that any answer includes.  A live turn whose answer has none yet is followed from its first
    frame, which is larger than all before it."""
    known = [FrameId.parse(message.folded_to) for message in messages if message.folded_to]
    return max((found for found in known if found is not None), default=ZERO)

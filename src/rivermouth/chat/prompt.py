"""A chat's history to the request that a model is sent.

Left out of it, never of the history: what was done again with other words, what was rolled back, answers without text,
our own warnings, and, where the model's window is too small, the oldest turns (R29).  Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from rivermouth.chat.draft import decode_parts
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.request import File, Image, Request, Role, Text
from rivermouth.ir.request import Message as Said
from rivermouth.ir.tokens import estimate_prompt
from rivermouth.store.chats.port import Message, Turn

ANSWER_SHARE: Final = 4
"""One part in so many of a model's window is kept for the answer."""

ANSWER_CAP_TOKENS: Final = 4096

OVERFLOW_CODE: Final = "context_length_exceeded"


class Exchange(msgspec.Struct, frozen=True):
    """One turn as a model sees it.  first_id: the message that it begins with.  files: what is attached to it."""

    first_id: int
    question: str
    answer: str
    files: tuple[Image | File, ...] = ()


def visible(turns: Iterable[Turn]) -> list[Turn]:
    """The turns of the talk as it stands: one that does another again takes its place, and what came after that goes.

    turns: in the order of their `seqno`.
    """
    place: dict[int, int] = {}
    standing: list[Turn] = []
    for turn in turns:
        place[turn.id] = place.get(turn.parent_id, turn.parent_id) if turn.parent_id is not None else turn.id
        at = next((i for i, other in enumerate(standing) if place[other.id] == place[turn.id]), len(standing))
        standing[at:] = [turn]
    return standing


def exchanges(turns: Sequence[Turn], messages: Mapping[int, Message], last: Turn) -> list[Exchange]:
    """What may be sent for the turn `last`, oldest first; its own question is the last."""
    upto = [turn for turn in turns if turn.seqno <= last.seqno]
    found = []
    for turn in visible(upto):
        if turn.discarded and turn.id != last.id:
            continue
        answer = messages.get(turn.assistant_message_id or 0) if turn.id != last.id else None
        question = messages[turn.user_message_id]
        files = tuple(part for part in decode_parts(question.parts) if isinstance(part, Image | File))
        found.append(Exchange(question.id, question.text, _said(answer) if answer is not None else "", files))
    return found


def _said(answer: Message) -> str:
    return "".join(part.text for part in decode_parts(answer.parts) if isinstance(part, Text))


def request(talk: Sequence[Exchange], system: Sequence[str], model: str) -> Request:
    """The system prompt in front, then the talk; questions that nothing answered are asked together (R25)."""
    said: list[Said] = []
    for exchange in talk:
        if said and said[-1].role is Role.USER:
            files = (*(part for part in said[-1].parts if not isinstance(part, Text)), *exchange.files)
            joined = f"{said[-1].text}\n\n{exchange.question}"
            said[-1] = Said(Role.USER, (Text(joined), *files))
        else:
            said.append(Said(Role.USER, (Text(exchange.question), *exchange.files)))
        if exchange.answer:
            said.append(Said(Role.ASSISTANT, (Text(exchange.answer),)))
    return Request(
        model=model,
        messages=tuple(said),
        system=tuple(Text(text) for text in system if text),
        stream=True,
        include_usage=True,
    )


class Prompt:
    """The talk that is sent, which can only become shorter.

    context_from: the message that it begins with, once something was left out.
    """

    def __init__(self, talk: Sequence[Exchange], system: Sequence[str], model: str) -> None:
        self._talk = list(talk)
        self._system = tuple(system)
        self._model = model
        self.context_from: int | None = None

    def request(self) -> Request:
        return request(self._talk, self._system, self._model)

    def fit(self, context_tokens: int) -> None:
        """Leave out the oldest turns until the rest is thought to fit into such a window; the question always stays."""
        room = context_tokens - min(context_tokens // ANSWER_SHARE, ANSWER_CAP_TOKENS)
        while len(self._talk) > 1 and estimate_prompt(self.request()) > room:
            self._forget(max(1, len(self._talk) // 8))

    def shorten(self, error: ApiError) -> Request | None:
        """After a model refused the length: half of the turns.  None when that was not it, or only the question is
        left."""
        if not overflowed(error) or len(self._talk) < 2:
            return None
        self._forget(max(1, len(self._talk) // 2))
        return self.request()

    def _forget(self, count: int) -> None:
        del self._talk[:count]
        self.context_from = self._talk[0].first_id


def overflowed(error: ApiError) -> bool:
    """The prompt was too long for the model."""
    return error.code == OVERFLOW_CODE or error.kind is Kind.TOO_LARGE

"""A talk as two sides that take turns, for wires that accept nothing else: neighbours of one side are one turn, and a
turn of which nothing can be said vanishes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from rivermouth.ir.request import Message, Part, Role, ToolResult

Block = dict[str, Any]

USER: Final = "user"
ASSISTANT: Final = "assistant"


class Side:
    """One turn being gathered.  The user's: results and the rest; the assistant's: blocks."""

    def __init__(self, role: str) -> None:
        self.role = role
        self.blocks: list[Block] = []
        self.results: list[ToolResult] = []

    @property
    def empty(self) -> bool:
        return not self.blocks and not self.results


def gathered(messages: Iterable[Message], add: Callable[[Side, Part], None]) -> list[Side]:
    """The turns, of which none is empty.  `add` puts a part into its turn, as the wire has it."""
    turns: list[Side] = []
    for message in messages:
        role = ASSISTANT if message.role is Role.ASSISTANT else USER
        turn = turns[-1] if turns and turns[-1].role == role else Side(role)
        for part in message.parts:
            add(turn, part)
        if not turn.empty and (not turns or turns[-1] is not turn):
            turns.append(turn)
    return turns


def append(wire: list[Block], role: str, content: list[Block]) -> None:
    """One more turn on the wire, joined to the last if the side is the same."""
    if not content:
        return
    if wire and wire[-1]["role"] == role:
        wire[-1]["content"] += content
    else:
        wire.append({"role": role, "content": list(content)})

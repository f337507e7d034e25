"""The commands on an engine process's stdin, one line at a time.

A line that cannot be read costs the request it asked for, never the process, which works for others too.  Whose it was
stands in its first bytes: `words.protocol` writes the tag and the id first.  The server checks what it sends, so such a
line is rare (JSON nested so deep that it can be written and not read back).
"""

from __future__ import annotations

import os
import re
import select
from typing import Final, NamedTuple

from rivermouth.ir.errors import WireError
from rivermouth.local.words.protocol import COMMANDS, LINE_CAP_BYTES, Command
from rivermouth.wire import json

READ_BYTES: Final = 1 << 16
HEAD_BYTES: Final = 64
_IDENTITY: Final = re.compile(rb'\{"type":"[a-z]+","id":(\d{1,18})[,}]')


class Unreadable(NamedTuple):
    """A line that is no command.  `id` is the request it was about, None if that cannot be read either."""

    id: int | None
    reason: str


Taken = Command | Unreadable


class CommandReader:
    """Bytes to commands.  A last line without its LF is none: it may have been cut."""

    def __init__(self, cap_bytes: int = LINE_CAP_BYTES) -> None:
        self._cap = cap_bytes
        self._line = bytearray()
        self._size = 0

    def feed(self, data: bytes) -> list[Taken]:
        taken: list[Taken] = []
        *ends, rest = data.split(b"\n")
        for end in ends:
            self._add(end)
            if self._size:
                taken.append(self._command())
            self._line.clear()
            self._size = 0
        self._add(rest)
        return taken

    def statistics(self) -> dict[str, int]:
        return {"buffered_bytes": len(self._line), "cap_bytes": self._cap}

    def _add(self, piece: bytes) -> None:
        """Of a line that is too long only the head is kept."""
        self._size += len(piece)
        if self._size <= self._cap:
            self._line += piece
        else:
            self._line += piece[:HEAD_BYTES]
            del self._line[HEAD_BYTES:]

    def _command(self) -> Taken:
        if self._size > self._cap:
            return Unreadable(self._identity(), f"a line of {self._size} bytes")
        try:
            return json.decode_as(COMMANDS, bytes(self._line))
        except WireError as error:
            return Unreadable(self._identity(), str(error))

    def _identity(self) -> int | None:
        found = _IDENTITY.match(self._line)
        return int(found[1]) if found else None


class Commands:
    """Commands on a descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._reader = CommandReader()
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)

    def take(self, *, wait: bool) -> list[Taken] | None:
        """What is there; None at the end of the input."""
        if not self._poll.poll(None if wait else 0):
            return []
        data = os.read(self._descriptor, READ_BYTES)
        return self._reader.feed(data) if data else None

"""Events of a stream: a name, a dense number, and the rest."""

from __future__ import annotations

from typing import Final

from rivermouth.dialects.openai_responses.items import Item

_FRAME: Final = b'event: response.%b\ndata: {"type":"response.%b","sequence_number":%d,%b}\n\n'


class Frames:
    """Writes events with numbers from `first` on."""

    __slots__ = ("number",)

    def __init__(self, first: int = 0) -> None:
        self.number = first

    def lifecycle(self, name: str, response: bytes, out: list[bytes]) -> None:
        """`response.NAME` with a whole response."""
        self._write(name, b'"response":' + response, out)

    def added(self, item: Item, out: list[bytes]) -> None:
        self._write("output_item.added", _at(item) + b',"item":' + item.begun(), out)

    def begin_text(self, item: Item, out: list[bytes]) -> None:
        """The part that its text stands in, where it has one."""
        item.open = True
        manner = item.manner
        if manner.part is not None:
            self._write(manner.added, _within(item) + b',"part":' + manner.part(b'""'), out)

    def delta_around(self, item: Item) -> tuple[bytes, bytes, bytes]:
        """What stands before the number of a delta, between it and the text, and after the text."""
        name = item.manner.delta.encode()
        head = b'event: response.%b\ndata: {"type":"response.%b","sequence_number":' % (name, name)
        return head, b"," + _within(item) + b',"delta":', item.manner.after + b"}\n\n"

    def end_text(self, item: Item, text: bytes, out: list[bytes]) -> None:
        """All of its text, and the part around it."""
        manner = item.manner
        said = b',"%b":%b' % (manner.member, text)
        self._write(manner.done, _within(item) + said + manner.after, out)
        if manner.part is not None:
            self._write(manner.closed, _within(item) + b',"part":' + manner.part(text), out)

    def done(self, item: Item, whole: bytes, out: list[bytes]) -> None:
        self._write("output_item.done", _at(item) + b',"item":' + whole, out)

    def _write(self, name: str, rest: bytes, out: list[bytes]) -> None:
        out.append(_FRAME % (name.encode(), name.encode(), self.number, rest))
        self.number += 1


def _at(item: Item) -> bytes:
    return b'"output_index":%d' % item.index


def _within(item: Item) -> bytes:
    return b'"item_id":"%b",' % item.id.encode() + _at(item) + item.manner.slot

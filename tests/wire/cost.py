"""How much a reader may cost."""

from __future__ import annotations

from collections.abc import Callable

from rivermouth.wire.frame import Reader
from tests import cost

SMALL_BYTES = 50_000


def assert_linear(make: Callable[[], Reader], build: Callable[[int], bytes], step: int) -> None:
    """Reads of `step` bytes each: the cost grows with the input and not with its square."""

    def prepare(size: int) -> Callable[[], object]:
        data = build(size)
        pieces = [data[i : i + step] for i in range(0, len(data), step)]

        def read() -> None:
            reader = make()
            for piece in pieces:
                reader.feed(piece)

        return read

    cost.assert_linear(prepare, SMALL_BYTES)

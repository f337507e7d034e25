"""The one helper that every wire parser must pass: whole, byte by byte, and in every two-way split."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Feeds(Protocol[T]):
    def feed(self, data: bytes, /) -> list[T]: ...


def run(reader: Feeds[T], pieces: list[bytes]) -> list[T]:
    """Everything that the pieces give, in order."""
    return [item for piece in pieces for item in reader.feed(piece)]


def every_way(make: Callable[[], Feeds[T]], data: bytes, want: list[T], *, step: int = 1) -> None:
    """Asserts that the result does not depend on how the bytes were cut.

    step: the bytes between two splits; more than one is for what is long and was split everywhere elsewhere.
    """
    assert run(make(), [data]) == want
    assert run(make(), [data[i : i + 1] for i in range(len(data))]) == want
    for cut in range(1, len(data), step):
        assert run(make(), [data[:cut], data[cut:]]) == want, f"split at {cut}"

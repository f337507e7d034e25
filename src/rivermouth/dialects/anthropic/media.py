"""What an answer of this protocol says in place of media that it cannot carry: a sentence, never silence."""

from __future__ import annotations

from rivermouth.ir.events import PartKind


def sentence(kind: PartKind, url: str | None) -> str:
    """One line of text for an image or a file; with its address where it has one."""
    noun = "image" if kind is PartKind.IMAGE else "file"
    return f"[{noun}]({url})" if url else f"[{noun}: this protocol cannot carry it]"

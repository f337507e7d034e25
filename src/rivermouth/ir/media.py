"""What an answer says where its protocol has nothing but text: media become a sentence, never silence."""

from __future__ import annotations

from collections.abc import Iterable

from rivermouth.ir.events import PartKind
from rivermouth.ir.reply import ReplyPart
from rivermouth.ir.request import File, Image, Refusal, Text


def sentence(kind: PartKind, url: str | None) -> str:
    """One line of text for an image or a file; with its address where it has one."""
    noun = "image" if kind is PartKind.IMAGE else "file"
    return f"[{noun}]({url})" if url else f"[{noun}: this protocol cannot carry it]"


def sentence_for(part: Image | File) -> str:
    """The same for a part of a whole answer."""
    return sentence(PartKind.IMAGE if isinstance(part, Image) else PartKind.FILE, part.url)


def plain_text(parts: Iterable[ReplyPart]) -> str:
    """The parts as one text; reasoning and calls are left out of it."""
    texts: list[str] = []
    for part in parts:
        match part:
            case Text() | Refusal():
                texts.append(part.text)
            case Image() | File():
                texts.append(sentence_for(part))
            case _:
                pass
    return "".join(texts)

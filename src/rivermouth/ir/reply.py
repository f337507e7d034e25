"""A finished answer, whole: what `fold` makes of the events, and what a non-streaming reply carries."""

from __future__ import annotations

import msgspec

from rivermouth.ir.events import Reason, Usage, Warn
from rivermouth.ir.request import File, Image, Reasoning, Refusal, Text, ToolCall

ReplyPart = Text | Reasoning | ToolCall | Refusal | Image | File


class Choice(msgspec.Struct, frozen=True):
    """One answer of `n`: its parts in the order the model opened them, and why it ended."""

    parts: tuple[ReplyPart, ...]
    reason: Reason
    stop_sequence: str | None = None

    @property
    def text(self) -> str:
        """The joined text parts, reasoning and refusals left out."""
        return "".join(p.text for p in self.parts if isinstance(p, Text))


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """`id`, `model` and `created` are the upstream's own, if it said them."""

    choices: tuple[Choice, ...]
    usage: Usage | None = None
    id: str | None = None
    model: str | None = None
    created: int | None = None
    warnings: tuple[Warn, ...] = ()


class EmbedReply(msgspec.Struct, frozen=True, kw_only=True):
    """One vector for each input, in input order.  cut: how many inputs were too long and were not read whole."""

    model: str
    vectors: tuple[tuple[float, ...], ...]
    input_tokens: int | None = None
    cut: int = 0


class ModelInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A model that a client can ask for.  Sizes in bytes, times in Unix seconds; what is not known is None."""

    id: str
    owner: str
    created: int = 0
    size_bytes: int | None = None
    digest: str | None = None
    family: str | None = None
    parameters: str | None = None
    quantization: str | None = None
    format: str | None = None
    context_tokens: int | None = None
    capabilities: tuple[str, ...] = ("completion",)
    license: str | None = None
    attribution: str | None = None
    template: str | None = None
    expires_at: float | None = None

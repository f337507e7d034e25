"""What a request may come to, before anybody has answered it.  Pure.

The prompt is counted from its texts, four ASCII characters a token and every other character one, which is more than
most tokenizers make of it; the answer is as long as the request allows, or as long as answers are taken to be.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from rivermouth.ir.request import Audio, EmbedRequest, File, Image, Request
from rivermouth.ir.tokens import CHARS_PER_TOKEN, TOKENS_PER_MESSAGE

MEDIA_TOKENS: Final = 1_600
"""Of an image, and the least of a file or a sound."""

LONGEST_TOKENS: Final = 10**12
"""Of all answers of a call, whatever a request says: numbers of hundreds of digits are numbers too."""


class Estimate(msgspec.Struct, frozen=True):
    """Tokens."""

    input: int
    output: int

    @property
    def total(self) -> int:
        return self.input + self.output


def estimate(request: Request | EmbedRequest, expected_output: int, prompt: int | None = None) -> Estimate:
    """expected_output: tokens of an answer whose length the request does not limit.  prompt: those of `weigh`."""
    prompt = weigh(request) if prompt is None else prompt
    if isinstance(request, EmbedRequest):
        return Estimate(prompt, 0)
    wanted = request.max_tokens if request.max_tokens is not None else expected_output
    return Estimate(prompt, min(max(wanted, 0) * max(request.n, 1), LONGEST_TOKENS))


def weigh(request: Request | EmbedRequest) -> int:
    """Tokens of the prompt."""
    if isinstance(request, EmbedRequest):
        return sum(map(tokens_of, request.input))
    parts = [part for message in request.messages for part in message.parts]
    prompt = sum([tokens_of(text.text) for text in request.system]) + sum(map(_tokens, parts))
    prompt += TOKENS_PER_MESSAGE * len(request.messages)
    return prompt + sum([tokens_of(f"{t.name}{t.description or ''}{t.parameters}") for t in request.tools])


def tokens_of(text: str) -> int:
    """Of a text."""
    if text.isascii():  # which Python knows without looking
        return -(-len(text) // CHARS_PER_TOKEN)
    plain = len(text.encode("ascii", "ignore"))
    return -(-plain // CHARS_PER_TOKEN) + len(text) - plain


_FILES: Final = (File, Audio)


def _tokens(part: Any) -> int:
    if isinstance(part, Image):
        return MEDIA_TOKENS
    if isinstance(part, _FILES):
        return max(MEDIA_TOKENS, -(-len(part.data or "") // CHARS_PER_TOKEN))
    text = getattr(part, "text", None) or getattr(part, "arguments", None) or ""
    inner: Iterable[Any] = getattr(part, "content", ())
    return tokens_of(text) + sum(map(_tokens, inner))

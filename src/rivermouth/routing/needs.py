"""What an endpoint must be able to do for one request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from rivermouth.config import Capability
from rivermouth.ir.request import Audio, EmbedRequest, File, Format, Image, Part, Request, ToolResult

PARTS: Final[dict[type, Capability]] = {Image: "images", File: "files", Audio: "audio"}


def capabilities(request: Request | EmbedRequest) -> frozenset[Capability]:
    """From what the request holds.  An embedding needs nothing that is not its own route's business."""
    if isinstance(request, EmbedRequest):
        return frozenset()
    parts = {PARTS[type(p)] for p in _parts(request) if type(p) in PARTS}
    if request.tools:
        parts.add("tools")
    if request.response_format is not None and request.response_format.kind is Format.JSON_SCHEMA:
        parts.add("json_schema")
    return frozenset(parts)


def _parts(request: Request) -> Iterator[Part]:
    for message in request.messages:
        for part in message.parts:
            yield part
            if isinstance(part, ToolResult):
                yield from _content(part.content)


def _content(parts: Iterable[Part]) -> Iterator[Part]:
    yield from parts

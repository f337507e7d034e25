"""Images on this wire are bare base64 without a media type: what they are is read from their first bytes."""

from __future__ import annotations

import binascii
from typing import Final

from rivermouth.ir.errors import invalid
from rivermouth.ir.request import Image

UNKNOWN: Final = "application/octet-stream"

_MAGIC: Final[tuple[tuple[int, bytes, str], ...]] = (
    (0, b"\x89PNG\r\n\x1a\n", "image/png"),
    (0, b"\xff\xd8\xff", "image/jpeg"),
    (0, b"GIF87a", "image/gif"),
    (0, b"GIF89a", "image/gif"),
    (8, b"WEBP", "image/webp"),
    (0, b"BM", "image/bmp"),
    (0, b"II*\x00", "image/tiff"),
    (0, b"MM\x00*", "image/tiff"),
    (4, b"ftypavif", "image/avif"),
    (4, b"ftypheic", "image/heic"),
)
_HEAD_CHARS: Final = 32


def media_type(data: str) -> str:
    """The media type of base64 data by its magic bytes; `UNKNOWN` when none fits, which the target may still know."""
    head = data[:_HEAD_CHARS]
    try:
        first = binascii.a2b_base64(head[: len(head) & ~3])
    except ValueError:
        return UNKNOWN
    return next((name for at, magic, name in _MAGIC if first[at : at + len(magic)] == magic), UNKNOWN)


def image(data: str, param: str) -> Image:
    """A client's image; line breaks in the base64 are dropped, as Go does.

    Raises `ApiError` naming `param` for a URL, a data URI or broken base64.
    """
    if data[:5].lower() == "data:" or "://" in data[:16]:
        raise invalid("an image is base64 data here, without a data: prefix, and no URL", param)
    data = data.replace("\r", "").replace("\n", "")
    try:
        binascii.a2b_base64(data, strict_mode=True)
    except ValueError:
        raise invalid("the image is not valid base64", param) from None
    if not data:
        raise invalid("the image is empty", param)
    return Image(media_type=media_type(data), data=data)

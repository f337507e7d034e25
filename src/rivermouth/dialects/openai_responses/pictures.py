"""What pictures are, where the protocol says it in a word of its own or not at all."""

from __future__ import annotations

from typing import Final

_FORMATS: Final[dict[str, str]] = {
    "image/png": "png",
    "image/jpeg": "jpeg",
    "image/webp": "webp",
    "image/gif": "gif",
    "image/svg+xml": "svg",
}
_TYPES: Final = {word: media_type for media_type, word in _FORMATS.items()}
# How the base64 of each begins.
_BEGINNINGS: Final = (("iVBOR", "image/png"), ("/9j/", "image/jpeg"), ("UklGR", "image/webp"), ("R0lGOD", "image/gif"))


def format_of(media_type: str | None) -> str | None:
    """The protocol's word for a media type, if it has one."""
    return _FORMATS.get(media_type or "")


def media_type_of(form: str | None, data: str) -> str:
    """The media type of a picture: as it is said, else as its first bytes show; the vendor's own make PNG."""
    said = _TYPES.get(form or "")
    return said or next((kind for begin, kind in _BEGINNINGS if data.startswith(begin)), "image/png")

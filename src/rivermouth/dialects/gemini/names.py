"""Model names: "x" among ourselves, "models/x" on this wire, and part of the path of every call."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from rivermouth.ir.errors import invalid
from rivermouth.ir.names import model_name, quoted

_COLLECTIONS: Final = ("models/", "tunedModels/")
_PREFIX: Final = "models/"


def bare(name: str) -> str:
    """The name without its collection."""
    return name.removeprefix(_PREFIX)


def resource(name: str) -> str:
    """The name with its collection; another collection than `models` is left as it is."""
    return name if name.startswith(_COLLECTIONS) else _PREFIX + name


def asked(path_model: str | None) -> str:
    """The model that a path names.  Raises `ApiError` when it names none, or one that cannot be."""
    return model_name(bare(path_model or ""))


def path(model: str, method: str) -> str:
    """The path of a call below an upstream's base_url.  Raises `ApiError` for a name that would leave its place."""
    name = resource(model)
    if any(step in (".", "..") for step in name.split("/")):
        raise invalid(f"{quoted(model)} is no model name", "model")
    return f"/{quote(name, safe='/:@-._~')}:{method}"

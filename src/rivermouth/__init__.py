"""Rivermouth: a streaming LLM server.

Importing the package costs nothing; its public names are loaded when they are first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from rivermouth.bridge import AsyncTokenStream as AsyncTokenStream
    from rivermouth.client import resuming as resuming

    __version__: str

_PUBLIC: Final = {"AsyncTokenStream": "rivermouth.bridge", "resuming": "rivermouth.client"}

__all__ = ["AsyncTokenStream", "__version__", "resuming"]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        value: Any = import_module("importlib.metadata").version("rivermouth")
    elif name in _PUBLIC:
        value = getattr(import_module(_PUBLIC[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

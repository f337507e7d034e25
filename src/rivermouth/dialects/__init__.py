"""One file per vendor dialect.  A new dialect is one module here with a `DIALECT`, and its fixtures."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from rivermouth.dialects.dialect import Dialect


@cache
def discover() -> dict[str, Dialect]:
    """Every dialect in this package, by name."""
    modules = (import_module(f"{__name__}.{m.name}") for m in iter_modules(__path__))
    found = (getattr(m, "DIALECT", None) for m in modules)
    return {d.name: d for d in found if isinstance(d, Dialect)}

"""One file per vendor dialect.  A new dialect is one module here with a `DIALECT`, and its fixtures."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Final

from rivermouth.dialects.dialect import Dialect

CONTRACT: Final = "dialect"
"""The module that says what a dialect is."""


def names() -> frozenset[str]:
    """What `discover` finds, without importing any of it: a dialect's module has its name."""
    return frozenset(m.name for m in iter_modules(__path__)) - {CONTRACT}


@cache
def discover() -> dict[str, Dialect]:
    """Every dialect in this package, by name."""
    modules = {name: import_module(f"{__name__}.{name}") for name in sorted(names())}
    return {name: module.DIALECT for name, module in modules.items()}

"""Can the Python providers be imported?  Asked before their first call, because their authors look at the start."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from rivermouth.cli.term import say
from rivermouth.config import Config, ProviderConfig
from rivermouth.ir.errors import ApiError


def fault_of(provider: ProviderConfig) -> str | None:
    """What is wrong with a provider's function, after an import of its module; None when it can be called."""
    from rivermouth.providers.python import load

    assert provider.python is not None
    try:
        load(provider.name, provider.python)
    except ApiError as error:
        return error.message
    except SystemExit:
        return (
            f"providers.{provider.name}.python = {provider.python!r}: the module ends its process when it is imported"
        )
    return None


def faults(config: Config) -> Iterator[str]:
    """A line for each that cannot be called."""
    for provider in config.providers.values():
        fault = fault_of(provider) if provider.python is not None else None
        if fault is not None:
            yield f"  provider   {provider.name}: {fault}"


def warn(config: Config) -> threading.Thread:
    """Says those lines from a daemon thread, so that a module that takes long, or for ever, keeps no server waiting."""
    thread = threading.Thread(target=_tell, args=(config,), name="bots", daemon=True)
    thread.start()
    return thread


def _tell(config: Config) -> None:
    for line in faults(config):
        say(line)

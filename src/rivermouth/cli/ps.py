"""`rivermouth ps`: the models that a running server has loaded."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from rivermouth.cli.client import Client
from rivermouth.cli.places import configured, data_of, running
from rivermouth.cli.term import Exit, emit, fail, say, show, table
from rivermouth.cli.words import size, span
from rivermouth.dialects.ollama.times import FOR_EVER, unix_seconds
from rivermouth.secrets import Secret

LOADED = "/api/ps"


def run(*, url: str | None, key: str | None, config_file: Path | None, data_dir: Path | None, as_json: bool) -> None:
    """Asks the server at `url`, or the one that answers for this configuration or data directory."""
    client = reach(url, key, config_file, data_dir)
    models: list[dict[str, Any]] = client.get(LOADED).get("models") or []
    if as_json:
        emit(models)
    elif models:
        now_s = time.time()
        titles = ("NAME", "SIZE", "PARAMETERS", "QUANTIZATION", "UNLOADED")
        show(table(titles, (_row(model, now_s) for model in models)))
    else:
        say(f"{client.url} has no model loaded; one is loaded by its first call")


def reach(url: str | None, key: str | None, config_file: Path | None, data_dir: Path | None) -> Client:
    """The server that was named, or the one that is found; exits when none answers."""
    if url is not None:
        return Client(url, Secret(key) if key else None)
    config = configured(config_file)
    found = running(config, data_of(data_dir, config=config))
    if found is None:
        fail(
            "no server answers.  Start one: rivermouth serve   (or name one: --url http://HOST:PORT)", Exit.UNREACHABLE
        )
    return Client(found.url, Secret(key)) if key else found


def _row(model: dict[str, Any], now_s: float) -> tuple[str, ...]:
    details = model.get("details") or {}
    until_s = unix_seconds(str(model.get("expires_at", "")))
    return (
        str(model.get("name", "")),
        size(model.get("size")),
        str(details.get("parameter_size", "")),
        str(details.get("quantization_level", "")),
        "for ever" if until_s >= unix_seconds(FOR_EVER) else f"in {span(max(until_s - now_s, 0))}",
    )

"""`rivermouth ps`: the models that a running server has loaded."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from rivermouth.cli.client import Client
from rivermouth.cli.places import announced_at, configured, data_of, running
from rivermouth.cli.term import Exit, emit, fail, say, show, table
from rivermouth.cli.words import size, span
from rivermouth.dialects.ollama.times import FOR_EVER, unix_seconds
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.secrets import Secret

LOADED = "/api/ps"
QUEUES = "/platform/v1/queues"


def run(*, url: str | None, key: str | None, config_file: Path | None, data_dir: Path | None, as_json: bool) -> None:
    """Asks the server at `url`, or the one that answers for this configuration or data directory."""
    client = reach(url, key, config_file, data_dir)
    models = with_queues(client.get(LOADED).get("models") or [], queues(client))
    if as_json:
        emit(models)
    elif models:
        now_s = time.time()
        titles = ("NAME", "SIZE", "PARAMETERS", "QUANTIZATION", "DEVICES", "CALLS", "UNLOADED")
        show(table(titles, (_row(model, now_s) for model in models)))
    else:
        say(f"{client.url} has no model loaded; one is loaded by its first call")


def reach(url: str | None, key: str | None, config_file: Path | None, data_dir: Path | None) -> Client:
    """The server that was named, or the one that is found; exits when none answers."""
    if url is not None:
        return Client(url, Secret(key) if key else None)
    config = configured(config_file)
    data = data_of(data_dir, config=config)
    found = running(config, data)
    if found is None:
        fail(nobody(announced_at(data)), Exit.UNREACHABLE)
    return Client(found.url, Secret(key)) if key else found


def nobody(announced: str | None) -> str:
    """Why there is nobody to ask.  announced: where a server has said that it is."""
    if announced is not None and announced.startswith("https:"):
        return (
            f"the server at {announced} cannot be asked: its certificate may be for another name.  "
            "Name it as its clients do: --url https://NAME:PORT --api-key KEY"
        )
    return "no server answers.  Start one: rivermouth serve   (or name one: --url http://HOST:PORT)"


def queues(client: Client) -> list[dict[str, Any]]:
    """The calls of each model on each device, each that waits with its position and age; none from another server."""
    try:
        return client.get(QUEUES).get("queues") or []
    except ApiError as error:
        if error.kind is Kind.NOT_FOUND:
            return []
        raise


def with_queues(models: list[dict[str, Any]], found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each model with its `queues`, and those that are wanted and not loaded yet with nothing else."""
    names = dict.fromkeys([*(model.get("name") for model in models), *(queue["model"] for queue in found)])
    told = {model.get("name"): model for model in models}
    return [
        {
            **told.get(name, {"name": name}),
            "queues": [{k: v for k, v in queue.items() if k != "model"} for queue in found if queue["model"] == name],
        }
        for name in names
    ]


def calls(model: dict[str, Any]) -> str:
    """ "4 of 4, 2 waiting", over all devices."""
    found = model.get("queues") or []
    active, slots = (sum(queue[field] for queue in found) for field in ("active", "slots"))
    waiting = sum(len(queue["waiting"]) for queue in found)
    return f"{active} of {slots}" + (f", {waiting} waiting" if waiting else "") if found else ""


def unloaded(model: dict[str, Any], now_s: float) -> str:
    if "expires_at" not in model:
        return "loading"
    until_s = unix_seconds(str(model["expires_at"]))
    return "for ever" if until_s >= unix_seconds(FOR_EVER) else f"in {span(max(until_s - now_s, 0))}"


def _row(model: dict[str, Any], now_s: float) -> tuple[str, ...]:
    details = model.get("details") or {}
    return (
        str(model.get("name", "")),
        size(model.get("size")),
        str(details.get("parameter_size", "")),
        str(details.get("quantization_level", "")),
        ", ".join(queue["device"] for queue in model.get("queues") or []),
        calls(model),
        unloaded(model, now_s),
    )

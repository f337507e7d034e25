"""`rivermouth doctor certify --device D`: the real `/api/generate` on one device, its frames checked, its loads timed.

A server of its own on loopback, with the models of this data directory, an empty folder for what is made of them, and
that device alone: nothing is answered from elsewhere, and nothing is left behind but the times, for `doctor`.

    first call     loads from the model's file alone: the cold load; the model is unloaded behind it
    second call    loads from what the first one kept: the warm load
    third call     finds it loaded: the time to the first token, and the tokens per second
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
import typer

from rivermouth.cli.doctor import ask_engine, cache_of
from rivermouth.cli.embedded import embedded
from rivermouth.cli.places import configured, data_of
from rivermouth.cli.term import Exit, emit, fail, say, show, table
from rivermouth.config import Config
from rivermouth.ir.errors import ApiError, WireError
from rivermouth.local.machine import history
from rivermouth.local.machine.router import EXECUTION_HEADER, absent, class_of
from rivermouth.local.machine.starter import way_of
from rivermouth.local.models.catalog import SMOLLM2
from rivermouth.local.models.registry import Model, Registry
from rivermouth.store.datadir import DataDir
from rivermouth.wire import json

PATH: Final = "/api/generate"
MEDIA: Final = "application/x-ndjson"
PROMPT: Final = "Write one sentence about rivers."
TOKENS: Final = 32
PATIENCE_S: Final = 300.0
NS: Final = 1e9
LINE_CAP_BYTES: Final = 1 << 20
CALLS: Final = ("cold load", "warm load", "loaded")
LOADING: Final = CALLS[:2]
NUMBERS: Final = ("total_duration", "prompt_eval_count", "prompt_eval_duration", "eval_count", "eval_duration")


class Timed(msgspec.Struct, frozen=True):
    """One line of an answer, and when it came, in seconds from the request."""

    at_s: float
    line: bytes


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One call.  problems: what is wrong with its answer, in words.  load_s: what the answer itself says."""

    call: str
    frames: int
    problems: list[str]
    load_s: float | None = None
    first_token_s: float | None = None
    tokens_per_s: float | None = None


class Certificate(msgspec.Struct, frozen=True, kw_only=True):
    """gain: how many times faster the warm load is than the cold one."""

    ok: bool
    device: str
    model: str
    engine: str
    runs: list[Run]
    gain: float | None


def run(*, device: str, model: str | None, config_file: Path | None, data_dir: Path | None, as_json: bool) -> None:
    """Certifies the device.  Exits with `Exit.NOT_FOUND` when it or a model is not here, with `Exit.FAILED` when an
    answer is not as it has to be."""
    device = device.upper()
    engine = _engine_with(device)
    config = configured(config_file)
    data = data_of(data_dir, config=config)
    chosen = _model(Registry(data.path / "models"), model)
    say(f"Certifying {device} with {chosen.name}: three calls of {PATH}, the first two load the model.")
    config = alone(config, device)
    try:
        runs = _runs(config, data, chosen, device)
    except (ApiError, OSError, HTTPException) as error:
        fail(f"{device} could not be asked: {getattr(error, 'message', error)}", Exit.FAILED)
    made = certificate(device, str(chosen.name), engine, runs)
    _remember(config, data, chosen, made)
    if as_json:
        emit(made)
    else:
        show(_told(made))
    if not made.ok:
        raise typer.Exit(Exit.FAILED)


def _engine_with(device: str) -> str:
    """The engine's version.  Exits when it does not see the device, and says what is missing."""
    said = ask_engine()
    if said is None:
        fail("the local engine is not installed: pip install 'rivermouth[openvino]'", Exit.NOT_FOUND)
    if said.failure:
        fail(f"the local engine cannot be used: {said.failure}", Exit.FAILED)
    if not any(name == device or class_of(name) == device for name in said.devices):
        fail(absent([device], list(said.devices)).message, Exit.NOT_FOUND)
    return said.version


def _model(registry: Registry, wanted: str | None) -> Model:
    """The one asked for, else the small one of the catalogue, else the first that chats."""
    try:
        if wanted is not None:
            return registry.get(wanted)
    except ApiError as error:
        fail(error.message, Exit.NOT_FOUND)
    chats = [model for model in registry.models() if model.manifest.kind == "chat"]
    if not chats:
        fail(f"there is no model to ask: rivermouth pull {SMOLLM2.name}", Exit.NOT_FOUND)
    return next((model for model in chats if model.name == SMOLLM2.name), chats[0])


def alone(config: Config, device: str) -> Config:
    """The local engine on that device, as it is configured; no provider, no key."""
    return Config(local=msgspec.structs.replace(config.local, devices=(device,)))


def _runs(config: Config, data: DataDir, model: Model, device: str) -> list[Run]:
    name = str(model.name)
    with TemporaryDirectory(prefix=".certify-", dir=data.path) as place:
        models = Path(place) / "models"
        models.mkdir()
        for part in ("blobs", "manifests"):
            (models / part).symlink_to(data.path / "models" / part)
        with embedded(config, DataDir(Path(place))) as url:
            return [_call(url, name, call, device) for call in CALLS]


def _call(url: str, model: str, call: str, device: str) -> Run:
    """One answer from its request to its end."""
    parts = urlsplit(url)
    wanted = {
        "model": model,
        "prompt": PROMPT,
        "stream": True,
        "options": {"num_predict": TOKENS, "temperature": 0},
        "keep_alive": 0 if call == CALLS[0] else "5m",
    }
    with closing(HTTPConnection(parts.hostname or "", parts.port, timeout=PATIENCE_S)) as connection:
        begun = time.monotonic()
        connection.request("POST", PATH, json.encode(wanted), {"content-type": "application/json"})
        response = connection.getresponse()
        headers = {name.lower(): value for name, value in response.getheaders()}
        lines = []
        while line := response.readline(LINE_CAP_BYTES):
            lines.append(Timed(time.monotonic() - begun, line))
    return judged(call, response.status, headers, lines, device)


def judged(call: str, status: int, headers: Mapping[str, str], lines: Sequence[Timed], device: str) -> Run:
    """What one answer is worth.  Pure."""
    problems: list[str] = []
    if status != 200:
        problems.append(f"status {status}")
    if headers.get("content-type", "").partition(";")[0] != MEDIA:
        problems.append(f"its media type is {headers.get('content-type')}, not {MEDIA}")
    ran_on = headers.get(EXECUTION_HEADER)
    if ran_on is None or not (ran_on == device or class_of(ran_on) == device):
        problems.append(f"it ran on {ran_on}")
    frames: list[dict[str, Any]] = []
    for number, timed in enumerate(lines, 1):
        try:
            frame = json.decode(timed.line)
        except WireError:
            frame = None
        if not timed.line.endswith(b"\n") or not isinstance(frame, dict):
            problems.append(f"line {number} is not one JSON object")
        else:
            frames.append(frame)
            problems += _frame_problems(number, frame, last=number == len(lines))
    end = frames[-1] if frames else {}
    if not lines:
        problems.append("it is empty")
    elif call in LOADING and not _seconds(end, "load_duration"):
        problems.append("it does not say how long the load took")
    first = next((t.at_s for t, f in zip(lines, frames, strict=False) if f.get("response")), None)
    seconds = _seconds(end, "eval_duration")
    count = end.get("eval_count")
    return Run(
        call=call,
        frames=len(lines),
        problems=problems,
        load_s=_seconds(end, "load_duration"),
        first_token_s=first,
        tokens_per_s=round(count / seconds, 1) if seconds and isinstance(count, int) else None,
    )


def _frame_problems(number: int, frame: Mapping[str, Any], *, last: bool) -> list[str]:
    """What a line lacks: all have a model, a time and a text; the last says how it ended, and what it took."""
    if "error" in frame:
        return [f"line {number} is an error: {frame['error']}"]
    wrong = [key for key in ("model", "created_at", "response") if not isinstance(frame.get(key), str)]
    if frame.get("done") is not last:
        wrong.append("done")
    if last:
        wrong += [] if frame.get("done_reason") in ("stop", "length") else ["done_reason"]
        wrong += [] if frame.get("response") == "" else ["response"]
        wrong += [key for key in NUMBERS if not isinstance(frame.get(key), int)]
    return [f"line {number}: {key} is {frame.get(key)!r}" for key in wrong]


def _seconds(frame: Mapping[str, Any], key: str) -> float | None:
    value = frame.get(key)
    return round(value / NS, 3) if isinstance(value, int) else None


def certificate(device: str, model: str, engine: str, runs: list[Run]) -> Certificate:
    """All of it together."""
    cold, warm = runs[0].load_s, runs[1].load_s
    gain = round(cold / warm, 2) if cold and warm else None
    ok = bool(cold and warm) and not any(run.problems for run in runs)
    return Certificate(ok=ok, device=device, model=model, engine=engine, runs=runs, gain=gain)


def _remember(config: Config, data: DataDir, model: Model, made: Certificate) -> None:
    """The times, where `doctor` finds them."""
    from rivermouth.compose import local_provider

    way = way_of(local_provider(config, data).spec_of(model, made.device))
    for done, cached in zip(made.runs, (False, True), strict=False):
        if done.load_s:
            history.note_load(cache_of(model, data), way, done.load_s, cached=cached)


def _told(made: Certificate) -> str:
    def number(value: float | None, unit: str) -> str:
        return "-" if value is None else f"{value:.2f} {unit}"

    rows = [
        (
            run.call,
            "passed" if not run.problems else "; ".join(run.problems),
            str(run.frames),
            number(run.load_s or None, "s"),
            number(run.first_token_s, "s"),
            number(run.tokens_per_s, "tokens/s"),
        )
        for run in made.runs
    ]
    titles = ("CALL", "FRAMES CHECKED", "FRAMES", "LOAD", "FIRST TOKEN", "THEN")
    gain = (
        f"what the first load keeps makes the next {made.gain:.2f} times as fast" if made.gain else "no gain measured"
    )
    verdict = "certified" if made.ok else "NOT certified"
    return f"{table(titles, rows)}\n{made.device} {verdict} with {made.model}, OpenVINO GenAI {made.engine}; {gain}"

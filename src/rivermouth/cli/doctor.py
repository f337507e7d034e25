"""`rivermouth doctor`: everything that can be asked about this installation, and whether something is broken.

Each check looks at one thing and returns a `Finding`; none of them changes anything or opens a connection beyond the
configured server's own address.  "broken" is what keeps the server from doing what was asked of it; the rest is said.
"""

from __future__ import annotations

import fcntl
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import msgspec
import typer

from rivermouth.cli.bots import fault_of
from rivermouth.cli.client import Client
from rivermouth.cli.engine_probe import Probe
from rivermouth.cli.places import addresses, config_path, data_of, placed
from rivermouth.cli.reload import STATE_FILE, Standing
from rivermouth.cli.term import Exit, emit, show, table
from rivermouth.cli.words import ago, size, some
from rivermouth.config import (
    PRESETS,
    Config,
    ConfigError,
    Preset,
    ProviderConfig,
    default_model_doubt,
    load,
    remains,
    without_place,
)
from rivermouth.dialects import names
from rivermouth.ir.errors import WireError
from rivermouth.local.embedding.store import folder_of
from rivermouth.local.inference import converted
from rivermouth.local.inference.process import child_environment
from rivermouth.local.machine import history
from rivermouth.local.machine.memory import free_bytes
from rivermouth.local.models.registry import Model, Registry, Scan
from rivermouth.store.datadir import LOCK, DataDir
from rivermouth.store.port import StoreError
from rivermouth.wire import json

PROBE_S: Final = 60.0
LOW_DISK_BYTES: Final = 500_000_000
ENGINE: Final = "openvino_genai"

_PROBE: Final = json.typed(Probe)
_STANDING: Final = json.typed(Standing)


class State(StrEnum):
    OK = "ok"
    NOTE = "note"
    BROKEN = "broken"


class Finding(msgspec.Struct, frozen=True):
    """One thing that was looked at.  `facts` are for programs."""

    name: str
    state: State
    text: str
    facts: dict[str, Any] = {}


def run(*, config_file: Path | None, data_dir: Path | None, as_json: bool) -> None:
    """Looks at everything and says it.  Exits with `Exit.FAILED` when something is broken."""
    findings = list(examine(config_file, data_dir))
    broken = [finding.name for finding in findings if finding.state is State.BROKEN]
    if as_json:
        emit({"ok": not broken, "broken": broken, "findings": findings})
    else:
        show(table(("", "WHAT", "HOW"), (row for finding in findings for row in _rows(finding))))
    if broken:
        raise typer.Exit(Exit.FAILED)


def examine(config_file: Path | None, data_dir: Path | None) -> Iterator[Finding]:
    """Every check, in the order in which a person would ask."""
    from rivermouth import __version__

    yield Finding("version", State.OK, __version__, {"version": __version__})
    text = f"{platform.python_version()} ({platform.system()} {platform.machine()}), {sys.executable}"
    yield Finding("python", State.OK, text, {"version": platform.python_version(), "executable": sys.executable})
    finding, config = configuration(config_path(config_file))
    yield finding
    if finding.state is State.OK:
        yield from providers(config, os.environ)
    elif remains(config_path(config_file)) is None and not placed(data_dir):
        yield Finding("data", State.NOTE, "not looked at: the file may say where it is; --data-dir says it as well")
        return
    data = data_of(data_dir, config=config)
    yield directory(data)
    yield disk(data)
    held = lock(data)
    yield held
    yield from running_config(data, held=held.facts["held"])
    yield records(data)
    found = Registry(data.path / "models").scan()
    yield models(found)
    yield from default_model(config, [str(model.name) for model in found.models])
    yield engine(ask_engine(), needed=bool(found.models))
    yield memory(found.models, config, data, free_bytes())
    yield loads(found.models, data)
    yield crashes(found.models, data, now_s=time.time())
    yield server(config, data, held)


def configuration(path: Path | None) -> tuple[Finding, Config]:
    """The file and its problems; with a broken one the rest is judged by the defaults, in the file's own place."""
    file = str(path) if path is not None else None
    try:
        config = load(path, os.environ, names())
    except ConfigError as error:
        problems = [str(problem) for problem in error.problems]
        return Finding("config", State.BROKEN, "\n".join(problems), {"file": file, "problems": problems}), (
            remains(path) or Config()
        )
    return Finding(
        "config", State.OK, file or "none: defaults, and the keys in the environment", {"file": file}
    ), config


def providers(config: Config, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Those that are enabled, and by what; or what would enable one.  A Python one is imported."""
    for provider in config.providers.values():
        where = provider.python or provider.base_url or ""
        by = config.file if provider.origin == "file" else f"the environment's {provider.origin}"
        facts = {"name": provider.name, "dialect": provider.dialect, "where": where, "enabled_by": by}
        text = f"{provider.name} at {where}, enabled by {by}"
        fault = fault_of(provider) if provider.python is not None else credentials_fault(provider)
        state = State.OK if fault is None else State.BROKEN
        yield Finding("provider", state, f"{text}\n{fault}" if fault else text, facts)
    if not config.providers:
        names = ", ".join(switch(preset) for preset in PRESETS.values() if not preset.only_by_file)
        yield Finding("provider", State.NOTE, f"none; each of these enables one: {names}")
    for name, key, regions in without_place(config, environ):
        yield Finding("provider", State.NOTE, f"{name} is off: {key} is set, and {' or '.join(regions)} is not")


def switch(preset: Preset) -> str:
    """The variable that enables it, and what it needs beside that."""
    variable = preset.keys[0] if preset.keys else preset.address or ""
    return f"{variable} (with {preset.beside[0]})" if preset.beside else variable


def credentials_fault(provider: ProviderConfig) -> str | None:
    """What is wrong with where the credentials of a provider that signs its requests are to come from."""
    if provider.region is None or find_spec("botocore") is None:
        return None
    from rivermouth.providers.signing import profile_fault

    return profile_fault(provider.profile)


def directory(data: DataDir) -> Finding:
    """Can it be written to."""
    able = os.access(data.path, os.W_OK | os.X_OK)
    text = str(data.path) + ("" if able else ": not writable")
    return Finding("data", State.OK if able else State.BROKEN, text, {"path": str(data.path)})


def disk(data: DataDir) -> Finding:
    """Room for a model."""
    free = shutil.disk_usage(data.path).free
    state = State.OK if free >= LOW_DISK_BYTES else State.NOTE
    return Finding("disk", state, f"{size(free)} free", {"free_bytes": free})


def lock(data: DataDir) -> Finding:
    """Which server has the data directory."""
    pid = holder(data.path / LOCK)
    if pid is None:
        return Finding("lock", State.OK, "no server has the data directory", {"held": False, "pid": None})
    text = f"held by the server with pid {pid}" if pid else "held by a server"
    return Finding("lock", State.OK, text, {"held": True, "pid": pid or None})


def running_config(data: DataDir, *, held: bool) -> Iterator[Finding]:
    """How the configuration of the running server stands to its file; nothing of a server that does not tell."""
    try:
        state = json.decode_as(_STANDING, (data.path / STATE_FILE).read_bytes()) if held else None
    except (OSError, WireError):
        state = None
    if state is None:
        return
    since = f"that of {ago(state.since, time.time())}"
    facts = {"file": state.file, "since": state.since, "problems": state.problems, "waiting": state.waiting}
    if state.problems:
        text = "\n".join([f"{state.file} cannot be used, so the configuration is still {since}", *state.problems])
        yield Finding("reload", State.BROKEN, text, facts)
    elif state.waiting:
        text = f"{since}; these wait for a restart: {', '.join(state.waiting)}"
        yield Finding("reload", State.NOTE, text, facts)
    else:
        how = f"as {state.file} says it" if state.file is not None else "without a file"
        yield Finding("reload", State.OK, f"the server runs {how}, {since}", facts)


def holder(file: Path) -> int | None:
    """The pid of the lock's holder, 0 when it did not say, None when there is none.

    Looks with a shared lock, for an instant; a server that starts in just that instant would find the directory taken.
    """
    try:
        fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        said = os.pread(fd, 20, 0).strip()
        return int(said) if said.isdigit() else 0
    finally:
        os.close(fd)
    return None


def records(data: DataDir) -> Finding:
    """Can the database be read, and what does it hold."""
    from rivermouth.store.sqlite import SqliteCallStore

    if not data.database.exists():
        return Finding("records", State.OK, "none yet: no server has run here", {"calls": 0})
    try:
        store = SqliteCallStore.reader(data.database)
        try:
            calls = sum(row.calls for row in store.usage())
        finally:
            store.dispose()
    except StoreError as error:
        return Finding("records", State.BROKEN, str(error))
    return Finding("records", State.OK, some(calls, "call"), {"calls": calls})


def models(found: Scan) -> Finding:
    """What is here, and what lies there damaged."""
    names = [str(model.name) for model in found.models]
    facts = {"models": names, "problems": found.problems}
    if found.problems:
        return Finding("models", State.BROKEN, "\n".join([*found.problems, *names]), facts)
    if not names:
        return Finding("models", State.NOTE, "none; to get one: rivermouth pull smollm2:135m", facts)
    return Finding("models", State.OK, ", ".join(names), facts)


def default_model(config: Config, local: Iterable[str]) -> Iterator[Finding]:
    """Said only where nothing may answer to it; a server that is started with --scripted has more names."""
    from rivermouth.providers.scripted import PERSONAS

    doubt = default_model_doubt(config, [*local, *PERSONAS])
    if doubt is not None:
        yield Finding("default", State.NOTE, doubt)


def ask_engine() -> Probe | None:
    """What the engine says of itself, asked in a process of its own; None when it is not installed."""
    if find_spec(ENGINE) is None:
        return None
    command = [sys.executable, "-P", "-m", "rivermouth.cli.engine_probe"]
    environment = child_environment(os.environ)
    try:
        done = subprocess.run(command, capture_output=True, timeout=PROBE_S, env=environment, check=False)  # noqa: S603
    except subprocess.TimeoutExpired:
        return Probe(failure=f"no answer within {PROBE_S:g} s")
    try:
        return json.decode_as(_PROBE, done.stdout)
    except WireError:
        return Probe(failure=f"the process that asked it ended with status {done.returncode}")


def engine(said: Probe | None, *, needed: bool) -> Finding:
    """The local engine and its devices.  That it is not installed matters only where there are models for it."""
    if said is None:
        text = "not installed: pip install 'rivermouth[openvino]'"
        return Finding("engine", State.BROKEN if needed else State.NOTE, text, {"installed": False})
    if said.failure:
        return Finding("engine", State.BROKEN, said.failure, {"installed": True, "failure": said.failure})
    devices = ", ".join(f"{name} ({what})" for name, what in said.devices.items()) or "no device"
    facts = {"installed": True, "version": said.version, "devices": said.devices}
    return Finding("engine", State.OK, f"OpenVINO GenAI {said.version}; {devices}", facts)


def memory(models: Sequence[Model], config: Config, data: DataDir, free: int | None) -> Finding:
    """What is free, and what each model needs of it before it is loaded; more than there is, is refused then."""
    from rivermouth.compose import local_provider
    from rivermouth.local.machine.starter import need_of

    local = local_provider(config, data)
    device = next(iter(config.local.devices), "CPU")
    found = {str(model.name): need_of(local.spec_of(model, device), free) for model in models}
    short = [name for name, need in found.items() if free is not None and need.total > free]
    lines = [f"{size(free)} free" if free is not None else "nobody says how much is free"]
    for name, need in found.items():
        answers = f" and {size(need.answers)} for its answers" if need.answers else ""
        lines.append(f"{name} needs {size(need.model)}{answers}" + (": too much" if name in short else ""))
    needs = {name: {"model": need.model, "answers": need.answers} for name, need in found.items()}
    return Finding("memory", State.NOTE if short else State.OK, "\n".join(lines), {"free_bytes": free, "needs": needs})


def loads(models: Sequence[Model], data: DataDir) -> Finding:
    """How long each model took to load, from its file and from what was kept of it, and what that takes on the disk."""
    lines, facts = [], {}
    for model in models:
        cache = cache_of(model, data)
        known, kept = history.read(cache).loads, converted.size_of(cache)
        if known or kept:
            times = [f"{way} {_times(one)}" for way, one in known.items()]
            lines.append(f"{model.name}: {', '.join([*times, f'{size(kept)} kept'])}")
            facts[str(model.name)] = {"kept_bytes": kept, "loads": known}
    return Finding("loads", State.OK, "\n".join(lines) or "no model has been loaded yet", facts)


def crashes(models: Sequence[Model], data: DataDir, now_s: float) -> Finding:
    """How the processes of models last ended unasked, with the last lines of their stderr."""
    lines, facts = [], {}
    for model in models:
        last = history.read(cache_of(model, data)).crash
        if last is not None:
            lines.append(f"{model.name} on {last.device}, {ago(last.at, now_s)}: {last.how}")
            lines += [f"  {line}" for line in last.stderr]
            facts[str(model.name)] = last
    return Finding("crashes", State.NOTE if lines else State.OK, "\n".join(lines) or "none", facts)


def cache_of(model: Model, data: DataDir) -> Path:
    """Where what is made of a model is kept."""
    return data.path / "models" / "networks" / folder_of(model.manifest.digest)


def _times(one: history.LoadTimes) -> str:
    told = (("cold", one.cold_s), ("warm", one.warm_s))
    return " and ".join(f"{word} {seconds:.2f} s" for word, seconds in told if seconds is not None)


def server(config: Config, data: DataDir, held: Finding) -> Finding:
    """Does one answer, and how is it.  `held` is what was found out about the lock."""
    asked = addresses(config, data)
    for url in asked:
        health = Client(url).health()
        if health is not None:
            state = State.OK if health["status"] == "ok" else State.NOTE
            running = some(health["inflight"], "call")
            text = f"{url} is {health['status']}, version {health['version']}, {running} running"
            return Finding("server", state, text, {"url": url, **health})
    if not held.facts["held"]:
        return Finding("server", State.OK, "none answers", {"url": None})
    text = f"{held.text.removeprefix('held by ')} does not answer at {' or '.join(asked)}"
    if any(url.startswith("https:") for url in asked):
        text += "\nits certificate may be for another name: rivermouth chat --url https://NAME:PORT"
    return Finding("server", State.NOTE, text, {"url": None})


def _rows(finding: Finding) -> Iterator[tuple[str, str, str]]:
    first, *rest = finding.text.split("\n")
    yield finding.state, finding.name, first
    for line in rest:
        yield "", "", line

"""`rivermouth pull`: from the catalogue, a hub, an address or a path, into the data directory's registry.

No server is needed and none is asked: the registry is a folder that several processes may use.  Whoever types here is
the operator of this machine, so every source is open to them; clients of a server may pull less (`local.pulls`).  A
restricted licence is shown and asked about at a terminal, and refused by name elsewhere.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractContextManager, aclosing, nullcontext
from pathlib import Path
from types import TracebackType
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import TransferSpeedColumn as SpeedColumn

from rivermouth.cli.places import config_path, configured, data_of
from rivermouth.cli.term import emit, printable, say
from rivermouth.config import Config
from rivermouth.ir.errors import ApiError
from rivermouth.local.models.catalog import Entry, load_catalog
from rivermouth.local.models.licenses import LicenseRefused
from rivermouth.local.models.names import DEFAULT_TAG
from rivermouth.local.models.references import file_entry, operator_entry
from rivermouth.local.models.registry import Registry
from rivermouth.local.sources.gathered import Orders
from rivermouth.local.sources.partials import Partials
from rivermouth.local.sources.pull import SUCCESS, Puller, PullProgress
from rivermouth.providers.outbound import configured as configured_way_out

Screen = Callable[[PullProgress], None]

TERMINATED: Final = 128 + signal.SIGTERM


def run(
    what: str,
    *,
    file: Path | None,
    name: str | None,
    sha256: str | None,
    accept_license: str | None,
    data_dir: Path | None,
    config_file: Path | None,
    as_json: bool,
) -> None:
    """Brings the model here.  Raises `ApiError`, `ConfigError`, `KeyboardInterrupt`; the registry is then unchanged."""
    config = configured(config_file) if config_path(config_file) is not None else Config()
    registry = Registry(data_of(data_dir, config_file, config).path / "models")
    catalog = load_catalog(config.local.catalog)
    orders = Orders(cap_bytes=config.local.pull_limit_bytes, outbound=configured_way_out(config.outbound))
    puller = Puller(registry, catalog, orders=orders)
    try:
        entry = file_entry(what, file, sha256) if file else operator_entry(what, catalog, name=name, sha256=sha256)
        before = _digest(registry, entry)
        _pulled(puller, entry, accept_license, as_json=as_json)
    except ApiError as error:
        if as_json:
            emit({"error": {"kind": error.kind, "code": error.code, "message": error.message}})
        raise
    except KeyboardInterrupt:
        say(f"\nstopped; {_left(registry)}")
        raise
    if not as_json:
        _welcome(registry, entry, already=before is not None and before == _digest(registry, entry))


def _pulled(puller: Puller, entry: Entry, accept: str | None, *, as_json: bool) -> None:
    """Pulls, and once more if there is a licence that is accepted at the prompt."""
    try:
        follow(puller.pull_entry(entry, accept), as_json=as_json)
    except LicenseRefused as refused:
        terms = refused.terms
        if as_json or accept is not None or not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise
        licence = f"the licence {terms.license!r}" if terms.license else "no stated licence"
        gate = "\nIts hub lets in only accounts that accepted its terms there (HF_TOKEN)." if terms.gated else ""
        say(f"{terms.model} is under {licence}, which does not allow every use.\n{terms.url or ''}{gate}")
        sys.stderr.write(f"To accept it, type {printable(terms.name)}: ")
        sys.stderr.flush()
        answer = sys.stdin.readline().strip()
        if answer.lower() != terms.name:
            raise
        follow(puller.pull_entry(entry, answer), as_json=as_json)


def _welcome(registry: Registry, entry: Entry, *, already: bool) -> None:
    """That it is here, under which licence, and what to do with it."""
    model = registry.get(str(entry.name))
    shown = entry.name.name if entry.name.tag == DEFAULT_TAG else str(entry.name)
    if model.manifest.license is not None and not already:
        say(f"licence: {model.manifest.license}")
    use = f"Talk to it: rivermouth chat {shown}"
    if model.manifest.kind == "embedding":
        use = f'It makes embeddings: POST /v1/embeddings with "model": "{shown}"'
    say(f"{shown} is {'already ' if already else ''}here.  {use}")


def _left(registry: Registry) -> str:
    """What a pull that was stopped leaves behind."""
    parts = Partials(registry.root).root.glob("*.part")
    return "what has arrived is kept, and the next pull goes on from there" if any(parts) else "nothing was kept"


def _digest(registry: Registry, entry: Entry) -> str | None:
    """Of the model that has this name now; None if none has, or one that is damaged and that a pull may mend."""
    try:
        model = registry.find(str(entry.name))
    except ApiError:
        return None
    return model.manifest.digest if model is not None else None


def follow(frames: AsyncGenerator[PullProgress, None], *, as_json: bool = False) -> None:
    """Shows a pull until its end.  Ctrl-C and SIGTERM stop it, and it cleans up before this raises."""
    asyncio.run(_followed(frames, _screen(as_json=as_json)))


async def _followed(frames: AsyncGenerator[PullProgress, None], screen: AbstractContextManager[Screen]) -> None:
    task = asyncio.current_task()
    assert task is not None
    terminated = False

    def stop() -> None:
        nonlocal terminated
        terminated = True
        task.cancel()

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop)
    try:
        with screen as shown:
            async with aclosing(frames):
                async for frame in frames:
                    shown(frame)
    except asyncio.CancelledError:
        if terminated:
            sys.exit(TERMINATED)
        raise  # Ctrl-C: the runner makes it a KeyboardInterrupt


def _screen(*, as_json: bool) -> AbstractContextManager[Screen]:
    if as_json:
        return nullcontext(emit)
    return Bar() if sys.stderr.isatty() else nullcontext(Lines())


class Lines:
    """For a log: one line when something else is being done."""

    def __init__(self) -> None:
        self._last = ""

    def __call__(self, frame: PullProgress) -> None:
        if frame.status != self._last:
            self._last = frame.status
            say(frame.status)


class Bar:
    """For a terminal: a bar with speed and remaining time."""

    def __init__(self) -> None:
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=30),
            DownloadColumn(),
            SpeedColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=False,
        )
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Bar:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def __call__(self, frame: PullProgress) -> None:
        if frame.total is not None and frame.digest is not None:
            task = self._tasks.get(frame.digest)
            if task is None:
                task = self._tasks[frame.digest] = self._progress.add_task(
                    printable(frame.file or ""), total=frame.total
                )
            self._progress.update(task, total=frame.total, completed=frame.completed or 0)
        elif frame != SUCCESS:
            self._progress.console.print(frame.status, highlight=False, markup=False)

"""`rivermouth pull`: from the catalogue, or a file of one's own, into the data directory's registry.

No server is needed and none is asked: the registry is a folder that several processes may use.
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

from rivermouth.cli.places import data_of
from rivermouth.cli.term import emit, say
from rivermouth.ir.errors import ApiError
from rivermouth.local.catalog import file_entry
from rivermouth.local.pull import SUCCESS, Puller, PullProgress
from rivermouth.local.registry import Registry

Screen = Callable[[PullProgress], None]

TERMINATED: Final = 128 + signal.SIGTERM


def run(
    name: str,
    *,
    file: Path | None,
    sha256: str | None,
    data_dir: Path | None,
    config_file: Path | None,
    as_json: bool,
) -> None:
    """Brings the model here.  Raises `ApiError`, `KeyboardInterrupt`; then nothing of it is left."""
    registry = Registry(data_of(data_dir, config_file).path / "models")
    puller = Puller(registry)
    before = _digest(registry, name)
    frames = puller.pull(name) if file is None else puller.pull_entry(file_entry(name, file, sha256))
    try:
        follow(frames, as_json=as_json)
    except ApiError as error:
        if as_json:
            emit({"error": {"kind": error.kind, "code": error.code, "message": error.message}})
        raise
    except KeyboardInterrupt:
        say("\nstopped; nothing was kept")
        raise
    if not as_json:
        already = "already " if before is not None and before == _digest(registry, name) else ""
        say(f"{name} is {already}here.  Talk to it: rivermouth chat {name}")


def _digest(registry: Registry, name: str) -> str | None:
    """Of the model that has this name now; None if none has, or one that is damaged and that a pull may mend."""
    try:
        model = registry.find(name)
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
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            DownloadColumn(),
            SpeedColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=False,
        )
        self._task: TaskID | None = None

    def __enter__(self) -> Bar:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def __call__(self, frame: PullProgress) -> None:
        if frame.total is not None and frame.file is not None:
            if self._task is None:
                self._task = self._progress.add_task(frame.file, total=frame.total)
            self._progress.update(self._task, total=frame.total, completed=frame.completed or 0)
        elif frame != SUCCESS:
            self._progress.console.print(frame.status, highlight=False, markup=False)

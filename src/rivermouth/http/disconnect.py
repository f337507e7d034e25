"""Notices that the client has gone.

uvicorn's `send` says nothing after the client left, so without somebody waiting on `receive` an upstream would be
drained to its end.  One small task beside each call waits there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType

from rivermouth.http.body import Receive


class Watched:
    """While inside `with Watched(receive, gone):`, `gone` is called once if the client disconnects."""

    __slots__ = ("_gone", "_receive", "_task")

    def __init__(self, receive: Receive, gone: Callable[[], None]) -> None:
        self._receive = receive
        self._gone = gone
        self._task: asyncio.Task[None] | None = None

    def __enter__(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._watch())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._gone()

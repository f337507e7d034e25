"""Notices that the client has gone.

uvicorn's `send` says nothing after the client left, so without somebody who looks an upstream would be drained to its
end.  Where the connection itself can tell (`protocol.LEAVE`), it does; elsewhere one small task beside each call waits
on `receive`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType

from rivermouth.http.body import Receive

Leave = Callable[[Callable[[], None] | None], None]


class Watched:
    """While inside `with Watched(receive, gone):`, `gone` is called once if the client disconnects.

    leave: the connection's own way to tell, if it has one.
    """

    __slots__ = ("_gone", "_leave", "_receive", "_task")

    def __init__(self, receive: Receive, gone: Callable[[], None], leave: Leave | None = None) -> None:
        self._receive = receive
        self._gone = gone
        self._leave = leave
        self._task: asyncio.Task[None] | None = None

    def __enter__(self) -> None:
        if self._leave is not None:
            self._leave(self._gone)
        else:
            self._task = asyncio.get_running_loop().create_task(self._watch())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._leave is not None:
            self._leave(None)
        if self._task is not None:
            self._task.cancel()
            self._task = None  # whose traceback leads back here

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._gone()

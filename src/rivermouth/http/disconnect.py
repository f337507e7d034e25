"""Notices that the client has gone.

uvicorn's `send` says nothing after the client left, so without somebody waiting on `receive` an upstream would be
drained to its end.  One small task beside each call waits there.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from rivermouth.http.body import Receive


@asynccontextmanager
async def watched(receive: Receive, gone: Callable[[], None]) -> AsyncIterator[None]:
    """While inside, `gone` is called once if the client disconnects."""

    async def watch() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        gone()

    task = asyncio.get_running_loop().create_task(watch())
    try:
        yield
    finally:
        task.cancel()

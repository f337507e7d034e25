"""An application that is made when it is first asked for something.

The framework takes longer to import and to set up than all the rest of the server takes to start, and whoever only
passes calls on never needs it.  It is made in a thread: streams go on meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

AsgiApp = Callable[[Any, Any, Any], Awaitable[None]]


class Later:
    """`make` is called once, by whichever request is the first; those that come meanwhile wait with it.

    made: called when that is done.
    """

    def __init__(self, make: Callable[[], AsgiApp], made: Callable[[], None] = lambda: None) -> None:
        self._make = make
        self._made = made
        self._app: AsgiApp | None = None
        self._making: asyncio.Task[AsgiApp] | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self._app is None:
            if self._making is None:
                self._making = asyncio.create_task(self._in_thread())
            self._app = await asyncio.shield(self._making)  # a client that leaves does not take it from the others
        await self._app(scope, receive, send)

    async def _in_thread(self) -> AsgiApp:
        app = await asyncio.to_thread(self._make)
        self._made()
        return app

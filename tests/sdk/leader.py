"""The test's end of the line to the generator `bots.led`: what it says, the generator yields, line by line."""

from __future__ import annotations

import socket
from types import TracebackType
from typing import Self

from tests.sdk.served import ASK_AGAIN_S, DEADLINE_S, until


class Leader:
    """Listens on a port of its own; `port` goes into the message, `met` waits for the generator."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(DEADLINE_S)
        self._line: socket.socket | None = None

    @property
    def port(self) -> str:
        return str(self._listener.getsockname()[1])

    def say(self, piece: str) -> None:
        """The generator yields this next."""
        self._met().sendall(piece.encode() + b"\n")

    def end(self) -> None:
        """The generator returns."""
        self._met().shutdown(socket.SHUT_WR)

    def break_off(self) -> None:
        """The generator fails: this is no text."""
        self._met().sendall(b"\xff\n")

    def meet(self) -> None:
        """Returns when the generator runs."""
        self._met()

    def wait_gone(self) -> None:
        """Says more until the generator has closed, as its `with` does however it ends.

        It learns between two pieces that nobody listens, and the server takes a moment to see that the client left.
        """
        self._met().settimeout(ASK_AGAIN_S)
        until(self._closed, "the generator has closed")

    def _closed(self) -> bool:
        try:
            self._met().sendall(b"for nobody\n")
            return self._met().recv(1) == b""
        except TimeoutError:
            return False
        except ConnectionError:
            return True

    def _met(self) -> socket.socket:
        if self._line is None:
            self._line, _ = self._listener.accept()
            self._line.settimeout(DEADLINE_S)
        return self._line

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.close()
        if self._line is not None:
            self._line.close()

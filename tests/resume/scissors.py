"""A wire that is cut again and again: of each answer only some bytes come through, then the connection breaks."""

from __future__ import annotations

import random
import select
import socket
import struct
import threading
from types import TracebackType
from typing import Final, Self

from tests.engine.lab import LOOPBACK

READ_BYTES: Final = 65536
PATIENCE_S: Final = 10.0


class Scissors:
    """Passes connections on to a port of loopback.  `cuts`: how many it has cut.

    most: bytes of a body that come through on one connection; at least one does.
    Half of the connections are reset; the others are closed in the middle of a body.  Those that bring a call are never
    reset, since that may take back what the client has not yet read, and without its head a call cannot be resumed.
    """

    def __init__(self, port: int, seed: int, *, most: int = 600) -> None:
        self._port = port
        self._chance = random.Random(seed)
        self._most = most
        self._listener = socket.create_server((LOOPBACK, 0))
        self._threads: list[threading.Thread] = []
        self.cuts = 0
        self.url = f"http://{LOOPBACK}:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._begin(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive()

    def _begin(self, work: object, *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            allowed, reset = self._chance.randint(1, self._most), self._chance.random() < 0.5
            self._begin(self._pass_on, client, allowed, reset)

    def _pass_on(self, client: socket.socket, allowed: int, reset: bool) -> None:
        with client, socket.create_connection((LOOPBACK, self._port)) as server:
            head = b""
            while True:
                ready, _, _ = select.select([client, server], [], [], PATIENCE_S)
                assert ready, "nothing moves"
                if client in ready:
                    data = _read(client)
                    if not data:
                        return
                    reset = reset and not data.startswith(b"POST")
                    server.sendall(data)
                if server not in ready:
                    continue
                data = _read(server)
                if not data:
                    return
                if b"\r\n\r\n" not in head:
                    head += data
                    _, found, data = head.partition(b"\r\n\r\n")
                    if not found:
                        continue
                    client.sendall(head.removesuffix(data) if data else head)
                client.sendall(data[:allowed])
                allowed -= len(data)
                if allowed <= 0:
                    self.cuts += 1
                    if reset:
                        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    return


def _read(sock: socket.socket) -> bytes:
    try:
        return sock.recv(READ_BYTES)
    except ConnectionError:
        return b""

"""A stream that is being read outlives no right to read it; and bodies, for which nobody waits for ever."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.engine.lab import Lab, lab
from tests.http.accounting import Browser

DEADLINE_S = 15.0


@contextmanager
def reading(server: Lab, path: str, token: str | None = None) -> Iterator[list[bytes]]:
    """What a client reads until the server ends the stream, which it has to."""
    said: list[bytes] = []
    with socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE_S) as sock:
        head = f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n"
        head += f"authorization: Bearer {token}\r\n" if token else ""
        sock.sendall(head.encode() + b"\r\n")
        greeted = threading.Event()

        def read() -> None:
            while not said or not b"".join(said).endswith(b"0\r\n\r\n"):
                piece = sock.recv(65536)
                if not piece:
                    return
                said.append(piece)
                if b"caught_up" in b"".join(said):
                    greeted.set()

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        assert greeted.wait(DEADLINE_S), said
        yield said
        reader.join(DEADLINE_S)
        assert not reader.is_alive(), "the stream goes on"


@pytest.mark.promise(97)
def test_who_was_the_guest_reads_no_more_once_the_guest_is_somebody(tmp_path: Path):
    with lab(tmp_path) as server:
        guest = Browser(server)
        guest.enter("guest")
        chat = guest.chat()
        with reading(server, f"/api/chats/{chat}/events") as said:
            guest.enter("signup", "anna")
            answer = guest.ask("POST", f"/api/chats/{chat}/stream", {"content": "PRIVATE", "model": "scripted"})
            assert answer.status == 200
        assert b"PRIVATE" not in b"".join(said)
        assert b'"bye"' in b"".join(said)


@pytest.mark.promise(97)
def test_who_signs_out_reads_no_more(tmp_path: Path):
    with lab(tmp_path) as server:
        anna = Browser(server)
        anna.enter("signup", "anna")
        chat = anna.chat()
        with reading(server, f"/api/chats/{chat}/events", anna.token) as said:
            assert anna.ask("POST", "/api/auth/logout", {}).status == 204
        assert b'"bye"' in b"".join(said)


def test_a_body_that_is_too_large_for_a_document_is_refused_before_it_is_read(tmp_path: Path):
    with lab(tmp_path) as server, socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE_S) as sock:
        sock.sendall(b"POST /api/auth/login HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 9000000\r\n\r\n{")
        assert sock.recv(65536).startswith(b"HTTP/1.1 413 ")


def test_who_leaves_in_the_middle_of_a_body_is_no_fault_of_ours(tmp_path: Path):
    with lab(tmp_path) as server:
        for _ in range(3):
            with socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE_S) as sock:
                sock.sendall(b"POST /api/chats HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 100\r\n\r\n{")
        Browser(server).enter("guest")

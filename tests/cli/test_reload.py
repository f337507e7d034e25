"""What reaches a running server from outside: signals, changed files, a renewed certificate; and what it tells."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rivermouth.cli import doctor
from rivermouth.cli.doctor import State
from rivermouth.cli.notify import READY, notify, reloading
from rivermouth.cli.places import ADDRESS_FILE
from rivermouth.cli.reload import STATE_FILE, Reloader, Standing, signature, watched
from rivermouth.cli.serve import tls_of
from rivermouth.cli.term import Exit
from rivermouth.config import Config, ConfigError, OutboundConfig, ServerConfig, load
from rivermouth.http.certificate import Certificate
from rivermouth.secrets import Secret
from rivermouth.store.datadir import DataDir
from tests.cli.asking import Cli
from tests.engine.client import connected
from tests.engine.lab import lab, until
from tests.engine.tls import self_signed
from tests.running import Running, running

pytestmark = pytest.mark.anyio

DEADLINE_S = 15.0
KEYED = '[server]\nkeys = ["rm-a-key-of-some-length"]\n'


def logged(server: Running, event: str) -> list[dict[str, object]]:
    lines = (json.loads(line) for line in server.log if line.startswith("{"))
    return [line for line in lines if line["event"] == event]


async def models_status(port: int) -> int:
    async with connected(port) as client:
        answer = await client.ask("GET", "/v1/models")
        await answer.rest()
        return answer.status


class Supervisor:
    """What systemd is to a service: a socket for its datagrams."""

    def __init__(self, place: Path) -> None:
        self.name = str(place / "notify")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(self.name)
        self._socket.settimeout(DEADLINE_S)

    def hears(self) -> str:
        return self._socket.recv(4096).decode()

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    made = Supervisor(tmp_path)
    yield made
    made.close()


async def test_signals_and_changed_files_reach_a_real_server(tmp_path: Path, supervisor: Supervisor) -> None:
    """SIGHUP reloads, a changed file is found without it, and the supervisor is told of every step."""
    file = tmp_path / "rivermouth.toml"
    with running(tmp_path, env={"NOTIFY_SOCKET": supervisor.name}) as server:
        assert supervisor.hears() == READY
        assert await models_status(server.port) == 200

        file.write_text(KEYED, encoding="utf-8")
        server.process.send_signal(signal.SIGHUP)
        told = supervisor.hears()
        assert told.startswith("RELOADING=1\nMONOTONIC_USEC=")
        assert abs(int(told.rpartition("=")[2]) / 1e6 - time.monotonic()) < DEADLINE_S
        assert supervisor.hears() == READY
        assert await models_status(server.port) == 401

        part = tmp_path / "new.toml"
        part.write_text("[server]\nprot = 1\n", encoding="utf-8")
        part.replace(file)
        assert supervisor.hears().startswith("RELOADING=1")
        assert supervisor.hears() == READY, "that it was refused is no reason to be thought to reload for ever"
        assert await models_status(server.port) == 401
        finding, *_ = doctor.running_config(DataDir(server.data), held=True)
        assert finding.state is State.BROKEN
        assert f"{file}:2: server.prot: unknown key" in finding.text

        server.terminate()
        assert supervisor.hears() == "STOPPING=1"
        assert server.stop() == 0
    (reloaded,) = logged(server, "config.reloaded")
    assert reloaded["changed"] == ["server.keys"]
    (refused,) = logged(server, "config.refused")
    assert refused["problems"] == [f"{file}:2: server.prot: unknown key; did you mean port?"]
    assert not (server.data / STATE_FILE).exists()


async def test_a_server_whose_terminal_has_gone_stops(tmp_path: Path) -> None:
    """Closing a window sends the same signal that asks for a reload."""
    master, slave = pty.openpty()
    data = tmp_path / "data"
    (tmp_path / "rivermouth.toml").touch()
    file = str(tmp_path / "rivermouth.toml")
    command = [sys.executable, "-m", "rivermouth", "serve", "--config", file, "--data-dir", str(data), "--port", "0"]
    process = subprocess.Popen(command, stdin=slave, stdout=subprocess.DEVNULL, stderr=slave, start_new_session=True)
    os.close(slave)
    try:
        await until(lambda: (data / STATE_FILE).exists() and (data / ADDRESS_FILE).exists(), "it serves")
        before = (data / STATE_FILE).read_bytes()
        process.send_signal(signal.SIGHUP)
        await until(lambda: (data / STATE_FILE).read_bytes() != before, "it has reloaded")
        assert process.poll() is None
        os.close(master)
        process.send_signal(signal.SIGHUP)
        assert process.wait(DEADLINE_S) == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


async def test_a_renewed_certificate_is_shown_to_new_connections(tmp_path: Path) -> None:
    cert, key = self_signed(tmp_path)
    first = cert.read_text()
    (tmp_path / "other").mkdir()
    other, other_key = self_signed(tmp_path / "other")
    with lab(tmp_path, "", tls=(str(cert), str(key)), reloads=True) as server:
        trusting = ssl.create_default_context(cafile=str(cert))
        async with connected(server.port, tls=trusting) as client:
            assert (await client.ask("GET", "/health")).status == 200
            assert (await server.reread()).problems == ()
            cert.write_text(other.read_text())
            state = await server.reread()
            assert f"{cert} or {key}: " in state.problems[0]
            assert await asyncio.to_thread(shown, server.port) == first
            key.write_text(other_key.read_text())
            assert (await server.reread()).problems == ()
            assert await asyncio.to_thread(shown, server.port) == other.read_text()
            answer = await client.ask("GET", "/v1/models")
            assert (answer.status, bool(await answer.json())) == (200, True), "this connection stands as it began"
        async with connected(server.port, tls=ssl.create_default_context(cafile=str(other))) as client:
            assert (await client.ask("GET", "/health")).status == 200
        await until(lambda: server.connections() == 0, "they have left")
    assert [line["event"] for line in server.log].count("certificate.renewed") == 1


def shown(port: int) -> str:
    return ssl.get_server_certificate(("127.0.0.1", port), timeout=DEADLINE_S)


def test_nobody_is_asked_for_a_passphrase_when_a_certificate_is_renewed(tmp_path: Path) -> None:
    cert, key = self_signed(tmp_path)
    certificate = Certificate(str(cert), str(key))
    locked = tmp_path / "locked.pem"
    command = [
        "openssl",
        "pkcs8",
        "-topk8",
        "-v2",
        "aes256",
        "-passout",
        "pass:abcd",
        "-in",
        str(key),
        "-out",
        str(locked),
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=20)
    locked.replace(key)
    with pytest.raises(ssl.SSLError):
        certificate.renew()


def test_the_files_for_tls_may_stand_in_the_configuration(tmp_path: Path, cli: Cli) -> None:
    self_signed(tmp_path)
    file = tmp_path / "rivermouth.toml"
    file.write_text('[server]\ntls_cert = "cert.pem"\ntls_key = "key.pem"\n', encoding="utf-8")
    config = load(file, {}, frozenset())
    beside = (str(tmp_path / "cert.pem"), str(tmp_path / "key.pem"))
    assert tls_of(config, None) == beside
    assert tls_of(config, (beside[0], beside[1])) == beside
    assert tls_of(Config(), None) is None
    file.write_text('[server]\ntls_cert = "cert.pem"\n', encoding="utf-8")
    with pytest.raises(ConfigError, match=r"server\.tls_cert: goes with server\.tls_key"):
        load(file, {}, frozenset())
    file.write_text('[server]\ntls_cert = "cert.pem"\ntls_key = "gone.pem"\n', encoding="utf-8")
    ran = cli("serve", "--port", "0")
    assert ran.code == Exit.CONFIG
    assert f"server.tls_key {tmp_path / 'gone.pem'}: No such file" in ran.err


# -- what is watched


def test_every_file_whose_contents_count_is_watched(tmp_path: Path) -> None:
    cert, key = self_signed(tmp_path)
    (tmp_path / "key").write_text("a-key-of-ours\n", encoding="utf-8")
    file = tmp_path / "rivermouth.toml"
    text = (
        '[server]\nkeys = ["file:key"]\n[outbound]\nca_file = "cert.pem"\n'
        '[providers.lab]\ndialect = "ollama"\nbase_url = "https://lab.example"\nca_file = "cert.pem"\n'
    )
    file.write_text(text, encoding="utf-8")
    config = load(file, {}, frozenset({"ollama"}))
    assert config.server.keys[0].reveal() == "a-key-of-ours"
    found = set(watched(config, Certificate(str(cert), str(key))))
    assert found == {str(file), str(cert), str(key), str(tmp_path / "key")}
    assert set(watched(Config(server=ServerConfig(keys=(Secret("x" * 8),)), outbound=OutboundConfig()), None)) == set()


def test_a_change_of_any_kind_is_one(tmp_path: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    seen = [signature([str(file)])]
    file.write_text("one")
    seen.append(signature([str(file)]))
    file.write_text("two and more")
    seen.append(signature([str(file)]))
    other = tmp_path / "other"
    other.write_text("two and more")
    os.utime(other, ns=(file.stat().st_atime_ns, file.stat().st_mtime_ns))
    other.replace(file)
    seen.append(signature([str(file)]))
    file.unlink()
    assert len(set(seen)) == 4
    assert signature([str(file)]) == seen[0]
    for target in ("a", "b"):  # as a mounted folder is exchanged, by a link
        (tmp_path / target).write_text("same")
        link.unlink(missing_ok=True)
        link.symlink_to(tmp_path / target)
        seen.append(signature([str(link)]))
    assert seen[-1] != seen[-2]


class Looked:
    """A reloader whose looks are short, over a file of the test's."""

    def __init__(self, place: Path, *, watch: bool = True) -> None:
        self.file = place / "rivermouth.toml"
        self.file.write_text("", encoding="utf-8")
        self.reads = 0
        self.read_by = asyncio.Event()
        self.loop = asyncio.get_running_loop()
        config = Config(file=str(self.file), server=ServerConfig(watch=watch))
        self.reloader = Reloader(
            config,
            read=self._read,
            renew=lambda config: None,
            certificate=None,
            place=place,
            log_with=lambda config: None,
            stop=lambda: None,
            done=lambda refused: None,
            look_s=0.01,
        )

    def _read(self) -> Config:
        self.reads += 1
        self.loop.call_soon_threadsafe(self.read_by.set)
        return load(self.file, {}, frozenset())


async def test_what_still_changes_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is looked at until two looks have seen the same."""
    looks = iter([(0,), (1,), (2,), (2,), *[(2,)] * 9])
    last = threading.Event()

    def look(files: object) -> tuple[int, ...]:
        try:
            return next(looks)
        except StopIteration:
            last.set()
            return (2,)

    monkeypatch.setattr("rivermouth.cli.reload.signature", look)
    looked = Looked(tmp_path)
    async with looked.reloader:
        async with asyncio.timeout(DEADLINE_S):
            await looked.read_by.wait()
            await asyncio.to_thread(last.wait, DEADLINE_S)
    assert looked.reads == 1


async def test_where_nothing_is_to_be_watched_only_a_signal_counts(tmp_path: Path) -> None:
    looked = Looked(tmp_path, watch=False)
    looks = 0
    async with looked.reloader as reloader:
        looked.file.write_text("[timeouts]\nidle_s = 7\n", encoding="utf-8")
        original = reloader._signature
        seen = threading.Event()

        def counted() -> object:
            nonlocal looks
            looks += 1
            if looks > 3:
                seen.set()
            return original()

        reloader._signature = counted  # type: ignore[method-assign,assignment]
        await asyncio.to_thread(seen.wait, DEADLINE_S)
        assert looked.reads == 0
        reloader.hung_up()
        async with asyncio.timeout(DEADLINE_S):
            await looked.read_by.wait()
    assert looked.reads == 1


# -- doctor


def test_doctor_tells_how_the_running_configuration_stands(tmp_path: Path) -> None:
    data = DataDir(tmp_path)
    assert list(doctor.running_config(data, held=True)) == []
    for state, finds, words in (
        (Standing(file="a.toml", since=1.0), State.OK, "as a.toml says it"),
        (Standing(file=None, since=1.0), State.OK, "without a file"),
        (Standing(file="a.toml", since=1.0, waiting=("server.port",)), State.NOTE, "server.port"),
        (Standing(file="a.toml", since=1.0, problems=("a.toml:1: x",)), State.BROKEN, "a.toml:1: x"),
    ):
        (data.path / STATE_FILE).write_bytes(doctor.json.encode(state))
        (finding,) = doctor.running_config(data, held=True)
        assert (finding.state, words in finding.text) == (finds, True), finding
        assert list(doctor.running_config(data, held=False)) == [], "a killed server leaves its file behind"
    (data.path / STATE_FILE).write_bytes(b"{")
    assert list(doctor.running_config(data, held=True)) == []


# -- the supervisor


def test_the_supervisor_may_have_an_abstract_name_or_be_nobody(tmp_path: Path) -> None:
    name = f"rivermouth-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind("\0" + name)
        sock.settimeout(DEADLINE_S)
        assert notify(READY, {"NOTIFY_SOCKET": "@" + name})
        assert sock.recv(100) == b"READY=1"
        assert notify(reloading(), {"NOTIFY_SOCKET": "@" + name})
        assert sock.recv(100).startswith(b"RELOADING=1\n")
    assert not notify(READY, {"NOTIFY_SOCKET": "@" + name})
    assert not notify(READY, {"NOTIFY_SOCKET": str(tmp_path / "nobody")})
    assert not notify(READY, {"NOTIFY_SOCKET": "vsock:2:1"})
    assert not notify(READY, {})

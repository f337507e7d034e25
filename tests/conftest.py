"""What every test stands on: no network but loopback, a home of its own, examples that do not change.

The network guard is an audit hook, so it also sees connections that a C extension makes through Python's sockets.  It
raises where the attempt is made and fails the test again at its end, so that no error handling can swallow it.  What it
cannot see is a loop that brings its own sockets (uvloop) and child processes; a test that needs the real network says
`@pytest.mark.network`.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import ipaddress
import os
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest_plugins = ["tests.promises", "tests.thorough", "tests.watchdog"]

MOST_WORKERS = 5
NOBODY = Path(__file__).with_name("nobody.pem")
"""The one authority that tests trust by themselves; its key was thrown away.  Reading the system's hundreds takes as
long as twenty tests, and every client and every server does it anew."""
FOREIGN_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR")
FOREIGN_PREFIXES = (
    *("RIVERMOUTH_", "OPENAI_", "ANTHROPIC_", "OLLAMA_", "GEMINI_", "GOOGLE_", "CO_", "HF_", "AWS_"),
    *("GROQ_", "KIMI_", "MOONSHOT_", "MISTRAL_", "DEEPSEEK_", "OPENROUTER_", "TOGETHER_", "COHERE_", "AI_STREAM_"),
    *("VLLM_", "LLAMACPP_", "LMSTUDIO_", "TGI_", "OTEL_", "AZURE_"),
)


class NetworkForbidden(Exception):
    """A test reached for the network.  Not an OSError: a client would take that for a dead upstream."""


class NetworkGuard:
    """Lets sockets go to loopback only while `active`; keeps what was tried."""

    def __init__(self) -> None:
        self.active = False
        self.tried: list[str] = []

    def hook(self, event: str, args: tuple[Any, ...]) -> None:
        if not self.active or not event.startswith("socket."):
            return
        if event in ("socket.connect", "socket.sendto"):
            sock, address = args[0], args[1]
            if sock.family in (socket.AF_INET, socket.AF_INET6) and not is_loopback(address[0]):
                self.refuse(f"{event} {address[0]}:{address[1]}")
        elif event == "socket.getaddrinfo" and not is_loopback(args[0]):
            self.refuse(f"{event} {args[0]}")

    def refuse(self, what: str) -> None:
        self.tried.append(what)
        raise NetworkForbidden(what)


def is_loopback(host: str | bytes | None) -> bool:
    """True for names and addresses that never leave the machine; None and "" mean the local side."""
    name = host.decode("ascii", "replace") if isinstance(host, bytes) else host
    if not name or name.rstrip(".") == "localhost":
        return True
    try:
        address = ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


GUARD = NetworkGuard()
sys.addaudithook(GUARD.hook)


def pytest_configure(config: pytest.Config) -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A job that a shell put in the background ignores Ctrl-C, and so would every program that a test starts.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.addinivalue_line("markers", "network: the test may leave the machine")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One more than there are cores, because tests wait too; not many, because each imports and collects everything."""
    return min((os.cpu_count() or 1) + 1, MOST_WORKERS)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """What is collected stays to the end, a million objects of it: the garbage collector need not look at them each
    time that it looks at what a test left."""
    gc.disable()
    try:
        import_from_my_place_on(session.config)
        yield
    finally:
        gc.enable()
        gc.freeze()


def import_from_my_place_on(config: pytest.Config) -> None:
    """Each worker imports all test modules, beginning at another: what one has compiled the others only read.

    In their common order they would all compile all of it, side by side, and that takes longer than the rest of the
    collection.  A module that cannot be imported is told of when it is collected.
    """
    me: dict[str, Any] | None = getattr(config, "workerinput", None)
    if me is None or config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        return
    for module in from_my_place(modules_of(Path(__file__).parent), int(me["workerid"][2:]), int(me["workercount"])):
        with contextlib.suppress(Exception, pytest.skip.Exception):
            importlib.import_module(module)


def modules_of(folder: Path) -> list[str]:
    """The names that pytest imports them by."""
    paths = sorted(folder.rglob("test_*.py"))
    return [".".join(path.relative_to(folder.parent).with_suffix("").parts) for path in paths]


def from_my_place(modules: list[str], worker: int, workers: int) -> list[str]:
    """All of them, in a circle that begins at this worker's share."""
    begin = len(modules) * worker // workers
    return modules[begin:] + modules[:begin]


@pytest.fixture(autouse=True)
def network_guard(request: pytest.FixtureRequest) -> Iterator[NetworkGuard]:
    """Loopback only, unless the test is marked `network`; then the system's authorities are trusted too."""
    GUARD.tried.clear()
    GUARD.active = request.node.get_closest_marker("network") is None
    with pytest.MonkeyPatch.context() as patch:
        if not GUARD.active:
            patch.delenv("SSL_CERT_FILE", raising=False)
        yield GUARD
    GUARD.active = False
    assert not GUARD.tried, f"the test reached for the network: {GUARD.tried}"


@pytest.fixture(scope="session", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An empty home, and none of the user's keys, proxies and settings.  Where pip finds packages stays as it is."""
    place = tmp_path_factory.mktemp("home")
    user_pip = Path(os.environ.get("XDG_CONFIG_HOME", str(Path.home() / ".config"))) / "pip" / "pip.conf"
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.upper() in FOREIGN_VARIABLES or name.upper().startswith(FOREIGN_PREFIXES):
                patch.delenv(name)
        if user_pip.is_file() and "PIP_CONFIG_FILE" not in os.environ:
            patch.setenv("PIP_CONFIG_FILE", str(user_pip))
        patch.setenv("HOME", str(place))
        patch.setenv("SSL_CERT_FILE", str(NOBODY))
        for name, below in (("DATA", ".local/share"), ("CONFIG", ".config"), ("CACHE", ".cache"), ("STATE", ".state")):
            patch.setenv(f"XDG_{name}_HOME", str(place / below))
        yield place


@pytest.fixture(scope="session", autouse=True)
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Where this process may not write compiled modules, its children keep theirs for each other, over all workers:
    importing the server takes less than compiling it."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with pytest.MonkeyPatch.context() as patch:
        if sys.dont_write_bytecode and "PYTHONPYCACHEPREFIX" not in os.environ:
            patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
            patch.setenv("PYTHONPYCACHEPREFIX", str(shared / "compiled"))
        yield


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """An empty data directory."""
    place = tmp_path / "data"
    place.mkdir()
    return place


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Async tests run on asyncio, as the server does."""
    return "asyncio"

"""What is measured: processes on loopback, each pinned to a core, and how clients reach the upstream through them."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

HERE = Path(__file__).parent
UPSTREAM_KEY = "bench-upstream-key"
READY_S = 30.0
NAMELESS_MODEL = "bench-n200"
"""What clients get whose protocol names no model: loads that are run with them are of this one."""


@dataclass(frozen=True)
class Way:
    """How one client reaches the upstream through a target: its path and the headers of its key.

    In the path {model} is the model, and {quoted} the same with its slash quoted.  speaks: the load generator's format,
    where that is not the client's name.
    """

    path: str
    headers: tuple[str, ...] = ()
    speaks: str = ""

    def to(self, model: str) -> str:
        return self.path.format(model=model, quoted=quote(model, safe=""))


@dataclass(frozen=True)
class Target:
    """A running gateway.  pids: what is measured.  model: how the upstream's model is called there.  key: for it."""

    name: str
    port: int
    pids: tuple[int, ...]
    ways: dict[str, Way] = field(default_factory=dict)
    model: str = "{}"
    key: str = ""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until_ready(port: int, process: subprocess.Popen[bytes]) -> None:
    """Returns when the port takes connections; raises when the process has ended or `READY_S` is over."""
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"{process.args!r} ended with {process.returncode} before it listened")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    raise RuntimeError(f"{process.args!r} did not listen within {READY_S:.0f} s")


def pin(core: int | None) -> Callable[[], None] | None:
    """For `preexec_fn`: the child, and what it starts, runs on this core alone."""
    return None if core is None else lambda: os.sched_setaffinity(0, {core})


@contextlib.contextmanager
def running(command: list[str], core: int | None, port: int, env: dict[str, str] | None = None) -> Iterator[int]:
    """The process while it runs; gives its pid."""
    process = subprocess.Popen(command, stdout=sys.stderr, preexec_fn=pin(core), env={**os.environ, **(env or {})})
    try:
        wait_until_ready(port, process)
        yield process.pid
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def upstream(core: int | None) -> Iterator[int]:
    """The fake upstream; gives its port."""
    port = free_port()
    with running([str(HERE / "upstream"), str(port)], core, port):
        yield port


def statistics(port: int) -> dict[str, int]:
    """What the upstream has sent so far."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/stats", timeout=5) as answer:
        counts: dict[str, int] = json.load(answer)
    return counts


CONFIG = """
data_dir = {data!r}

[server]
host = "127.0.0.1"
port = {port}
require_keys = true
default_model = "lab/{model}"

[limits]
requests_per_minute = 1_000_000_000
tokens_per_minute = 1_000_000_000
concurrent = 1_000_000

[sovereignty]
classes = ["resident", "anywhere"]

[policies.resident]
regions = ["eu-*"]
sovereignty_min = "resident"
retention_max = "30d"
price_max = {{ input = 10, output = 50, currency = "EUR" }}
budget = {{ amount = 1_000_000_000, currency = "EUR" }}

[providers.lab]
dialect = "openai_chat"
base_url = "http://127.0.0.1:{upstream}/v1"
api_key = "env:BENCH_UPSTREAM_KEY"

[endpoints.lab]
provider = "lab"
model = "*"
version = "2026-11"
region = "eu-west"
sovereignty = "resident"
retention = "none"
context_tokens = 1_000_000
price = {{ input = 2.5, output = 10, currency = "EUR" }}
"""
"""Everything that is decided for a call: limits of the key and of the server, a policy, a budget of each, a price."""
KEY_OPTIONS = (
    "--policy=resident",
    "--requests-per-minute=1000000000",
    "--tokens-per-minute=1000000000",
    "--concurrent=1000000",
    "--budget=1000000000 EUR/month",
)


def program() -> str:
    return str(Path(sys.executable).parent / "rivermouth")


def platform_key(config: Path, env: dict[str, str]) -> str:
    """The secret of a new key of the database, with limits, a budget and a policy."""
    made = subprocess.run(
        [program(), "keys", "create", "bench", *KEY_OPTIONS, "--config", str(config), "--json"],
        env={**os.environ, **env},
        check=True,
        capture_output=True,
    )
    secret: str = json.loads(made.stdout)["secret"]
    return secret


@contextlib.contextmanager
def rivermouth(upstream_port: int, core: int | None, place: Path) -> Iterator[Target]:
    """The whole product: a platform key, limits, budgets, a policy, prices, records, metrics and the log of calls."""
    port, config = free_port(), place / "rivermouth.toml"
    config.write_text(
        CONFIG.format(data=str(place / "data"), port=port, model=NAMELESS_MODEL, upstream=upstream_port),
        encoding="utf-8",
    )
    command, secrets = [program(), "serve", "--config", str(config)], {"BENCH_UPSTREAM_KEY": UPSTREAM_KEY}
    key = platform_key(config, secrets)
    bearer = (f"Authorization: Bearer {key}",)
    ways = {
        "openai": Way("/v1/chat/completions", bearer),
        "resumable": Way("/v1/chat/completions", (*bearer, "x-rivermouth-resumable: 1"), "openai"),
        "json": Way("/v1/chat/completions", bearer),
        "anthropic": Way("/v1/messages", (f"x-api-key: {key}", "anthropic-version: 2023-06-01")),
        "ollama": Way("/api/chat", bearer),
        "gemini": Way("/v1beta/models/{model}:streamGenerateContent?alt=sse", (f"x-goog-api-key: {key}",)),
        "cohere_v2": Way("/cohere/v2/chat", bearer),
        "cohere_v1": Way("/cohere/v1/chat", bearer),
        "tgi": Way("/tgi/generate_stream", bearer),
        "bedrock": Way("/model/{quoted}/invoke-with-response-stream", bearer),
    }
    with running(command, core, port, secrets) as pid:
        yield Target("Rivermouth", port, (pid,), ways, model="lab/{}", key=key)


NGINX = """
worker_processes 1;
daemon off;
pid {place}/pid;
error_log {place}/error.log crit;
{user}
events {{ worker_connections 16384; }}
http {{
  access_log off;
  client_body_temp_path {place}/body;
  proxy_temp_path {place}/proxy;
  fastcgi_temp_path {place}/fastcgi;
  uwsgi_temp_path {place}/uwsgi;
  scgi_temp_path {place}/scgi;
  keepalive_requests 1000000;
  upstream fake {{ server 127.0.0.1:{upstream}; keepalive 1024; keepalive_requests 1000000; }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://fake;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
      proxy_read_timeout 600s;
    }}
  }}
}}
"""


def nginx_binary() -> str | None:
    return shutil.which("nginx", path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"]))


@contextlib.contextmanager
def nginx(upstream_port: int, core: int | None, place: Path) -> Iterator[Target]:
    """The yardstick: a proxy that relays without parsing, `proxy_buffering off`."""
    binary = nginx_binary()
    if binary is None:
        raise RuntimeError("nginx is not installed")
    port, config = free_port(), place / "nginx.conf"
    user = "user root;" if os.geteuid() == 0 else ""
    config.write_text(NGINX.format(place=place, port=port, upstream=upstream_port, user=user), encoding="utf-8")
    with running([binary, "-p", str(place), "-c", str(config), "-e", str(place / "error.log")], core, port) as pid:
        relay = Way("/v1/chat/completions")
        yield Target("nginx", port, (pid, *children(pid)), {"openai": relay, "json": relay})


def children(pid: int) -> tuple[int, ...]:
    """The processes that this one has started."""
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    return tuple(int(child) for child in listed.split())


@contextlib.contextmanager
def direct(upstream_port: int, core: int | None, place: Path) -> Iterator[Target]:
    """No gateway at all: what the load generator and the upstream cost by themselves."""
    relay = Way("/v1/chat/completions")
    yield Target("direct", upstream_port, (), {"openai": relay, "json": relay})


Starter = Callable[[int, int | None, Path], contextlib.AbstractContextManager[Target]]
STARTERS: dict[str, Starter] = {"direct": direct, "nginx": nginx, "rivermouth": rivermouth}

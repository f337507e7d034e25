"""`rivermouth demo`: a model, a server, one answer over HTTP, and the lines that point an SDK at it.

Everything is real, or it is said that it is not: without the engine, or without a registry to pull from, the scripted
model answers and the word "scripted" stands beside it.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import time
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import typer

from rivermouth.cli.chat import Paper
from rivermouth.cli.client import Client
from rivermouth.cli.places import configured, data_of
from rivermouth.cli.pull import follow
from rivermouth.cli.serve import until_stopped
from rivermouth.cli.serving import listening, url_of
from rivermouth.cli.term import Exit, fail, own_name, say
from rivermouth.config import Config, scripted_asked
from rivermouth.ir.errors import ApiError
from rivermouth.ir.events import Finish, TextDelta, Usage
from rivermouth.ir.request import Message, Request, Role, Sampling, Text
from rivermouth.local.models.catalog import SMOLLM2
from rivermouth.local.models.registry import Registry
from rivermouth.local.sources.pull import Puller

if TYPE_CHECKING:
    from rivermouth.compose import Services
    from rivermouth.http.server import Server

MODEL: Final = str(SMOLLM2.name)
SCRIPTED: Final = "scripted"
ENGINE: Final = "openvino_genai"
QUESTION: Final = "What is the capital of France?"
LONGEST_TOKENS: Final = 120
PORTS_TRIED: Final = 50

HONEST: Final = (
    "135M parameters is a smoke-test model: it shows that everything works, not what a model can do.",
    "A step up: a GGUF of Qwen2.5 or Qwen3, 0.6B to 4B (rivermouth pull NAME --file FILE.gguf), or a provider's key.",
)
FALLEN_BACK: Final = "The answer below is SCRIPTED: canned text over the real server, without any model."


def run(*, config_file: Path | None, host: str | None, port: int | None, data_dir: Path | None, once: bool) -> None:
    """Shows it all, then serves until Ctrl-C; with `once` it ends after the answer, and fails if there was none.

    Raises `DataDirBusy`.
    """
    from rivermouth.observe import configure_logging

    config = configured(config_file, host=host, port=port)
    configure_logging("text", level=logging.ERROR, secrets=config.secrets)
    data = data_of(data_dir, config=config)
    data.lock().release()  # before anything else is said: beside a running server there can be no second one
    why = unavailable(Registry(data.path / "models"))
    if why is not None:
        say(f"{why}\n{FALLEN_BACK}")
    sockets = [free_port(config.server.host, config.server.port)]
    real = why is None
    model = MODEL if real else SCRIPTED
    show = Show(config, model, sockets[0], once=once)
    scripted = not real or any(scripted_asked(config))
    until_stopped(shown(config, model), data, sockets, show.ready, scripted=scripted, warm=MODEL if real else None)
    if once and not show.answered:
        raise typer.Exit(Exit.FAILED)


def unavailable(registry: Registry) -> str | None:
    """Pulls the model unless it is here; the reason when there can be no real answer."""
    if find_spec(ENGINE) is None:
        return "The local engine is not installed (pip install 'rivermouth[openvino]')."
    try:
        if registry.find(MODEL) is None:
            say(f"Pulling {MODEL}, {SMOLLM2.license}, {SMOLLM2.attribution}.")
            follow(Puller(registry).pull(MODEL))
    except ApiError as error:
        return f"{MODEL} could not be pulled: {error.message}."
    return None


def free_port(host: str, port: int) -> socket.socket:
    """A socket on that port or, when it is taken, on the next that is free; says so.  Exits when none is."""
    for candidate in range(port, min(port + PORTS_TRIED, 65536)):
        try:
            (sock,) = listening([(host, candidate)])
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                fail(f"cannot listen on {host}:{candidate}: {error.strerror or error}", Exit.BUSY)
            continue
        if candidate != port:
            say(f"Port {port} is taken; this is on {candidate}.")
        return sock
    return fail(f"ports {port} to {port + PORTS_TRIED - 1} are all taken", Exit.BUSY)


def shown(config: Config, model: str) -> Config:
    """The same for a demonstration: Ctrl-C ends it at once, and its model answers where a client names none, unless the
    configuration says which does.
    """
    return msgspec.structs.replace(
        config,
        server=msgspec.structs.replace(config.server, default_model=config.default_model or model),
        timeouts=msgspec.structs.replace(config.timeouts, drain_s=0.0),
    )


class Show:
    """What happens beside the server: one answer, and how to get the next."""

    def __init__(self, config: Config, model: str, sock: socket.socket, *, once: bool) -> None:
        self.answered = False
        self._model = model
        self._once = once
        self._url = url_of(sock) + config.http.base_path
        self._client = Client(self._url, config.server.keys[0] if config.server.keys else None)
        self._task: asyncio.Task[None] | None = None

    def ready(self, server: Server, services: Services) -> None:
        """Called on the loop when the server takes connections."""
        self._task = asyncio.get_running_loop().create_task(self._run(server))

    async def _run(self, server: Server) -> None:
        say(f"Rivermouth answers on {self._url}")
        await asyncio.to_thread(self._answer)
        if self._once:
            server.stop()
            return
        for line in ways(self._url, self._model, own_name()):
            say(line)

    def _answer(self) -> None:
        """Streams it from a thread, as any other client would; a failure is said, and the server goes on."""
        say(f"\nPOST {self._url}/v1/chat/completions   {self._model}: {QUESTION}\n")
        request = Request(
            model=self._model,
            messages=(Message(Role.USER, (Text(QUESTION),)),),
            stream=True,
            include_usage=True,
            max_tokens=LONGEST_TOKENS,
            sampling=Sampling(temperature=0.0),
        )
        begun = time.monotonic()
        first: float | None = None
        tokens: int | None = None
        try:
            with Paper() as paper, closing(self._client.stream(request)) as events:
                for event in events:
                    if first is None and isinstance(event, TextDelta):
                        first = time.monotonic()
                    if isinstance(event, Usage) and event.output_tokens is not None:
                        tokens = event.output_tokens
                    paper.write(event)
                    self.answered = self.answered or isinstance(event, Finish)
        except ApiError as error:
            say(f"rivermouth: {error.message}")
        if first is not None:
            say(f"\n{timing(begun, first, time.monotonic(), tokens)}")


def timing(begun: float, first: float, ended: float, tokens: int | None) -> str:
    """How fast it was."""
    rate = f", then {tokens / (ended - first):.0f} tokens/s" if tokens and ended > first else ""
    return f"first token after {first - begun:.1f} s, with the model's loading{rate}"


def ways(url: str, model: str, command: str) -> list[str]:
    """How each SDK is pointed here, and how `command` goes on."""
    talk = f'model="{model}", stream=True, messages=[{{"role": "user", "content": "Hi"}}]'
    return [
        "",
        *(HONEST if model != SCRIPTED else ("The model above is scripted.",)),
        "",
        f"openai     {url}/v1",
        f'    OpenAI(base_url="{url}/v1", api_key="-").chat.completions.create({talk})',
        f"anthropic  {url}",
        f'    Anthropic(base_url="{url}", api_key="-").messages.create(max_tokens=64, {talk})',
        f"ollama     {url}",
        f'    Client(host="{url}").chat({talk})',
        "",
        f"In another terminal: {command} chat {model}   {command} calls   {command} doctor",
        "Ctrl-C stops the server.",
    ]

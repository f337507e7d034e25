"""How the tests of this folder install a model and ask it something."""

from __future__ import annotations

import shutil
from contextlib import aclosing
from pathlib import Path

from rivermouth.ir.events import Event, Finish, TextDelta, Usage
from rivermouth.ir.grammar import Grammar
from rivermouth.ir.request import Message, Request, Role, Text
from rivermouth.local.models.names import parse_name
from rivermouth.local.models.registry import Manifest, Model, Registry, sha256_of
from rivermouth.local.models.support import inspect
from rivermouth.local.provider import LocalProvider, LocalUpstream


def install(registry: Registry, name: str, path: Path, **said: str) -> Model:
    """The file at `path` in the registry, without a pull.  `said`: more of its manifest."""
    facts = inspect(path)
    stage = registry.open_stage()
    copy = Path(shutil.copy(path, stage / "model.gguf"))
    manifest = Manifest(
        digest=f"sha256:{sha256_of(path)}",
        size_bytes=path.stat().st_size,
        file=path.name,
        created=1_700_000_000,
        architecture=facts.architecture,
        context_tokens=facts.context_tokens,
        parameters=facts.parameters,
        quantization=facts.quantization,
        longest_token_bytes=facts.longest_token_bytes,
        end_tokens=facts.end_tokens,
        unpacked=facts.unpacked,
        template=facts.template,
        **said,  # type: ignore[arg-type]
    )
    model = registry.publish(parse_name(name), manifest, copy)
    registry.close_stage(stage)
    return model


def asking(text: str = "Hi", **fields: object) -> Request:
    """A request with one user message."""
    messages = (Message(Role.USER, (Text(text),)),)
    return Request(**{"model": "tiny", "messages": messages, "stream": True} | fields)  # type: ignore[arg-type]


async def begin(local: LocalProvider, model: str, request: Request, warned: list[str] | None = None) -> LocalUpstream:
    """One attempt, begun; whatever comes of it, its lease is closed."""
    with await local.prepare(request, model) as lease:
        warn = ([] if warned is None else warned).append
        return await local.open(request, model, lease, same_dialect=False, warn=warn)


async def whole(upstream: LocalUpstream) -> list[Event]:
    """All events to the end, checked against the grammar."""
    grammar = Grammar()
    events: list[Event] = []
    async with aclosing(_Closing(upstream)):
        while not events or not isinstance(events[-1], Finish):
            events += (await upstream.read()).events
    grammar.feed_all(events)
    return events


async def ask(local: LocalProvider, model: str, request: Request) -> list[Event]:
    """One attempt from its beginning to its end."""
    return await whole(await begin(local, model, request))


def text_of(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def usage_of(events: list[Event]) -> Usage:
    """The last usage."""
    return [event for event in events if isinstance(event, Usage)][-1]


def pid_of(local: LocalProvider, model: str) -> int:
    """The process that runs the model."""
    digest = local.registry.get(model).manifest.digest
    (pid,) = (loaded.engine.pid for place, loaded in local.pool._loaded.items() if place.digest == digest)
    return pid


async def some_text(upstream: LocalUpstream) -> str:
    """Reads until there is text."""
    while True:
        for event in (await upstream.read()).events:
            if isinstance(event, TextDelta):
                return event.text


class _Closing:
    def __init__(self, upstream: LocalUpstream) -> None:
        self._upstream = upstream

    async def aclose(self) -> None:
        await self._upstream.close()

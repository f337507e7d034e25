"""The scripted models behind the provider port: an asynchronous shell that hands `script` out token by token."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from rivermouth.ir.events import Event
from rivermouth.ir.reply import EmbedReply, ModelInfo
from rivermouth.ir.request import EmbedRequest, Request, Sampling, check_translatable
from rivermouth.providers.provider import NO_HEADERS, NOTHING, Batch, Lease, Onward, Upstream
from rivermouth.providers.scripted.embedding import vector_of
from rivermouth.providers.scripted.script import PERSONAS, Persona, by_token, persona_of, script
from rivermouth.providers.scripted.words import count_tokens

Sleep = Callable[[float], Awaitable[object]]

# The same words for the same request is what a seed asks for; every other wish of this kind changes nothing.
HONOURED: Final = frozenset({"seed"})


class ScriptedProvider:
    """Six models without a model in them.  `sleep` is how `scripted-slow` waits."""

    dialect: str | None = None

    def __init__(self, name: str = "scripted", *, sleep: Sleep = asyncio.sleep) -> None:
        self.name = name
        self._sleep = sleep

    async def prepare(self, request: Request | EmbedRequest, model: str) -> Lease:
        """Always ready; raises for a model that does not exist."""
        persona_of(model, embeds=isinstance(request, EmbedRequest))
        return NOTHING

    async def open(
        self, request: Request, model: str, lease: Lease = NOTHING, *, same_dialect: bool, warn: Callable[[str], None]
    ) -> Upstream:
        """Plans the whole answer (in a thread, since prompts and schemas may be large); `read` hands it out."""
        check_translatable(request)
        events = await asyncio.to_thread(script, request, model)
        for name in Sampling.__struct_fields__:
            if name not in HONOURED and getattr(request.sampling, name) is not None:
                warn(name)
        return ScriptedUpstream(events, PERSONAS[model].pause_s, self._sleep)

    async def embed(
        self, request: EmbedRequest, model: str, lease: Lease = NOTHING, *, warn: Callable[[str], None]
    ) -> EmbedReply:
        """Vectors of unit length, in a thread, since the inputs may be long."""
        persona_of(model, embeds=True)
        return await asyncio.to_thread(_embed, request, model)

    async def models(self) -> list[ModelInfo]:
        return [
            ModelInfo(id=name, owner=self.name, family="scripted", capabilities=capabilities(persona))
            for name, persona in PERSONAS.items()
        ]

    async def close(self) -> None:
        """Nothing to release."""


class ScriptedUpstream:
    """A finished script, read token by token.  Each read first sleeps (0 s lets the loop run), so it can be cancelled
    without loss."""

    headers = NO_HEADERS

    def __init__(self, events: list[Event], pause_s: float, sleep: Sleep) -> None:
        self._groups = by_token(events)
        self._pause_s = pause_s
        self._sleep = sleep

    async def read(self, onward: Onward | None = None) -> Batch:
        """The events up to the next token, or the end; none after it."""
        await self._sleep(self._pause_s)
        return Batch(next(self._groups, []))

    async def close(self) -> None:
        self._groups = by_token(())


def capabilities(persona: Persona) -> tuple[str, ...]:
    """The words in which Ollama and others tell what a model can do."""
    return ("embedding",) if persona.embeds else ("completion", "tools", "vision", "thinking")


def _embed(request: EmbedRequest, model: str) -> EmbedReply:
    vectors = tuple(vector_of(text, request.dimensions) for text in request.input)
    return EmbedReply(model=model, vectors=vectors, input_tokens=sum(map(count_tokens, request.input)))

"""The models on this machine, behind the same port as every other provider.

    prepare   the model is in the registry and loaded, and a slot of it is held for the call, as a lease
              (loading and waiting have clocks of their own; the call's clocks start after them)
    open      the request in the engine's words, begun; the slot goes over to the upstream
    read      Start, Usage(prompt) -> PartStart, TextDelta... -> PartEnd, Usage, Finish
    close     cancelled in the engine process, confirmed by it, and then the slot is free

Prefix caching is off: it never gives memory back, and an answer may come to depend on what was asked before it, which a
seed promises it does not.  A file with F16 matrices runs at full precision, because the engine's default crashes on
some processors.
"""

from __future__ import annotations

import secrets
from asyncio import to_thread
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Final

import msgspec

from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.events import Event, Finish, PartEnd, PartKind, PartStart, Reason, Start, TextDelta, Usage
from rivermouth.ir.reply import EmbedReply, ModelInfo
from rivermouth.ir.request import EmbedRequest, Request
from rivermouth.local.catalog import CATALOG, Catalog
from rivermouth.local.pool import KEEP_ALIVE_S, EnginePool, Limits, SlotLease
from rivermouth.local.process import PROVIDER, EngineSpec, Generation
from rivermouth.local.prompt import (
    check_abilities,
    check_length,
    context_of,
    raw_prompt,
    role_prefixed,
    size_of,
    turns_of,
)
from rivermouth.local.protocol import Generate, Turn
from rivermouth.local.pull import Puller, PullProgress
from rivermouth.local.registry import Manifest, Model, Registry
from rivermouth.local.sampling import SEEDS, decoding_of
from rivermouth.local.schema import schema_text
from rivermouth.local.support import parameters_label
from rivermouth.providers.provider import Batch, Lease, Onward

TEXT_TIMEOUT_S: Final = 180.0
THINKING_MARK: Final = "enable_thinking"


class LocalProvider:
    """`Provider` for the models in the registry at `root`.

    chat_template: False formats every prompt with role prefixes.  timeout_s: the longest wait between two tokens.
    keep_alive_s: how long a model stays loaded after its last call, when the call does not say (0 not at all, negative
    for ever).  max_models: how many are loaded at once.  catalog: what can be pulled.
    """

    name = PROVIDER
    dialect: str | None = None

    def __init__(
        self,
        root: Path,
        *,
        keep_alive_s: float = KEEP_ALIVE_S,
        max_models: int = 2,
        chat_template: bool = True,
        timeout_s: float = TEXT_TIMEOUT_S,
        device: str = "CPU",
        limits: Limits | None = None,
        catalog: Catalog = CATALOG,
    ) -> None:
        self.registry = Registry(root)
        self.puller = Puller(self.registry, catalog)
        limits = msgspec.structs.replace(limits or Limits(), keep_alive_s=keep_alive_s, max_models=max_models)
        self.pool = EnginePool(self.spec_of, limits)
        self._chat_template = chat_template
        self._timeout_s = timeout_s
        self._device = device

    def spec_of(self, model: Model) -> EngineSpec:
        """How a process for this model is started."""
        manifest = model.manifest
        return EngineSpec(
            path=model.path,
            context_tokens=manifest.context_tokens,
            end_tokens=manifest.end_tokens,
            device=self._device,
            properties={"INFERENCE_PRECISION_HINT": "f32"} if manifest.unpacked else {},
            max_active=self.pool.limits.max_active,
        )

    async def prepare(self, request: Request | EmbedRequest, model: str) -> SlotLease:
        """Loads the model and waits for a slot.

        Raises `ApiError`: not_found, timeout (clock "load"), overloaded (the queue is full or slow), or why not.
        """
        if isinstance(request, EmbedRequest):
            raise _no_embeddings(model)
        found = await to_thread(self.registry.get, model)
        return await self.pool.lease(found, request.local.keep_alive_s)

    async def open(
        self, request: Request, model: str, lease: Lease, *, same_dialect: bool, warn: Callable[[str], None]
    ) -> LocalUpstream:
        """Begins one answer in the slot that `prepare` got."""
        if not isinstance(lease, SlotLease):
            raise TypeError("open takes the lease that prepare gave")
        wanted = self.generate_command(request, lease.model.manifest, warn)
        generation = lease.loaded.engine.generate(wanted, self._timeout_s)
        return LocalUpstream(model, generation, lease.hand_over())

    async def embed(self, request: EmbedRequest, model: str, warn: Callable[[str], None]) -> EmbedReply:
        raise _no_embeddings(model)

    async def models(self) -> list[ModelInfo]:
        return [model_info(model) for model in await to_thread(self.registry.models)]

    def running(self) -> list[ModelInfo]:
        """What is loaded now, by name; `expires_at` None means for ever."""
        return [model_info(running.model, running.expires_at) for running in self.pool.running()]

    async def stand_by(self, request: Request, model: str) -> None:
        """Loads without generating; with a keep_alive of 0, lets the model go as soon as no call uses it."""
        found = await to_thread(self.registry.get, model)
        if request.local.keep_alive_s == 0:
            await self.pool.release(found.manifest.digest)
        else:
            await self.pool.load(found, request.local.keep_alive_s)

    async def copy(self, source: str, target: str) -> Model:
        """A second name for the same file."""
        return await to_thread(self.registry.copy, source, target)

    async def delete(self, model: str) -> Model:
        """Removes the name; the file too, and the process that runs it, when no other name needs them."""
        gone = await to_thread(self.registry.delete, model)
        heirs = [m for m in await to_thread(self.registry.models) if m.manifest.digest == gone.manifest.digest]
        if heirs:
            self.pool.rename(heirs[0])
        else:
            await self.pool.unload(gone.manifest.digest)
        return gone

    def pull(self, name: str) -> AsyncGenerator[PullProgress, None]:
        """The frames of one pull; see `pull.Puller`."""
        return self.puller.pull(name)

    async def close(self) -> None:
        await self.puller.close()
        await self.pool.close()

    def generate_command(self, request: Request, manifest: Manifest, warn: Callable[[str], None]) -> Generate:
        """The request in the engine's words.  Raises `ApiError` for what a local model cannot do."""
        named: set[str] = set()

        def warn_once(field: str) -> None:
            if field not in named:
                named.add(field)
                warn(field)

        return self._generate_command(request, manifest, warn_once)

    def _generate_command(self, request: Request, manifest: Manifest, warn: Callable[[str], None]) -> Generate:
        check_abilities(request, warn)
        context = context_of(request, manifest.context_tokens, warn)
        turns, prompt = self._prompt(request, manifest, warn)
        size = size_of(turns or ()) + len((prompt or "").encode(errors="replace"))
        check_length(size, manifest.longest_token_bytes, context)
        return Generate(
            id=0,
            turns=turns,
            prompt=prompt,
            context_tokens=context,
            max_tokens=request.max_tokens,
            decoding=decoding_of(request.sampling, lambda: secrets.randbelow(SEEDS), warn),
            stop=request.stop,
            schema=schema_text(request.response_format),
            enable_thinking=_thinking(request, manifest, warn),
        )

    def _prompt(
        self, request: Request, manifest: Manifest, warn: Callable[[str], None]
    ) -> tuple[tuple[Turn, ...] | None, str | None]:
        """Messages for the file's template, or a text to be taken as it is; the other one is None."""
        if request.local.raw:
            return None, raw_prompt(request, warn)
        turns = turns_of(request, warn)
        if manifest.template is not None and self._chat_template:
            return turns, None
        return None, role_prefixed(turns)


class LocalUpstream:
    """One answer of a local model.  `prompt_tokens` is set once it has begun, `device` is where it runs."""

    def __init__(self, model: str, generation: Generation, lease: SlotLease) -> None:
        self.prompt_tokens: int | None = None
        self.device = lease.loaded.engine.device
        self._model = model
        self._generation = generation
        self._load_ns = lease.loaded.take_load_ns()
        self._lease = lease
        self._part_open = False

    async def read(self, onward: Onward | None = None) -> Batch:
        """All texts that are here, waiting for the first; the end comes with the last of them if it is there too."""
        if self.prompt_tokens is None:
            self.prompt_tokens = await self._generation.began
            return Batch([Start(model=self._model), Usage(input_tokens=self.prompt_tokens)])
        stream = self._generation.stream
        try:
            texts = [await anext(stream)]
        except StopAsyncIteration:
            return Batch(self._end())
        texts += stream.drain_nowait()
        events: list[Event] = [] if self._part_open else [PartStart(0, PartKind.TEXT)]
        self._part_open = True
        events += [TextDelta(0, text) for text in texts]
        return Batch(events)

    async def close(self) -> None:
        """Cancels what still runs, and returns when the engine process has confirmed it."""
        try:
            await self._lease.loaded.engine.confirm(self._generation)
        finally:
            self._lease.close()

    def _end(self) -> list[Event]:
        done, reason = self._generation.done, self._generation.stream.reason
        assert done is not None
        usage = Usage(
            input_tokens=done.prompt_tokens,
            output_tokens=done.output_tokens,
            load_ns=self._load_ns,
            prompt_ns=done.prompt_ns,
            output_ns=done.output_ns,
        )
        closing: list[Event] = [PartEnd(0)] if self._part_open else []
        return [*closing, usage, Finish(reason or Reason.STOP, done.stop_sequence)]


def model_info(model: Model, expires_at: float | None = None) -> ModelInfo:
    """A registry entry as clients see it."""
    manifest = model.manifest
    return ModelInfo(
        id=str(model.name),
        owner=PROVIDER,
        created=manifest.created,
        size_bytes=manifest.size_bytes,
        digest=manifest.digest,
        family=manifest.architecture,
        parameters=parameters_label(manifest.parameters),
        quantization=manifest.quantization,
        format="gguf",
        context_tokens=manifest.context_tokens,
        license=manifest.license,
        attribution=manifest.attribution,
        template=manifest.template,
        expires_at=expires_at,
    )


def _thinking(request: Request, manifest: Manifest, warn: Callable[[str], None]) -> bool | None:
    """What to tell a template that can switch thinking off; a wish that no template can meet is named."""
    if request.thinking is None:
        return None
    if manifest.template is not None and THINKING_MARK in manifest.template:
        return request.thinking.enabled
    if request.thinking.enabled:
        warn("thinking")
    return None


def _no_embeddings(model: str) -> ApiError:
    return ApiError(
        Kind.NOT_FOUND,
        f"the local model {model!r} makes no embeddings",
        param="model",
        code="no_embeddings",
        provider=PROVIDER,
    )

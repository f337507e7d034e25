"""The models on this machine, behind the same port as every other provider.

    prepare   the model is in the registry and loaded on the device that suits the prompt, and a slot of it is held for
              the call, as a lease (loading and waiting have clocks of their own; the call's clocks start after them)
    open      the request in the engine's words, begun; the slot goes over to the upstream
    embed     the same for vectors, of a model that makes them; in a slot until the engine process has stopped
    read      Start, Usage(prompt) -> PartStart, deltas..., PartEnd, as often as there are parts -> Usage, Finish
    close     cancelled in the engine process, confirmed by it, and then the slot is free

Prompts that begin the same share that part of the memory, which is bounded (docs/adr/0010-shared-prompts.md).  A file
with F16 matrices runs at full precision, because the engine's default crashes on some processors.
"""

from __future__ import annotations

import secrets
from asyncio import to_thread
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from rivermouth.ir.events import Event, Finish, Reason, Start, Usage
from rivermouth.ir.reply import EmbedReply, ModelInfo
from rivermouth.ir.request import EmbedRequest, Request
from rivermouth.ir.tokens import estimate_prompt
from rivermouth.local.embedding import store, work
from rivermouth.local.inference.generation import PROVIDER, Generation
from rivermouth.local.inference.spec import STEP_S, EncoderSpec, EngineSpec, Spec, precision
from rivermouth.local.machine.devices import Devices
from rivermouth.local.machine.places import KEEP_ALIVE_S, MAX_MODELS, MAX_WAITING, WAIT_S, Limits, Running, SlotLease
from rivermouth.local.machine.placing import Placing
from rivermouth.local.machine.pool import EnginePool
from rivermouth.local.machine.router import NPU, NPU_PROMPT_TOKENS, class_of, headers_of
from rivermouth.local.machine.starter import KV_BYTES, Starter
from rivermouth.local.models.catalog import CATALOG, Catalog
from rivermouth.local.models.references import Pulls
from rivermouth.local.models.registry import Manifest, Model, ModelKind, Registry
from rivermouth.local.models.support import parameters_label
from rivermouth.local.sources.gathered import PULL_CAP_BYTES, Orders
from rivermouth.local.sources.pull import Puller, PullProgress
from rivermouth.local.words.answer import Answer
from rivermouth.local.words.families import Calls, family_of
from rivermouth.local.words.plan import Plan, plan_of
from rivermouth.local.words.sampling import SEEDS
from rivermouth.providers.outbound import FROM_ENVIRONMENT, Outbound
from rivermouth.providers.provider import Batch, Lease, Onward

TEXT_TIMEOUT_S: Final = 180.0
CAPABILITIES: Final[dict[ModelKind, tuple[str, ...]]] = {"chat": ("completion",), "embedding": ("embedding",)}


class Wishes(msgspec.Struct, frozen=True, kw_only=True):
    """What may be wanted otherwise while it runs: each of them is looked at when it is needed, and not before."""

    keep_alive_s: float = KEEP_ALIVE_S
    max_models: int = MAX_MODELS
    max_waiting: int = MAX_WAITING
    wait_s: float = WAIT_S
    chat_template: bool = True
    pulls: Pulls = Pulls.CATALOG
    pull_limit_bytes: int = PULL_CAP_BYTES
    outbound: Outbound = FROM_ENVIRONMENT


class LocalProvider:
    """`Provider` for the models in the registry at `root`.

    chat_template: False formats every prompt with role prefixes.  timeout_s: the longest wait between two tokens.
    keep_alive_s: how long a model stays loaded after its last call, when the call does not say (0 not at all, negative
    for ever).  max_models: how many are loaded at once.  wanted: the devices to use, in order of preference; empty for
    those that are here.  npu_tokens: the longest prompt that an NPU gets.  devices: how those that are here are found.
    starter: how processes are started.  kv_bytes: what the memory of a model's answers may take.  step_s: a process
    that makes no step for so long is ended.  catalog, pulls, pull_limit_bytes: what clients can pull.  outbound: how
    that is reached.
    """

    name = PROVIDER
    dialect: str | None = None

    def __init__(
        self,
        root: Path,
        *,
        keep_alive_s: float = KEEP_ALIVE_S,
        max_models: int = MAX_MODELS,
        chat_template: bool = True,
        timeout_s: float = TEXT_TIMEOUT_S,
        wanted: Sequence[str] = (),
        npu_tokens: int = NPU_PROMPT_TOKENS,
        devices: Devices | None = None,
        limits: Limits | None = None,
        starter: Starter | None = None,
        kv_bytes: int = KV_BYTES,
        step_s: float = STEP_S,
        catalog: Catalog = CATALOG,
        pulls: Pulls = Pulls.CATALOG,
        pull_limit_bytes: int = PULL_CAP_BYTES,
        outbound: Outbound = FROM_ENVIRONMENT,
    ) -> None:
        self.registry = Registry(root)
        self._caches = root / "networks"
        orders = Orders(cap_bytes=pull_limit_bytes, outbound=outbound)
        self.puller = Puller(self.registry, catalog, pulls=pulls, orders=orders)
        limits = msgspec.structs.replace(limits or Limits(), keep_alive_s=keep_alive_s, max_models=max_models)
        self.pool = EnginePool(self.spec_of, limits, start=starter or Starter())
        self._devices = devices or Devices()
        self._placing = Placing(self.pool, self._devices, wanted=wanted, npu_tokens=npu_tokens)
        self._chat_template = chat_template
        self._timeout_s = timeout_s
        self._kv_bytes = kv_bytes
        self._step_s = step_s

    def adopt(self, wishes: Wishes) -> None:
        """From the next load, wait, prompt and pull on; what runs goes on as it began."""
        self.pool.limits = msgspec.structs.replace(
            self.pool.limits,
            keep_alive_s=wishes.keep_alive_s,
            max_models=wishes.max_models,
            max_waiting=wishes.max_waiting,
            wait_s=wishes.wait_s,
        )
        self._chat_template = wishes.chat_template
        self.puller.adopt(wishes.pulls, wishes.pull_limit_bytes, wishes.outbound)

    def spec_of(self, model: Model, device: str) -> Spec:
        """How a process for this model is started on this device."""
        manifest = model.manifest
        cache = self._caches / store.folder_of(manifest.digest)
        if manifest.kind == "embedding":
            return EncoderSpec(
                folder=model.folder,
                cache=cache,
                context_tokens=manifest.context_tokens,
                device=device,
                step_s=self._step_s,
                model=str(model.name),
            )
        return EngineSpec(
            path=model.path,
            context_tokens=manifest.context_tokens,
            end_tokens=manifest.end_tokens,
            device=device,
            properties=precision(device, manifest.parameters, unpacked=manifest.unpacked),
            max_active=self.pool.limits.slots_of(model, device),
            prefix_cache=True,
            cache=cache,
            prompt_tokens=self._placing.npu_tokens if class_of(device) == NPU else None,
            kv_bytes=self._kv_bytes,
            step_s=self._step_s,
            model=str(model.name),
        )

    async def prepare(self, request: Request | EmbedRequest, model: str) -> SlotLease:
        """Loads the model on the device that suits the call, and waits for a slot there.

        Raises `ApiError`: not_found, invalid_request when the model is of the other kind, when no device that is to be
        used is here or the prompt is too long for all of them, timeout (clock "load"), overloaded (the queue is full or
        slow), or why not.
        """
        found = await to_thread(self.registry.get, model)
        if isinstance(request, EmbedRequest):
            work.check(request, model, found.manifest)
            return await self._placing.lease(found, 0, request.local.keep_alive_s)
        if found.manifest.kind == "embedding":
            raise work.embeddings_only(model)

        async def count(lease: SlotLease) -> int:
            return await self._count(request, lease)

        return await self._placing.lease(found, estimate_prompt(request), request.local.keep_alive_s, count)

    async def _count(self, request: Request, lease: SlotLease) -> int:
        """The tokens of the prompt, counted by the process that is to answer it.

        Raises `ApiError` for a prompt that the model cannot take on any device.
        """
        plan = self._plan(request, lease.model.manifest, lambda field: None)
        engine = lease.loaded.engine
        generation = engine.generate(msgspec.structs.replace(plan.wanted, count_only=True), self._timeout_s)
        try:
            return (await generation.began).prompt_tokens
        finally:
            await engine.confirm(generation)

    async def open(
        self, request: Request, model: str, lease: Lease, *, same_dialect: bool, warn: Callable[[str], None]
    ) -> LocalUpstream:
        """Begins one answer in the slot that `prepare` got."""
        if not isinstance(lease, SlotLease):
            raise TypeError("open takes the lease that prepare gave")
        plan = self._plan(request, lease.model.manifest, warn)
        generation = lease.loaded.engine.generate(plan.wanted, self._timeout_s)
        return LocalUpstream(model, plan, generation, lease.hand_over(), self._placing.npu_tokens)

    async def embed(
        self, request: EmbedRequest, model: str, lease: Lease, *, warn: Callable[[str], None]
    ) -> EmbedReply:
        """Vectors in the slot that `prepare` got, which is free when the engine process has stopped, too."""
        if not isinstance(lease, SlotLease):
            raise TypeError("embed takes the lease that prepare gave")
        with lease.hand_over() as held:
            return await work.embed(held.loaded.engine, request, model, held.model.manifest.context_tokens, warn)

    async def models(self) -> list[ModelInfo]:
        return [model_info(model) for model in await to_thread(self.registry.models)]

    def running(self) -> list[ModelInfo]:
        """What is loaded now, by name; `expires_at` None means for ever."""
        found: dict[str, list[Running]] = {}
        for one in self.pool.running():  # a model stands once, on however many devices
            found.setdefault(one.model.manifest.digest, []).append(one)
        return [model_info(ones[0].model, _last(one.expires_at for one in ones)) for ones in found.values()]

    async def stand_by(self, request: Request, model: str) -> None:
        """Loads without generating; with a keep_alive of 0, lets the model go as soon as no call uses it."""
        found = await to_thread(self.registry.get, model)
        if request.local.keep_alive_s == 0:
            await self.pool.release(found.manifest.digest)
        else:
            await self._placing.load(found, request.local.keep_alive_s)

    async def warm(self, model: str) -> None:
        """Loads a model that will be asked at once, where a short prompt would be answered.  Raises `ApiError`."""
        await self._placing.load(await to_thread(self.registry.get, model))

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
            await to_thread(self._sweep)
        return gone

    def pull(self, name: str, accept_license: str | None = None) -> AsyncGenerator[PullProgress, None]:
        """The frames of a client's pull; see `sources.pull.Puller`."""
        return self.puller.pull(name, accept_license)

    async def close(self) -> None:
        await self.puller.close()
        await self._devices.close()
        await self.pool.close()

    def _sweep(self) -> None:
        """Removes what was made of the files of models that are gone."""
        store.sweep(self._caches, {model.manifest.digest for model in self.registry.models()})

    def _plan(self, request: Request, manifest: Manifest, warn: Callable[[str], None]) -> Plan:
        """What the engine is asked for.  Raises `ApiError` for what a local model cannot do."""
        return plan_of(request, manifest, warn, lambda: secrets.randbelow(SEEDS), chat_template=self._chat_template)


class LocalUpstream:
    """One answer of a local model.  `prompt_tokens` is set once it has begun."""

    def __init__(self, model: str, plan: Plan, generation: Generation, lease: SlotLease, npu_tokens: int) -> None:
        self.prompt_tokens: int | None = None
        self._plan = plan
        self._answer: Answer | None = None
        self._npu_tokens = npu_tokens
        self._model = model
        self._generation = generation
        self._load_ns = lease.loaded.take_load_ns()
        self._lease = lease

    @property
    def headers(self) -> Mapping[str, str]:
        """Where the answer is made and why there (R18)."""
        device = self._lease.loaded.engine.device
        return headers_of(self._lease.route, device, self.prompt_tokens, self._npu_tokens)

    async def read(self, onward: Onward | None = None) -> Batch:
        """All texts that are here, waiting for the first; the end comes with the last of them if it is there too."""
        answer = self._answer
        if answer is None:
            began = await self._generation.began
            self.prompt_tokens = began.prompt_tokens
            self._answer = self._plan.answer(_call_id, in_thought=began.in_thought)
            return Batch([Start(model=self._model), Usage(input_tokens=self.prompt_tokens)])
        stream = self._generation.stream
        try:
            texts = [await anext(stream)]
        except StopAsyncIteration:
            return Batch(self._end(answer))
        texts += stream.drain_nowait()
        return Batch([event for text in texts for event in answer.feed(text)])

    async def close(self) -> None:
        """Cancels what still runs, and returns when the engine process has confirmed it."""
        try:
            await self._lease.loaded.engine.confirm(self._generation)
        finally:
            self._lease.close()

    def _end(self, answer: Answer) -> list[Event]:
        done, reason = self._generation.done, self._generation.stream.reason
        assert done is not None
        stop = done.stop_sequence
        events: list[Event] = []
        if stop is not None and stop not in self._plan.stops:  # the engine was stopped behind the only call wanted
            events += answer.feed(stop)
            stop = None
        events += answer.end()
        usage = Usage(
            input_tokens=done.prompt_tokens,
            output_tokens=done.output_tokens,
            reasoning_tokens=done.reasoning_tokens,
            load_ns=self._load_ns,
            prompt_ns=done.prompt_ns,
            output_ns=done.output_ns,
        )
        if answer.calls and reason is not Reason.LENGTH:
            reason = Reason.TOOL_CALLS
        return [*events, usage, Finish(reason or Reason.STOP, stop)]


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
        format=manifest.format,
        context_tokens=manifest.context_tokens,
        capabilities=capabilities_of(manifest),
        license=manifest.license,
        attribution=manifest.attribution,
        template=manifest.template,
        expires_at=expires_at,
    )


def _last(times: Iterable[float | None]) -> float | None:
    """The latest; None is for ever."""
    known = list(times)
    return None if None in known else max(time for time in known if time is not None)


def capabilities_of(manifest: Manifest) -> tuple[str, ...]:
    """What clients may ask of it, in Ollama's words."""
    family = family_of(manifest.template)
    more = {"tools": family.calls is not Calls.NONE, "thinking": family.thinks}
    return (*CAPABILITIES[manifest.kind], *(name for name, has in more.items() if has))


def _call_id(number: int) -> str:
    """Of any of an answer's calls: by chance, because a talk is made of many answers."""
    return f"call_{secrets.token_hex(12)}"

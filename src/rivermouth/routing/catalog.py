"""Which endpoints a model name means (R27).

1. An exact `[models]` entry of the config, also when its name contains a slash.
2. `provider/model` for an enabled provider.
3. A bare name: a local model (`x` is `x:latest`), then the one enabled provider whose own list has it.

None, or several, is a 404: it says how to pull the model where that is all that is missing, and else lists the near
names, or a few when none is near.  Providers' lists are fetched lazily and kept for a while.
"""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

import msgspec

from rivermouth.config import Order
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.reply import ModelInfo
from rivermouth.providers.provider import Provider
from rivermouth.routing.endpoint import Candidate, Endpoint, Plan, Policy

LIST_FRESH_S: Final = 300.0
LIST_RETRY_S: Final = 15.0
LIST_TIMEOUT_S: Final = 5.0
NEAR_NAMES: Final = 5
EVERY: Final = "*"
"""The model of an endpoint that says how all others of its provider are."""
NAMELESS: Final = ("tgi", "dummy")
"""What clients send where their protocol names no model (R15)."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One `[models.NAME]`.  policy: None where none came with it."""

    endpoints: tuple[Endpoint, ...]
    policy: Policy | None = None
    order: Order = "listed"
    weights: Mapping[str, float] = {}


class _Listing(msgspec.Struct):
    models: dict[str, ModelInfo]
    until_s: float


class Catalog:
    """Names to plans.  `own` are the providers that live in this process (local, scripted) and need no slash.

    `endpoints` are the configured ones: what they say of a provider's model holds however the model was asked for.
    `pullable` are the names, with their tags, that `rivermouth pull` knows.
    `default` answers for `NAMELESS`; without one nobody does (R15), so that no model answers only for being alone.
    """

    def __init__(
        self,
        *,
        models: Mapping[str, Entry],
        endpoints: Iterable[Endpoint] = (),
        providers: Mapping[str, Provider],
        own: tuple[str, ...] = (),
        default: str | None = None,
        pullable: Collection[str] = (),
        now_s: Callable[[], float],
    ) -> None:
        self._models = models
        self._endpoints = {(e.provider, e.model): e for e in reversed(tuple(endpoints))}
        self._providers = providers
        self._own = own
        self._default = default
        self._pullable = pullable
        self._now_s = now_s
        self._lists: dict[str, _Listing] = {}
        self._fetching: dict[str, asyncio.Task[dict[str, ModelInfo]]] = {}

    async def plan(self, model: str) -> Plan:
        """The candidates for a name, in order.  Raises `ApiError` not_found."""
        asked = model
        if model in NAMELESS and self._default is not None and model not in self._models:
            model = self._default
        configured = self._models.get(model)
        if configured is not None:
            count, policies = len(configured.endpoints), () if configured.policy is None else (configured.policy,)
            numbered = enumerate(configured.endpoints, 1)
            candidates = tuple(Candidate(e, f"configured, {i} of {count}", policies) for i, e in numbered)
            return Plan(asked, candidates, configured.order, configured.weights)
        provider, slash, name = model.partition("/")
        if slash and name and provider in self._providers:
            return self._single(asked, provider, name, "asked for by provider and model")
        near: list[str] = []
        for own in self._own:
            known = await self._listed(own)
            near += known
            for spelling in _spellings(model):
                if spelling in known:
                    return self._single(asked, own, spelling, f"a model of {own}")
        others = [p for p in self._providers if p not in self._own]
        listings = await asyncio.gather(*(self._listed(p) for p in others))
        holders = [p for p, known in zip(others, listings, strict=True) if model in known]
        if len(holders) == 1:
            return self._single(asked, holders[0], model, "the one provider that lists it")
        raise self._unknown(asked, model, holders, near)

    async def models(self) -> list[ModelInfo]:
        """Everything a client can ask for: configured names, own models, and `provider/model` of what is enabled."""
        listings = await asyncio.gather(*(self._listed(p) for p in self._providers))
        found: dict[str, ModelInfo] = {}
        for name in self._models:
            found[name] = ModelInfo(id=name, owner="rivermouth")
        for provider, known in zip(self._providers, listings, strict=True):
            for name, info in known.items():
                full = name if provider in self._own else f"{provider}/{name}"
                found.setdefault(full, msgspec.structs.replace(info, id=full))
        return list(found.values())

    @property
    def configured(self) -> Mapping[str, Entry]:
        """The names of the configuration, each with its endpoints."""
        return self._models

    def endpoints(self) -> list[Endpoint]:
        """Every endpoint that the configuration knows, also those that only a name has."""
        named = (endpoint for entry in self._models.values() for endpoint in entry.endpoints)
        return list({e.id: e for e in (*reversed(self._endpoints.values()), *named)}.values())

    async def offered(self, provider: str) -> list[ModelInfo]:
        """What one provider lists; nothing when it cannot be found out."""
        return list((await self._listed(provider)).values())

    async def model(self, name: str) -> ModelInfo:
        """One of them.  Raises `ApiError` not_found."""
        if name in self._models:
            return ModelInfo(id=name, owner="rivermouth")
        endpoint = (await self.plan(name)).candidates[0].endpoint
        known = (await self._listed(endpoint.provider)).get(endpoint.model)
        if known is None:
            return ModelInfo(id=name, owner=endpoint.provider)
        own = endpoint.provider in self._own
        return known if own else msgspec.structs.replace(known, id=f"{endpoint.provider}/{endpoint.model}")

    async def _listed(self, provider: str) -> dict[str, ModelInfo]:
        """The provider's models by name; what is known already when it does not answer.  One fetch at a time."""
        if provider in self._own:
            return {m.id: m for m in await self._providers[provider].models()}
        listing = self._lists.get(provider)
        if listing is not None and listing.until_s > self._now_s():
            return listing.models
        task = self._fetching.get(provider)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._fetch(provider))
            self._fetching[provider] = task
            task.add_done_callback(lambda _: self._fetching.pop(provider, None))
        return await asyncio.shield(task)

    async def _fetch(self, provider: str) -> dict[str, ModelInfo]:
        old = self._lists.get(provider)
        try:
            async with asyncio.timeout(LIST_TIMEOUT_S):
                models = {m.id: m for m in await self._providers[provider].models()}
            fresh_s = LIST_FRESH_S
        except (ApiError, TimeoutError):
            models, fresh_s = (old.models if old is not None else {}), LIST_RETRY_S
        self._lists[provider] = _Listing(models, self._now_s() + fresh_s)
        return models

    def _single(self, asked: str, provider: str, model: str, why: str) -> Plan:
        return Plan(asked, (Candidate(self.endpoint(provider, model), why),))

    def endpoint(self, provider: str, model: str) -> Endpoint:
        """What is configured of that model there: by its own name, or by the "*" of its provider."""
        known, every = self._endpoints.get((provider, model)), self._endpoints.get((provider, EVERY))
        if known is not None:
            return known
        name = f"{provider}/{model}"
        if every is not None:
            return msgspec.structs.replace(every, id=name, model=model)
        return Endpoint(id=name, provider=provider, model=model)

    def _unknown(self, asked: str, model: str, holders: list[str], own: list[str]) -> ApiError:
        """asked: the client's own word for it, which `NAMELESS` may have led elsewhere."""
        if holders:
            names = ", ".join(f"{p}/{model}" for p in holders)
            text = f"model '{model}' is offered by several providers; ask for one of: {names}"
        elif any(spelling in self._pullable for spelling in _spellings(model)):
            text = f"{self._not_found(asked, model)}; to get it: rivermouth pull {model}"
        else:
            known = [*self._names(), *own]
            near = [] if model in NAMELESS else difflib.get_close_matches(model, known, NEAR_NAMES, 0.4)
            hint = f"; near names: {', '.join(near)}" if near else f"; there are: {', '.join(known[:NEAR_NAMES])}"
            text = self._not_found(asked, model) + (hint if known else "")
        return ApiError(Kind.NOT_FOUND, text, param="model", code="model_not_found")

    def _not_found(self, asked: str, model: str) -> str:
        if asked not in NAMELESS:
            return f"model '{model}' not found"
        if self._default is not None:
            return f"no model was named ('{asked}'), and server.default_model says '{model}', which is not found"
        return f"no model was named ('{asked}'), and server.default_model, which says who answers then, is not set"

    def _names(self) -> list[str]:
        listed = [f"{p}/{m}" for p, entry in self._lists.items() for m in entry.models]
        return [*self._models, *listed]


def _spellings(model: str) -> tuple[str, str]:
    """The full names that a bare name may mean, the likelier first."""
    return model, f"{model}:latest"

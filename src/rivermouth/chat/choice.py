"""Who answers: a message's own choice, else the saved one, else `auto` (R17).

A choice is `auto`, a provider's name, or a model that the catalogue knows.  `auto` is a plan of one model at each
provider: Kimi, Gemini, Groq as configured, then the other providers in the order of the configuration, then what runs
here; `prefer_local` puts that first.  A provider that was chosen by name answers alone: nobody is asked in its place.

What a provider's name means is asked of the catalogue as a client would, and all of the answer holds: if the operator
has put several endpoints, an order or a policy behind that name, the chat keeps to them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from rivermouth.chat.failures import unconfigured
from rivermouth.ir.errors import ApiError
from rivermouth.ir.reply import ModelInfo
from rivermouth.routing.catalog import Catalog
from rivermouth.routing.endpoint import Candidate, Endpoint, Plan

AUTO: Final = "auto"
FIRST: Final = ("kimi", "gemini", "groq")
"""Always listed, configured or not, and asked in this order."""

USUAL_MODELS: Final[Mapping[str, str]] = {
    "kimi": "kimi-k2.6",
    "gemini": "gemini-flash-latest",
    "groq": "llama-3.3-70b-versatile",
}
"""What a provider's name alone means where it lists that model, or lists nothing.  A setting says otherwise."""


class Chooser:
    """providers: the configured ones, in order.  own: those in this process (local, scripted), which come last.

    arrange: the candidates of a plan in the order in which they are tried at this moment.
    """

    def __init__(
        self,
        catalog: Catalog,
        *,
        providers: Sequence[str],
        own: Sequence[str],
        models: Mapping[str, str],
        prefer_local: bool,
        arrange: Callable[[Plan], Iterable[Candidate]] = lambda plan: plan.candidates,
    ) -> None:
        self._catalog = catalog
        self._providers = tuple(providers)
        self._own = tuple(own)
        self._models = models
        self._prefer_local = prefer_local
        self._arrange = arrange

    def order(self) -> list[str]:
        """The providers as `auto` asks them."""
        first = [name for name in FIRST if name in self._providers]
        others = [name for name in self._providers if name not in FIRST]
        return [*self._own, *first, *others] if self._prefer_local else [*first, *others, *self._own]

    async def check(self, name: str) -> None:
        """Raises `ApiError` not_found for what is no choice."""
        if name != AUTO and name not in FIRST and name not in self._providers and name not in self._own:
            await self._catalog.plan(name)

    async def plan(self, name: str) -> Plan:
        """The candidates of a choice.  Raises `ApiError`, not_configured when there is none."""
        if name == AUTO:
            order = self.order()
            models = await asyncio.gather(*(self._model_of(provider) for provider in order))
            known = [(p, m) for p, m in zip(order, models, strict=True) if m is not None]
            if not known:
                raise unconfigured(None)
            plans = [await self._catalog.plan(f"{provider}/{model}") for provider, model in known]
            return Plan(AUTO, tuple(c for plan in plans for c in _chosen(self._arrange(plan), "auto")))
        if name in self._providers or name in self._own:
            model = await self._model_of(name)
            if model is None:
                raise unconfigured(name)
            plan = await self._catalog.plan(f"{name}/{model}")
            chosen = tuple(_chosen(plan.candidates, "chosen by its provider"))
            return msgspec.structs.replace(plan, model=name, candidates=chosen)
        if name in FIRST:
            raise unconfigured(name)
        return await self._catalog.plan(name)

    async def window(self, plan: Plan) -> int | None:
        """The context window, in tokens, of the first candidate, where its provider tells."""
        endpoint: Endpoint = plan.candidates[0].endpoint
        info = {m.id: m for m in await self._catalog.offered(endpoint.provider)}.get(endpoint.model)
        return info.context_tokens if info is not None else None

    async def listed(self) -> list[dict[str, Any]]:
        """Every choice, and whether it can answer now."""
        names = list(dict.fromkeys([*FIRST, *self._providers, *self._own]))
        models = dict(zip(names, await asyncio.gather(*map(self._model_of, names)), strict=True))
        catalogue = [info for info in await self._catalog.models() if "completion" in info.capabilities]
        capable = {info.id: info for info in catalogue}
        ready = any(model is not None for model in models.values())
        rows = [_row(AUTO, "auto", AUTO.capitalize(), None if ready else "nothing is configured")]
        for name in names:
            model = models[name]
            info = capable.get(f"{name}/{model}") or capable.get(model or "")
            reason = None if model is not None else self._reason(name)
            rows.append(
                _row(name, "provider", name.capitalize(), reason, provider=name, model=model, local=name in self._own)
                | _capable(info)
            )
        for info in catalogue:
            provider = info.id.partition("/")[0] if "/" in info.id else info.owner
            local = info.owner in self._own or "/" not in info.id
            rows.append(
                _row(info.id, "model", info.id, None, provider=provider, model=info.id, local=local) | _capable(info)
            )
        return rows

    def _reason(self, name: str) -> str:
        return "there is no local model yet" if name in self._own else f"{name} has no key"

    async def _model_of(self, provider: str) -> str | None:
        """The model that a provider's name means; None where there is none."""
        if provider not in self._providers and provider not in self._own:
            return None
        chosen = self._models.get(provider)
        if chosen is not None:
            return chosen
        usual = USUAL_MODELS.get(provider)
        try:
            offered = [m.id for m in await self._catalog.offered(provider) if "completion" in m.capabilities]
        except ApiError:
            offered = []
        if usual is not None and (usual in offered or not offered):
            return usual
        if offered:
            return offered[0]
        return None if provider in self._own else "default"


def _chosen(candidates: Iterable[Candidate], why: str) -> Iterator[Candidate]:
    """The same, each with its policies, for the reason that the chat had to ask them."""
    return (Candidate(c.endpoint, why, c.policies) for c in candidates)


def _row(
    name: str,
    kind: str,
    label: str,
    reason: str | None,
    *,
    provider: str | None = None,
    model: str | None = None,
    local: bool = False,
) -> dict[str, Any]:
    why = {"reason": reason} if reason is not None else {}
    row = {"id": name, "kind": kind, "label": label, "configured": reason is None, "provider": provider}
    return {**row, "model": model, "local": local, **why}


def _capable(info: ModelInfo | None) -> dict[str, Any]:
    """What it takes; a model of which nothing is known is thought to take text alone."""
    if info is None:
        return {"images": False, "files": False}
    return {
        "images": "vision" in info.capabilities,
        "files": "files" in info.capabilities,
        "context_tokens": info.context_tokens,
    }

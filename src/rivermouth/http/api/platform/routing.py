"""What calls can be sent to, by which rules, and what these would decide."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any, Literal

import msgspec
from litestar import get, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import JSONBody
from msgspec import Meta

from rivermouth.chat.slots import Slots
from rivermouth.compose import policies_of
from rivermouth.config import Capability, Config, Order
from rivermouth.editions import Edition
from rivermouth.http.api.platform.asking import Asked, least, visitor
from rivermouth.http.api.platform.desk import Desk
from rivermouth.http.api.platform.visitor import Visitor
from rivermouth.ir.errors import ApiError, Kind, invalid
from rivermouth.local.machine.places import Queue
from rivermouth.routing.endpoint import Policy
from rivermouth.routing.explain import Explanation, explained
from rivermouth.routing.policy import Needs

Breaker = Literal["closed", "open", "half_open"]
Name = Annotated[str, Meta(min_length=1, max_length=300)]


class ModelDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A name that clients can ask for.  endpoints: who may answer, in the order of the file; empty for a name that is
    a provider's own.
    """

    id: str
    owner: str
    endpoints: list[str]
    policy: str | None
    order: Order | None


class ModelList(msgspec.Struct, frozen=True):
    data: list[ModelDocument]
    next: str | None = None


class PriceDocument(msgspec.Struct, frozen=True, kw_only=True):
    """For `per` tokens.  since: the day from which it holds."""

    input: float
    output: float
    cached_input: float | None
    currency: str
    per: int
    since: str | None


class EndpointDocument(msgspec.Struct, frozen=True, kw_only=True):
    """One model at one provider, with what the configuration says of it.  running: attempts that are there now."""

    id: str
    provider: str
    model: str
    version: str | None
    region: str | None
    sovereignty: str | None
    retention: str | None
    price: PriceDocument | None
    capabilities: list[Capability] | None
    context_tokens: int | None
    records_text: bool
    models: list[str]
    breaker: Breaker
    running: int


class EndpointList(msgspec.Struct, frozen=True):
    data: list[EndpointDocument]
    next: str | None = None


class PolicyDocument(msgspec.Struct, frozen=True, kw_only=True):
    """rules: as the configuration has them; what is not there restricts nothing.  always: it holds for every call.
    models, keys: those that it is bound to.
    """

    id: str
    rules: dict[str, Any]
    always: bool
    models: list[str]
    keys: list[str]


class PolicyList(msgspec.Struct, frozen=True):
    data: list[PolicyDocument]
    next: str | None = None


class QueueList(msgspec.Struct, frozen=True):
    queues: list[Queue]


class Question(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A call that nobody makes.  key: whose call it would be; by default that of who asks.  policies: those that the
    request would ask for itself.  capabilities, prompt_tokens: what it would need.
    """

    model: Name
    key: Name | None = None
    policies: Annotated[list[Name], Meta(max_length=32)] = []
    capabilities: Annotated[list[Capability], Meta(max_length=32)] = []
    prompt_tokens: Annotated[int, Meta(ge=0, le=2**53)] = 0


def routes(desk: Desk) -> list[HTTPRouteHandler]:
    @get("/platform/v1/models", guards=[least("user")], tags=["routing"])
    async def models(request: Asked) -> ModelList:
        """Every name that whoever asks may ask for."""
        here = visitor(request)
        found = await here.edition.catalog.models()
        may_ask = here.caller.may_ask if here.caller is not None else lambda _: False
        named = here.edition.catalog.configured
        return ModelList(
            [
                ModelDocument(
                    id=model.id,
                    owner=model.owner or "",
                    endpoints=[e.id for e in entry.endpoints] if (entry := named.get(model.id)) is not None else [],
                    policy=entry.policy.id if entry is not None and entry.policy is not None else None,
                    order=entry.order if entry is not None else None,
                )
                for model in found
                if may_ask(model.id)
            ]
        )

    @get("/platform/v1/endpoints", guards=[least("auditor")], tags=["routing"])
    async def endpoints(request: Asked) -> EndpointList:
        """Every endpoint of the configuration, how its breaker stands, and what runs there."""
        edition = visitor(request).edition
        running = Counter(call.ledger.serving.id for call in desk.inflight() if call.ledger.serving is not None)
        breakers = desk.breakers()
        names: dict[str, list[str]] = {}
        for name, entry in edition.catalog.configured.items():
            for endpoint in entry.endpoints:
                names.setdefault(endpoint.id, []).append(name)
        found = edition.catalog.endpoints()
        return EndpointList([_endpoint(e, names.get(e.id, []), breakers, running[e.id]) for e in found])

    @get("/platform/v1/policies", guards=[least("auditor")], tags=["routing"])
    async def policies(request: Asked) -> PolicyList:
        """Every policy of the configuration, and what it is bound to."""
        config = visitor(request).edition.config
        return PolicyList([_policy(name, config, desk) for name in config.policies])

    @post("/platform/v1/policies/dry-run", guards=[least("user")], status_code=200, tags=["routing"])
    async def dry_run(request: Asked, data: JSONBody[Question]) -> Explanation:
        """What policies would decide for a call like this one: every candidate, and why or why not.  Nobody is
        asked.
        """
        here = visitor(request)
        return await decided(here.edition, data, *_whose(here, data, desk))

    @get("/platform/v1/queues", guards=[least("user")], tags=["routing"])
    async def queues(request: Asked) -> QueueList:
        """The local models that are loaded or wanted, each device for itself: calls that run, and each that waits."""
        return QueueList(desk.queues())

    @get("/platform/v1/turns", guards=[least("auditor")], tags=["chat"])
    async def turns(request: Asked) -> Slots:
        """The chats that are written or followed: the newest frame of each, and how many follow it."""
        return await desk.turns()

    return [models, endpoints, policies, dry_run, queues, turns]


async def decided(
    edition: Edition, question: Question, bound: tuple[Policy, ...], models: tuple[str, ...] | None
) -> Explanation:
    """The decision.  bound: the policies of the key.  Raises `ApiError` for a model or a policy that is none."""
    known = policies_of(edition.config)
    for name in question.policies:
        if name not in known:
            raise unknown_policy(name, known)
    held = (*(known[name] for name in question.policies), *bound)
    plan = await edition.catalog.plan(question.model)
    needed = Needs(frozenset(question.capabilities), question.prompt_tokens)
    engine = edition.engine
    return explained(plan, held, engine.always, lambda: engine.select(plan, held, lambda: needed), models)


def unknown_policy(name: str, known: dict[str, Policy]) -> ApiError:
    there = f"; there are: {', '.join(known)}" if known else ""
    return invalid(f"no policy is called '{name[:100]}'{there}", "policies", "unknown_policy")


def _whose(here: Visitor, question: Question, desk: Desk) -> tuple[tuple[Policy, ...], tuple[str, ...] | None]:
    """The policies and the models of the key that the question is about."""
    caller = here.caller
    if caller is None:
        raise invalid("nobody asks")
    if question.key is None or question.key == caller.name:
        return caller.policies, caller.models
    if not here.may("auditor"):
        raise ApiError(Kind.PERMISSION, "this key may ask about itself only", param="key", code="role_missing")
    view = desk.platform.key(question.key)
    known = policies_of(here.edition.config)
    bound = (known.get(view.policy) or Policy(id=view.policy, providers=()),) if view.policy is not None else ()
    return bound, view.models


def _endpoint(endpoint: Any, models: list[str], breakers: Any, running: int) -> EndpointDocument:
    price = endpoint.price
    return EndpointDocument(
        id=endpoint.id,
        provider=endpoint.provider,
        model=endpoint.model,
        version=endpoint.version,
        region=endpoint.region,
        sovereignty=endpoint.sovereignty,
        retention=endpoint.retention,
        price=PriceDocument(
            input=price.input,
            output=price.output,
            cached_input=price.cached_input,
            currency=price.currency,
            per=price.per,
            since=price.since.isoformat() if price.since is not None else None,
        )
        if price is not None
        else None,
        capabilities=sorted(endpoint.capabilities) if endpoint.capabilities is not None else None,
        context_tokens=endpoint.context_tokens,
        records_text=endpoint.records_text,
        models=models,
        breaker=breakers.get(endpoint.id, "closed"),
        running=running,
    )


def _policy(name: str, config: Config, desk: Desk) -> PolicyDocument:
    rules: dict[str, Any] = msgspec.to_builtins(config.policies[name])
    empty: dict[str, Any] = msgspec.to_builtins(type(config.policies[name])())
    return PolicyDocument(
        id=name,
        rules={rule: value for rule, value in rules.items() if value != empty[rule]},
        always=config.server.policy == name,
        models=[model for model, entry in config.models.items() if entry.policy == name],
        keys=[key.name for key in desk.platform.keys(revoked=False) if key.policy == name],
    )

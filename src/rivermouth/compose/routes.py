"""Endpoints, policies and names of models: from the configuration's tables to what routing has of them.  Pure."""

from __future__ import annotations

import time
from collections.abc import Collection

import msgspec

from rivermouth.config import Config, EndpointConfig, ModelConfig, PolicyConfig, Price, Retention
from rivermouth.providers.provider import Provider
from rivermouth.routing.catalog import EVERY, Catalog, Entry
from rivermouth.routing.endpoint import Endpoint, Policy


def catalog_of(
    config: Config, providers: dict[str, Provider], own: tuple[str, ...], pullable: Collection[str] = ()
) -> Catalog:
    endpoints = {name: _endpoint(name, e) for name, e in config.endpoints.items()}
    policies = policies_of(config)
    models = {name: _entry(m, endpoints, policies) for name, m in config.models.items()}
    return Catalog(
        models=models,
        endpoints=endpoints.values(),
        providers=providers,
        own=own,
        default=config.default_model,
        pullable=pullable,
        now_s=time.monotonic,
    )


def _endpoint(name: str, config: EndpointConfig) -> Endpoint:
    return Endpoint(
        id=name,
        provider=config.provider,
        model=config.model,
        version=config.version,
        region=config.region,
        sovereignty=config.sovereignty,
        retention=config.retention,
        retention_s=Retention(config.retention).seconds if config.retention is not None else None,
        price=config.price,
        capabilities=frozenset(config.capabilities) if config.capabilities is not None else None,
        context_tokens=config.context_tokens,
        records_text=config.records_text,
    )


def policies_of(config: Config) -> dict[str, Policy]:
    """The configured policies as routing has them."""
    return {name: _policy(name, policy, config.sovereignty.classes) for name, policy in config.policies.items()}


def _policy(name: str, config: PolicyConfig, ordered: tuple[str, ...]) -> Policy:
    classes = config.sovereignty
    if config.sovereignty_min is not None:
        strict = ordered[: ordered.index(config.sovereignty_min) + 1]
        classes = strict if classes is None else tuple(c for c in strict if c in classes)
    most = config.price_max
    return Policy(
        id=name,
        regions=config.regions,
        classes=classes,
        providers=config.providers,
        retention_max_s=Retention(config.retention_max).seconds if config.retention_max is not None else None,
        price_max=Price(**msgspec.structs.asdict(most)) if most is not None else None,
        requires=config.requires,
        context_min_tokens=config.context_min_tokens,
        order=config.order,
        prefer=config.prefer,
        weights=config.weights,
        fallback=config.fallback,
        records_text=config.records_text,
    )


def _entry(config: ModelConfig, endpoints: dict[str, Endpoint], policies: dict[str, Policy]) -> Entry:
    return Entry(
        endpoints=tuple(_resolved(ref, endpoints) for ref in config.endpoints),
        policy=policies[config.policy] if config.policy is not None else None,
        order=config.order,
        weights=config.weights,
    )


def _resolved(reference: str, endpoints: dict[str, Endpoint]) -> Endpoint:
    """An endpoint's id, or "provider/model": what is configured of that model, or an endpoint without metadata."""
    known = endpoints.get(reference)
    if known is not None:
        return known
    provider, _, model = reference.partition("/")
    said = {e.model: e for e in reversed(endpoints.values()) if e.provider == provider}
    if model in said:
        return said[model]
    if EVERY in said:
        return msgspec.structs.replace(said[EVERY], id=reference, model=model)
    return Endpoint(id=reference, provider=provider, model=model)

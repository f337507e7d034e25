"""The routing block: where an answer really came from, made from the endpoint that served it (R5)."""

from __future__ import annotations

from typing import Any

from rivermouth.ir.events import Usage
from rivermouth.routing.endpoint import Endpoint, cost

DEFAULT_POLICY = "default"


def routing_block(endpoint: Endpoint, trace_id: str, usage: Usage | None) -> dict[str, Any]:
    """The block as the client gets it; what is not configured is null."""
    amount, price = cost(endpoint.price, usage), endpoint.price
    estimate = {"amount": amount, "currency": price.currency} if price is not None and amount is not None else None
    return {
        "trace_id": trace_id,
        "model_used": endpoint.model,
        "model_version": endpoint.version,
        "provider": endpoint.provider,
        "endpoint_id": endpoint.id,
        "inference_region": endpoint.region,
        "sovereignty_class": endpoint.sovereignty,
        "policy_id": DEFAULT_POLICY,
        "retention": endpoint.retention,
        "cost_estimate": estimate,
    }

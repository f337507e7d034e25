"""The routing block: where an answer really came from, made from the endpoint that served it (R5)."""

from __future__ import annotations

from typing import Any

from rivermouth.routing.cost import Cost
from rivermouth.routing.endpoint import Endpoint
from rivermouth.routing.policy import DEFAULT_ID
from rivermouth.store.port import CallRecord


def routing_block(endpoint: Endpoint, trace_id: str, policy_id: str, cost: Cost | None) -> dict[str, Any]:
    """The block as the client gets it; what is not configured is null.  cost: of all attempts until now."""
    paid = {"amount": cost.amount, "currency": cost.currency, "basis": cost.basis} if cost is not None else None
    return {
        "trace_id": trace_id,
        "model_used": endpoint.model,
        "model_version": endpoint.version,
        "provider": endpoint.provider,
        "endpoint_id": endpoint.id,
        "inference_region": endpoint.region,
        "sovereignty_class": endpoint.sovereignty,
        "policy_id": policy_id,
        "retention": endpoint.retention,
        "cost": paid,
    }


def block_of(call: CallRecord) -> dict[str, Any] | None:
    """The block of a recorded call, as its answer carried it or would have; None where nobody was asked."""
    if call.endpoint_id is None or call.provider is None or call.model_used is None:
        return None
    served = Endpoint(
        id=call.endpoint_id,
        provider=call.provider,
        model=call.model_used,
        version=call.model_version,
        region=call.region,
        sovereignty=call.sovereignty,
        retention=call.retention,
    )
    paid = None
    if call.price_nano is not None and call.price_currency is not None:
        paid = Cost(call.price_nano, call.price_currency, call.price_estimated)
    return routing_block(served, call.id, call.policy_id or DEFAULT_ID, paid)

"""The server about itself: what it serves, and that it lives."""

from __future__ import annotations

from typing import Any, Final

from rivermouth.dialects.dialect import Answer, ServerInfo
from rivermouth.wire import json

ROUTER: Final = "rivermouth"


def encode_info(info: ServerInfo, answer: Answer) -> bytes:
    """`GET /info`.  Limits that nobody set are null; clients read the object as it is."""
    context = info.model.context_tokens
    document: dict[str, Any] = {
        "model_id": info.model.id,
        "model_sha": info.model.digest,
        "model_pipeline_tag": "text-generation",
        "max_concurrent_requests": None,
        "max_best_of": 1,
        "max_stop_sequences": None,
        "max_input_tokens": context - 1 if context is not None else None,
        "max_total_tokens": context,
        "validation_workers": 1,
        "max_client_batch_size": 1,
        "router": ROUTER,
        "version": info.version,
        "sha": None,
        "docker_label": None,
    }
    return json.encode(document)


def encode_health(value: None, answer: Answer) -> bytes:
    """`GET /health`: an empty 200.  A server that is not well answers with an error instead."""
    return b""

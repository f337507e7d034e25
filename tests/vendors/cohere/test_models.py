from __future__ import annotations

import pytest

from rivermouth.ir.errors import WireError
from rivermouth.ir.reply import ModelInfo
from rivermouth.vendors.cohere.models import parse_models, write_model
from rivermouth.wire import json


def test_a_list_of_models() -> None:
    body = b"""{"models":[
        {"name":"command-a","endpoints":["chat","generate"],"context_length":288000.0,"features":["tools"],"x":1},
        {"name":"embed-v4","endpoints":["embed"]},
        {"name":"rerank","endpoints":["rerank"]},
        {"name":"bare"}
    ],"next_page_token":null}"""
    assert [(m.id, m.owner, m.context_tokens, m.capabilities) for m in parse_models(body)] == [
        ("command-a", "cohere", 288000, ("completion",)),
        ("embed-v4", "cohere", None, ("embedding",)),
        ("rerank", "cohere", None, ()),
        ("bare", "cohere", None, ("completion",)),
    ]
    with pytest.raises(WireError):
        parse_models(b'{"models":[{}]}')


def test_a_model_reads_back_as_itself() -> None:
    model = ModelInfo(id="m", owner="cohere", context_tokens=9, capabilities=("completion", "embedding"))
    assert parse_models(json.encode({"models": [write_model(model)]})) == [model]

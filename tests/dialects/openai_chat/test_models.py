from __future__ import annotations

import json

import pytest

from rivermouth.dialects.openai_chat.models import encode_model, encode_models
from rivermouth.ir.errors import WireError
from rivermouth.ir.reply import ModelInfo
from rivermouth.vendors.openai.models import parse_models
from tests.dialects.openai_chat.case import route


def test_models_are_listed_and_shown_in_the_same_form() -> None:
    models = [ModelInfo(id="lab/a", owner="lab", created=5), ModelInfo(id="b", owner="local")]
    listed = json.loads(encode_models(models, route("/models")))
    assert listed["object"] == "list"
    assert listed["data"][0] == {"id": "lab/a", "object": "model", "created": 5, "owned_by": "lab"}
    assert json.loads(encode_model(models[1], route("/models/{model}"))) == listed["data"][1]
    assert parse_models(encode_models(models, route("/models"))) == models


def test_lists_of_other_servers_are_read() -> None:
    bare = b'[{"id":"a","created":1.5,"context_length":10},{"id":"b","max_model_len":20,"owned_by":null}]'
    assert parse_models(bare) == [
        ModelInfo(id="a", owner="", created=1, context_tokens=10),
        ModelInfo(id="b", owner="", context_tokens=20),
    ]


@pytest.mark.parametrize("body", [b"{}", b"", b'{"data":[{}]}', b'{"data":1}', b"<html>"])
def test_what_is_no_list_is_a_wire_error(body: bytes) -> None:
    with pytest.raises(WireError):
        parse_models(body)

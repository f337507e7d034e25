from __future__ import annotations

import json

from rivermouth.dialects.anthropic import DIALECT
from rivermouth.ir.reply import ModelInfo
from tests.dialects.anthropic.case import route

ONE = ModelInfo(id="lab/x", owner="lab", created=1_700_000_000, context_tokens=8192)
TWO = ModelInfo(id="smollm2:135m", owner="local")


def test_a_list_is_one_page() -> None:
    assert DIALECT.encode_models is not None
    assert json.loads(DIALECT.encode_models([ONE, TWO], route("/models"))) == {
        "data": [
            {
                "type": "model",
                "id": "lab/x",
                "display_name": "lab/x",
                "created_at": "2023-11-14T22:13:20Z",
                "lifecycle": "active",
                "max_input_tokens": 8192,
            },
            {
                "type": "model",
                "id": "smollm2:135m",
                "display_name": "smollm2:135m",
                "created_at": "1970-01-01T00:00:00Z",
                "lifecycle": "active",
            },
        ],
        "has_more": False,
        "first_id": "lab/x",
        "last_id": "smollm2:135m",
    }
    assert json.loads(DIALECT.encode_models([], route("/models"))) == {
        "data": [],
        "has_more": False,
        "first_id": None,
        "last_id": None,
    }


def test_a_time_that_no_calendar_has_does_not_cost_the_list() -> None:
    assert DIALECT.encode_models is not None
    odd = [ModelInfo(id="a", owner="lab", created=created) for created in (1_700_000_000_000, -1, 10**30)]
    listed = json.loads(DIALECT.encode_models([ONE, *odd], route("/models")))["data"]
    assert [m["created_at"][:4] for m in listed] == ["2023", "9999", "1970", "9999"]


def test_one_model() -> None:
    assert DIALECT.encode_model is not None
    assert json.loads(DIALECT.encode_model(TWO, route("/models/{model}")))["id"] == "smollm2:135m"


def test_an_upstreams_list_is_read() -> None:
    assert DIALECT.encode_models is not None
    assert DIALECT.parse_models is not None
    read = DIALECT.parse_models(DIALECT.encode_models([ONE, TWO], route("/models")))
    assert [(m.id, m.created, m.context_tokens) for m in read] == [
        ("lab/x", 1_700_000_000, 8192),
        ("smollm2:135m", 0, None),
    ]
    (odd,) = DIALECT.parse_models(b'{"data":[{"id":"a","created_at":"long ago"}]}')
    assert odd == ModelInfo(id="a", owner="anthropic")

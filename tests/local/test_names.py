"""Model names: what they mean, and that none can become another path."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.ir.errors import ApiError, Kind
from rivermouth.local.models.names import ModelName, is_file_name, parse_name


def test_a_name_alone_means_latest() -> None:
    assert parse_name("x") == parse_name("x:latest") == ModelName("x", "latest")
    assert str(parse_name("team/x:q4_0")) == "team/x:q4_0"


@pytest.mark.parametrize(
    "bad",
    [
        "",
        ":",
        "x:",
        ":y",
        ".",
        "..",
        "../x",
        "x/..",
        "x/../y",
        "/x",
        "x/",
        "a//b",
        "x:..",
        "x:a/b",
        "x\0",
        "x y",
        "é",
        "a/b/c/d",
        "x:y:z",
        "-x",
        "x" * 81,
        "x\n",
    ],
)
def test_what_is_no_name_is_refused(bad: str) -> None:
    with pytest.raises(ApiError) as refused:
        parse_name(bad)
    assert refused.value.kind is Kind.INVALID_REQUEST
    assert refused.value.param == "model"


@given(st.text(max_size=30))
def test_no_text_becomes_a_path_that_climbs(text: str) -> None:
    try:
        name = parse_name(text)
    except ApiError:
        return
    for part in (*name.name.split("/"), name.tag):
        assert part not in ("", ".", "..")
        assert not part.startswith(".")


@pytest.mark.parametrize("bad", ["", ".", "..", ".x", "a/b", "a\\b", "a b", "x\0", "x\n", "-x", "\u202e", "x" * 201])
def test_what_is_no_file_name(bad: str) -> None:
    assert not is_file_name(bad)


def test_what_is_a_file_name() -> None:
    for name in ("model.gguf", "Qwen2.5-0.5B-Instruct-Q4_K_M.gguf", "openvino_model.xml", "a+b"):
        assert is_file_name(name)

"""Model names: what they mean, and that none can become another path."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.ir.errors import ApiError, Kind
from rivermouth.local.catalog import CATALOG, SMOLLM2, WheelSource, file_entry
from rivermouth.local.names import ModelName, parse_name


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


def test_the_catalogue_pins_everything() -> None:
    for name, entry in CATALOG.items():
        assert name == entry.name
        assert entry.sha256 is not None
        assert len(entry.sha256) == 64
        assert entry.size_bytes
        assert entry.license
        assert entry.attribution
        assert isinstance(entry.source, WheelSource)
        assert len(entry.source.wheel_sha256) == 64
    assert SMOLLM2.name == parse_name("smollm2:135m")


@pytest.mark.parametrize("digest", ["", "sha256:", "g" * 64, "a" * 63])
def test_a_digest_that_is_none_is_refused(digest: str, tmp_path: object) -> None:
    with pytest.raises(ApiError):
        file_entry("x", tmp_path, digest)  # type: ignore[arg-type]

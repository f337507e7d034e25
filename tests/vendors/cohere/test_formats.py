"""What is asked for in JSON comes back as it was asked, under either protocol's name for a schema."""

from __future__ import annotations

import pytest

from rivermouth.ir.errors import ApiError
from rivermouth.ir.request import Format, ResponseFormat
from rivermouth.vendors.cohere.formats import read_format, write_format

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}


@pytest.mark.parametrize("member", ["schema", "json_schema"])
@pytest.mark.parametrize("wanted", [ResponseFormat(Format.JSON), ResponseFormat(Format.JSON_SCHEMA, SCHEMA)])
def test_a_format_comes_back(wanted: ResponseFormat, member: str) -> None:
    wire = write_format(wanted, member)["response_format"]
    assert read_format(wire["type"], wire.get(member)) == wanted


def test_text_is_the_default_and_a_schema_without_json_says_nothing() -> None:
    assert write_format(None, "schema") == write_format(ResponseFormat(Format.TEXT), "schema") == {}
    assert read_format("text", SCHEMA) == ResponseFormat(Format.TEXT)


def test_any_other_type_is_the_clients_mistake() -> None:
    with pytest.raises(ApiError, match="json_object") as caught:
        read_format("xml", None)
    assert caught.value.param == "response_format.type"

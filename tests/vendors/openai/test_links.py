from __future__ import annotations

import pytest

from rivermouth.ir.errors import ApiError
from rivermouth.vendors.openai.links import split_data_uri


def test_a_data_uri_is_its_type_and_its_base64() -> None:
    assert split_data_uri("data:image/png;base64,AAAA", "p") == ("image/png", "AAAA")
    assert split_data_uri("DATA:;base64,AA AA\n", "p") == (None, "AAAA")
    assert split_data_uri("data:text/plain;charset=utf-8;base64,QQ==", "p") == ("text/plain", "QQ==")


def test_any_other_link_is_none_and_a_uri_without_base64_is_refused() -> None:
    assert split_data_uri("https://example.org/data:image/png;base64,AA", "p") is None
    with pytest.raises(ApiError) as caught:
        split_data_uri("data:text/plain,hello", "input[0].image_url")
    assert caught.value.param == "input[0].image_url"

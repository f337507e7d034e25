"""The preset of Bedrock: its address has a region, and its requests are signed where there is no key."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rivermouth.config import Config, ConfigError, ProviderConfig, load, parse, without_place

DIALECTS = frozenset({"bedrock_invoke", "openai_chat"})
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "AKIA",
    "AWS_SECRET_ACCESS_KEY": "s",
    "AWS_PROFILE": "work",
    "AWS_REGION": "eu-west-1",
}


def one(text: str, environ: dict[str, str], name: str = "bedrock") -> ProviderConfig:
    return parse(text, "f", environ, DIALECTS).providers[name]


def test_credentials_for_aws_alone_switch_nothing_on() -> None:
    assert load(None, CREDENTIALS, DIALECTS) == Config()


def test_no_region_is_guessed() -> None:
    assert load(None, {"AWS_BEARER_TOKEN_BEDROCK": "k-123456"}, DIALECTS) == Config()
    for odd in ("", "evil.example/", "EU"):
        assert load(None, {"AWS_BEARER_TOKEN_BEDROCK": "k-123456", "AWS_REGION": odd}, DIALECTS) == Config()
    assert [*without_place(Config(), {"AWS_BEARER_TOKEN_BEDROCK": "k-123456"})] == [
        ("bedrock", "AWS_BEARER_TOKEN_BEDROCK", ("AWS_REGION", "AWS_DEFAULT_REGION"))
    ]
    assert [*without_place(Config(), CREDENTIALS)] == []
    with pytest.raises(ConfigError, match="needs region, or AWS_REGION or AWS_DEFAULT_REGION"):
        parse("[providers.bedrock]\n", "f", {}, DIALECTS)


def test_a_table_of_its_own_signs_and_a_key_does_not() -> None:
    signed = one("[providers.bedrock]\n", CREDENTIALS)
    assert (signed.base_url, signed.region, signed.api_key) == (
        "https://bedrock-runtime.eu-west-1.amazonaws.com",
        "eu-west-1",
        None,
    )
    keyed = one("[providers.bedrock]\n", {**CREDENTIALS, "AWS_BEARER_TOKEN_BEDROCK": "k-123456"})
    assert keyed.region is None
    assert keyed.api_key is not None


def test_the_file_says_the_region_and_the_profile() -> None:
    text = '[providers.bedrock]\nregion = "us-east-1"\nprofile = "eu"\n'
    found = one(text, {**CREDENTIALS, "AWS_BEARER_TOKEN_BEDROCK": "k-123456"})
    assert (found.base_url, found.region, found.profile, found.api_key) == (
        "https://bedrock-runtime.us-east-1.amazonaws.com",
        "us-east-1",
        "eu",
        None,
    )


def test_another_address_is_signed_for_too_but_never_gets_the_key() -> None:
    text = '[providers.bedrock]\nbase_url = "http://127.0.0.1:1"\n'
    found = one(text, {**CREDENTIALS, "AWS_BEARER_TOKEN_BEDROCK": "k-123456"})
    assert (found.base_url, found.region, found.api_key) == ("http://127.0.0.1:1", "eu-west-1", None)
    text = '[providers.us]\ndialect = "bedrock_invoke"\nbase_url = "http://127.0.0.1:1"\nregion = "us-east-1"\n'
    assert one(text, CREDENTIALS, "us").region == "us-east-1"


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ('[providers.bedrock]\nregion = "evil.example/"\n', "region"),
        ('[providers.bedrock]\nregion = "eu"\nprofile = "a"\napi_key = "k-123456"\n', "nothing is signed"),
        (
            '[providers.x]\ndialect = "openai_chat"\nbase_url = "http://h"\nprofile = "a"\n',
            "where there is a region",
        ),
    ],
)
def test_what_cannot_be_is_said(text: str, match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        parse(text, "f", {}, DIALECTS)


def test_without_the_extra_it_is_refused_with_the_way_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "f.toml"
    file.write_text('[providers.bedrock]\nregion = "eu-west-1"\n')
    assert load(file, {}, DIALECTS).providers["bedrock"].region == "eu-west-1"
    monkeypatch.setitem(sys.modules, "botocore", None)
    with pytest.raises(ConfigError, match=r"pip install 'rivermouth\[bedrock\]'"):
        load(file, {}, DIALECTS)
    file.write_text('[providers.bedrock]\nregion = "eu-west-1"\napi_key = "k-123456"\n')
    assert load(file, {}, DIALECTS).providers["bedrock"].api_key is not None


def test_the_provider_that_is_missing_is_explained() -> None:
    with pytest.raises(ConfigError, match="AWS_BEARER_TOKEN_BEDROCK with AWS_REGION or AWS_DEFAULT_REGION"):
        parse('[models.m]\nendpoints = ["bedrock/x"]\n', "f", {}, DIALECTS)

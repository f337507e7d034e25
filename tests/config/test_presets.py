"""A key in the environment switches its provider on, and goes nowhere else."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from rivermouth.config import PRESETS, Config, ConfigError, apart_from, load, parse, without_place
from rivermouth.config.check import address_url
from rivermouth.config.presets import QUIRKS
from rivermouth.dialects import discover
from rivermouth.providers import quirks

DIALECTS = frozenset(discover())

SWITCHES = [(variable, name) for name, preset in PRESETS.items() for variable in preset.keys if not preset.only_by_file]
ADDRESSES = [(p.address, name) for name, p in PRESETS.items() if p.address is not None and not p.needs_address]
AZURES = "{resource}.openai.azure.com"
PLACES = {"AWS_REGION": "eu-west-1", "AZURE_OPENAI_ENDPOINT": "https://mine.example/"}


@pytest.mark.parametrize(("variable", "name"), SWITCHES)
def test_a_key_switches_its_preset_on(variable, name):
    config = load(None, {variable: "k-123456", **PLACES}, DIALECTS)
    assert list(config.providers) == [name]
    provider = config.providers[name]
    assert provider.api_key is not None
    assert provider.api_key.matches("k-123456")
    assert (provider.base_url, provider.dialect, provider.origin) == (
        PRESETS[name].base_url.replace("{region}", "eu-west-1").replace(AZURES, "mine.example:443"),
        PRESETS[name].dialect,
        variable,
    )


def test_an_empty_variable_switches_nothing_on():
    assert load(None, {variable: "" for variable, _ in (*SWITCHES, *ADDRESSES)}, DIALECTS) == Config()


def test_the_first_variable_wins():
    environ = {"MOONSHOT_API_KEY": "second-1", "KIMI_API_KEY": "first-1"}
    key = load(None, environ, DIALECTS).providers["kimi"].api_key
    assert key is not None
    assert key.matches("first-1")


@pytest.mark.parametrize(("variable", "name"), ADDRESSES)
def test_an_address_switches_its_preset_on_and_moves_it(variable, name):
    config = load(None, {variable: "gpu-box:9000"}, DIALECTS)
    assert list(config.providers) == [name]
    usual = PRESETS[name].base_url
    path = urlsplit(usual).path
    assert (config.providers[name].base_url, config.providers[name].origin) == (f"http://gpu-box:9000{path}", variable)
    assert config.providers[name].api_key is None
    for said in (usual, usual.removesuffix(path)):
        assert load(None, {variable: said}, DIALECTS, port=1).providers[name].base_url == usual


def test_no_two_presets_are_switched_on_by_one_variable():
    """A bare model name that two providers have would be ambiguous."""
    variables = [variable for variable, _ in (*SWITCHES, *ADDRESSES)]
    assert len(set(variables)) == len(variables)


def test_a_preset_whose_key_is_anothers_is_switched_on_by_the_file_alone():
    environ = {"GEMINI_API_KEY": "k-123456"}
    assert list(load(None, environ, DIALECTS).providers) == ["gemini"]
    config = parse("[providers.gemini-openai]\n[providers.gemini]\nenabled = false\n", "f", environ, DIALECTS)
    assert list(config.providers) == ["gemini-openai"]
    provider = config.providers["gemini-openai"]
    assert provider.dialect == "openai_chat"
    assert provider.base_url == "https://generativelanguage.googleapis.com/v1beta/openai"
    assert provider.api_key is not None
    assert provider.api_key.matches("k-123456")
    both = parse("[providers.gemini-openai]\n", "f", environ, DIALECTS)
    assert list(both.providers) == ["gemini-openai", "gemini"]
    with pytest.raises(ConfigError, match="needs api_key, or GEMINI_API_KEY or GOOGLE_API_KEY"):
        parse("[providers.gemini-openai]\n", "f", {}, DIALECTS)
    with pytest.raises(ConfigError, match=r"needs \[providers.gemini-openai\]$"):
        parse('[models.x]\nendpoints = ["gemini-openai/y"]\n', "f", environ, DIALECTS)


def test_gemini_is_spoken_to_in_its_own_dialect():
    provider = load(None, {"GOOGLE_API_KEY": "k-123456"}, DIALECTS).providers["gemini"]
    assert (provider.dialect, provider.quirks) == ("gemini", frozenset())
    assert provider.base_url == "https://generativelanguage.googleapis.com/v1beta"


def test_the_file_may_switch_a_preset_off():
    text = "[providers.openai]\nenabled = false\n"
    assert parse(text, "f", {"OPENAI_API_KEY": "k-123456"}, DIALECTS).providers == {}


@pytest.mark.fault("F36")
def test_a_key_of_the_environment_never_goes_to_an_address_of_the_file():
    text = '[providers.openai]\nbase_url = "http://127.0.0.1:1/v1"\n'
    provider = parse(text, "f", {"OPENAI_API_KEY": "k-123456"}, DIALECTS).providers["openai"]
    assert provider.api_key is None
    assert provider.base_url == "http://127.0.0.1:1/v1"


HOSTS = {
    "127.0.0.1": "http://127.0.0.1:11434/api",
    "box": "http://box:11434/api",
    "box:80": "http://box:80/api",
    ":9000": "http://127.0.0.1:9000/api",
    "0.0.0.0": "http://127.0.0.1:11434/api",
    "0.0.0.0:9000": "http://127.0.0.1:9000/api",
    "http://box": "http://box:80/api",
    "https://box/": "https://box:443/api",
    "https://box:1/sub/": "https://box:1/sub/api",
    "https://box:1/sub/api/": "https://box:1/sub/api",
    "[::1]:9": "http://[::1]:9/api",
}


@pytest.mark.parametrize(("given", "url"), HOSTS.items())
def test_ollama_host_is_read_as_ollama_reads_it(given, url):
    assert address_url(given, PRESETS["ollama"].base_url) == url
    assert load(None, {"OLLAMA_HOST": given}, DIALECTS).providers["ollama"].base_url == url


def test_a_server_on_ollamas_port_does_not_call_itself():
    text = "[server]\nport = 11434\n"
    assert parse(text, "f", {"OLLAMA_HOST": "localhost"}, DIALECTS).providers == {}


def test_a_server_at_the_default_port_of_another_does_not_take_itself_for_it():
    environ = {"LLAMACPP_BASE_URL": "127.0.0.1:8080"}
    assert load(None, environ, DIALECTS).providers == {}
    assert list(load(None, environ, DIALECTS, port=9000).providers) == ["llamacpp"]


def test_every_preset_speaks_a_dialect_that_exists_and_knows_its_quirks():
    for preset in PRESETS.values():
        assert preset.dialect in discover()
        assert preset.quirks <= QUIRKS


def test_the_words_for_quirks_are_those_that_the_transport_knows():
    assert set(QUIRKS) == set(quirks.QUIRKS)


@pytest.mark.parametrize(
    ("also", "kept"), [(("127.0.0.1", 11434), False), (("0.0.0.0", 11434), False), (("127.0.0.1", 1), True)]
)
def test_a_server_that_answers_ollamas_port_too_does_not_take_itself_for_ollama(
    also: tuple[str, int], kept: bool
) -> None:
    config = parse("", "", {"OLLAMA_HOST": "127.0.0.1:11434"}, frozenset({"ollama"}))
    assert "ollama" in config.providers
    assert ("ollama" in apart_from(config, [("127.0.0.1", 8080), also]).providers) is kept


AZURE_KEY = "AZURE_OPENAI_API_KEY"
AZURE = {AZURE_KEY: "k-123456", "AZURE_OPENAI_ENDPOINT": "https://mine.example/"}


def test_azure_is_switched_on_by_its_key_with_its_address():
    assert load(None, {AZURE_KEY: "k-123456"}, DIALECTS) == Config()
    assert load(None, {"AZURE_OPENAI_ENDPOINT": "https://mine.example/"}, DIALECTS) == Config()
    assert [*without_place(Config(), {AZURE_KEY: "k-123456"})] == [("azure", AZURE_KEY, ("AZURE_OPENAI_ENDPOINT",))]
    assert [*without_place(Config(), {})] == []
    found = load(None, AZURE, DIALECTS).providers["azure"]
    assert (found.base_url, found.key_header, found.api_version) == (
        "https://mine.example:443/openai/v1",
        "api-key",
        None,
    )


def test_a_version_asks_azure_in_the_older_way():
    found = parse('[providers.azure]\napi_version = "2024-10-21"\n', "f", AZURE, DIALECTS).providers["azure"]
    assert (found.base_url, found.api_version) == ("https://mine.example:443/openai", "2024-10-21")
    text = '[providers.azure]\nbase_url = "https://other.example/openai"\napi_key = "k"\napi_version = "2024-10-21"\n'
    found = parse(text, "f", AZURE, DIALECTS).providers["azure"]
    assert (found.base_url, found.key_header) == ("https://other.example/openai", "api-key")


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("[providers.azure]\n", "needs base_url, or AZURE_OPENAI_ENDPOINT"),
        ('[providers.azure]\nbase_url = "https://h"\napi_version = "v1"\n', "a version of Azure's API"),
        ('[providers.x]\ndialect = "anthropic"\nbase_url = "http://h"\napi_version = "2024-10-21"\n', "only Azure"),
        ('[providers.x]\ndialect = "openai_chat"\nbase_url = "http://h"\nkey_header = "a b"\n', "name of a header"),
        ('[models.m]\nendpoints = ["azure/x"]\n', "AZURE_OPENAI_API_KEY with AZURE_OPENAI_ENDPOINT"),
    ],
)
def test_what_azure_cannot_be_is_said(text, match):
    with pytest.raises(ConfigError, match=match):
        parse(text, "f", {AZURE_KEY: "k-123456"}, DIALECTS)


@pytest.mark.fault("F36")
def test_azures_key_never_goes_to_an_address_of_the_file():
    text = '[providers.azure]\nbase_url = "https://other.example/openai/v1"\n'
    assert parse(text, "f", AZURE, DIALECTS).providers["azure"].api_key is None

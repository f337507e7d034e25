"""The attributes of spans have the names that the conventions give them."""

from __future__ import annotations

import pytest
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes, http_attributes
from opentelemetry.semconv.attributes import error_attributes, server_attributes

from rivermouth.config import PRESETS
from rivermouth.http.dataplane import CALLS
from rivermouth.observe.span_attributes import ATTEMPT, CALL, OPERATIONS, PROVIDERS, provider_name

KNOWN = {
    value
    for module in (gen_ai_attributes, http_attributes, error_attributes, server_attributes)
    for name, value in vars(module).items()
    if name.isupper() and isinstance(value, str)
}
OWN_NAMES = {
    "cohere",
    "kimi",
    "lmstudio",
    "llamacpp",
    "ollama",
    "openrouter",
    "tgi",
    "together",
    "vllm",
}
"""Presets that the conventions have no other word for."""


def test_every_name_is_of_the_conventions_or_plainly_our_own():
    ours = {*CALL, *ATTEMPT, "server.address", "server.port"}
    assert {name for name in ours if not name.startswith("rivermouth.")} <= KNOWN


def test_operations_and_providers_have_the_words_of_the_conventions():
    operations = {each.value for each in gen_ai_attributes.GenAiOperationNameValues}
    providers = {each.value for each in gen_ai_attributes.GenAiProviderNameValues}
    assert set(OPERATIONS.values()) <= operations
    assert set(PROVIDERS.values()) <= providers
    assert set(PROVIDERS) <= set(PRESETS)
    assert {name for name in PRESETS if provider_name(name) not in providers} <= OWN_NAMES


@pytest.mark.parametrize("operation", sorted(each.value for each in CALLS))
def test_every_operation_that_is_a_call_has_a_name(operation: str):
    assert operation in OPERATIONS or operation == "pull", "a pull makes no record"


@pytest.mark.parametrize("name", ["messages", "prompt", "completion", "system_instructions", "content"])
def test_no_attribute_is_one_for_text(name: str):
    assert [each for each in {*CALL, *ATTEMPT} if name in each] == []

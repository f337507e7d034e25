from __future__ import annotations

import pytest

from rivermouth.vendors.output_caps import clamped, filled, output_cap


@pytest.mark.parametrize(
    ("model", "cap"),
    [
        ("claude-3-haiku-20240307", 4096),
        ("claude-3-5-sonnet-latest", 8192),
        ("claude-3-7-sonnet-20250219", 64_000),
        ("claude-opus-4-20250514", 32_000),
        ("claude-opus-4-1-20250805", 32_000),
        ("claude-opus-4-1", 32_000),
        ("claude-opus-4-5-20251101", 64_000),
        ("claude-sonnet-4-5", 64_000),
        ("us.anthropic.claude-sonnet-4-20250514-v1:0", 64_000),
        ("anthropic/claude-3-opus", 4096),
        ("claude-9", None),
        ("gpt-4", 8192),
        ("gpt-4-turbo", 4096),
        ("gpt-4o-mini", 16_384),
        ("openai/gpt-4o-2024-05-13", 4096),
        ("gpt-4.1-nano", 32_768),
        ("gpt-5.1-codex", 128_000),
        ("o3", 100_000),
        ("o1-mini", 65_536),
        ("models/gemini-2.0-flash", 8192),
        ("gemini-2.5-pro", 65_536),
        ("gemini-3-pro-preview", None),
        ("command-r-plus-08-2024", 4096),
        ("smollm2:135m", None),
        ("my-gpt-4o", None),
        ("", None),
    ],
)
def test_caps_of_models_that_are_known_by_name(model: str, cap: int | None) -> None:
    assert output_cap(model) == cap
    assert clamped(1_000_000, model) == (cap or 1_000_000)
    assert clamped(7, model) == 7
    assert clamped(None, model) is None


def test_a_demanded_number_is_the_models_own_or_what_newer_ones_give_or_the_default() -> None:
    assert [filled(m, 99) for m in ("claude-3-opus", "claude-9", "other")] == [4096, 32_000, 99]

"""What the configuration says of keys, limits and budgets, and what is wrong with it."""

from __future__ import annotations

import pytest

from rivermouth.config import Config, ConfigError, parse

BUDGET = 'budget = { amount = 5, currency = "EUR", zone = "Mars/Olympus" }\n'


def made(text: str) -> Config:
    return parse(text, "rivermouth.toml", {}, frozenset())


def test_keys_of_the_database_alone_may_guard_an_address_that_others_reach() -> None:
    assert made('[server]\nhost = "0.0.0.0"\nrequire_keys = true\n').server.require_keys


@pytest.mark.parametrize(
    ("text", "want"),
    [
        (
            f'[keys.ci]\nkey = "k"\n{BUDGET}',
            "rivermouth.toml:3: keys.ci.budget.zone: no time zone is called Mars/Olympus",
        ),
        (f"[policies.eu]\n{BUDGET}", "rivermouth.toml:2: policies.eu.budget.zone: no time zone is called Mars/Olympus"),
        ("[limits]\nconcurrent = 0\n", "rivermouth.toml:2: limits.concurrent: "),
        ('[keys.ci]\nkey = "k"\nrole = "king"\n', "rivermouth.toml:3: keys.ci.role: "),
        ('[keys.ci]\nkey = "k"\nscopes = ["all"]\n', "rivermouth.toml:3: keys.ci.scopes[0]: "),
        ('[keys.ci]\nkey = "k"\nbudget = { amount = 5 }\n', "rivermouth.toml:3: keys.ci.budget"),
        ('[keys.ci]\nkey = "k"\nlimits = { per_second = 5 }\n', "rivermouth.toml:3: keys.ci.limits.per_second: "),
    ],
)
def test_a_fault_is_named_with_its_line(text: str, want: str) -> None:
    with pytest.raises(ConfigError) as caught:
        made(text)
    (problem,) = caught.value.problems
    assert str(problem).startswith(want)

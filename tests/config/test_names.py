"""Names that records hold are told apart there, so the file cannot give one to somebody else."""

from __future__ import annotations

import pytest

from rivermouth.config import ConfigError
from rivermouth.config.load import parse
from rivermouth.ir.errors import ApiError
from rivermouth.platform.changes import NewKey, checked
from rivermouth.store.archive import ERASED


@pytest.mark.parametrize("name", [ERASED, "0123abcd", "", "with space", "line\nbreak", "müller", "a+b", "x" * 65, ".a"])
def test_no_key_is_called_so_wherever_it_is_made(name: str) -> None:
    """ "(erased)" would see the calls of whoever was erased; a fingerprint those of a key without a name."""
    with pytest.raises(ConfigError) as refused:
        parse(f"[keys.{_quoted(name)}]\nkey = 'a-secret-of-some-length'\n", "rivermouth.toml", {}, frozenset())
    assert [problem.line for problem in refused.value.problems] == [1]
    with pytest.raises(ApiError):
        checked(NewKey(name=name))


@pytest.mark.parametrize("name", ["default", "a+b", "a,b", "", "with space", "ü"])
def test_no_policy_is_called_so(name: str) -> None:
    """ "default" would have the budget of every call without a policy, and "a+b" the calls of two others."""
    with pytest.raises(ConfigError):
        parse(f"[policies.{_quoted(name)}]\nregions = ['eu-*']\n", "rivermouth.toml", {}, frozenset())


def _quoted(name: str) -> str:
    return '"' + name.replace("\n", "\\n") + '"'

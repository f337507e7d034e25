"""One answer to "does this stay on the machine?"."""

from __future__ import annotations

import pytest

from rivermouth.loopback import is_loopback


@pytest.mark.parametrize(
    "name", ["localhost", "LOCALHOST", "x.localhost", "ip6-localhost", "::1", "[::1]", "127.0.0.2"]
)
def test_these_stay(name: str) -> None:
    assert is_loopback(name)


@pytest.mark.parametrize("name", ["", "example.org", "10.0.0.1", "1.2.3.4", "localhost.evil.example", "::ffff:1.2.3.4"])
def test_these_do_not(name: str) -> None:
    assert not is_loopback(name)

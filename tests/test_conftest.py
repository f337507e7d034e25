"""The test suite's own tools: the ledger of promises, the network guard, the home.

What only a whole run can show is shown by two small runs of pytest, without plugins but ours.
"""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.config.presets import PRESETS
from tests.conftest import NetworkForbidden, NetworkGuard, from_my_place, is_loopback, modules_of
from tests.promises import COVERS, DOCS, ROOT, Ledger, read_lines, read_open
from tests.thorough import sort_out

CONFTEST = 'pytest_plugins = ["tests.conftest"]\n'
CONFIG = """
[pytest]
testpaths = tests
markers =
    promise(*numbers): lines
    fault(*names): faults
promises_strict = true
"""
COVERS_WHAT_IS_DUE = """
import pytest
from tests.promises import DOCS, read_lines, read_open

LATER = read_open(DOCS / "open.toml")
DUE = [line for name in ("promises.md", "faults.md") for line in read_lines(DOCS / name) if line not in LATER]

@pytest.mark.promise(*(int(line) for line in DUE if line.isdigit()))
def test_promises():
    pass

@pytest.mark.fault(*(line for line in DUE if not line.isdigit()))
def test_faults():
    pass
"""

LOOKS_AROUND = """
import os
from pathlib import Path

def test_the_home_is_empty(home):
    assert Path.home() == home
    assert list(home.iterdir()) == []

def test_nothing_of_the_user_is_seen():
    assert [name for name in os.environ if name.endswith("_API_KEY") or name.upper().endswith("_PROXY")] == []
    assert "RIVERMOUTH_DATA" not in os.environ
"""

SWALLOWS_THE_REFUSAL = """
import contextlib, socket

def test_it():
    with contextlib.suppress(Exception):
        socket.create_connection(("192.0.2.1", 9), timeout=0.01)
"""


def run(place: Path, **files: str) -> subprocess.CompletedProcess[str]:
    """A pytest run in a folder of its own, with this project's conftest, for a user who has a home and keys."""
    tests = place / "tests_of_a_run"
    tests.mkdir()
    (place / "pytest.ini").write_text(
        CONFIG.replace("testpaths = tests", f"testpaths = {tests.name}"), encoding="utf-8"
    )
    (tests / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    for name, text in files.items():
        (tests / f"{name}.py").write_text(text, encoding="utf-8")
    (place / "home").mkdir()
    (place / "home" / "notes.txt").touch()
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # importing the others takes longer than the run
        "HOME": str(place / "home"),
        "RIVERMOUTH_DATA": str(place / "data"),
        "https_proxy": "http://127.0.0.1:1",
        **{name: "a key" for preset in PRESETS.values() for name in preset.keys},
    }
    return subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, timeout=25, check=False)


def test_a_full_run_that_covers_what_is_due_passes(tmp_path: Path) -> None:
    done = run(tmp_path, test_it=COVERS_WHAT_IS_DUE, test_user=LOOKS_AROUND)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout
    due = len(read_lines(DOCS / "promises.md")) + 37 - len(read_open(DOCS / "open.toml"))
    assert f"{due} of 212 lines are covered by a passing test" in done.stdout
    assert "NOT COVERED" not in done.stdout


def test_a_full_run_fails_for_what_is_missing_for_what_is_no_longer_open_and_for_a_swallowed_refusal(
    tmp_path: Path,
) -> None:
    later = [line for line in read_open(DOCS / "open.toml") if line.isdigit()][:1]  # none, when nothing is open
    skips = COVERS_WHAT_IS_DUE.replace("def test_faults():\n    pass", "def test_faults():\n    pytest.skip()")
    more = "".join(f"@pytest.mark.promise({line})\ndef test_more():\n    pass\n" for line in later)
    done = run(tmp_path, test_it=skips + more, test_net=SWALLOWS_THE_REFUSAL)
    assert done.returncode == 1, done.stdout
    assert "NOT COVERED: F1 F2 F3" in done.stdout
    assert all(f"listed as open in docs/open.toml: {line}" in done.stdout for line in later)
    assert "ERROR tests_of_a_run/test_net.py::test_it" in done.stdout
    assert "the test reached for the network" in done.stdout


def test_what_is_missing_alone_fails_a_full_run_and_a_part_is_not_judged() -> None:
    for partial, strict in ((False, True), (True, True), (False, False)):
        ledger = Ledger(strict=strict, partial=partial)
        assert ledger.verdict.missing
        assert ledger.failed is (strict and not partial)


class FakeItem:
    """A collected test with its markers, what it runs, and the properties that its report will have."""

    def __init__(self, nodeid: str, *marks: pytest.Mark, obj: object = None) -> None:
        self.nodeid = nodeid
        self.marks = marks
        self.obj = obj
        self.added: list[str] = []
        self.user_properties: list[tuple[str, object]] = []

    def iter_markers(self, name: str) -> Iterator[pytest.Mark]:
        return (mark for mark in self.marks if mark.name == name)

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return next(self.iter_markers(name), None)

    def add_marker(self, marker: str | pytest.MarkDecorator) -> None:
        self.added.append(marker if isinstance(marker, str) else marker.name)


def test_the_tests_that_cover_a_line_are_found() -> None:
    ledger = Ledger(strict=False, partial=False)
    items: list[Any] = [FakeItem("a", pytest.mark.promise(7, 8).mark), FakeItem("b", pytest.mark.fault("F7").mark)]
    items.append(FakeItem("c"))
    for item in items:
        ledger.pytest_itemcollected(item)
    assert ledger.covering(["F7"], items) == [items[1]]
    assert ledger.covering(["5-7"], items) == [items[0]]
    assert [item.user_properties for item in items] == [[(COVERS, "7 8")], [(COVERS, "F7")], []]


def test_a_line_that_no_document_has_is_refused() -> None:
    item: Any = FakeItem("a", pytest.mark.promise(900).mark)
    with pytest.raises(pytest.UsageError, match="900"):
        Ledger(strict=False, partial=False).pytest_itemcollected(item)


@given(st.booleans())
def some_property(value: bool) -> None:
    assert value in (True, False)


def test_the_suite_skips_what_only_make_fault_runs_and_make_fault_finds_all_of_it() -> None:
    marks = [pytest.mark.thorough.mark], [pytest.mark.thorough(quick=True).mark], []
    for thorough, added in ((False, [["skip"], [], [], []]), (True, [[], [], [], ["thorough"]])):
        items: list[Any] = [FakeItem("a", *each) for each in marks] + [FakeItem("a", obj=some_property)]
        sort_out(items, thorough)
        assert [item.added for item in items] == added


@pytest.mark.parametrize(
    ("host", "inside"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        (None, True),
        (b"localhost", True),
        ("0.0.0.0", True),
        ("192.0.2.1", False),
        ("10.0.0.1", False),
        ("example.com", False),
        ("localhost.example.com", False),
        ("2001:db8::1", False),
    ],
)
def test_loopback_is_told_from_the_rest(host: str | bytes | None, inside: bool) -> None:
    assert is_loopback(host) is inside


def test_the_guard_refuses_and_remembers() -> None:
    guard = NetworkGuard()
    guard.active = True
    with socket.socket() as sock:
        with pytest.raises(NetworkForbidden):
            guard.hook("socket.connect", (sock, ("192.0.2.1", 80)))
        guard.hook("socket.connect", (sock, ("127.0.0.1", 80)))
    with pytest.raises(NetworkForbidden):
        guard.hook("socket.getaddrinfo", ("example.com", 443, 0, 0, 0))
    assert guard.tried == ["socket.connect 192.0.2.1:80", "socket.getaddrinfo example.com"]


def test_the_home_is_ours_and_no_key_of_the_user_is_seen(home: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """That it is empty at first is seen above: tests that ran before this one may have left something in it."""
    assert Path.home() == home
    assert home.is_relative_to(tmp_path_factory.getbasetemp())
    assert all(Path(os.environ[f"XDG_{name}_HOME"]).is_relative_to(home) for name in ("DATA", "CONFIG", "CACHE"))
    assert [name for name in os.environ if name.endswith("_API_KEY") or name.upper().endswith("_PROXY")] == []


def test_nobody_is_trusted_that_a_test_has_not_named() -> None:
    """Not even the authorities of the system, which it takes long to read."""
    (only,) = ssl.create_default_context().get_ca_certs()
    assert only["subject"] == only["issuer"] == ((("commonName", "nobody"),),)


@pytest.mark.network
def test_who_may_leave_the_machine_trusts_whom_the_system_trusts() -> None:
    assert "SSL_CERT_FILE" not in os.environ


def test_all_workers_import_all_modules_and_each_begins_elsewhere() -> None:
    modules = modules_of(ROOT / "tests")
    assert __name__ in modules
    assert "tests.cli.test_replay" in modules
    orders = [from_my_place(modules, worker, 3) for worker in range(3)]
    assert all(sorted(order) == sorted(modules) for order in orders)
    assert len({order[0] for order in orders}) == 3

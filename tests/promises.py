"""A pytest plugin: which promises and faults of the documents no passing test covers.

The lines are the rows of docs/promises.md and docs/faults.md; a test names those it covers with `promise(...)` and
`fault(...)`; docs/open.toml lists the lines that a later issue delivers, each group with its reason.  After a run the
summary says what is missing.  A full run (every test, none deselected) with `promises_strict` set fails when a line
that should be covered has no passing test, or when a line listed as open has one: then it is no longer open, and the
list must say so.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
KINDS = ("promise", "fault")
COVERS = "covers"
"""The property of a report that carries a test's claims: with xdist the judge is not the process that runs."""
ROW = re.compile(r"^\| (?P<line>\d+|F\d+) \|", re.MULTILINE)
RANGE = re.compile(r"(\d+)-(\d+)")


class Verdict(NamedTuple):
    """What one full run shows: lines without a passing test, lines listed as open that have one, lines still open."""

    missing: list[str]
    delivered: list[str]
    open: list[str]


def read_lines(document: Path) -> list[str]:
    """The line names of a document's tables, in their order: "17", "F7"."""
    return ROW.findall(document.read_text(encoding="utf-8"))


def read_open(document: Path) -> dict[str, str]:
    """Line name -> the issue that delivers it.  A group's `lines` are names or ranges: ["41-48", "175"]."""
    groups = tomllib.loads(document.read_text(encoding="utf-8"))["open"]
    return {line: group["issue"] for group in groups for line in expand(group["lines"])}


def expand(names: Iterable[str]) -> list[str]:
    """["41-43", "F7"] -> ["41", "42", "43", "F7"]."""
    lines: list[str] = []
    for name in names:
        span = RANGE.fullmatch(name)
        lines += [str(n) for n in range(int(span[1]), int(span[2]) + 1)] if span else [name]
    return lines


def judge(lines: Iterable[str], still_open: Iterable[str], covered: set[str]) -> Verdict:
    """Compare what must be covered with what is."""
    waiting = set(still_open)
    order = list(lines)
    return Verdict(
        missing=[line for line in order if line not in covered and line not in waiting],
        delivered=[line for line in order if line in covered and line in waiting],
        open=[line for line in order if line not in covered and line in waiting],
    )


def marked_lines(item: pytest.Item) -> set[str]:
    """The lines that a test says it covers."""
    return {str(line) for kind in KINDS for mark in item.iter_markers(kind) for line in mark.args}


def spans(lines: list[str]) -> str:
    """["1", "2", "3", "7", "F2"] -> "1-3 7 F2"."""
    runs: list[list[str]] = []
    for line in lines:
        last = runs[-1][-1] if runs else ""
        follows = line.isdigit() and last.isdigit() and int(line) == int(last) + 1
        runs[-1].append(line) if follows else runs.append([line])
    return " ".join(run[0] if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


class Ledger:
    """One run's account: what each test covers, which tests passed, whether every test ran."""

    def __init__(self, strict: bool, partial: bool) -> None:
        self.strict = strict
        self.partial = partial
        self.lines = [line for name in ("promises.md", "faults.md") for line in read_lines(DOCS / name)]
        self.open = read_open(DOCS / "open.toml")
        self.claims: dict[str, set[str]] = {}
        self.covered: set[str] = set()

    @property
    def verdict(self) -> Verdict:
        return judge(self.lines, self.open, self.covered)

    @property
    def failed(self) -> bool:
        return self.strict and not self.partial and bool(self.verdict.missing or self.verdict.delivered)

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        claims = marked_lines(item)
        unknown = claims.difference(self.lines)
        if unknown:
            raise pytest.UsageError(f"{item.nodeid} names lines that no document has: {sorted(unknown)}")
        if claims:
            self.claims[item.nodeid] = claims
            item.user_properties.append((COVERS, " ".join(sorted(claims))))

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        wanted = (config.option.covering or "").replace(",", " ").split()
        if wanted:
            self.partial = True
            items[:] = self.covering(wanted, items)

    def covering(self, names: list[str], items: list[pytest.Item]) -> list[pytest.Item]:
        """The tests that claim one of these lines."""
        wanted = set(expand(names))
        return [item for item in items if self.claims.get(item.nodeid, set()) & wanted]

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        self.partial = True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed and not hasattr(report, "wasxfail"):
            self.covered.update(*(str(value).split() for name, value in report.user_properties if name == COVERS))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        self.partial = self.partial or bool(session.shouldstop) or session.config.option.collectonly
        if self.failed and exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.partial:
            return
        verdict = self.verdict
        tell = terminalreporter
        tell.section("promises and faults")
        tell.line(f"{len(self.covered)} of {len(self.lines)} lines are covered by a passing test")
        by_issue: dict[str, list[str]] = {}
        for line in verdict.open:
            by_issue.setdefault(self.open[line], []).append(line)
        for issue, lines in by_issue.items():
            tell.line(f"open, {issue}: {spans(lines)}")
        colour = {"red": True} if self.strict else {"yellow": True}
        if verdict.missing:
            tell.line(f"NOT COVERED: {spans(verdict.missing)}", **colour)
        if verdict.delivered:
            tell.line(f"covered, but listed as open in docs/open.toml: {spans(verdict.delivered)}", **colour)


def is_partial(config: pytest.Config) -> bool:
    """True when the command line picks tests, so that a line without a test proves nothing."""
    if config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        return False
    whole = {config.rootpath, config.rootpath / "tests"}
    return not whole.intersection((config.invocation_params.dir / arg).resolve() for arg in config.args)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--covering", metavar="LINES", help="run only tests that cover these lines: 17, 41-48, F7")
    parser.addini("promises_strict", "a full run fails when a line is not covered", type="bool", default=False)


def pytest_configure(config: pytest.Config) -> None:
    worker = hasattr(config, "workerinput")
    strict = bool(config.getini("promises_strict")) and not worker
    picked = is_partial(config) or bool(config.option.keyword or config.option.markexpr or config.option.deselect)
    config.pluginmanager.register(Ledger(strict, worker or picked), "promise-ledger")

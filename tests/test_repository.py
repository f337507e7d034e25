"""The repository keeps its own rules: what may stand in a file, what a lock looks like, what is documented."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.promises import DOCS, ROOT, expand, judge, read_lines, read_open, spans

SOURCES = sorted((ROOT / "src").rglob("*.py"))
MAX_LINES = 600
FUTURE = "from __future__ import annotations"
DOCSTRING = re.compile(r'"""\w(?:(?!""").)*"""\n', re.DOTALL)
"""At a module's beginning this can be nothing else."""
LOCKS = ("runtime", "dev")

# Written in pieces, so that this file does not contain what it forbids.
FORBIDDEN = {
    "a registry host": r"pypi\.(?:org|python)|python"
    r"hosted|registry\."
    r"npm|crates"
    r"\.io|deb\."
    r"debian",
    "a path of some machine": r"(?<![\w.])/(?:wo" + r"rk|ro" + r"ot|ho" + r"me/[a-z]+|Us" + r"ers)/",
    "a folder beside the project": r"(?<![\w-])sha" + r"red/",
    "a key": r"sk-[A-Za-z0-9]{2}[A-Za-z0-9_-]{18,}|AKIA[A-Z0-9]{16}|-----BEGIN [A-Z ]*PRIVATE" + r" KEY",
}

# Where a failure of any kind must become an answer, and nowhere else.
MAY_CATCH_ALL = {
    "accounts/service.py Accounts._repeat",  # these loops run for ever, whatever one round of them meets
    "chat/feed.py Feeds.watch",
    "chat/worker.py Worker._reap_for_ever",
    "chat/worker.py Worker._recover_each",  # the reaper's seam: one row that nobody can read is not everybody's
    "chat/worker.py Worker._repeat",
    "bridge.py foreign_error",  # an exception of somebody else's that cannot even be printed
    "engine/engine.py Engine._run",  # the pump's seam: the client and the record learn of it
    "http/dataplane.py DataPlane.__call__",  # the edge: a fault of ours is an answer, not a dropped connection
    "local/embedding/tokens.py load_tokenizer",  # the library has no narrower class for a bad file
    "providers/lean/connection.py Connection._pass_on",  # it is raised where the reader waits
    "providers/lean/connection.py Connection.straighten.way",  # likewise
    "providers/python.py load",  # a module of the user's own
    "providers/python.py _Worker._run",  # a generator of the user's own, in its thread
}


def committed_files() -> list[Path]:
    """Every file that git knows, or would take: what is ignored is not the repository's."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode()
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git clone")
    return [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]


def texts(files: list[Path]) -> Iterator[tuple[Path, str]]:
    for path in files:
        try:
            yield path, path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_file_names(what: str) -> None:
    pattern = re.compile(FORBIDDEN[what])
    found = [
        f"{path.relative_to(ROOT)}: {match.group()}"
        for path, text in texts(committed_files())
        for match in pattern.finditer(text)
    ]
    assert not found


@pytest.mark.parametrize(
    ("what", "line"),
    [
        ("a registry host", "index-url = https://py" + "pi.org/simple"),
        ("a path of some machine", "see /ho" + "me/anna/notes"),
        ("a folder beside the project", "cp ../sha" + "red/x ."),
        ("a key", "sk-" + "a1" * 12),
    ],
)
def test_the_patterns_see_what_they_forbid(what: str, line: str) -> None:
    assert re.search(FORBIDDEN[what], line)


def test_no_committed_file_is_huge() -> None:
    assert [path for path in committed_files() if path.stat().st_size > 1_000_000] == []


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_pins_every_package_with_its_hashes_and_names_no_source(lock: str) -> None:
    text = (ROOT / "requirements" / f"{lock}.txt").read_text(encoding="utf-8")
    entries = [entry for entry in re.split(r"\n(?=\S)", text) if not entry.startswith("#")]
    assert len(entries) > 20
    for entry in entries:
        assert re.match(r"[a-z0-9][a-z0-9._-]*==[^\s;]+", entry), entry.splitlines()[0]
        assert "--hash=sha256:" in entry, entry.splitlines()[0]
    assert not re.search(r"://|--(?:extra-)?index|--find-links|^-e |file:", text, re.MULTILINE)


def test_the_two_locks_agree() -> None:
    runtime, dev = (pins(ROOT / "requirements" / f"{lock}.txt") for lock in LOCKS)
    assert runtime <= dev


def pins(lock: Path) -> set[str]:
    return set(re.findall(r"^[a-z0-9][^\s]*==[^\s]+(?: ;[^\\\n]+)?", lock.read_text(encoding="utf-8"), re.MULTILINE))


def test_the_locks_hold_every_declared_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    declared = {"runtime": project["dependencies"] + extras["openvino"], "dev": extras["dev"]}
    for lock, wanted in declared.items():
        have = {pin.partition("==")[0] for pin in pins(ROOT / "requirements" / f"{lock}.txt")}
        names = {re.split(r"[^A-Za-z0-9._-]", name)[0].lower().replace("_", "-") for name in wanted}
        assert names <= have


def test_every_verb_of_the_makefile_is_documented() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    verbs = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE)) - {"help"}
    assert {"setup", "demo", "test", "check", "bench", "docs"} <= verbs
    documented = "".join((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "CONTRIBUTING.md"))
    assert {verb for verb in verbs if f"make {verb}" not in documented} == set()


def test_the_readme_gives_the_two_commands_and_ci_runs_the_same() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make demo" in readme
    assert "make test" in readme
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert ci[-2:] == ["make check", "make test"]


def test_the_changelog_knows_the_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\n## [{version}] - 20" in changelog


def test_the_licence_is_the_whole_apache_2_and_the_notice_names_the_model() -> None:
    licence = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License" in licence
    assert "END OF TERMS AND CONDITIONS" in licence
    notice = (ROOT / "NOTICE").read_text(encoding="utf-8")
    assert [
        name for name in ("HuggingFaceTB", "QuantFactory", "Simon Willison", "OpenVINO") if name not in notice
    ] == []


def test_links_between_documents_lead_somewhere() -> None:
    pages = [*ROOT.glob("*.md"), *DOCS.rglob("*.md")]
    broken = []
    for page in pages:
        targets = re.findall(r"\]\((?!\w+:)([^)#\s]+)", page.read_text(encoding="utf-8"))
        broken += [f"{page.relative_to(ROOT)} -> {to}" for to in targets if not (page.parent / to).exists()]
    assert not broken


def test_decisions_are_numbered_without_gaps_and_say_their_status() -> None:
    records = sorted((DOCS / "adr").glob("*.md"))
    assert [int(record.name[:4]) for record in records] == list(range(1, len(records) + 1))
    for record in records:
        text = record.read_text(encoding="utf-8")
        assert text.startswith(f"# {int(record.name[:4])}. ")
        assert all(f"\n{part}" in text for part in ("Status: ", "## Context", "## Decision", "## Consequences"))


# -- the code's shape


def test_every_source_file_is_of_one_subject_and_says_which() -> None:
    complaints = []
    for path in SOURCES:
        text = path.read_text(encoding="utf-8")
        if len(text.splitlines()) > MAX_LINES:
            complaints.append(f"{path.relative_to(ROOT)}: more than {MAX_LINES} lines")
        if DOCSTRING.match(text) and FUTURE in text:
            continue  # as nearly all have it; to parse them takes seconds
        tree = ast.parse(text)
        if tree.body and not ast.get_docstring(tree):
            complaints.append(f"{path.relative_to(ROOT)}: no module docstring")
        speaks = any(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) for node in ast.walk(tree))
        if speaks and FUTURE not in text:
            complaints.append(f"{path.relative_to(ROOT)}: no future annotations")
    assert complaints == []


def test_no_module_has_a_name_that_says_nothing() -> None:
    empty_words = {"utils", "util", "helpers", "helper", "common", "manager", "misc", "base"}
    assert [path for path in SOURCES if path.stem in empty_words] == []


def test_only_one_module_imports_a_json_engine() -> None:
    engines = {"json", "msgspec.json", "orjson", "ujson", "simplejson"}
    users = [path for path in SOURCES if imports(path) & engines and not path.match("wire/json.py")]
    assert users == []


def imports(path: Path) -> set[str]:
    """What a module that speaks of JSON at all imports."""
    found: set[str] = set()
    text = path.read_text(encoding="utf-8")
    if "json" not in text:
        return found  # the name of each engine has that in it
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found.add(f"{node.value.id}.{node.attr}")
    return found


EVERYTHING = re.compile(r"except\s*:|\b(?:Base)?Exception\b")
"""Nothing of which this is not a part is seen by `catches_all`."""


def test_nothing_catches_everything_but_the_places_that_must_answer() -> None:
    package = ROOT / "src" / "rivermouth"
    found = {
        f"{path.relative_to(package).as_posix()} {where}"
        for path in SOURCES
        if EVERYTHING.search(text := path.read_text(encoding="utf-8"))
        for where in catches_all(ast.parse(text))
    }
    assert found == MAY_CATCH_ALL


def catches_all(node: ast.AST, where: str = "") -> Iterator[str]:
    """The functions in which everything is caught, or suppressed; to clean up and raise again is not to catch."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield from catches_all(child, f"{where}.{name}".lstrip("."))
                continue
            case ast.ExceptHandler(type=None, body=body):
                if not raises_again(body):
                    yield where
            case ast.ExceptHandler(type=ast.expr() as kinds, body=body):
                if is_everything(kinds) and not raises_again(body):
                    yield where
            case ast.Call(func=function, args=kinds) if ast.unparse(function).endswith("suppress"):
                if any(map(is_everything, kinds)):
                    yield where
        yield from catches_all(child, where)


def is_everything(kinds: ast.expr) -> bool:
    return any(isinstance(n, ast.Name) and n.id in ("Exception", "BaseException") for n in ast.walk(kinds))


def raises_again(body: list[ast.stmt]) -> bool:
    return isinstance(body[-1], ast.Raise) and body[-1].exc is None


@pytest.mark.parametrize(
    ("code", "caught"),
    [
        ("try: f()\nexcept Exception: pass", True),
        ("try: f()\nexcept (OSError, Exception) as error: log(error)", True),
        ("try: f()\nexcept: pass", True),
        ("with contextlib.suppress(Exception): f()", True),
        ("try: f()\nexcept BaseException:\n    g()\n    raise", False),
        ("try: f()\nexcept OSError: pass", False),
    ],
)
def test_what_catches_everything_is_seen(code: str, caught: bool) -> None:
    assert not caught or EVERYTHING.search(code)
    assert bool(list(catches_all(ast.parse(code)))) is caught


# -- the ledger of promises


def test_the_promises_are_numbered_from_1_to_175_and_the_faults_from_1_to_37() -> None:
    assert read_lines(DOCS / "promises.md") == [str(n) for n in range(1, 176)]
    assert read_lines(DOCS / "faults.md") == [f"F{n}" for n in range(1, 38)]
    rulings = re.findall(r"^\| (R\d+) \|", (DOCS / "promises.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert rulings == [f"R{n}" for n in range(1, 31)]


def test_open_lines_exist_and_are_listed_once() -> None:
    groups = tomllib.loads((DOCS / "open.toml").read_text(encoding="utf-8"))["open"]
    listed = Counter(line for group in groups for line in expand(group["lines"]))
    known = {*read_lines(DOCS / "promises.md"), *read_lines(DOCS / "faults.md")}
    assert [line for line, times in listed.items() if times > 1 or line not in known] == []
    assert all(group["issue"] and group["reason"] for group in groups)
    assert set(listed) == set(read_open(DOCS / "open.toml"))


def test_a_line_without_a_passing_test_is_missing_unless_it_is_open() -> None:
    verdict = judge(["1", "2", "3", "F1"], still_open={"3": "later"}, covered={"1"})
    assert verdict.missing == ["2", "F1"]
    assert verdict.open == ["3"]
    assert verdict.delivered == []


def test_an_open_line_with_a_passing_test_is_no_longer_open() -> None:
    verdict = judge(["1", "2"], still_open={"2": "later"}, covered={"1", "2"})
    assert verdict.delivered == ["2"]
    assert (verdict.missing, verdict.open) == ([], [])


def test_runs_of_lines_are_written_as_ranges() -> None:
    assert spans(["1", "2", "3", "7", "F1", "F2"]) == "1-3 7 F1 F2"
    assert expand(["1-3", "7", "F1"]) == ["1", "2", "3", "7", "F1"]

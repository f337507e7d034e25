"""The documentation says what the code says."""

from __future__ import annotations

import ast
import re
import shlex
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import pytest
import typer
from docs.generate import ENVIRONMENT, HEADERS, PAGE, generate, inner_table, meanings, walk

from rivermouth.cli.app import app
from rivermouth.cli.term import Exit
from rivermouth.config import PRESETS, parse
from rivermouth.config.schema import ConfigFile, Table
from rivermouth.dialects import discover
from rivermouth.engine.deadlines import WORDS
from rivermouth.http.envelope import CODES
from rivermouth.http.headers import EXPOSED, ID_NAMES
from rivermouth.ir.allowance import Allowance, Quota
from rivermouth.ir.errors import Kind
from rivermouth.local.machine.router import HEADERS as DEVICE_HEADERS
from rivermouth.local.sources import pip
from rivermouth.local.sources.transfer import REFUSALS
from rivermouth.observe import Metrics
from rivermouth.providers.quirks import QUIRKS
from rivermouth.providers.scripted import PERSONAS
from tests.promises import DOCS, ROOT

PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
BY_HAND = [page for page in PAGES if page != PAGE]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
REFERENCE = PAGE.read_text(encoding="utf-8")
TROUBLE = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")


def trees(speaking_of: str, paths: Iterable[Path] = SOURCES) -> Iterator[tuple[Path, ast.Module]]:
    """The source files in which this pattern is found, parsed.  To parse all of them takes seconds, and to keep them a
    part of a gigabyte."""
    for path in paths:
        text = path.read_text(encoding="utf-8")
        if re.search(speaking_of, text):
            yield path, ast.parse(text)


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def blocks(language: str) -> list[Any]:
    """Every fenced block of that language in the pages, one test parameter for each."""
    found = []
    for page in PAGES:
        texts = fenced(page.read_text(encoding="utf-8"), language)
        found += [pytest.param(text, id=f"{name_of(page)}-{number}") for number, text in enumerate(texts, 1)]
    return found


def fenced(text: str, language: str) -> list[str]:
    """What stands in the fenced blocks of that language."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [inside for word, inside in blocks if word == language]


def to_come() -> set[str]:
    """What the documents may name although it does not exist yet."""
    groups = tomllib.loads((DOCS / "open.toml").read_text(encoding="utf-8"))["open"]
    return {name for group in groups for name in group.get("brings", ())}


# -- the reference


def test_the_reference_is_what_the_code_generates() -> None:
    assert generate() == REFERENCE, "run `make docs`"


def test_the_reference_names_every_dialect_error_kind_setting_command_and_metric() -> None:
    wanted = {f"| [{name}](dialects/{name}.md) |" for name in discover()}
    wanted |= {f"| `{kind.value}` |" for kind in Kind}
    wanted |= {f"| `{path.rpartition('.')[2]}` |" for path in setting_paths(ConfigFile)}
    wanted |= {f"### `{words}`" for words, _ in walk(typer.main.get_command(app), "rivermouth")}
    wanted |= {f"| {code.value} |" for code in Exit}
    wanted |= {f"| `{word}` |" for word in (*QUIRKS, *PERSONAS)}
    wanted |= {f"`{name}`" for preset in PRESETS.values() for name in (*preset.keys, preset.address) if name}
    wanted |= {f"| `{name}` |" for name in re.findall(r"^# HELP (\S+)", Metrics().render().decode(), re.MULTILINE)}
    wanted -= {each for each in wanted if each.startswith(("| `process_", "| `python_"))}  # not ours
    assert {each for each in wanted if each not in REFERENCE and "_created`" not in each} == set()


def tables(table: type[Table]) -> Iterator[type[Table]]:
    """This table of the file and every one inside it."""
    yield table
    for field in msgspec.structs.fields(table):
        found = inner_table(field.type)
        if found:
            yield from tables(found[0])


def setting_paths(table: type[Table], path: str = "") -> Iterator[str]:
    """Every key of the file with its tables: "server.port", "models.NAME.endpoints"."""
    for field in msgspec.structs.fields(table):
        found = inner_table(field.type)
        here = path + field.encode_name
        if found:
            yield from setting_paths(found[0], f"{here}.NAME." if found[1] else f"{here}.")
        else:
            yield here


@pytest.mark.parametrize("table", list(tables(ConfigFile)), ids=lambda table: table.__name__)
def test_every_setting_has_a_sentence_that_says_what_it_means(table: type[Table]) -> None:
    says = meanings(table)
    plain = [field.name for field in msgspec.structs.fields(table) if not inner_table(field.type)]
    assert [name for name in plain if not re.search(r"\w.*\.$", says.get(name, ""))] == []


def test_every_variable_that_the_code_reads_is_listed() -> None:
    listed = {name for names in ENVIRONMENT for name in names.split(", ")}
    trees_of_readers = trees("environ|envvar|ENVIRONMENT")  # every way of reading that `variables` knows
    read = {name for _, tree in trees_of_readers for node in ast.walk(tree) for name in variables(node)}
    assert {"RIVERMOUTH_DATA", "RIVERMOUTH_API_KEY", "NO_COLOR", "TERM"} <= read  # all ways of reading are seen
    assert read - listed == set()


def variables(node: ast.AST) -> Iterator[str]:
    """The names of environment variables that this node reads."""
    match node:
        case ast.Call(func=ast.Attribute(value=where, attr="get"), args=[ast.Constant(value=str(name)), *_]):
            if is_environment(where):
                yield name
        case ast.Subscript(value=where, slice=ast.Constant(value=str(name)), ctx=ast.Load()):
            if is_environment(where):
                yield name
        case ast.Compare(left=ast.Constant(value=str(name)), comparators=[where]) if is_environment(where):
            yield name
        case ast.keyword(arg="envvar", value=ast.Constant(value=str(name))):
            yield name
        case ast.AnnAssign(target=ast.Name(id="ENVIRONMENT"), value=ast.Constant(value=str(name))):
            yield name


def is_environment(node: ast.AST) -> bool:
    return isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node) in ("os.environ", "environ")


def test_the_headers_that_are_listed_are_those_that_are_sent() -> None:
    sent = {name.decode() for name in ID_NAMES} | set(DEVICE_HEADERS)
    inside = [path for path in SOURCES if "/http/" in path.as_posix()]
    outside = [path for path in SOURCES if path not in inside]
    for path, tree in chain(trees("", inside), trees(r"\bFailure\b", outside)):
        http = path in inside
        for node in ast.walk(tree):
            match node:
                case ast.Tuple(elts=[ast.Constant(value=bytes(name)), _]) if http:
                    sent.add(name.decode())
                case ast.Call(func=ast.Name(id="Failure"), keywords=words):
                    for word in words:
                        if word.arg == "headers" and isinstance(word.value, ast.Dict):
                            sent |= {str(ast.literal_eval(key)) for key in word.value.keys if key is not None}
    sent |= {name for dialect in discover().values() for s in dialect.surfaces for name, _ in s.stream_headers}
    limited = Allowance(Quota(1, 1, 1.0), Quota(1, 1, 1.0))
    sent |= {name for d in discover().values() if d.limit_headers is not None for name in d.limit_headers(limited, 1)}
    assert sent == set(HEADERS)
    assert set(EXPOSED.decode().split(", ")) <= set(HEADERS)


# -- examples


@pytest.mark.parametrize("text", blocks("toml"))
def test_an_example_of_a_configuration_is_one(text: str) -> None:
    secrets = dict.fromkeys(re.findall(r'"env:(\w+)"', text), "a secret")
    environment = {"OPENAI_API_KEY": "a key", "OLLAMA_HOST": "127.0.0.1:11434", **secrets}
    said, nothing = (parse(each, "example.toml", environment, frozenset(discover())) for each in (text, ""))
    assert said != nothing


def test_the_example_of_a_bot_is_what_its_configuration_loads() -> None:
    page = (DOCS / "configuration.md").read_text(encoding="utf-8")
    (code,) = fenced(page, "python")
    assert 'python = "bot:stream"' in page
    bot: dict[str, Any] = {}
    exec(code, bot)
    assert "".join(bot["stream"]([{"role": "user", "content": "hello"}])) == "You said: hello"


def command_lines() -> list[Any]:
    """Every line in the pages that begins with `rivermouth` and a verb; "a | b" offers words to choose from."""
    found = []
    for page in BY_HAND:
        text = page.read_text(encoding="utf-8")
        shown = "\n".join([*fenced(text, ""), *fenced(text, "sh")])
        lines = re.findall(r"\brivermouth (?=[a-z]).*?(?=\s{2,}|$)", shown, re.MULTILINE)
        lines += re.findall(r"`(?:\w+=\.\.\. )?(rivermouth [a-z][^`]*)`", text)
        here = [line for line in dict.fromkeys(lines) if line not in to_come()]
        found += [pytest.param(line, id=f"{name_of(page)}: {line}") for line in here]
    return found


@pytest.mark.parametrize("line", command_lines())
def test_a_command_that_a_page_shows_can_be_given(line: str) -> None:
    offered = line.partition(" | ")[0]
    others = [f"rivermouth {word}" for word in re.findall(r" \| (\w+)", line)]
    for one in (offered.replace("[", "").replace("]", ""), *others):
        can_be_given(shlex.split(one)[1:])


@cache
def whole_command() -> Any:
    return typer.main.get_command(app)


def can_be_given(words: list[str]) -> None:
    """Raises for an unknown command or option; a missing argument may be left to the reader."""
    command: Any = whole_command()
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        name, *words = words
        assert name in command.commands, f"{name} is no command"
        command = command.commands[name]
    command.make_parser(command.context_class(command)).parse_args(list(words))


@pytest.mark.parametrize("line", ["bogus", "serve --alsoo 127.0.0.1:1", "calls bogus"])
def test_a_command_that_there_is_not_is_seen(line: str) -> None:
    with pytest.raises(Exception, match=r"bogus is no command|--alsoo"):
        can_be_given(line.split())


# -- troubles


def table_rows(text: str) -> list[list[str]]:
    """The cells of every table row whose first cell is code."""
    return [
        [cell.strip() for cell in line.strip("|").split("|")] for line in re.findall(r"^\| `.*$", text, re.MULTILINE)
    ]


def test_every_kind_of_error_is_explained_once() -> None:
    rows = table_rows(TROUBLE.partition("## What a code adds")[0])
    assert [row[0].strip("`") for row in rows] == [kind.value for kind in Kind]
    assert all(happened and todo for _, happened, todo in rows)


def test_every_code_of_ours_is_explained_with_its_kind() -> None:
    rows = table_rows(TROUBLE.partition("## What a code adds")[2])
    explained = [row[0].strip("`") for row in rows]
    assert len(set(explained)) == len(explained)
    assert {row[1].strip("`") for row in rows} <= set(Kind)
    # In a dialect a code is the vendor's own word.
    theirs = ("/dialects/", "/vendors/")
    mine = [path for path in SOURCES if not any(part in path.as_posix() for part in theirs)]
    heads = (node for _, tree in trees(r"\bcode\b", mine) for node in ast.walk(tree))
    takers = {taker.name: place for taker in heads for place in places_of_codes(taker)}
    callers = (node for _, tree in trees(rf"\b(?:code|{'|'.join(takers)})\b", mine) for node in ast.walk(tree))
    ours = {code for node in callers if isinstance(node, ast.Call) for code in codes(node, takers)}
    ours |= {f"{clock}_timeout" for clock in WORDS} | {code for _, _, code, _ in pip.FAILURES} | set(CODES.values())
    ours |= {code for _, code, _ in REFUSALS.values()}
    assert ours == set(explained)


def places_of_codes(node: ast.AST) -> Iterator[int]:
    """At which place a function, or a struct, takes a `code`."""
    match node:
        case ast.FunctionDef(args=ast.arguments(args=parameters)):
            names = [parameter.arg for parameter in parameters if parameter.arg != "self"]
        case ast.ClassDef(body=body):
            names = [field.target.id for field in body if isinstance(field, ast.AnnAssign)]
        case _:
            names = []
    if "code" in names:
        yield names.index("code")


def codes(call: ast.Call, takers: dict[str, int]) -> Iterator[str]:
    """The codes that this call gives an error."""
    given = [word.value for word in call.keywords if word.arg == "code"]
    place = takers.get(ast.unparse(call.func).rpartition(".")[2], len(call.args))
    for value in (*given, *call.args[place : place + 1]):
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield value.value


# -- names


@pytest.mark.parametrize("page", BY_HAND, ids=name_of)
def test_modules_and_files_that_a_page_names_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    files = set(re.findall(r"`((?:src|tests|docs|benchmarks|requirements)/[\w./-]*\w)`", text))
    missing = {name for name in files if not (ROOT / name).exists() and "NAME" not in name}
    modules = set(re.findall(r"`(rivermouth(?:\.\w+)+)`", text)) - {"rivermouth.toml"}
    missing |= {name for name in modules if not importable(name)}
    assert missing - to_come() == set()


def importable(name: str) -> bool:
    """True for a module, and for what a module holds."""
    module, _, attribute = name.rpartition(".")
    try:
        return find_spec(name) is not None or hasattr(import_module(module), attribute)
    except ModuleNotFoundError:
        return (
            bool(module) and module != "rivermouth" and importable(module) and hasattr(import_module(module), attribute)
        )


@pytest.mark.parametrize("page", BY_HAND, ids=name_of)
def test_settings_that_a_page_names_exist(page: Path) -> None:
    tops = {name.partition(".")[0] for name in (*setting_paths(ConfigFile), *to_come()) if "." in name} - {"rivermouth"}
    named = set(
        re.findall(rf"`((?:{'|'.join(sorted(tops))})\.[a-z_]+)(?: = [^`]*)?`", page.read_text(encoding="utf-8"))
    )
    named.discard("http.disconnect")  # a message of ASGI
    assert named - set(setting_paths(ConfigFile)) - to_come() == set()


def test_every_page_is_in_the_index() -> None:
    listed = set(re.findall(r"\]\(([\w.-]+)\)", (DOCS / "index.md").read_text(encoding="utf-8")))
    assert {page.name for page in DOCS.glob("*.md")} - {"index.md"} <= listed


def test_what_is_to_come_is_not_here_yet() -> None:
    come = to_come()
    assert come & set(setting_paths(ConfigFile)) == set()
    assert [name for name in come if name.startswith("rivermouth.") and importable(name)] == []
    for command in (name for name in come if name.startswith("rivermouth ")):
        with pytest.raises(Exception, match=r"is no command|No such option"):
            can_be_given(command.split()[1:])


def test_the_index_leads_to_every_page() -> None:
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    inside = {"adr", "dialects"}  # each has its own index, or none but its numbers
    pages = {page.name for page in DOCS.glob("*.md")} | inside
    assert {link.split("/")[0] for link in re.findall(r"\]\(([\w/.-]+)\)", index) if not link.startswith("..")} >= (
        pages - {"index.md"}
    )


LARGE = 15
"""From so many modules on, a package says what each is for: whoever opens it has to begin somewhere."""


def test_a_large_package_says_what_its_modules_are_for_and_names_no_other() -> None:
    faults = []
    for path in (path for path in SOURCES if path.name == "__init__.py" and path.parent.name != "rivermouth"):
        here = {p.stem for p in path.parent.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()}
        text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        unnamed = {name for name in here - {"__init__"} if not re.search(rf"\b{name}\b", text)}
        if len(here) > LARGE and unnamed:
            faults.append(f"{name_of(path)} does not say what {', '.join(sorted(unnamed))} is for")
        rows = re.findall(r"^ *((?:\w+, )*\w+)  +[^\s:]", text, re.MULTILINE)
        named = {name for row in rows for name in re.findall(r"\w+", row) if not re.fullmatch(r"O\d+", name)}
        if named & here and named - here:
            faults.append(f"{name_of(path)} names {', '.join(sorted(named - here))}, which is not there")
    assert faults == []


def test_the_layers_of_the_architecture_are_the_packages_in_the_order_that_is_checked() -> None:
    rows = re.findall(r"^\| (`.*?`) \|", (DOCS / "architecture.md").read_text(encoding="utf-8"), re.MULTILINE)
    drawn = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    package = ROOT / "src" / "rivermouth"
    here = {path.stem for path in package.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert set(drawn) == here - {"__init__", "__main__"}
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    checked = [name for layer in contracts[0]["layers"] for name in re.findall(r"\w+", layer)]
    assert drawn == [name for name in checked if name in drawn]

"""The documentation says what the code says."""

from __future__ import annotations

import re

import msgspec
import pytest
import typer
from docs.generate import PAGE, generate, inner_table, walk

from rivermouth.cli.app import app
from rivermouth.config.schema import ConfigFile, Table
from rivermouth.dialects import discover
from rivermouth.ir.errors import Kind
from rivermouth.observe import Metrics
from tests.promises import ROOT


def test_the_reference_is_what_the_code_generates() -> None:
    assert PAGE.read_text(encoding="utf-8") == generate(), "run `make docs`"


def test_the_reference_names_every_dialect_route_error_kind_setting_command_and_metric() -> None:
    page = PAGE.read_text(encoding="utf-8")
    wanted = {f"### {name}" for name in discover()}
    wanted |= {f"`{route.method} {route.path}`" for dialect in discover().values() for route in dialect.routes}
    wanted |= {f"| `{kind.value}` |" for kind in Kind}
    wanted |= {f"`{name}`" for name in setting_names(ConfigFile)}
    wanted |= {f"### `{words}`" for words, _ in walk(typer.main.get_command(app), "rivermouth")}
    wanted |= {f"| `{name}` |" for name in re.findall(r"^# HELP (\S+)", Metrics().render().decode(), re.MULTILINE)}
    wanted -= {each for each in wanted if each.startswith(("| `process_", "| `python_"))}  # not ours
    assert {each for each in wanted if each not in page and "_created`" not in each} == set()


def setting_names(table: type[Table]) -> set[str]:
    """Every key that some table of the file may have."""
    names: set[str] = set()
    for field in msgspec.structs.fields(table):
        found = inner_table(field.type)
        names |= setting_names(found[0]) if found else {field.encode_name}
    return names


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "docs/architecture.md", "SECURITY.md"])
def test_modules_and_files_that_a_page_names_exist(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:src|tests|docs|benchmarks|requirements)/[\w./-]*\w)`", text))
    assert {name for name in named if not (ROOT / name).exists() and "NAME" not in name} == set()

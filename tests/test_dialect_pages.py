"""The pages of the dialects: their tables are the code's, and their examples are run against a server."""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import huggingface_hub
import pytest
from docs.dialect_pages import BLOCK, BLOCKS, LOSSES, OPTIONS, generate_page, generate_pages, page_of

from rivermouth.dialects import discover
from rivermouth.dialects.dialect import ALWAYS
from tests.promises import DOCS, ROOT
from tests.running import START_S, Running, running
from tests.test_docs import fenced

NAMES: Final = sorted(discover())
MODEL: Final = "smollm2:135m"
BASE: Final = "http://127.0.0.1:8080"
ECHO: Final = "You said"
names = pytest.mark.parametrize("name", NAMES)


def text_of(name: str) -> str:
    return page_of(discover()[name]).read_text(encoding="utf-8")


@names
def test_the_tables_are_what_the_code_generates(name: str) -> None:
    assert generate_page(discover()[name]) == text_of(name), "run `make docs`"


@names
def test_a_page_has_every_table_once_and_names_every_route(name: str) -> None:
    text = text_of(name)
    assert sorted(block for _, block, _ in BLOCK.findall(text)) == sorted(BLOCKS)
    wanted = {f"`{route.method} {route.path}`" for route in discover()[name].routes}
    wanted |= {f"| `{loss}` |" for loss in discover()[name].losses}
    wanted |= {f"| `{surface.prefix}` |" for surface in discover()[name].surfaces}
    assert {each for each in wanted if each not in text} == set()


def test_every_dialect_has_a_page_and_every_page_is_linked() -> None:
    pages = {page.name for page in (DOCS / "dialects").glob("*.md")} - {"index.md"}
    assert pages == {path.name for path in generate_pages()}
    for index in (DOCS / "dialects" / "index.md", ROOT / "README.md"):
        linked = set(re.findall(r"\]\((?:docs/dialects/)?(\w+\.md)\)", index.read_text(encoding="utf-8")))
        assert pages - linked == set(), index
    assert "dialects/index.md" in (DOCS / "index.md").read_text(encoding="utf-8")


def test_what_is_explained_exists() -> None:
    assert set(LOSSES) == {loss for dialect in discover().values() for loss in dialect.losses}
    used = {option for dialect in discover().values() for s in dialect.surfaces for option in s.options}
    assert used <= set(OPTIONS)
    assert ALWAYS in OPTIONS


@names
def test_every_address_of_this_server_is_one_that_it_serves(name: str) -> None:
    """A base is where an SDK begins: routes of the page's own dialect are below it."""
    dialect = discover()[name]
    served = [surface.prefix + route.path for surface in dialect.surfaces for route in dialect.routes]
    bases = re.findall(rf"{BASE}(/[\w/]*)?", text_of(name))
    assert bases
    assert [base for base in bases if not any(path.startswith(f"{base}/") for path in served)] == []


# -- the examples


def examples() -> list[Any]:
    found = []
    for page in (*generate_pages(), ROOT / "README.md"):
        codes = fenced(page.read_text(encoding="utf-8"), "python")
        found += [pytest.param(code, id=f"{page.stem}-{number}") for number, code in enumerate(codes, 1)]
    return found


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    config = '[server]\ndefault_model = "scripted"\n'
    with running(tmp_path_factory.mktemp("examples"), config) as server:
        yield server


@pytest.fixture(autouse=True, scope="module")
def quiet() -> Iterator[None]:
    """No SDK asks its vendor anything, and none keeps its connections."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_TELEMETRY", True)
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        yield
    huggingface_hub.close_session()


@pytest.mark.timeout(START_S + 40)
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # an example leaves its client to the interpreter's end
@pytest.mark.parametrize("code", examples())
def test_an_example_prints_the_answer(
    server: Running, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: str
) -> None:
    assert BASE in code
    monkeypatch.chdir(tmp_path)
    exec(compile(code.replace(BASE, server.url).replace(MODEL, "scripted"), "example", "exec"), {})
    gc.collect()
    assert ECHO in capsys.readouterr().out

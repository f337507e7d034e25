"""F33: no generator of ours yields while it is being closed, and whoever takes one closes it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.promises import ROOT

pytestmark = pytest.mark.fault("F33")

SOURCES = sorted((ROOT / "src").rglob("*.py"))
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def within(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes below, without those of functions that are defined there."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, FUNCTIONS):
            yield child
            yield from within(child)


def yields_at_the_end(source: str) -> list[int]:
    """Lines with a `yield` in a `finally`, or in an `except` that also catches the closing of its generator."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Try):
            continue
        parts = list(node.finalbody)
        for handler in node.handlers:
            caught = ast.unparse(handler.type) if handler.type is not None else "BaseException"
            if "BaseException" in caught or "GeneratorExit" in caught:
                parts += handler.body
        found += [
            inner.lineno
            for part in parts
            if not isinstance(part, FUNCTIONS)
            for inner in (part, *within(part))
            if isinstance(inner, ast.Yield | ast.YieldFrom)
        ]
    return found


def test_nothing_is_yielded_while_a_generator_closes() -> None:
    found = {path.relative_to(ROOT): yields_at_the_end(path.read_text(encoding="utf-8")) for path in SOURCES}
    assert len(found) > 100
    assert {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("def f():\n try:\n  yield 1\n finally:\n  yield 2", [5]),
        ("async def f():\n try:\n  pass\n finally:\n  if x:\n   yield 2", [6]),
        ("def f():\n try:\n  yield 1\n except BaseException:\n  yield 2", [5]),
        ("def f():\n try:\n  yield 1\n except:\n  yield from g()", [5]),
        ("def f():\n try:\n  yield 1\n except ValueError:\n  yield 2", []),
        ("def f():\n try:\n  pass\n finally:\n  def g():\n   yield 2", []),
    ],
)
def test_the_search_sees_what_it_forbids(source: str, lines: list[int]) -> None:
    assert yields_at_the_end(source) == lines

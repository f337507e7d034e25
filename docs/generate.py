"""Writes docs/reference.md from the code: `python -m docs.generate`.  A test compares, so the page cannot drift."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec
import typer

from rivermouth.cli.app import app
from rivermouth.config.presets import PRESETS
from rivermouth.config.schema import ConfigFile, Table
from rivermouth.dialects import discover
from rivermouth.dialects.dialect import Dialect, Key
from rivermouth.ir.errors import ADVICE
from rivermouth.ir.grammar import DELTAS, STREAM
from rivermouth.observe import Metrics
from rivermouth.secrets import Secret

PAGE = Path(__file__).parent / "reference.md"

HEAD = """# Reference

This page is written by `make docs` from the code.
"""


def rows(titles: Iterable[str], cells: Iterable[Iterable[object]]) -> list[str]:
    """A Markdown table."""
    titles = list(titles)
    lines = ["| " + " | ".join(titles) + " |", "|---" * len(titles) + "|"]
    lines += [
        "| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in row) + " |" for row in cells
    ]
    return [*lines, ""]


def code(value: object) -> str:
    return f"`{value}`" if str(value) else ""


# -- dialects


def dialect_page(dialect: Dialect) -> list[str]:
    waiting = repr(dialect.keep_alive.decode("ascii"))[1:-1] if dialect.keep_alive else None
    lines = [f"### {dialect.name}", ""]
    lines += rows(
        ("Mounted at", "Media type of streams", "Options"),
        ((code(s.prefix or "/"), code(s.stream_type), ", ".join(sorted(s.options))) for s in dialect.surfaces),
    )
    lines += rows(
        ("Route", "What it does", "Streams"),
        (
            (
                code(f"{route.method} {route.path}") + (f" with `{route.when_header}`" if route.when_header else ""),
                route.operation.value,
                "yes" if route.streams else "",
            )
            for route in dialect.routes
        ),
    )
    lines.append("A client's key: " + ", ".join(map(key_place, dialect.keys)) + ".")
    lines.append(f"While waiting: {code(waiting)}." if waiting else "While waiting: nothing is sent.")
    losses = ", ".join(code(loss) for loss in sorted(dialect.losses))
    lines += [f"Cannot carry: {losses or 'nothing is lost'}.", ""]
    return lines


def key_place(key: Key) -> str:
    if key.query:
        return f"`?{key.query}=`"
    return code(f"{key.header}: {key.scheme} ...".replace(":  ", ": "))


# -- events and errors


def grammar_page() -> list[str]:
    lines = ["## The order of events", "", "A stream is one machine, and each of its parts another.", ""]
    lines += rows(
        ("State", "Event", "Next state"),
        ((before.value, code(event.__name__), after.value) for (before, event), after in STREAM.items()),
    )
    lines += rows(
        ("Part", "Its deltas"),
        (
            (kind.value, ", ".join(code(n) for n in sorted(d.__name__ for d in deltas)))
            for kind, deltas in DELTAS.items()
        ),
    )
    return lines


def errors_page() -> list[str]:
    lines = [
        "## Kinds of errors",
        "",
        "Each dialect has its own word for a kind; records, metrics and the CLI use these.",
        "",
    ]
    cells = ((code(kind.value), advice.status, "yes" if advice.retryable else "no") for kind, advice in ADVICE.items())
    return lines + rows(("Kind", "Status", "Can another try help?"), cells)


# -- settings


def type_name(of: Any) -> str:
    """How a setting's type is called on the page."""
    origin, arguments = get_origin(of), get_args(of)
    if origin is Annotated:
        return type_name(arguments[0])
    if origin is Literal:
        return " or ".join(f'`"{choice}"`' for choice in arguments)
    if origin in (tuple, list, frozenset):
        return f"list of {type_name(arguments[0])}"
    if origin is dict:
        return f"table of {type_name(arguments[1])}"
    if arguments:
        return " or ".join(type_name(each) for each in arguments if each is not NoneType)
    plain = {
        str: "text",
        int: "whole number",
        float: "number",
        bool: "true or false",
        Secret: "secret, as in `env:NAME`",
    }
    return plain.get(of, getattr(of, "__name__", str(of)).lower())


def default_of(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "required"
    value = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
    if value is None or value in ((), {}):
        return ""
    if isinstance(value, tuple | frozenset):
        return ", ".join(code(each) for each in value)
    words = {True: "true", False: "false"}
    return code(
        words[value]
        if isinstance(value, bool)
        else f'"{value}"'
        if isinstance(value, str)
        else str(int(value) if value == int(value) else value)
    )


def inner_table(of: Any) -> tuple[type[Table], bool] | None:
    """The struct behind a field, and whether it is a table of named ones."""
    if isinstance(of, type) and issubclass(of, Table):
        return of, False
    for each in get_args(of):
        found = inner_table(each)
        if found:
            return found[0], get_origin(of) is dict or found[1]
    return None


def settings_of(table: type[Table], path: str) -> list[str]:
    plain, inner = [], []
    for field in msgspec.structs.fields(table):
        found = inner_table(field.type)
        if found:
            inner.append((found[0], f"{path}.{field.encode_name}" + (".NAME" if found[1] else "")))
        else:
            plain.append((code(field.encode_name), type_name(field.type), default_of(field)))
    summary = " ".join((table.__doc__ or "").split())
    lines = [f"### `[{path.lstrip('.')}]`" if path else "### At the top of the file", "", summary, ""]
    lines += rows(("Key", "Value", "Default"), plain) if plain else []
    for inner_struct, inner_path in inner:
        lines += settings_of(inner_struct, inner_path)
    return lines


def settings_page() -> list[str]:
    lines = ["## Settings: `rivermouth.toml`", "", "A key that is not listed here is refused, with its line.", ""]
    lines += settings_of(ConfigFile, "")
    lines += ["### Presets", "", "Providers that need only a key. The first variable that is set switches one on.", ""]
    return lines + rows(
        ("Provider", "Dialect", "Address", "Variables"),
        (
            (
                code(name),
                preset.dialect,
                preset.base_url,
                ", ".join(code(v) for v in (*preset.keys, preset.address) if v),
            )
            for name, preset in PRESETS.items()
        ),
    )


# -- the command line and the metrics


def commands_page() -> list[str]:
    lines = ["## Command line", ""]
    for words, command in sorted(walk(typer.main.get_command(app), "rivermouth")):
        lines += [f"### `{words}`", "", " ".join((command.help or "").split()), ""]
        options = [each for each in command.params if "--help" not in each.opts]
        cells = (
            (
                code(", ".join(each.opts) if each.opts[0].startswith("-") else each.name.upper()),
                getattr(each, "help", ""),
            )
            for each in options
        )
        lines += rows(("Option or argument", "What it is"), cells) if options else []
    return lines


def option_name(option: Any) -> str:
    """`--config`, or `MODEL` for an argument."""
    return code(", ".join(option.opts) if option.opts[0].startswith("-") else option.name.upper())


def walk(command: Any, words: str) -> Iterator[tuple[str, Any]]:
    """Every command below this one that can be run, with the words that call it."""
    inner = getattr(command, "commands", None)
    if inner is None:
        yield words, command
        return
    for name, each in inner.items():
        if not each.hidden:
            yield from walk(each, f"{words} {name}")


def metrics_page() -> list[str]:
    text = Metrics(process=False).render().decode("utf-8")
    kinds = dict(re.findall(r"^# TYPE (\S+) (\w+)$", text, re.MULTILINE))
    helps = re.findall(r"^# HELP (\S+) (.*)$", text, re.MULTILINE)
    lines = ["## Metrics", "", "In the text format of Prometheus.", ""]
    cells = ((code(name), kinds[name], says) for name, says in helps if not name.endswith("_created"))
    return lines + rows(("Metric", "Kind", "What it counts"), cells)


def generate() -> str:
    """The whole page."""
    lines = [HEAD, "## Dialects", ""]
    for name in sorted(discover()):
        lines += dialect_page(discover()[name])
    lines += grammar_page() + errors_page() + settings_page() + commands_page() + metrics_page()
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(generate(), encoding="utf-8")
    sys.stdout.write(f"wrote {PAGE.name}\n")

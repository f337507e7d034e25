"""Which settings a running server takes over: all of them are in the table, and it is what happens."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from docs.generate import inner_table

from rivermouth.config import Config, ConfigError, parse
from rivermouth.config.live import APPLIES, Applies, adopted, applies, differences
from rivermouth.config.schema import ConfigFile, Table
from rivermouth.secrets import Secret
from tests.in_turn import in_turn
from tests.promises import DOCS

LAB = '[providers.lab]\ndialect = "openai_chat"\nbase_url = "http://127.0.0.1:9/v1"\n'


def settings(table: type[Table] = ConfigFile, path: str = "") -> Iterator[str]:
    """Every setting of the file; a table of named entries is one, because it is taken over whole."""
    for field in msgspec.structs.fields(table):
        found = inner_table(field.type)
        if found is not None and not found[1]:
            yield from settings(found[0], f"{path}{field.encode_name}.")
        else:
            yield path + field.encode_name


def made(text: str = "", **environ: str) -> Config:
    return parse(text, "rivermouth.toml", environ, frozenset({"openai_chat", "ollama"}))


def test_every_setting_is_in_the_table_and_nothing_else() -> None:
    assert sorted(settings()) == sorted(APPLIES)


def other(value: Any) -> Any:
    """A value of that kind which is another one."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return type(value)(value + 7)
    if isinstance(value, dict):
        return {**value, "one-more": None}
    if isinstance(value, tuple):
        return (*value, "one-more")
    return "other"


@in_turn("key", sorted(APPLIES))
def test_a_changed_setting_is_taken_over_or_waits_as_the_table_says(key: str) -> None:
    """And whichever it is, it is named."""
    running = made()
    table, _, field = key.partition(".")
    had = getattr(running, table)
    has = msgspec.structs.replace(had, **{field: other(getattr(had, field))}) if field else other(had)
    if key == "server.host":
        has = msgspec.structs.replace(has, allow_open=True)
        running = msgspec.structs.replace(running, server=msgspec.structs.replace(running.server, allow_open=True))
    new = adopted(running, msgspec.structs.replace(running, **{table: has}))
    named = [key] if field or table == "data_dir" else [f"{table}.one-more"]
    live = APPLIES[key] is Applies.LIVE
    assert (list(new.taken), list(new.waiting)) == ((named, []) if live else ([], named))
    assert getattr(new.config, table) == (has if live else getattr(running, table))


def test_what_changed_is_named_as_one_writes_it() -> None:
    before = made(LAB + '[models."a.b"]\nendpoints = ["lab/x"]\n[server]\nkeys = ["one-good-key"]\n')
    after = made(LAB.replace(":9", ":8") + '[server]\nkeys = ["two-good-key"]\n[timeouts]\nidle_s = 7\n')
    assert set(differences(before, after)) == {"providers.lab", 'models."a.b"', "server.keys", "timeouts.idle_s"}
    assert list(differences(before, before)) == []


def test_the_file_itself_is_no_setting() -> None:
    assert list(differences(made(), msgspec.structs.replace(made(), file="elsewhere.toml"))) == []


def test_a_named_entry_holds_as_its_table() -> None:
    assert applies("providers.lab") is Applies.LIVE
    assert applies('models."a.b"') is Applies.LIVE
    with pytest.raises(KeyError):
        applies("nonsense.x")


def test_a_server_that_others_reach_does_not_lose_its_keys() -> None:
    """The file would be fine at its next start: it is the host that is running which would be open."""
    server = msgspec.structs.replace(made().server, host="0.0.0.0", keys=(Secret("a-good-key"),))
    running = msgspec.structs.replace(made(), server=server)
    with pytest.raises(ConfigError, match="as it is until a restart"):
        adopted(running, made())
    assert adopted(running, made("[server]\nallow_open = true\n")).config.server.host == "0.0.0.0"


def test_the_page_names_exactly_what_waits() -> None:
    page = (DOCS / "operations.md").read_text(encoding="utf-8")
    table = page.partition("| Setting | Why |")[2].partition("\n\n")[0]
    named = [name for row in table.splitlines() for name in re.findall(r"`([\w.]+)`", row.split("|")[1] if row else "")]
    assert sorted(named) == sorted(key for key, holds in APPLIES.items() if holds is Applies.RESTART)

"""`calls`: the records as a table, as sums, one by one, and as JSON."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from rivermouth.cli.calls import account, how, price, tokens
from rivermouth.ir.errors import Kind
from rivermouth.store.port import CallText, Outcome, Said, Status
from rivermouth.store.sqlite import SqliteCallStore
from rivermouth.wire import json
from tests.cli.asking import Cli
from tests.databases import laid
from tests.store.records import attempt, ended, opened


@pytest.fixture
def recorded(data_dir: Path) -> Path:
    """Four calls: one completed, one cancelled, one failed, one that still runs."""
    done = ended(opened(1), first_token_ns=250_000_000, ended_ns=1_234_000_000)
    left = ended(
        opened(2), Status.CANCELLED, cancelled_by="client", output_tokens=3, estimated=True, at_least=True, attempts=()
    )
    failed = ended(
        opened(3, model_asked="\x1b[2Jevil"), Status.FAILED, kind=Kind.TIMEOUT, message="no first token in 60 s",
        model_used=None, input_tokens=None, output_tokens=None, price_nano=None, price_currency=None,
        attempts=(attempt(1, outcome=Outcome.FAILED, kind=Kind.TIMEOUT, output_tokens=None),),
    )  # fmt: skip
    store = SqliteCallStore.open(laid(data_dir / "rivermouth.db"))
    store.insert_open([opened(number) for number in (1, 2)])
    store.close([done, left, failed])
    store.insert_open([opened(4)])
    store.dispose()
    return data_dir


def test_the_newest_call_comes_first(cli: Cli, recorded: Path) -> None:
    ran = cli("calls")
    rows = ran.out.splitlines()
    assert ran.code == 0
    assert rows[0].split() == ["TIME", "MODEL", "STATUS", "IN", "OUT", "DURATION", "ID"]
    assert [row.split()[-1][-1] for row in rows[1:]] == ["4", "3", "2", "1"]
    assert "failed (timeout)" in rows[2]
    assert "cancelled (client)" in rows[3]
    assert "~3+" in rows[3]
    assert "1.23 s" in rows[4]
    assert rows[4].startswith(time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(1)))


def test_a_clients_model_name_cannot_steer_the_terminal(cli: Cli, recorded: Path) -> None:
    assert "\x1b" not in cli("calls").out
    assert "\x1b" not in cli("calls", "show", opened(3).id).out


@pytest.mark.parametrize(
    ("options", "numbers"),
    [
        (("--status", "failed"), [3]),
        (("--model", "gpt-x-2026"), [2, 1]),
        (("--limit", "2"), [4, 3]),
        (("--status", "interrupted"), []),
    ],
)
def test_calls_are_chosen(cli: Cli, recorded: Path, options: tuple[str, ...], numbers: list[int]) -> None:
    found = json.decode(cli("calls", *options, "--json").out.encode())
    assert [call["id"] for call in found] == [opened(number).id for number in numbers]


def test_what_is_over_is_purged(cli: Cli, recorded: Path) -> None:
    """The calls of 1970 are over by any time that can be asked for; the one that runs stays."""
    assert "no records, no texts and no answers deleted" in cli("calls", "purge").err
    Path("rivermouth.toml").write_text('[records]\nretention = "30d"\n', encoding="utf-8")
    ran = cli("calls", "purge", "--json")
    assert (ran.code, json.decode(ran.out.encode())) == (0, {"calls": 3, "texts": 0, "answers": 0})
    assert [call["status"] for call in json.decode(cli("calls", "--json").out.encode())] == ["open"]


def test_there_is_nothing_to_purge_before_the_first_start(cli: Cli, data_dir: Path) -> None:
    ran = cli("calls", "purge")
    assert (ran.code, "There are no records yet" in ran.err) == (0, True)
    assert not (data_dir / "rivermouth.db").exists()


def test_usage_sums_by_model_and_status(cli: Cli, recorded: Path) -> None:
    ran = cli("calls", "--usage")
    rows = [row.split() for row in ran.out.splitlines()]
    assert rows[0] == ["MODEL", "STATUS", "CALLS", "IN", "OUT", "CACHED", "REASONING", "COST"]
    assert ["lab/gpt-x-2026", "completed", "1", "11", "7", "0", "0", "9.75e-05", "EUR"] in rows
    assert ["lab/gpt-x-2026", "cancelled", "1", "11", "~3+", "0", "0", "9.75e-05", "EUR"] in rows
    assert "~ some of these were counted here" in ran.err
    sums = json.decode(cli("calls", "--usage", "--json").out.encode())
    assert {(row["model"], row["status"]): row["calls"] for row in sums} == {
        ("gpt-x", "open"): 1, ("lab/gpt-x-2026", "cancelled"): 1, ("lab/gpt-x-2026", "completed"): 1,
        ("\x1b[2Jevil", "failed"): 1,
    }  # fmt: skip


def test_one_call_is_told_whole(cli: Cli, recorded: Path) -> None:
    text = cli("calls", "show", opened(1).id).out
    for words in (
        "client's id  theirs-1", "generate of gpt-x by openai_chat at /v1, streamed", "status       completed",
        "11 in, 7 out", "9.75e-05 EUR", "ignored      seed", "decision     lab-eu: first in order",
        "attempt 1    lab/gpt-x-2026 (lab-eu): failed, overloaded, 503, busy", "attempt 2    lab/gpt-x-2026 (lab-eu)",
    ):  # fmt: skip
        assert words in text
    whole = json.decode(cli("calls", "show", opened(1).id, "--json").out.encode())
    assert [one["outcome"] for one in whole["attempts"]] == ["failed", "completed"]


def test_it_is_said_whether_a_calls_text_is_kept(cli: Cli, recorded: Path) -> None:
    secret = CallText(opened(1).id, 1, (Said("user", "what is a river"),), "water that goes")
    store = SqliteCallStore.open(recorded / "rivermouth.db")
    store.write((), (), (), (secret,))
    store.dispose()
    for number, line, kept in (
        (1, "text         21 characters in 7 pieces, kept\n", True),
        (2, "text         21 characters in 7 pieces, not kept\n", False),
        (4, "text         0 characters in 0 pieces\n", None),  # it runs: nobody knows yet
    ):
        told = cli("calls", "show", opened(number).id).out
        assert line in told
        whole = json.decode(cli("calls", "show", opened(number).id, "--json").out.encode())
        assert whole["text_kept"] is kept
        assert "river" not in told + str(whole)


def test_the_options_of_the_group_hold_for_show(cli: Cli, recorded: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    assert cli("calls", "--data-dir", recorded, "show", opened(1).id).code == 0
    assert cli("calls", "--data-dir", empty, "show", opened(1).id).code == 5
    assert cli("calls", "show", opened(1).id, "--data-dir", empty).code == 5


def test_what_is_not_known_is_not_zero() -> None:
    call = ended(opened(1), Status.FAILED, input_tokens=None, output_tokens=None, first_token_ns=None, kind=None)
    assert tokens(call) == "- in, - out"
    assert how(call) == "failed"
    assert price(None, "EUR") == ""
    assert not any(line.startswith("first token") for line in account(call))


def test_the_beginning_of_an_id_is_enough_when_only_one_has_it(cli: Cli, recorded: Path) -> None:
    store = SqliteCallStore.open(recorded / "rivermouth.db")
    store.insert_open([opened(5, id="req_other")])
    store.dispose()
    assert "req_other" in cli("calls", "show", "req_ot").out
    several = cli("calls", "show", "req_00000")
    assert (several.code, several.out) == (5, "")
    assert "several calls begin with 'req_00000'" in several.err
    assert cli("calls", "show", "").code == 5


def test_a_failed_call_was_answered_by_nobody(cli: Cli, recorded: Path) -> None:
    assert "answered by" in cli("calls", "show", opened(1).id).out
    failed = cli("calls", "show", opened(3).id).out
    assert "asked last" in failed
    assert "answered by" not in failed


def test_a_call_that_is_not_there(cli: Cli, recorded: Path) -> None:
    ran = cli("calls", "show", "nosuch")
    assert (ran.code, ran.out) == (5, "")
    assert "'nosuch'" in ran.err


def test_without_records_it_says_so(cli: Cli) -> None:
    ran = cli("calls")
    assert (ran.code, ran.out) == (0, "")
    assert "no server has run there" in ran.err
    assert cli("calls", "--json").out == "[]\n"
    assert cli("calls", "--usage", "--json").out == "[]\n"


def test_a_database_of_another_program_is_a_sentence(cli: Cli, data_dir: Path) -> None:
    (data_dir / "rivermouth.db").write_bytes(b"")
    ran = cli("calls")
    assert ran.code == 1
    assert "start the server once" in ran.err


@pytest.mark.parametrize("options", [("--status", "bad"), ("--usage", "--model", "x"), ("--limit", "0")])
def test_a_wrong_option_is_a_wrong_command_line(cli: Cli, recorded: Path, options: tuple[str, ...]) -> None:
    assert cli("calls", *options).code == 2

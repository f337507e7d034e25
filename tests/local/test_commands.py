"""Lines to commands in the engine process: any split, any size, and whose a broken one was."""

from __future__ import annotations

import os

import pytest

from rivermouth.local.inference.commands import HEAD_BYTES, CommandReader, Commands, Unreadable
from rivermouth.local.inference.process import line_of
from rivermouth.local.words.protocol import LINE_CAP_BYTES, Cancel, Generate, Load
from tests.every_way import every_way

ASK = Generate(id=7, prompt="é\u2028", context_tokens=8, stop=("a\nb",))
LOAD = Load(path="p", device="CPU", properties={}, max_active=1, context_tokens=8, end_tokens=(2,), prefix_cache=False)
CAP = 400


def padded(identity: int, size: int) -> bytes:
    """A generate command of exactly `size` bytes, without its LF."""
    empty = line_of(Generate(id=identity, prompt="", context_tokens=8))[:-1]
    return empty.replace(b'"prompt":""', b'"prompt":"' + b"-" * (size - len(empty)) + b'"')


@pytest.mark.fault("F2")
def test_commands_come_out_whatever_the_split() -> None:
    data = b"".join(map(line_of, (LOAD, ASK, Cancel(7)))) + b"\n" + line_of(Cancel(8)) + b'{"type":"cancel","id":9}'
    every_way(CommandReader, data, [LOAD, ASK, Cancel(7), Cancel(8)])


@pytest.mark.fault("F35")
def test_a_line_that_is_too_long_costs_itself_alone() -> None:
    fits, over = padded(3, CAP), padded(4, CAP + 1)
    whole = Generate(id=3, prompt="-" * fits.count(b"-"), context_tokens=8)
    every_way(
        lambda: CommandReader(CAP),
        b"\n".join([fits, over, fits, b""]),
        [whole, Unreadable(4, f"a line of {CAP + 1} bytes"), whole],
    )


@pytest.mark.fault("F35")
def test_of_a_line_without_an_end_the_head_is_kept_and_no_more() -> None:
    reader = CommandReader(CAP)
    assert reader.feed(padded(5, 10 * CAP)) == []
    for _ in range(10):
        assert reader.feed(b"x" * CAP) == []
        assert reader.statistics() == {"buffered_bytes": HEAD_BYTES, "cap_bytes": CAP}
    (broken,) = reader.feed(b"\n")
    assert isinstance(broken, Unreadable)
    assert broken.id == 5


@pytest.mark.parametrize(
    ("line", "identity"),
    [
        (b'{"type":"generate","id":6,"turns":' + b"[" * 5_000 + b"]" * 5_000 + b"}", 6),
        (b'{"type":"generate","id":6,"prompt":3}', 6),
        (b'{"type":"cancel","id":6,', 6),
        (b'{"type":"generate","prompt":"\\"id\\":6"}', None),
        (b'{"type":"nonsense"}', None),
        (b"\xff\xfe", None),
        (b"[]", None),
    ],
)
def test_whose_a_broken_line_was(line: bytes, identity: int | None) -> None:
    broken, after = CommandReader().feed(line + b"\n" + line_of(Cancel(1)))
    assert isinstance(broken, Unreadable)
    assert broken.id == identity
    assert after == Cancel(1)


def test_the_cap_is_the_server_s_own() -> None:
    assert CommandReader().statistics()["cap_bytes"] == LINE_CAP_BYTES


def test_what_is_there_is_taken_and_the_end_is_told() -> None:
    out, into = os.pipe()
    try:
        commands = Commands(out)
        assert commands.take(wait=False) == []
        os.write(into, line_of(Cancel(1)) + line_of(Cancel(2)))
        assert commands.take(wait=True) == [Cancel(1), Cancel(2)]
    finally:
        os.close(into)
    assert commands.take(wait=True) is None
    os.close(out)

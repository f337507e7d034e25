"""`replay`: recorded streams of every dialect, told again in every dialect; whose a stream is; how it ends."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.cli.replay import GUESS_BYTES, Understood, guess, lines, read, understood
from rivermouth.dialects import discover
from rivermouth.ir.events import Error, Finish, Start
from rivermouth.ir.fold import fold
from tests.cli.asking import COMMAND, Cli, environment
from tests.dialects.conformance import DIALECTS, carries, decoded, said
from tests.dialects.recordings import FAILED, RECORDINGS, dialect_of, events_of, meaning_of
from tests.in_turn import in_turn

STREAMED: Final = [p for p in RECORDINGS if p.suffix != FAILED]
recorded = in_turn("recording", STREAMED)
MADE_ID: Final = re.compile(rb"call_[0-9a-f]{24}")
"""Of a call whose own id the provider left out: made from the request, which a recording does not know."""
AMBIGUOUS: Final = {"tgi/chat_error"}
"""Nothing in what these say tells two dialects apart, and the two read them differently."""


def stream(name: str) -> Path:
    """openai_chat/text -> its recording."""
    return next(p for p in STREAMED if name_of(p) == name)


def name_of(recording: Path) -> str:
    return f"{recording.parent.parent.name}/{recording.stem}"


@recorded
def test_the_events_are_those_that_stand_beside_the_recording(recording: Path) -> None:
    batches = read(dialect_of(recording), [recording.read_bytes()])
    found = MADE_ID.sub(b"made", b"".join(map(lines, batches)))
    beside = MADE_ID.sub(b"made", meaning_of(recording).read_bytes())
    assert [json.loads(line) for line in found.splitlines()] == [json.loads(line) for line in beside.splitlines()]


@pytest.mark.parametrize("name", ["openai_chat/text", "bedrock_invoke/text", "ollama/cut"])
def test_events_are_written_one_on_each_line(cli: Cli, name: str) -> None:
    ran = cli("replay", stream(name), "--events")
    beside = meaning_of(stream(name)).read_text(encoding="ascii")
    assert [json.loads(line) for line in ran.out.splitlines()] == [json.loads(line) for line in beside.splitlines()]
    assert ran.code == (1 if "cut" in name else 0)


@pytest.mark.parametrize("to", DIALECTS)
@pytest.mark.parametrize("name", ["openai_chat/parallel_tools", "anthropic/unicode", "ollama/chat_text"])
def test_a_client_of_any_dialect_reads_what_was_said(cli: Cli, name: str, to: str) -> None:
    recording = stream(name)
    ran = cli("replay", recording, "--to", to)
    back, events, can = decoded(discover()[to], ran.bytes_out), events_of(recording), carries(to)
    assert (ran.code, ran.err) == (0, "")
    assert isinstance(back[-1], Finish)
    assert fold(back).choices[0].text == fold(events).choices[0].text
    assert len(said(back, can)[0].parts) == len(said(events, can)[0].parts)


@pytest.mark.parametrize("to", DIALECTS)
@pytest.mark.fault("F10", "F11")
@pytest.mark.parametrize(("name", "kind"), [("anthropic/error", "overloaded"), ("ollama/cut", "truncated")])
def test_a_bad_end_is_told_to_the_client_and_to_the_caller(cli: Cli, name: str, kind: str, to: str) -> None:
    ran = cli("replay", stream(name), "--to", to)
    assert ran.code == 1
    assert f"ended badly ({kind})" in ran.err
    assert isinstance(decoded(discover()[to], ran.bytes_out)[-1], Error)


def test_the_client_gets_the_name_and_the_time_of_the_recording(cli: Cli) -> None:
    told = list(map(json.loads, cli("replay", stream("openai_chat/text"), "--to", "ollama").out.splitlines()))
    assert {line["model"] for line in told} == {"up-model"}
    assert {line["created_at"][:19] for line in told} == {"2025-11-29T07:06:40"}
    named = cli("replay", stream("openai_chat/text"), "--to", "ollama", "--model", "mine").out
    assert {json.loads(line)["model"] for line in named.splitlines()} == {"mine"}


@pytest.mark.parametrize("created", [-(10**12), 10**12, 2**63, 10**30])
@pytest.mark.parametrize("to", DIALECTS)
def test_a_time_without_a_date_is_that_of_the_file(cli: Cli, tmp_path: Path, to: str, created: int) -> None:
    file = tmp_path / "recorded"
    file.write_text(stream("openai_chat/text").read_text().replace("1764400000", str(created)))
    assert str(created) in file.read_text()
    ran = cli("replay", file, "--to", to)
    assert (ran.code, ran.err) == (0, "")
    assert str(created) not in ran.out


@pytest.mark.parametrize("to", ["cohere_v1", "cohere_v2"])
def test_what_the_clients_protocol_cannot_say_is_a_bad_end_in_it(cli: Cli, tmp_path: Path, to: str) -> None:
    """An answer too long to be repeated: Cohere's older protocol says it twice."""
    said_first, *_, ending = stream("ollama/chat_text").read_text().splitlines()
    piece = json.loads(said_first)
    piece["message"]["content"] = "x" * 2**20
    file = tmp_path / "recorded"
    file.write_text("".join(f"{line}\n" for line in [*[json.dumps(piece)] * 5, ending]))
    ran = cli("replay", file, "--to", to, "--from", "ollama")
    back = decoded(discover()[to], ran.bytes_out)
    assert (ran.code, type(back[-1])) == ((1, Error) if to == "cohere_v1" else (0, Finish))
    assert ("ended badly (upstream)" in ran.err) is (to == "cohere_v1")


@recorded
def test_the_last_line_end_may_be_missing(recording: Path) -> None:
    def told(data: bytes) -> list[bytes]:
        return lines([event for events in read(dialect_of(recording), [data]) for event in events]).splitlines()

    whole = recording.read_bytes()
    assert told(whole.rstrip(b"\r\n")) == told(whole)


def test_what_the_stream_does_not_say_comes_from_the_file(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "recorded"
    file.write_bytes(stream("cohere_v2/text").read_bytes())
    os.utime(file, (1_700_000_000, 1_700_000_000))
    twice = {cli("replay", file, "--to", "openai_chat").out for _ in range(2)}
    (out,) = twice
    first = json.loads(out.partition("\n")[0].removeprefix("data: "))
    assert (first["model"], first["created"]) == ("replay", 1_700_000_000)


class TestWhose:
    @recorded
    def test_a_stream_is_its_dialects_own_or_reads_the_same(self, recording: Path) -> None:
        found = guess(recording.read_bytes())
        if name_of(recording) in AMBIGUOUS:
            assert dialect_of(recording).name in found
            assert len(found) == 2
            return
        (name,) = found
        alike = [list(map(type, one(n, recording))) for n in (name, dialect_of(recording).name)]
        assert alike[0] == alike[1]

    @given(st.binary(max_size=200))
    def test_noise_is_nobodys(self, noise: bytes) -> None:
        assert guess(noise) == []

    @pytest.mark.parametrize(
        ("text", "says"), [(b"", "nothing in it"), (b" \n", "nothing in it"), (b'{"a": 1}\n', "whole answer")]
    )
    @pytest.mark.parametrize("source", [(), ("--from", "anthropic")], ids=["unknown", "named"])
    def test_a_file_without_a_stream_is_said_to_have_none(
        self, cli: Cli, tmp_path: Path, source: tuple[str, ...], text: bytes, says: str
    ) -> None:
        file = tmp_path / "any"
        file.write_bytes(text)
        ran = cli("replay", file, "--events", *source)
        assert (ran.code, ran.out) == (1, "")
        assert ran.err.startswith("rivermouth: this is no stream")
        assert says in ran.err

    @pytest.mark.parametrize("text", [b"# A page\n\nof text\n", b"[1]\n", b"data: {}\n\n"])
    def test_what_is_no_stream_is_said_to_be_none(self, cli: Cli, tmp_path: Path, text: bytes) -> None:
        file = tmp_path / "any"
        file.write_bytes(text)
        ran = cli("replay", file, "--to", "ollama")
        assert (ran.code, ran.out) == (1, "")
        assert "--from" in ran.err

    def test_one_that_could_be_two_is_asked_about(self, cli: Cli) -> None:
        ran = cli("replay", stream("tgi/chat_error"), "--events")
        assert (ran.code, ran.out) == (2, "")
        assert "openai_chat or tgi" in ran.err

    def test_only_the_beginning_is_looked_at(self, cli: Cli, tmp_path: Path) -> None:
        head, mark, rest = stream("openai_chat/text").read_bytes().partition(b'"Par"')
        frame = (head + mark + rest).split(b"\n\n")[2] + b"\n\n"
        file = tmp_path / "long"
        file.write_bytes(head + mark + rest.partition(b"\n\n")[0] + b"\n\n" + frame * (2 * GUESS_BYTES // len(frame)))
        assert guess(file.read_bytes()[:GUESS_BYTES]) == ["openai_chat"]
        ran = cli("replay", file, "--events")
        assert "truncated" in ran.err
        assert len(ran.out) > GUESS_BYTES / 10

    def test_a_wrong_name_for_it_is_a_bad_end(self, cli: Cli) -> None:
        ran = cli("replay", stream("ollama/chat_text"), "--from", "anthropic", "--to", "ollama")
        assert ran.code == 1
        assert "truncated" in ran.err
        ran = cli("replay", stream("bedrock_invoke/text"), "--from", "ollama", "--events")
        assert ran.code == 1
        assert list(json.loads(ran.out.splitlines()[-1])) == ["Error"]


def one(name: str, recording: Path) -> list[object]:
    return [event for events in read(discover()[name], [recording.read_bytes()]) for event in events]


def test_what_a_dialect_makes_of_a_stream_has_an_order() -> None:
    text = list(events_of(stream("openai_chat/text")))
    failed = events_of(stream("openai_chat/error"))
    assert understood(text) is Understood.END
    assert understood([text[0], text[-1]]) is Understood.EMPTY
    assert understood(failed) is Understood.CONTENT
    assert understood([Start(), failed[-1]]) is Understood.FAILURE
    assert understood([Start()]) is understood([]) is Understood.NOTHING
    assert sorted(Understood)[-1] is Understood.END


@pytest.mark.parametrize(
    "words",
    [
        ("FILE",),
        ("FILE", "--to", "ollama", "--events"),
        ("FILE", "--to", "esperanto"),
        ("FILE", "--from", "esperanto", "--events"),
        ("nowhere", "--events"),
        (".", "--events"),
    ],
)
def test_a_wrong_command_line_is_2_and_writes_nothing(cli: Cli, words: tuple[str, ...]) -> None:
    file = str(stream("ollama/chat_text"))
    ran = cli("replay", *(file if word == "FILE" else word for word in words))
    assert (ran.code, ran.out) == (2, "")
    assert ran.err


def test_it_reads_a_pipe_and_survives_a_reader_that_leaves(tmp_path: Path) -> None:
    data = stream("anthropic/long_text").read_bytes()
    command = [*COMMAND, "replay", "-", "--to", "openai_chat"]
    whole = subprocess.run(command, input=data, capture_output=True, env=environment(), timeout=25, check=True)
    assert whole.stdout.endswith(b"data: [DONE]\n\n")
    assert whole.stderr == b""
    piece, *_, end = stream("ollama/chat_text").read_bytes().splitlines(keepends=True)
    more_than_a_pipe_holds = piece * 3000 + end
    for options, first in (("--to openai_chat", b"d"), ("--events", b"{")):
        script = f"({' '.join(COMMAND)} replay - {options}; echo $? >&2) | head -c 1"
        left = subprocess.run(
            ["sh", "-c", script], input=more_than_a_pipe_holds, capture_output=True, env=environment(), timeout=25
        )
        assert (left.stdout, left.stderr) == (first, b"0\n"), options

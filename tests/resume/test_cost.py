"""What a log costs grows with what is written and not with what is in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rivermouth.log.answer import AnswerLog, Reader
from rivermouth.log.budget import Budget
from rivermouth.wire.sse import with_offset
from tests.cost import assert_linear

CHUNK: Final = b"data: " + b"x" * 200 + b"\n\n"
MIB: Final = 1024 * 1024


def log_of(limit_bytes: int) -> AnswerLog:
    log = AnswerLog(Budget(1024 * MIB), limit_bytes)
    assert log.admit()
    log.start(200, ())
    return log


def taken(data: bytes) -> bool:
    return True


def test_writing_to_a_reader_at_the_tail() -> None:
    def prepare(chunks: int) -> Callable[[], object]:
        def work() -> None:
            log = log_of(512 * MIB)
            with Reader(log, 0, taken, lambda: None) as reader:
                reader.live()
                for _ in range(chunks):
                    assert log.write(CHUNK)

        return work

    assert_linear(prepare, 2_000)


def test_forgetting_what_all_have_read() -> None:
    """A log that is full all the time moves its bytes only now and then."""

    def prepare(chunks: int) -> Callable[[], object]:
        def work() -> None:
            log = log_of(64 * 1024)
            with Reader(log, 0, taken, lambda: None) as reader:
                reader.live()
                for _ in range(chunks):
                    assert log.write(CHUNK)
            assert log.end == chunks * len(CHUNK)

        return work

    assert_linear(prepare, 2_000)


def test_reading_from_behind() -> None:
    def prepare(chunks: int) -> Callable[[], object]:
        log = log_of(512 * MIB)
        for _ in range(chunks):
            assert log.write(CHUNK)

        def work() -> None:
            at = 0
            while data := log.piece(at):
                at += len(data)
            assert at == log.end

        return work

    assert_linear(prepare, 2_000)


def test_an_id_costs_what_its_own_data_costs() -> None:
    def prepare(chunks: int) -> Callable[[], object]:
        def work() -> None:
            at = 0
            for _ in range(chunks):
                at += len(with_offset(CHUNK, at))

        return work

    assert_linear(prepare, 2_000)

"""Logs hold no prompt and no secret, and one event is one line."""

from __future__ import annotations

import io
import json
import logging
import os
import threading
from collections.abc import Iterator

import pytest
import structlog

from rivermouth.ir.errors import Kind
from rivermouth.observe import MASKED_FIELDS, Metrics, Observers, configure_logging
from rivermouth.observe.call_lines import FIELDS, LOGGER, CallLine, tell
from rivermouth.observe.logs import QUIET, Behind, mask, statistics
from rivermouth.secrets import MASK, Secret
from rivermouth.store.port import Status
from tests.store.records import ended, opened

SECRET = Secret("hunter2-hunter2")


@pytest.fixture
def restored() -> Iterator[None]:
    """The process's logging as it was, afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    quiet = {name: logging.getLogger(name).level for name in QUIET}
    yield
    for handler in root.handlers:
        if handler not in handlers:
            handler.close()
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, was in quiet.items():
        logging.getLogger(name).setLevel(was)
    structlog.reset_defaults()


@pytest.fixture
def lines(restored: None) -> io.StringIO:
    """Where JSON logs of this test go."""
    stream = io.StringIO()
    configure_logging("json", secrets=[SECRET], stream=stream)
    return stream


def said(stream: io.StringIO) -> str:
    """Everything that was logged until now."""
    for handler in logging.getLogger().handlers:
        handler.flush()
    return stream.getvalue()


def parsed(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in said(stream).splitlines()]


def test_one_event_is_one_line_of_json_with_its_name_level_and_time(lines: io.StringIO):
    structlog.stdlib.get_logger("rivermouth.turns").info("turn.fenced", generation=7, chat="u1:c2")
    (line,) = parsed(lines)
    assert (line["event"], line["level"], line["logger"]) == ("turn.fenced", "info", "rivermouth.turns")
    assert (line["generation"], line["chat"]) == (7, "u1:c2")
    assert str(line["timestamp"]).endswith("Z")


def test_the_standard_librarys_loggers_come_out_the_same(lines: io.StringIO):
    logging.getLogger("uvicorn.error").warning("listening on %s", "127.0.0.1")
    (line,) = parsed(lines)
    assert (line["event"], line["level"], line["logger"]) == ("listening on 127.0.0.1", "warning", "uvicorn.error")


def test_what_is_below_the_level_is_not_written(lines: io.StringIO):
    structlog.stdlib.get_logger("x").debug("x.seen")
    assert said(lines) == ""


@pytest.mark.fault("F36")
@pytest.mark.parametrize("name", sorted(MASKED_FIELDS))
def test_no_field_of_such_a_name_is_written(lines: io.StringIO, name: str):
    structlog.stdlib.get_logger("x").info("x.done", **{name: "tell me a story", "nested": {name: "tell me a story"}})
    assert "story" not in said(lines)
    assert parsed(lines)[0]["nested"] == {name: MASK}


@pytest.mark.fault("F36")
def test_a_secret_is_written_nowhere(lines: io.StringIO):
    log = structlog.stdlib.get_logger("x")
    value = SECRET.reveal()
    log.info("x.done", url=f"http://u:{value}@host/", several=[value], secret=SECRET, error=ValueError(value))
    logging.getLogger("y").error("refused: %s", value)
    try:
        raise ValueError(value)
    except ValueError:
        log.exception("x.failed")
    assert value not in said(lines)
    assert len(parsed(lines)) == 3
    assert "Traceback" in str(parsed(lines)[2]["exception"])


def test_of_an_exception_the_class_and_the_frames_are_told_and_not_the_message(lines: io.StringIO):
    """Its message may quote a prompt, and so may what led to it."""
    story = "a mellifluous quokka"

    def fails() -> None:
        try:
            raise KeyError(story)
        except KeyError as error:
            raise ExceptionGroup(story, [ValueError(story)]) from error

    for told in (structlog.stdlib.get_logger("x"), logging.getLogger("y")):
        try:
            fails()
        except ExceptionGroup:
            told.exception("x.failed")
    assert story not in said(lines)
    for line in parsed(lines):
        text = str(line["exception"])
        assert text.index("KeyError") < text.index("ExceptionGroup") < text.index("ValueError")
        assert text.count("in fails") == 2


@pytest.mark.fault("F36")
def test_the_text_form_masks_too(restored: None):
    stream = io.StringIO()
    configure_logging("text", secrets=[SECRET], stream=stream)
    structlog.stdlib.get_logger("x").info("x.done", prompt="a story", why=SECRET.reveal())
    assert "x.done" in said(stream)
    assert "story" not in said(stream)
    assert SECRET.reveal() not in said(stream)


def test_auto_is_json_where_there_is_no_terminal(restored: None):
    stream = io.StringIO()
    configure_logging(stream=stream)
    structlog.stdlib.get_logger("x").info("x.done")
    assert parsed(stream)[0]["event"] == "x.done"


class FakeTerminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_auto_is_text_on_a_terminal(restored: None):
    stream = FakeTerminal()
    configure_logging(stream=stream)
    structlog.stdlib.get_logger("x").info("x.done")
    assert "[info" in said(stream)
    assert not said(stream).startswith("{")


FORGED = "x\n2026-01-01T00:00:00Z [info] call.ended\r\x1b[2J\x9b1m\u2028\u202ey"


@pytest.mark.parametrize("form", ["text", "json"])
def test_no_value_makes_a_line_of_its_own_or_paints_the_terminal(restored: None, form: str):
    stream = io.StringIO()
    configure_logging(form, stream=stream)
    structlog.stdlib.get_logger("x").warning("x.done", name=FORGED, several=[FORGED])
    logging.getLogger("y").warning("refused: %s", FORGED)
    lines = said(stream).splitlines()
    assert len(lines) == 2
    assert not any(c in said(stream) for c in "\r\x1b\x9b\u2028\u202e")


def test_a_traceback_in_the_text_form_has_no_line_that_begins_like_one_of_the_log(restored: None):
    stream = io.StringIO()
    configure_logging("text", stream=stream)
    try:
        raise ValueError(FORGED)
    except ValueError:
        structlog.stdlib.get_logger("x").exception("x.failed")
    first, *rest = said(stream).splitlines()
    assert "x.failed" in first
    assert len(rest) > 3
    assert [line for line in rest if line and not line.startswith("    ")] == []


def test_what_a_new_configuration_keeps_secret_is_masked_from_then_on(lines: io.StringIO):
    mask([Secret("another-secret-1")])
    structlog.stdlib.get_logger("x").info("x.done", why="another-secret-1")
    assert parsed(lines)[0]["why"] == MASK


def test_a_name_that_became_a_secret_is_masked_in_the_next_line_of_a_call(lines: io.StringIO):
    written(ended(opened(1, model_asked="a-model-that-is-one")))
    assert "a-model-that-is-one" in said(lines)
    mask([Secret("a-model-that-is-one")])
    written(ended(opened(2, model_asked="a-model-that-is-one")))
    assert [line["model"] for line in parsed(lines)][1:] == [MASK]


@pytest.mark.parametrize(("wanted", "heard"), [(logging.DEBUG, True), (logging.INFO, True), (logging.ERROR, False)])
def test_the_level_holds_for_all(restored: None, wanted: int, heard: bool):
    stream = io.StringIO()
    configure_logging("json", level=wanted, stream=stream)
    structlog.stdlib.get_logger("x").warning("x.done")
    logging.getLogger("uvicorn.error").warning("x")
    assert len(said(stream).splitlines()) == 2 * heard


def test_a_library_that_reports_each_try_is_not_heard(lines: io.StringIO):
    logging.getLogger("opentelemetry.exporter.otlp").error("Failed to export span batch")
    assert said(lines) == ""


# -- the line of a call


def written(call: object) -> None:
    logging.getLogger(LOGGER).log(logging.INFO, CallLine(call))  # type: ignore[arg-type]


def test_a_call_that_ended_is_one_line_with_everything_that_is_known(lines: io.StringIO):
    written(ended(opened(1), policy_id="eu-only", reasoning_tokens=None))
    (line,) = parsed(lines)
    assert line == {
        "event": "call.ended",
        "level": "info",
        "logger": "rivermouth.calls",
        "timestamp": "1970-01-01T00:00:01.000000Z",
        "call": f"req_{1:032x}",
        "status": "completed",
        "operation": "generate",
        "dialect": "openai_chat",
        "surface": "/v1",
        "stream": True,
        "model": "gpt-x",
        "model_used": "gpt-x-2026",
        "provider": "lab",
        "endpoint": "lab-eu",
        "policy": "eu-only",
        "key": "RIVERMOUTH_KEY",
        "client_request_id": "theirs-1",
        "attempts": 2,
        "finish_reason": "stop",
        "input_tokens": 11,
        "output_tokens": 7,
        "estimated": False,
        "first_token_ms": 0.0,
        "duration_ms": 0.0,
        "price": 0.0000975,
        "currency": "EUR",
    }


@pytest.mark.fault("F36")
def test_the_line_of_a_call_has_no_message_and_no_secret(lines: io.StringIO):
    failed = ended(
        opened(1, model_asked=SECRET.reveal(), key_name="Bearer abc.def-123456"),
        Status.FAILED,
        kind=Kind.UPSTREAM,
        message="I cannot answer: tell me a story",
    )
    written(failed)
    assert "story" not in said(lines)
    assert SECRET.reveal() not in said(lines)
    assert "abc.def" not in said(lines)
    assert parsed(lines)[0]["kind"] == "upstream"


def test_what_a_client_chose_is_cut_and_stays_on_its_line(restored: None):
    stream = io.StringIO()
    configure_logging("text", stream=stream)
    written(ended(opened(1, model_asked=FORGED + "z" * 10_000)))
    (line,) = said(stream).splitlines()
    assert len(line) < 2_000
    assert "\x1b" not in line
    assert "status=completed" in line
    assert "key=RIVERMOUTH_KEY" in line


def test_a_value_of_the_text_form_does_not_look_like_two(restored: None):
    stream = io.StringIO()
    configure_logging("text", stream=stream)
    written(ended(opened(1, model_asked="m status=failed")))
    assert "model='m status=failed'" in said(stream)


def test_calls_are_told_by_how_they_ended(lines: io.StringIO):
    for number in range(1, 101):
        tell(ended(opened(number), Status.FAILED if number == 7 else Status.COMPLETED))
    found = parsed(lines)
    assert [line["call"] for line in found] == [f"req_{number:032x}" for number in range(1, 101)]
    assert [number for number, line in enumerate(found, 1) if line["level"] == "warning"] == [7]


def test_calls_below_the_level_are_not_told(restored: None):
    stream = io.StringIO()
    configure_logging("json", level=logging.WARNING, stream=stream)
    tell(ended(opened(1)))
    tell(ended(opened(2), Status.FAILED))
    assert [line["call"] for line in parsed(stream)] == [f"req_{2:032x}"]


@pytest.mark.parametrize("told", [True, False])
def test_the_lines_of_calls_can_be_left_out(lines: io.StringIO, told: bool):
    observers = Observers(Metrics(process=False), lines=told)
    observers.start()
    observers.ended(ended(opened(1)))
    structlog.stdlib.get_logger("x").info("x.done")
    assert [line["event"] for line in parsed(lines)] == ["call.ended"] * told + ["x.done"]


def test_no_field_of_the_line_is_one_that_would_be_masked():
    assert set(FIELDS) & MASKED_FIELDS == set()


# -- the thread


def test_a_log_that_nobody_reads_stops_nobody(restored: None, monkeypatch: pytest.MonkeyPatch):
    """A pipe is full after some hundred lines.  Whoever reads on gets what waited, in order."""
    monkeypatch.setattr("rivermouth.observe.logs.LIMIT", 1000)
    reading, writing = os.pipe()
    stream = os.fdopen(writing, "w", encoding="utf-8")
    configure_logging("json", stream=stream)
    for number in range(3000):
        tell(ended(opened(number)))
    seen = statistics()
    assert seen.dropped > 0
    assert seen.waiting <= seen.limit == 1000
    (handler,) = logging.getLogger().handlers
    closing = threading.Thread(target=lambda: (handler.close(), stream.close()))
    closing.start()
    with os.fdopen(reading, encoding="utf-8") as reader:
        told = [json.loads(line)["call"] for line in reader]
    closing.join()
    assert told[:1000] == [f"req_{number:032x}" for number in range(1000)]
    assert told == sorted(told)
    assert len(told) + seen.dropped == 3000


def test_a_log_is_set_up_again_without_another_thread_and_loses_nothing(restored: None):
    stream = io.StringIO()
    configure_logging("json", stream=stream)
    before = threading.active_count()
    structlog.stdlib.get_logger("x").info("x.one")
    configure_logging("text", stream=stream)
    structlog.stdlib.get_logger("x").info("x.two")
    assert threading.active_count() == before
    one, two = said(stream).splitlines()
    assert "x.one" in one
    assert not two.startswith("{")
    assert "x.two" in two


def test_what_was_said_to_another_stream_is_written_there(restored: None):
    first, second = io.StringIO(), io.StringIO()
    configure_logging("json", stream=first)
    structlog.stdlib.get_logger("x").info("x.one")
    configure_logging("json", stream=second)
    assert "x.one" in first.getvalue()
    assert said(second) == ""


def test_the_time_of_a_line_is_when_it_was_said(lines: io.StringIO):
    record = logging.LogRecord("uvicorn.error", logging.WARNING, "", 0, "late", None, None)
    record.created = 1.5
    logging.getLogger("uvicorn.error").handle(record)
    assert parsed(lines)[0]["timestamp"] == "1970-01-01T00:00:01.500000Z"


def test_a_record_that_cannot_be_written_does_not_end_the_log(lines: io.StringIO, capsys: pytest.CaptureFixture[str]):
    (handler,) = [handler for handler in logging.getLogger().handlers if isinstance(handler, Behind)]
    handler.handle(logging.LogRecord("x", logging.WARNING, "", 0, "%d", ("no number",), None))
    structlog.stdlib.get_logger("x").info("x.done")
    assert [line["event"] for line in parsed(lines)] == ["x.done"]
    assert "Logging error" in capsys.readouterr().err

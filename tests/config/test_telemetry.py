"""Whether traces are on: the file demands, the environment wishes."""

from __future__ import annotations

import pytest

from rivermouth.config import ConfigError, telemetry
from rivermouth.config.load import parse

WISH = {"OTEL_TRACES_EXPORTER": "console, otlp"}
GRPC = {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
ON = '[telemetry]\ntraces = "otlp"\n'
OFF = '[telemetry]\ntraces = "off"\n'


def traces(text: str = "", environ: dict[str, str] | None = None) -> str | None:
    return parse(text, "rivermouth.toml", environ or {}, frozenset({"openai_chat"})).telemetry.traces


@pytest.mark.parametrize(
    ("text", "environ", "wanted"),
    [
        ("", {}, "off"),
        ("", {"OTEL_TRACES_EXPORTER": "none"}, "off"),
        ("", WISH, "otlp"),
        (OFF, WISH, "off"),
        (ON, {}, "otlp"),
        (ON, {"OTEL_TRACES_EXPORTER": "none"}, "otlp"),
        (ON, {"OTEL_SDK_DISABLED": "true"}, "off"),
        ("", {**WISH, "OTEL_SDK_DISABLED": "TRUE"}, "off"),
        ("", {**WISH, **GRPC}, "off"),
        ("", {**WISH, **GRPC, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf"}, "otlp"),
        (ON, {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, "otlp"),
    ],
)
def test_who_switches_traces_on(text: str, environ: dict[str, str], wanted: str):
    assert traces(text, environ) == wanted


def test_a_protocol_that_is_not_spoken_is_a_fault_of_a_file_that_wants_traces():
    with pytest.raises(ConfigError) as caught:
        traces("\n" + ON, GRPC)
    (problem,) = caught.value.problems
    assert (problem.line, problem.key) == (3, "telemetry.traces")
    assert "grpc" in problem.message


def test_without_the_extra_the_file_is_refused_and_the_wish_is_not(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(telemetry, "NEEDED", "not_installed.anywhere")
    with pytest.raises(ConfigError, match=r"pip install 'rivermouth\[otel\]'"):
        traces(ON)
    assert traces("", WISH) == "off"
    assert telemetry.obstacle({}) == "needs: pip install 'rivermouth[otel]'"
    monkeypatch.setattr(telemetry, "NEEDED", "not_installed")
    assert traces("", WISH) == "off"


def test_the_log_has_defaults_that_need_no_table():
    made = parse("", "rivermouth.toml", {}, frozenset())
    assert (made.log.format, made.log.level, made.log.calls) == ("auto", "info", True)

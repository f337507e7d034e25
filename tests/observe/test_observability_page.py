"""The alerts of the page on observability name what exists: metrics, their labels, and the values of these."""

from __future__ import annotations

import re
from typing import Final

import pytest
from docs.generate import EVERYTHING
from prometheus_client.parser import text_string_to_metric_families

from rivermouth.ir.errors import Kind
from rivermouth.local.machine.places import Queue
from rivermouth.observe import Metrics
from rivermouth.observe.backlog import BacklogStatistics
from rivermouth.observe.call_lines import FIELDS
from rivermouth.observe.collectors import BREAKER_STATES
from rivermouth.store.port import Outcome, Status
from rivermouth.wire import json
from tests.promises import DOCS

PAGE: Final = (DOCS / "observability.md").read_text(encoding="utf-8")
ALERTS: Final = [
    pytest.param(" ".join(found[2].split()), id=found[1])
    for found in re.finditer(r"- alert: (\w+).*\n +expr: (?:\|\n)?((?:.+\n)(?: {12,}.+\n)*)", PAGE)
]
VALUES: Final[dict[str, set[str]]] = {
    "kind": {kind.value for kind in Kind},
    "status": {status.value for status in Status},
    "outcome": {*(outcome.value for outcome in Outcome), "exported", "failed"},
    "state": set(BREAKER_STATES),
    "queue": {"records", "log", "traces"},
    "job": {"rivermouth"},
}


def served() -> dict[str, set[str]]:
    """The names of all samples of a server that has met everything, with their labels."""
    metrics = Metrics(endpoints=["one"], process=False)
    metrics.ended(EVERYTHING)
    metrics.queues_from(lambda: (Queue(model="", device="CPU", slots=1, active=0, waiting=()),))
    metrics.backlog_from("records", lambda: BacklogStatistics(0, 1, 0))
    metrics.spans_from(lambda: {"exported": 1, "failed": 0})
    return {
        sample.name: set(sample.labels)
        for family in text_string_to_metric_families(metrics.render().decode())
        for sample in family.samples
    }


SERVED: Final = {**served(), "up": {"job"}}


def test_there_are_alerts_and_each_is_read():
    assert len(ALERTS) == PAGE.count("- alert: ") > 10


@pytest.mark.parametrize("expression", ALERTS)
def test_an_alert_is_about_metrics_that_exist_and_labels_that_they_have(expression: str):
    named = re.findall(r"\b(rivermouth_\w+|up)\b(?:\{([^}]*)\})?", expression)
    assert named
    assert [name for name, _ in named if name not in SERVED] == []
    for name, selector in named:
        for label, values in re.findall(r'(\w+)=~?"([^"]*)"', selector):
            assert label in SERVED[name]
            assert set(values.split("|")) <= VALUES[label]
    for labels in re.findall(r"by \(([^)]*)\)", expression):
        assert all(set(labels.split(", ")) <= SERVED[name] for name, _ in named)
    assert expression.count("(") == expression.count(")")
    assert re.search(r"(>|==) [\d.]+$", expression)


def test_the_line_of_the_page_has_the_fields_of_the_line():
    (line,) = re.findall(r"^```json\n(.*)\n```$", PAGE, re.MULTILINE)
    shown = json.decode(line.encode())
    assert [name for name in shown if name not in ("event", "level", "logger", "timestamp")] == [
        name for name in FIELDS if name in shown
    ]

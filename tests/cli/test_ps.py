"""`ps`: what runs and who waits, put together from two documents of a server."""

from __future__ import annotations

from typing import Any

from rivermouth.cli.ps import calls, nobody, unloaded, with_queues

NPU: dict[str, Any] = {"model": "a:latest", "device": "NPU", "slots": 1, "active": 1, "waiting": []}
CPU: dict[str, Any] = {
    "model": "a:latest",
    "device": "CPU",
    "slots": 4,
    "active": 4,
    "waiting": [{"position": 1, "age_s": 2.5}, {"position": 2, "age_s": 0.5}],
}


def test_a_model_has_the_queues_of_all_its_devices() -> None:
    loaded: dict[str, Any] = {"name": "a:latest", "expires_at": "2026-11-30T00:00:00Z"}
    (told,) = with_queues([loaded], [CPU, NPU])
    assert told["expires_at"] == loaded["expires_at"]
    assert [queue["device"] for queue in told["queues"]] == ["CPU", "NPU"]
    assert told["queues"][0]["waiting"][0] == {"position": 1, "age_s": 2.5}
    assert calls(told) == "5 of 5, 2 waiting"


def test_a_model_that_is_wanted_and_not_loaded_yet_is_shown() -> None:
    (told,) = with_queues([], [NPU])
    assert told["name"] == "a:latest"
    assert unloaded(told, 0.0) == "loading"


def test_another_server_has_no_queues() -> None:
    (told,) = with_queues([{"name": "b"}], [])
    assert told == {"name": "b", "queues": []}
    assert calls(told) == ""


def test_who_finds_no_server_is_told_what_may_keep_it_from_one() -> None:
    assert "Start one: rivermouth serve" in nobody(None)
    assert nobody("http://127.0.0.1:8080") == nobody(None)  # a killed server leaves its address behind
    assert "--url https://NAME:PORT" in nobody("https://127.0.0.1:8080")

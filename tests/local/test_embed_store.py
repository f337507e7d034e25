"""The network on disk: whole or not there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rivermouth.local.embedding import store
from rivermouth.local.embedding.store import MARK, NETWORK, NUMBERS, folder_of, form_of, keep, stored, sweep


def save(path: Path) -> None:
    path.write_text("<net/>")
    path.with_suffix(".bin").write_bytes(b"1234")


def left(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.iterdir())


def test_it_is_there_when_it_was_kept(tmp_path: Path) -> None:
    assert stored(tmp_path / "c" / "1-x") is None
    path = keep(tmp_path / "c", "1-x", save)
    assert path == stored(tmp_path / "c" / "1-x") == tmp_path / "c" / "1-x" / NETWORK
    assert path.read_text() == "<net/>"
    assert left(tmp_path / "c") == ["1-x"]


@pytest.mark.parametrize(("name", "content"), [(NUMBERS, b"12"), (NETWORK, b""), (MARK, b"{"), (MARK, b"{}")])
def test_what_was_cut_is_not_there_and_is_kept_anew(tmp_path: Path, name: str, content: bytes) -> None:
    keep(tmp_path, "1-x", save)
    (tmp_path / "1-x" / name).write_bytes(content)
    assert stored(tmp_path / "1-x") is None
    assert stored(keep(tmp_path, "1-x", save).parent) is not None


@pytest.mark.parametrize("missing", [NUMBERS, NETWORK, MARK])
def test_what_lacks_a_file_is_not_there(tmp_path: Path, missing: str) -> None:
    keep(tmp_path, "1-x", save)
    (tmp_path / "1-x" / missing).unlink()
    assert stored(tmp_path / "1-x") is None


def test_other_forms_are_removed(tmp_path: Path) -> None:
    keep(tmp_path, "1-old", save)
    keep(tmp_path, "1-new", save)
    assert left(tmp_path) == ["1-new"]


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    def full(path: Path) -> None:
        path.write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        keep(tmp_path / "c", "1-x", full)
    assert left(tmp_path / "c") == []
    keep(tmp_path / "c", "1-x", save)
    with pytest.raises(OSError, match="No space"):
        keep(tmp_path / "c", "1-x", full)
    assert stored(tmp_path / "c" / "1-x") is not None


def test_the_faster_of_two_processes_is_the_one(tmp_path: Path) -> None:
    def slow(path: Path) -> None:
        keep(tmp_path, "1-x", save)
        path.write_text("mine, later")
        path.with_suffix(".bin").write_bytes(b"")

    assert keep(tmp_path, "1-x", slow).read_text() == "<net/>"
    assert left(tmp_path) == ["1-x"]


def test_a_place_that_cannot_be_had_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(PermissionError):
        keep(tmp_path, "1-x", save)
    assert left(tmp_path) == []


def test_what_is_synced_before_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    rename = Path.rename
    monkeypatch.setattr(os, "fsync", lambda _: said.append("sync"))
    monkeypatch.setattr(Path, "rename", lambda a, b: (said.append("rename"), rename(a, b)))
    keep(tmp_path, "1-x", save)
    assert said == ["sync"] * 4 + ["rename", "sync"]


def test_caches_of_models_that_are_gone_are_swept(tmp_path: Path) -> None:
    here, gone = "sha256:" + "a" * 64, "sha256:" + "b" * 64
    for digest in (here, gone):
        keep(tmp_path / folder_of(digest), "1-x", save)
    sweep(tmp_path, {here})
    assert left(tmp_path) == [folder_of(here)]
    sweep(tmp_path / "never", {here})


@pytest.mark.parametrize("digest", ["sha256:../" + "a" * 61, "md5:" + "a" * 64, "sha256:a", ""])
def test_no_digest_becomes_a_path(digest: str) -> None:
    with pytest.raises(ValueError, match="not a sha256 digest"):
        folder_of(digest)


@pytest.mark.parametrize(
    ("version", "name"),
    [("2026.4.1-22982-x/../y", "2026.4.1-22982-x-..-y"), ("..", ""), ("v" * 100, "v" * 60)],
)
def test_a_form_is_a_name(version: str, name: str) -> None:
    assert form_of(version) == f"{store.FORM}-{name}"

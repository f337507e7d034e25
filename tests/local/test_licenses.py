"""Licences: open ones pass, every other is accepted by name, and that is remembered."""

from __future__ import annotations

from pathlib import Path

import pytest

from rivermouth.ir.errors import Kind
from rivermouth.local.models.catalog import Entry
from rivermouth.local.models.licenses import OPEN, Accepted, LicenseRefused, Licenses, Terms
from rivermouth.local.models.references import file_entry
from rivermouth.local.models.registry import Registry
from tests.local.pulling import frames_of, nothing_left, puller_of

GEMMA = Terms(license="Gemma", model="gemma:270m", url="https://host.example/terms")


@pytest.mark.parametrize("license_name", sorted(OPEN))
def test_an_open_licence_passes(tmp_path: Path, license_name: str) -> None:
    Licenses(tmp_path).check(Terms(license=license_name.upper(), model="x"), None, 0.0)
    assert list(tmp_path.iterdir()) == []


def test_a_restricted_one_is_shown_and_accepted_by_its_name(tmp_path: Path) -> None:
    licenses = Licenses(tmp_path / "models")
    for accept in (None, "", "true", "llama3"):
        with pytest.raises(LicenseRefused) as refused:
            licenses.check(GEMMA, accept, 0.0)
        assert (refused.value.kind, refused.value.status) == (Kind.PERMISSION, 403)
        for words in (
            "gemma:270m",
            "https://host.example/terms",
            "--accept-license gemma",
            '"accept_license": "gemma"',
        ):
            assert words in refused.value.message
    licenses.check(GEMMA, "GEMMA", 12.0)
    assert licenses.accepted() == {"gemma": Accepted(12, "gemma:270m")}
    licenses.check(Terms(license="gemma", model="another"), None, 13.0)  # it is the same licence


def test_a_word_that_names_no_licence_is_accepted_for_one_model_only(tmp_path: Path) -> None:
    licenses = Licenses(tmp_path)
    licenses.check(Terms(license="other", model="a"), "other", 1.0)
    licenses.check(Terms(license="other", model="a"), None, 2.0)
    with pytest.raises(LicenseRefused):
        licenses.check(Terms(license="other", model="b"), None, 3.0)


def test_a_record_that_cannot_be_read_accepts_nothing(tmp_path: Path) -> None:
    (tmp_path / "licenses.json").write_text("{")
    with pytest.raises(LicenseRefused):
        Licenses(tmp_path).check(GEMMA, None, 0.0)


@pytest.mark.anyio
async def test_an_entry_of_a_catalogue_asks_too(data_dir: Path, files: dict[str, Path]) -> None:
    registry = Registry(data_dir / "models")
    own = file_entry("g:1", files["tiny"])
    entry = Entry(name=own.name, source=own.source, license="gemma", terms=GEMMA.url, listed=True)
    with pytest.raises(LicenseRefused, match="g:1"):
        await frames_of(puller_of(registry, entry), "g:1")
    assert not registry.root.exists() or nothing_left(registry)
    await frames_of(puller_of(registry, entry), "g:1", "gemma")
    assert registry.get("g:1").manifest.license == "gemma"

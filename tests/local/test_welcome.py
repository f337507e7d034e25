"""The model that is offered to somebody who has none."""

from __future__ import annotations

import msgspec
import pytest

from rivermouth.local.models.catalog import CATALOG, SMOLLM2, Catalog, Entry, FileSource, WantedFile
from rivermouth.local.models.names import parse_name
from rivermouth.local.models.references import Pulls
from rivermouth.local.models.welcome import first_offer

BIG = SMOLLM2.size_bytes or 0


def entry(name: str, size_bytes: int | None = 10 * BIG, **more: object) -> Entry:
    given = {
        "name": parse_name(name),
        "files": (WantedFile(name="f.gguf", size_bytes=size_bytes),),
        "license": "MIT",
        **more,
    }
    return msgspec.structs.replace(SMOLLM2, **given)


def with_own(*entries: Entry) -> Catalog:
    return {**CATALOG, **{one.name: one for one in entries}}


def offered(*own: Entry, pulls: Pulls = Pulls.CATALOG) -> str | None:
    found = first_offer(with_own(*own), pulls)
    return str(found.name) if found is not None else None


def test_the_packaged_chat_model_is_offered():
    assert offered() == "smollm2:135m"
    found = first_offer(CATALOG, Pulls.HUB)
    assert found is not None
    assert (found.license, found.size_bytes) == ("Apache-2.0", 98_362_432)


def test_the_operators_own_come_first_and_of_them_the_smallest():
    assert offered(entry("large"), entry("small", 2 * BIG)) == "small:latest"


@pytest.mark.parametrize(
    "unfit",
    [
        entry("x", license="llama3.2"),
        entry("x", license=None),
        entry("x", license="other"),
        entry("x", kind="embedding"),
        entry("x", None),
        entry("x", files=(), source=FileSource(path=None)),  # type: ignore[arg-type]
    ],
    ids=["restricted", "unstated", "vague", "embedding", "unknown size", "unknown files"],
)
def test_what_needs_a_word_first_or_cannot_chat_is_not_offered(unfit: Entry):
    assert offered(unfit) == "smollm2:135m"
    assert first_offer({unfit.name: unfit}, Pulls.CATALOG) is None


def test_an_own_entry_under_a_packaged_name_is_the_operators():
    mine = entry("smollm2:135m", 7 * BIG)
    assert first_offer(with_own(mine, entry("other", 9 * BIG)), Pulls.CATALOG) == mine


def test_where_clients_may_not_pull_nothing_is_offered():
    assert offered(pulls=Pulls.NONE) is None

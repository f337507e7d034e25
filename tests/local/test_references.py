"""What a person or a client may ask for, and what is read out of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.ir.errors import ApiError, Kind
from rivermouth.local.models.catalog import CATALOG, FileSource, HubSource, WebSource, url_problem
from rivermouth.local.models.names import parse_name
from rivermouth.local.models.references import Pulls, client_entry, file_entry, hub_entry, operator_entry, scheme_of

COMMIT = "a" * 40
DIGEST = "ab" * 32


@pytest.mark.parametrize(
    ("text", "source", "name"),
    [
        ("hf:org/repo", HubSource(repository="org/repo"), "org/repo:latest"),
        ("hf:org/repo@v1.0", HubSource(repository="org/repo", revision="v1.0"), "org/repo:latest"),
        (f"HF:org/repo@{COMMIT}", HubSource(repository="org/repo", revision=COMMIT), "org/repo:latest"),
        ("hf:o/r/x-Q4_0.gguf", HubSource(repository="o/r", file="x-Q4_0.gguf"), "o/r:x-Q4_0"),
        ("hf:o/r/a/b.gguf@main", HubSource(repository="o/r", file="a/b.gguf"), "o/r:b"),
    ],
)
def test_a_repository(text: str, source: HubSource, name: str) -> None:
    entry = operator_entry(text, CATALOG)
    assert (entry.source, str(entry.name)) == (source, name)
    assert str(operator_entry(text, CATALOG, name="mine").name) == "mine:latest"


@pytest.mark.parametrize(
    "bad",
    [
        "hf:",
        "hf:repo",
        "hf:org/",
        "hf:/repo",
        "hf:org/re po",
        "hf:../etc",
        "hf:org/..",
        "hf:org/repo@",
        "hf:org/repo@../x",
        "hf:org/repo@a b",
        "hf:org/repo/../x.gguf",
        "hf:org/repo//x.gguf",
        "hf:org/repo/.x.gguf",
        "hf:org/repo?x=1",
        "hf:org/repo/x.gguf\n",
        "hf:org/a--b",
    ],
)
def test_what_is_no_repository(bad: str) -> None:
    with pytest.raises(ApiError) as refused:
        hub_entry(bad)
    assert (refused.value.kind, refused.value.param) == (Kind.INVALID_REQUEST, "model")


@given(st.text(max_size=60))
def test_no_text_makes_a_repository_that_climbs(text: str) -> None:
    try:
        source = hub_entry(f"hf:{text}").source
    except ApiError:
        return
    assert isinstance(source, HubSource)
    for part in (*source.repository.split("/"), *(source.file or "x").split("/"), *source.revision.split("/")):
        assert part not in ("", ".", "..") or source.revision.endswith("/")
        assert not set(part) & set("?#%\\ \n")


def test_an_address_needs_a_name_and_a_digest() -> None:
    url = "https://host.example/a/model%20x.gguf?sig=1"
    entry = operator_entry(url, CATALOG, name="mine", sha256=f"sha256:{DIGEST.upper()}")
    assert entry.source == WebSource(url=url)
    assert (entry.files[0].name, entry.files[0].sha256) == ("model.gguf", DIGEST)
    for given_name, digest, param in ((None, DIGEST, "name"), ("mine", None, "sha256"), ("mine", "x", "sha256")):
        with pytest.raises(ApiError) as refused:
            operator_entry(url, CATALOG, name=given_name, sha256=digest)
        assert refused.value.param == param


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://", "a host"),
        ("https:///x", "a host"),
        ("http://user:word@host/x", "password"),
        ("http://host:port/x", "cannot be read"),
        ("http://[::1/x", "cannot be read"),
        ("http://host/a b", "character"),
        ("http://host/é", "character"),
        ("http://host/\r\nX-Evil: 1", "character"),
        ("ftp://host/x", "begin with"),
    ],
)
def test_what_is_no_address(url: str, words: str) -> None:
    assert words in (url_problem(url) or "")


def test_an_address_that_is_one() -> None:
    assert url_problem("https://host:8443/a/b.gguf?x=1") is None


def test_a_path(tmp_path: Path) -> None:
    assert operator_entry("file:/a/b.gguf", CATALOG, name="x").source == FileSource(path=Path("/a/b.gguf"))
    assert operator_entry("file:///a/b%20c.gguf", CATALOG, name="x").source == FileSource(path=Path("/a/b c.gguf"))
    assert file_entry("x", tmp_path).files == ()
    with pytest.raises(ApiError, match="not with a folder"):
        file_entry("x", tmp_path, DIGEST)


def test_a_digest_with_what_has_its_own() -> None:
    for text in ("smollm2:135m", "hf:org/repo"):
        with pytest.raises(ApiError) as refused:
            operator_entry(text, CATALOG, sha256=DIGEST)
        assert refused.value.param == "sha256"


def test_a_name_of_the_catalogue_can_be_given_another() -> None:
    entry = operator_entry("smollm2:135m", CATALOG, name="small")
    assert entry.source == CATALOG[parse_name("smollm2:135m")].source
    assert str(entry.name) == "small:latest"


@pytest.mark.parametrize(
    ("text", "admitted_by"),
    [
        ("smollm2:135m", {Pulls.CATALOG, Pulls.HUB}),
        ("hf:org/repo", {Pulls.HUB}),
        ("https://host/x.gguf", set()),
        ("http://169.254.169.254/latest/meta-data", set()),
        ("file:/etc/passwd", set()),
        ("FILE:/etc/passwd", set()),
    ],
)
def test_what_clients_may_pull(text: str, admitted_by: set[Pulls]) -> None:
    for allowed in Pulls:
        if allowed in admitted_by:
            assert client_entry(text, CATALOG, allowed).source is not None
            continue
        with pytest.raises(ApiError) as refused:
            client_entry(text, CATALOG, allowed)
        assert (refused.value.kind, refused.value.code) == (Kind.PERMISSION, "pull_not_allowed")


def test_what_has_a_scheme() -> None:
    assert [scheme_of(text) for text in ("hf:a/b", "File:x", "HTTP://h", "http:x", "smollm2:135m", "http")] == [
        "hf:",
        "file:",
        "http:",
        None,
        None,
        None,
    ]

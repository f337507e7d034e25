"""The catalogue: everything in ours is pinned, and what is wrong in one of the operator's is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from rivermouth.config.problems import ConfigError
from rivermouth.local.models.catalog import (
    CATALOG,
    SMOLLM2,
    CatalogError,
    FileSource,
    HubSource,
    WheelSource,
    load_catalog,
    read_catalog,
)
from rivermouth.local.models.licenses import Terms
from rivermouth.local.models.names import parse_name
from rivermouth.local.models.registry import is_sha256

DIGEST = "ab" * 32
WEB = f"""
[[models]]
names = ["web:1", "web"]
license = "MIT"
source = {{ kind = "http", url = "https://host.example/x.gguf" }}
files = [{{ name = "x.gguf", sha256 = "{DIGEST}", size_bytes = 9 }}]
"""


WHEEL = f'kind = "pypi", package = "p", version = "1", wheel_sha256 = "{DIGEST}", wheel_bytes = 1'


def one(name: str, source: str) -> str:
    """A model with this source and nothing else."""
    return f'[[models]]\nnames = ["{name}"]\nlicense = "MIT"\nsource = {{ {source} }}\n'


def test_ours_pins_everything() -> None:
    for name, entry in CATALOG.items():
        assert name == entry.name
        assert entry.listed
        assert entry.size_bytes
        assert entry.attribution
        assert entry.summary
        assert entry.device
        assert not Terms(license=entry.license, model=str(name)).restricted
        assert isinstance(entry.source, WheelSource)
        assert all(is_sha256(file.sha256 or "") for file in entry.files)
    assert SMOLLM2.name == parse_name("smollm2:135m")
    assert CATALOG[parse_name("all-minilm")].files == CATALOG[parse_name("all-minilm:l6-v2")].files
    assert CATALOG[parse_name("all-minilm")].kind == "embedding"


def test_one_of_the_operator_s_own_adds_and_wins(tmp_path: Path) -> None:
    hub = one("h", f'kind = "hf", repository = "o/r", revision = "{"a" * 40}"')
    path = one("smollm2:135m", 'kind = "file", path = "models/x.gguf"')
    (tmp_path / "mine.toml").write_text(f"{WEB}\n{hub}\n{path}", encoding="utf-8")
    found = load_catalog(tmp_path / "mine.toml")
    assert set(found) == set(CATALOG) | {parse_name("web:1"), parse_name("web"), parse_name("h")}
    assert found[parse_name("h")].source == HubSource(repository="o/r", revision="a" * 40)
    assert found[SMOLLM2.name].source == FileSource(path=tmp_path / "models" / "x.gguf")
    assert load_catalog(None) is CATALOG


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[models]", "Expected|Unclosed|Invalid"),
        ("[[model]]", "unknown field `model`"),
        (WEB.replace("license", "licence"), "unknown field `licence`"),
        (WEB.replace('"web:1", "web"', ""), "it has no name"),
        (WEB.replace("web:1", "../x"), "is not a model name"),
        (WEB.replace("web:1", "web"), "stands twice"),
        (WEB + WEB, "stands twice"),
        (WEB.replace("https://", "file://"), "begin with http"),
        (WEB.replace(DIGEST, "xyz"), "is not 64 hexadecimal digits"),
        (WEB.replace("size_bytes = 9", "size_bytes = 0"), "is not positive"),
        (WEB.replace('x.gguf", sha', '../x", sha'), "is not the name of a file"),
        (WEB.replace(f', sha256 = "{DIGEST}"', ""), "one GGUF file with its sha256"),
        (one("h", 'kind = "hf", repository = "o/r"'), "is not a commit"),
        (one("h", 'kind = "hf", repository = "r", revision = "main"'), "is not a repository"),
        (one("h", 'kind = "ftp"'), "Invalid value 'ftp'"),
        (one("w", WHEEL), "a wheel needs its format and its files"),
        (
            one("w", WHEEL) + 'format = "gguf"\nfiles = [{ name = "x.gguf" }]',
            "needs its member, sha256 and size_bytes",
        ),
    ],
)
def test_what_is_wrong_in_one_is_said_with_the_file(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(CatalogError, match=words):
        read_catalog(text)
    (tmp_path / "mine.toml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"mine\.toml: "):
        load_catalog(tmp_path / "mine.toml")


def test_one_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_catalog(tmp_path / "absent.toml")
    (tmp_path / "latin.toml").write_bytes(b"# \xe9")
    with pytest.raises(ConfigError, match="not UTF-8"):
        load_catalog(tmp_path / "latin.toml")

"""What a local model is called: `name` or `name:tag`, where `name` means `name:latest`.

Both halves become parts of a path, so they hold nothing that a path could be made to mean.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from rivermouth.ir.errors import invalid

DEFAULT_TAG: Final = "latest"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}(?:/[A-Za-z0-9][A-Za-z0-9._-]{0,79}){0,2}")
_TAG: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,79}")
_FILE: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]{0,199}")
_REPOSITORY: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}/[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
_REVISION: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._/-]{0,119}")
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")


class ModelName(NamedTuple):
    name: str
    tag: str = DEFAULT_TAG

    def __str__(self) -> str:
        return f"{self.name}:{self.tag}"


def parse_name(text: str) -> ModelName:
    """The name in two halves.  Raises `ApiError` (invalid_request, param "model") for anything that is not a name."""
    name, colon, tag = text.partition(":")
    parsed = ModelName(name, tag if colon else DEFAULT_TAG)
    if not is_name(parsed):
        raise invalid(f"{text[:80]!r} is not a model name", param="model")
    return parsed


def is_name(candidate: ModelName) -> bool:
    """True for names that may become a path."""
    return _NAME.fullmatch(candidate.name) is not None and _TAG.fullmatch(candidate.tag) is not None


def is_file_name(candidate: str) -> bool:
    """True for the flat name of a file: no folder, no climbing, nothing that a terminal or a shell would act on."""
    return _FILE.fullmatch(candidate) is not None


def is_repository(candidate: str) -> bool:
    """True for "owner/name" as model hubs write it."""
    return _REPOSITORY.fullmatch(candidate) is not None and ".." not in candidate and "--" not in candidate


def is_revision(candidate: str) -> bool:
    """True for what may name a branch, a tag or a commit."""
    return _REVISION.fullmatch(candidate) is not None and ".." not in candidate


def is_commit(candidate: str) -> bool:
    """True for the full name of a commit."""
    return _COMMIT.fullmatch(candidate) is not None

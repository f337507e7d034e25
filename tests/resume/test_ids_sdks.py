"""Which SDKs bear an `id:` in their stream: the reason why nobody gets one who has not asked for it (F8).

A table of what was measured, with each SDK itself.  An entry that is no longer true fails here, either way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import anthropic
import cohere
import httpx
import openai
import pytest
from google import genai
from huggingface_hub import InferenceClient

from tests.engine.lab import lab
from tests.engine.words import PLAIN

IDS: Final = {"x-rivermouth-resumable": "ids"}
TALK: Final[list[Any]] = [{"role": "user", "content": "Hi"}]
QUIET: Final = "scripted/scripted"
PAUSING: Final = "scripted/scripted-slow"
"""With pauses that are longer than `hold_s`, so that keep-alives come between."""


def with_openai(url: str, model: str) -> str:
    with openai.OpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0, default_headers=IDS) as client:
        stream = client.chat.completions.create(model=model, messages=TALK, stream=True, max_tokens=5)
        return "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)


def with_anthropic(url: str, model: str) -> str:
    with (
        anthropic.Anthropic(base_url=url, api_key="x", max_retries=0, default_headers=IDS) as client,
        client.messages.stream(model=model, messages=TALK, max_tokens=5) as stream,
    ):
        return stream.get_final_text()


def with_gemini(url: str, model: str) -> str:
    options: Any = {"base_url": f"{url}/gemini", "headers": IDS}
    with closing(genai.Client(api_key="x", http_options=options)) as client:
        config: Any = {"max_output_tokens": 5}
        stream = client.models.generate_content_stream(model=model, contents="Hi", config=config)
        return "".join(chunk.text or "" for chunk in stream)


def with_cohere(url: str, model: str) -> str:
    with httpx.Client(headers=IDS) as http:
        client = cohere.ClientV2(api_key="x", base_url=f"{url}/cohere", httpx_client=http)
        events: Iterator[Any] = iter(client.chat_stream(model=model, messages=TALK, max_tokens=5))
        return "".join(e.delta.message.content.text for e in events if e.type == "content-delta")


def with_tgi(url: str, model: str) -> str:
    with InferenceClient(base_url=f"{url}/tgi", api_key="x", headers=IDS) as client:
        return "".join(client.text_generation("Hi", stream=True, max_new_tokens=5))


BEARS: Final[dict[str, tuple[Callable[[str, str], str], bool, bool]]] = {
    "openai": (with_openai, True, False),
    "anthropic": (with_anthropic, True, True),
    "google-genai": (with_gemini, False, False),
    "cohere": (with_cohere, True, True),
    "huggingface_hub": (with_tgi, True, True),
}
"""Each SDK: how it asks; whether it bears ids; and whether it does where keep-alives come between."""


@pytest.mark.fault("F8")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("model", [QUIET, PAUSING], ids=["quiet", "keep-alives"])
def test_who_bears_ids(tmp_path: Path, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_TELEMETRY", True)
    config = f'server.default_model = "{model}"\n{PLAIN}[timeouts]\nhold_s = 0.02\n'
    found = {}
    with lab(tmp_path, config) as server:
        for name, (ask, _, _) in BEARS.items():
            try:
                found[name] = bool(ask(server.url, model))
            except Exception:  # each SDK has its own way to fail
                found[name] = False
    assert found == {name: paused if model == PAUSING else quiet for name, (_, quiet, paused) in BEARS.items()}

"""Every way to ask for a stream: those of the goldens, and the routes that these leave out."""

from __future__ import annotations

from typing import Final

from tests.engine.words import PLAIN
from tests.goldens.ways import MODEL, WAYS, Way, answer_of

MORE: Final[dict[str, Way]] = {
    "tgi-compat": Way("tgi", "/tgi", {"inputs": "Hi", "stream": True}),
    "tgi-invocations": Way("tgi", "/tgi/invocations", {"inputs": "Hi", "stream": True}),
    "openai_chat-azure": Way(
        "openai_chat",
        f"/openai/deployments/{MODEL}/chat/completions",
        {"messages": [{"role": "user", "content": "Hi"}], "stream": True},
    ),
    "bedrock_invoke-titan-binary": Way(
        "bedrock_invoke", "/model/amazon.titan/invoke-with-response-stream", {"inputText": "Hi"}
    ),
}
EVERY: Final = {**WAYS, **MORE}
NAMES: Final = sorted({answer_of(way).model for way in EVERY.values()})
"""The models that they ask for."""


def served_by(endpoint: str) -> str:
    """A configuration in which that endpoint answers each of them."""
    models = "".join(f'[models."{name}"]\nendpoints = ["{endpoint}"]\n' for name in NAMES)
    return f'{PLAIN}[server]\ndefault_model = "{MODEL}"\n{models}'

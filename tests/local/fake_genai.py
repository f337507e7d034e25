"""A fake of the native engine's module, for a device that this machine does not have.

It stands in for `openvino_genai` as far as the stateful pipeline goes: a token is a letter, an answer is the prompt
spelled backwards, and each token waits until the test lets it go.
"""

from __future__ import annotations

import threading
from enum import Enum
from types import SimpleNamespace
from typing import Any

__version__ = "fake-1"
END = 2


class StreamingStatus(Enum):
    RUNNING = 0
    STOP = 1
    CANCEL = 2


class FinishReason(Enum):
    NONE = 0
    STOP = 1
    LENGTH = 2


class StreamerBase:
    """What the engine calls; it has to have been made by its own constructor."""

    def __init__(self) -> None:
        self.native = True


class GenerationConfig:
    def __init__(self) -> None:
        self.stop_token_ids: set[int] = set()
        self.max_new_tokens = 0

    def set_eos_token_id(self, token: int) -> None:
        self.stop_token_ids.add(token)

    def validate(self) -> None:
        """Everything goes."""


class Tokenizer:
    def __init__(self, path: str, **properties: Any) -> None:
        self.path = path

    def encode(self, text: str, add_special_tokens: bool = True) -> Any:
        ids = [ord(letter) for letter in text]
        return SimpleNamespace(input_ids=SimpleNamespace(shape=(1, len(ids)), ids=ids))

    def decode(self, ids: list[int], **_: Any) -> str:
        return "".join(chr(token) for token in ids if token != END)

    def get_eos_token_id(self) -> int:
        return END


class LLMPipeline:
    """`made` has every pipeline; `token` lets one token go."""

    made: list[LLMPipeline]

    def __init__(self, path: str, device: str, **properties: Any) -> None:
        if properties.get("fails"):
            raise RuntimeError("Check failed at /src/npu.cpp:1:\nno such device")
        self.path = path
        self.device = device
        self.properties = properties
        self.token = threading.Semaphore(0)
        self.prefill = threading.Event()
        self.prefill.set()
        self.calls = 0
        self.failure: Exception | None = None
        LLMPipeline.made.append(self)

    def get_tokenizer(self) -> Tokenizer:
        return Tokenizer(self.path)

    def generate(self, tokens: Any, config: GenerationConfig, streamer: Any) -> Any:
        assert streamer.native
        self.calls += 1
        self.prefill.wait(10)
        if self.failure is not None:
            raise self.failure
        made = [*reversed(tokens.ids), END][: config.max_new_tokens]
        for number, token in enumerate(made, 1):
            self.token.acquire(timeout=10)
            said = streamer.write([token] if number == 1 else token)  # both happen
            if said is not StreamingStatus.RUNNING:
                return SimpleNamespace(finish_reasons=[FinishReason.NONE])
        streamer.end()
        reason = FinishReason.STOP if made[-1] == END else FinishReason.LENGTH
        return SimpleNamespace(finish_reasons=[reason])


LLMPipeline.made = []

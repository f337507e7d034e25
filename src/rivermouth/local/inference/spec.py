"""What an engine process is started with: which program, and the first line that it is told.

A chat model and an encoder of texts have different programs, and the same life around them.

    device NPU                            stateful: one answer at a time, prompts of a fixed length at most
    elsewhere, one answer at a time       stateful: the fast start, from what an earlier load compiled
    elsewhere, several                    continuous batching, with a bounded memory that prompts share where they
                                          begin the same
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from rivermouth.local.words.protocol import Load, LoadEncoder

STEP_S: Final = 60.0
"""The longest step that is still taken for work: a chunk of a prompt, through a large model, on a slow machine."""

NPU: Final = "NPU"
NPU_ANSWER_TOKENS: Final = 512
NPU_PROMPT_STEP: Final = 256
"""An NPU's graph is made for prompts up to a multiple of this."""

SMALL_PARAMETERS: Final = 500_000_000
"""Smaller models are not limited by arithmetic: at full precision a CPU starts them sooner and makes more tokens."""


class EngineSpec(msgspec.Struct, frozen=True, kw_only=True):
    """For a model that answers.

    cache: a folder of its own, for what is made of its files; None keeps nothing.  prompt_tokens: the longest prompt
    that the device takes.  kv_bytes: what the memory of all answers may take, None for the engine's own way.
    step_s: a step that takes longer is taken for a hang.  model: its name, for people.
    """

    path: Path
    context_tokens: int
    end_tokens: tuple[int, ...]
    device: str = "CPU"
    properties: dict[str, str | int] = {}
    max_active: int = 4
    prefix_cache: bool = False
    cache: Path | None = None
    prompt_tokens: int | None = None
    kv_bytes: int | None = None
    kv_tokens: int = 0
    step_s: float = STEP_S
    model: str = ""

    @property
    def stateful(self) -> bool:
        """Whether answers are made one after another."""
        return self.device.startswith(NPU) or self.max_active == 1


class EncoderSpec(msgspec.Struct, frozen=True, kw_only=True):
    """For a model that makes vectors.  cache: a folder of its own, for what it makes of its files."""

    folder: Path
    cache: Path
    context_tokens: int
    device: str = "CPU"
    step_s: float = STEP_S
    model: str = ""


Spec = EngineSpec | EncoderSpec

ENGINE_PROGRAM = "rivermouth.local.inference.child"
ENCODER_PROGRAM = "rivermouth.local.embedding.child"


def program_of(spec: Spec) -> str:
    """The module that is run."""
    return ENGINE_PROGRAM if isinstance(spec, EngineSpec) else ENCODER_PROGRAM


def precision(device: str, parameters: int, *, unpacked: bool) -> dict[str, str | int]:
    """Full precision where the engine's own choice crashes (F16 matrices) or costs (a small model on a CPU)."""
    small = device == "CPU" and parameters <= SMALL_PARAMETERS
    return {"INFERENCE_PRECISION_HINT": "f32"} if unpacked or small else {}


def npu_limits(prompt_tokens: int) -> dict[str, str | int]:
    """The properties that make an NPU's graph take prompts of so many tokens."""
    longest = -(-prompt_tokens // NPU_PROMPT_STEP) * NPU_PROMPT_STEP
    return {"MAX_PROMPT_LEN": longest, "MIN_RESPONSE_LEN": NPU_ANSWER_TOKENS}


def load_command(spec: Spec) -> Load | LoadEncoder:
    """The first line."""
    match spec:
        case EngineSpec():
            return _load(spec)
        case EncoderSpec():
            return LoadEncoder(
                folder=str(spec.folder),
                cache=str(spec.cache),
                device=spec.device,
                context_tokens=spec.context_tokens,
            )


def _load(spec: EngineSpec) -> Load:
    properties, context, prompt = dict(spec.properties), spec.context_tokens, spec.prompt_tokens
    if spec.device.startswith(NPU) and prompt is not None:
        limits = npu_limits(prompt)
        properties |= limits
        context = min(context, sum(int(n) for n in limits.values()))
    return Load(
        path=str(spec.path),
        device=spec.device,
        properties=properties,
        max_active=1 if spec.stateful else spec.max_active,
        context_tokens=context,
        end_tokens=spec.end_tokens,
        prefix_cache=spec.prefix_cache and not spec.stateful,
        cache=str(spec.cache) if spec.cache is not None else None,
        stateful=spec.stateful,
        prompt_tokens=prompt,
        kv_tokens=spec.kv_tokens,
    )

"""What a model needs of the machine's memory, and whether that is there.  Judged before anything native is started.

    need = base + factor * files + the memory of the answers         all in bytes
    free = what the system says is available, within the limit of the container

The memory of an answer is two vectors (key and value) for each token, layer and head.  How many tokens it is made for
follows from what it may take: at least one whole context, as far as there is memory at all; at most all answers that
may be made at once.  What is not in use of it keeps prompts for those that begin the same.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from rivermouth.ir.errors import ApiError, Kind
from rivermouth.local.models.gguf import GgufFile, read_gguf
from rivermouth.local.models.openvino_ir import read_object, whole_number

BASE_BYTES: Final = 200 << 20
"""A process with the engine and no model, and what a step needs (measured: 130 MB, and 50 for a small model)."""

FILE_FACTOR: Final = 2.2
"""The weights as they are mapped, and as they are packed for the processor (measured: 2.0 to 2.2)."""

ELEMENT_BYTES: Final = {"CPU": 1.25}
OTHER_ELEMENT_BYTES: Final = 2.0
"""An element of the memory of an answer: a byte and its part of the scales on a CPU, half a float elsewhere."""

SHARE: Final = 0.5
"""Of what is free beside the model, the memory of its answers takes at most so much."""

LEAST_TOKENS: Final = 512
"""With less than this for an answer and its prompt a model is of no use."""

MARGIN_TOKENS: Final = 64
MEMINFO: Final = Path("/proc/meminfo")
CGROUP: Final = Path("/sys/fs/cgroup")


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes.  kv_tokens: what the memory of the answers is made for; 0 when the model's shape is not known."""

    model: int
    answers: int
    kv_tokens: int

    @property
    def total(self) -> int:
        return self.model + self.answers


def need_of(
    *, files_bytes: int, token_bytes: int, context_tokens: int, max_active: int, kv_bytes: int, free_bytes: int | None
) -> Need:
    """What a model needs, with as large a memory of answers as it may have.

    token_bytes: of one token, 0 if not known.  kv_bytes: the limit for all of them, from the second context on.
    """
    model = model_bytes(files_bytes)
    if not token_bytes:
        return Need(model=model, answers=0, kv_tokens=0)
    one = context_tokens + MARGIN_TOKENS
    tokens = min(max(kv_bytes // token_bytes, one), max_active * one)
    if free_bytes is not None:
        least = min(context_tokens, LEAST_TOKENS) + MARGIN_TOKENS
        tokens = min(tokens, max(int(SHARE * (free_bytes - model)) // token_bytes, least))
    return Need(model=model, answers=tokens * token_bytes, kv_tokens=tokens)


def model_bytes(files_bytes: int) -> int:
    """What a process with the model takes before it answers anything."""
    return BASE_BYTES + int(FILE_FACTOR * files_bytes)


def usable_context(context_tokens: int, need: Need) -> int:
    """The longest prompt and answer that the memory has room for."""
    return min(context_tokens, need.kv_tokens - MARGIN_TOKENS) if need.kv_tokens else context_tokens


def too_little(need: Need, free_bytes: int | None, model: str) -> ApiError | None:
    """Why the model cannot be loaded; None when it can, or when nobody knows what is free."""
    if free_bytes is None or need.total <= free_bytes:
        return None
    return ApiError(
        Kind.OVERLOADED,
        f"the model {model} needs about {need.total >> 20} MB of memory, and {free_bytes >> 20} MB are free "
        "(local.check_memory = false loads it all the same)",
        code="not_enough_memory",
        provider="local",
    )


def element_bytes(device: str) -> float:
    """Of one number in the memory of an answer."""
    return ELEMENT_BYTES.get(device.partition(".")[0], OTHER_ELEMENT_BYTES)


def token_elements(path: Path) -> int:
    """The numbers that one token takes in the memory of an answer; 0 for a model of unknown shape.

    path: a GGUF file or an OpenVINO folder, which have been checked when they came.  Raises `OSError`.
    """
    try:
        if path.is_dir():
            return _elements_of_config(path / "config.json")
        return elements_of(read_gguf(path))
    except ValueError:
        return 0


def elements_of(file: GgufFile) -> int:
    """The same for the header of a GGUF file."""
    architecture = file.text("general.architecture") or ""

    def number(name: str) -> int:
        return file.number(f"{architecture}.{name}") or 0

    heads = number("attention.head_count")
    if not heads:
        return 0
    width = number("embedding_length") // heads
    keys = number("attention.key_length") or width
    values = number("attention.value_length") or keys
    return number("block_count") * (number("attention.head_count_kv") or heads) * (keys + values)


def _elements_of_config(path: Path) -> int:
    said = read_object(path)
    inner = said.get("text_config")
    for part in (said, inner if isinstance(inner, dict) else {}):
        layers, heads = whole_number(part, "num_hidden_layers"), whole_number(part, "num_attention_heads")
        hidden = whole_number(part, "hidden_size")
        if layers and heads and hidden:
            width = whole_number(part, "head_dim") or hidden // heads
            return layers * (whole_number(part, "num_key_value_heads") or heads) * width * 2
    return 0


def free_bytes(meminfo: Path = MEMINFO, cgroup: Path = CGROUP) -> int | None:
    """What a new process may take: of the system, and within the container's limit; None where nothing tells."""
    found = [free for free in (_available(meminfo), _within_limit(cgroup)) if free is not None]
    return min(found, default=None)


def _available(meminfo: Path) -> int | None:
    try:
        lines = meminfo.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def _within_limit(cgroup: Path) -> int | None:
    """The limit less what is used, where files that are only cached count as free."""
    try:
        limit = (cgroup / "memory.max").read_text(encoding="ascii").strip()
        used = int((cgroup / "memory.current").read_text(encoding="ascii"))
        stat = dict(line.split() for line in (cgroup / "memory.stat").read_text(encoding="ascii").splitlines())
    except (OSError, ValueError):
        return None
    return int(limit) - used + int(stat.get("inactive_file", 0)) if limit.isdigit() else None

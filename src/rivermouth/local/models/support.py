"""Will the engine take this file?  Answered from the header alone, with a reason for a person when it will not.

The engine's GGUF reader knows three architectures and a few packings.  What it does not know it finds out late, or
with a crash, so everything that it relies on is checked here: the keys it looks up, the tensors of every block, and
the shapes that follow from the keys.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Final

import msgspec

from rivermouth.local.models.gguf import TOKENS_KEY, GgufError, GgufFile, Tensor, read_gguf

ARCHITECTURES: Final = frozenset({"llama", "qwen2", "qwen3"})
MATRIX_TYPES: Final = frozenset({"F16", "Q4_0", "Q4_1", "Q8_0", "Q4_K", "Q6_K"})
VECTOR_TYPES: Final = frozenset({"F32"})
UNPACKED: Final = frozenset({"F32", "F16"})
BLOCKS_CAP: Final = 1024
CONTEXT_CAP_TOKENS: Final = 1 << 22
TEMPLATE_KEY: Final = "tokenizer.chat_template"

NUMBERS: Final = (
    "block_count",
    "context_length",
    "embedding_length",
    "feed_forward_length",
    "attention.head_count",
)
NORMS: Final = ("attn_norm", "ffn_norm")
# The end of a text, of a turn, and of a message that waits for the result of its call.
END_KEYS: Final = tuple(f"tokenizer.ggml.{end}_token_id" for end in ("eos", "eot", "eom"))


class Unsupported(GgufError):
    """A sound GGUF file that the engine cannot run."""


class ModelFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the rest of the program needs to know of a model file.

    longest_token_bytes: no token is longer, so a text of n bytes has at least n / longest_token_bytes tokens.
    end_tokens: ids that end an answer.  unpacked: the matrices are F16, which the engine runs at full precision only.
    """

    architecture: str
    name: str | None
    license: str | None
    context_tokens: int
    parameters: int
    quantization: str
    template: str | None
    longest_token_bytes: int
    end_tokens: tuple[int, ...]
    unpacked: bool


def inspect(path: Path) -> ModelFacts:
    """What the file says of itself.  Raises `GgufError` for a bad file, `Unsupported` for one that cannot run."""
    return facts_of(read_gguf(path))


def facts_of(file: GgufFile) -> ModelFacts:
    """Pure half of `inspect`."""
    architecture = file.text("general.architecture") or "none"
    if architecture not in ARCHITECTURES:
        raise Unsupported(f"the architecture {architecture[:40]!r} is not one of {', '.join(sorted(ARCHITECTURES))}")
    numbers = {name: _positive(file, f"{architecture}.{name}") for name in NUMBERS}
    if numbers["block_count"] > BLOCKS_CAP or numbers["context_length"] > CONTEXT_CAP_TOKENS:
        raise GgufError("the header claims more blocks or a longer context than a model can have")
    _check_tensors(file, numbers, architecture)
    packings = Counter[str]()
    for tensor in file.tensors.values():
        if len(tensor.extents) > 1:
            packings[tensor.type] += tensor.elements
    return ModelFacts(
        architecture=architecture,
        name=file.text("general.name"),
        license=file.text("general.license"),
        context_tokens=numbers["context_length"],
        parameters=sum(tensor.elements for tensor in file.tensors.values()),
        quantization=packings.most_common(1)[0][0],
        template=file.text(TEMPLATE_KEY),
        longest_token_bytes=_tokens(file, numbers["embedding_length"]),
        end_tokens=_end_tokens(file),
        unpacked=not UNPACKED.isdisjoint(packings),
    )


def parameters_label(count: int) -> str:
    """135_000_000 -> "135M"; three digits at most."""
    for unit, size in (("B", 10**9), ("M", 10**6), ("K", 10**3)):
        if count >= size:
            return f"{count / size:.3g}{unit}" if count < 1000 * size else f"{count // size}{unit}"
    return str(count)


def _positive(file: GgufFile, key: str) -> int:
    value = file.number(key)
    if value is None or value <= 0:
        raise GgufError(f"{key} is missing or not positive")
    return value


def _check_tensors(file: GgufFile, numbers: dict[str, int], architecture: str) -> None:
    width = numbers["embedding_length"]
    heads = numbers["attention.head_count"]
    kv_heads = file.number(f"{architecture}.attention.head_count_kv") or heads
    head_width = file.number(f"{architecture}.attention.key_length") or width // heads
    if not 0 < kv_heads <= heads or heads % kv_heads or head_width <= 0:
        raise GgufError("the attention heads of the header do not fit together")
    inner = numbers["feed_forward_length"]
    matrices = {
        "attn_q": (width, heads * head_width),
        "attn_k": (width, kv_heads * head_width),
        "attn_v": (width, kv_heads * head_width),
        "attn_output": (heads * head_width, width),
        "ffn_gate": (width, inner),
        "ffn_up": (width, inner),
        "ffn_down": (inner, width),
    }
    _vector(file.tensors, "output_norm.weight", width)
    for block in range(numbers["block_count"]):
        for name in NORMS:
            _vector(file.tensors, f"blk.{block}.{name}.weight", width)
        for name, extents in matrices.items():
            _matrix(file.tensors, f"blk.{block}.{name}.weight", extents)
    for name, tensor in file.tensors.items():
        allowed = VECTOR_TYPES if len(tensor.extents) == 1 else MATRIX_TYPES
        if tensor.type not in allowed:
            raise Unsupported(
                f"the tensor {name[:80]!r} is packed as {tensor.type}; the engine reads "
                f"{', '.join(sorted(allowed))} there"
            )


def _tokens(file: GgufFile, width: int) -> int:
    """The longest token in bytes, after the vocabulary and the matrices made for it are found to agree."""
    tokens = file.items(TOKENS_KEY)
    if tokens is None or not tokens.length or not tokens.longest_bytes:
        raise GgufError("the file has no vocabulary")
    table = file.tensors.get("token_embd.weight")
    if table is None or len(table.extents) != 2 or table.extents[0] != width or table.extents[1] < tokens.length:
        raise GgufError("token_embd.weight is missing or does not fit the vocabulary")
    head = file.tensors.get("output.weight")
    if head is not None and head.extents != table.extents:
        raise GgufError("output.weight does not fit the vocabulary")
    kinds = file.items("tokenizer.ggml.token_type")
    if kinds is not None and kinds.length != tokens.length:
        raise GgufError("tokenizer.ggml.token_type does not fit the vocabulary")
    return tokens.longest_bytes


def _end_tokens(file: GgufFile) -> tuple[int, ...]:
    tokens = file.items(TOKENS_KEY)
    ends = tuple(dict.fromkeys(n for key in END_KEYS if (n := file.number(key)) is not None))
    if not ends or tokens is None or any(not 0 <= end < tokens.length for end in ends):
        raise GgufError("the file names no token that ends an answer, or one outside its vocabulary")
    return ends


def _vector(tensors: dict[str, Tensor], name: str, length: int) -> None:
    tensor = tensors.get(name)
    if tensor is None or tensor.extents != (length,):
        raise GgufError(f"{name} is missing or has the wrong shape")


def _matrix(tensors: dict[str, Tensor], name: str, extents: tuple[int, int]) -> None:
    tensor = tensors.get(name)
    if tensor is None or tensor.extents != extents:
        raise GgufError(f"{name} is missing or has the wrong shape")

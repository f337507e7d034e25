"""Is this embedding model whole?  Judged from the header of its weights and from its texts.

    model.safetensors = length (8 bytes) header data        header: {name: {dtype, shape, data_offsets}}

The weights are numbers alone, so nothing in them can run; what is checked is that they are all there and fit the
config, before anything is built of them.
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from rivermouth.ir.errors import WireError
from rivermouth.local.models.openvino_ir import IrError, read_object, text_of, whole_number
from rivermouth.local.models.support import ModelFacts
from rivermouth.wire import json

MAIN: Final = "model.safetensors"
NEEDED: Final = (MAIN, "config.json", "tokenizer.json")
ARCHITECTURES: Final = frozenset({"bert"})
HEADER_CAP_BYTES: Final = 64 << 20
TENSORS_CAP: Final = 1 << 16

_BYTES: Final[dict[str, int]] = {
    "BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "U16": 2, "I16": 2, "F16": 2, "BF16": 2, "U32": 4,
    "I32": 4, "F32": 4, "U64": 8, "I64": 8, "F64": 8,
}  # fmt: skip


class Tensor(msgspec.Struct, frozen=True):
    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]


class Embedding(NamedTuple):
    """`facts` as of any model; `dimensions` of its vectors."""

    facts: ModelFacts
    dimensions: int


_HEADER: Final = json.typed(dict[str, msgspec.Raw])
_TENSOR: Final = json.typed(Tensor)


def inspect_embedding(folder: Path) -> Embedding:
    """What the folder says of itself.  Raises `IrError`, or `OSError` for the disk."""
    for name in NEEDED:
        if not (folder / name).is_file():
            raise IrError(f"{name} is missing")
    config = read_object(folder / "config.json")
    architecture = text_of(config, "model_type") or "none"
    if architecture not in ARCHITECTURES:
        raise IrError(f"the architecture {architecture[:40]!r} is not one of {', '.join(sorted(ARCHITECTURES))}")
    width, positions = whole_number(config, "hidden_size"), whole_number(config, "max_position_embeddings")
    if width is None or positions is None:
        raise IrError("config.json does not say hidden_size and max_position_embeddings")
    if not isinstance(read_object(folder / "tokenizer.json").get("model"), dict):
        raise IrError("tokenizer.json has no vocabulary")
    tensors = read_tensors(folder / MAIN)
    table = tensors.get("embeddings.word_embeddings.weight")
    if table is None or len(table.shape) != 2 or table.shape[1] != width:
        raise IrError("the table of word embeddings is missing or does not fit hidden_size")
    packings = Counter[str]()
    for tensor in tensors.values():
        packings[tensor.dtype] += math.prod(tensor.shape)
    longest = whole_number(read_object(folder / "sentence_bert_config.json"), "max_seq_length")
    facts = ModelFacts(
        architecture=architecture,
        name=None,
        license=None,
        context_tokens=min(longest or positions, positions),
        parameters=packings.total(),
        quantization=packings.most_common(1)[0][0],
        template=None,
        longest_token_bytes=0,
        end_tokens=(),
        unpacked=False,
    )
    return Embedding(facts, width)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The header of the file at `path`, checked against its size.  Raises `IrError`."""
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(8)
        length = struct.unpack("<Q", head)[0] if len(head) == 8 else 0
        if not 2 <= length <= min(HEADER_CAP_BYTES, size - 8):
            raise IrError(f"{path.name} is not a safetensors file, or it is truncated")
        text = file.read(length)
    try:
        header = json.decode_as(_HEADER, text)
        tensors = {name: json.decode_as(_TENSOR, raw) for name, raw in header.items() if name != "__metadata__"}
    except WireError as error:
        raise IrError(f"the header of {path.name} is broken: {error}") from None
    if not tensors or len(tensors) > TENSORS_CAP:
        raise IrError(f"{path.name} has no tensors, or too many")
    for name, tensor in tensors.items():
        begin, end = tensor.data_offsets
        width = _BYTES.get(tensor.dtype)
        if width is None or any(extent < 0 for extent in tensor.shape):
            raise IrError(f"the tensor {name[:80]!r} has a type or a shape that is not known")
        if begin < 0 or end - begin != math.prod(tensor.shape) * width:
            raise IrError(f"the tensor {name[:80]!r} has another size than its shape needs")
        if 8 + length + end > size:
            raise IrError(f"{path.name} is truncated: it has {size} bytes and needs {8 + length + end}")
    return tensors

"""Reads the header of a GGUF file in plain Python, so that the native reader never sees a bad one.

A truncated or mutated file kills a process that maps it; here it raises `GgufError` with a reason for a person.  The
file is read as a stream: memory stays within a few times `TEXT_CAP_BYTES`, whatever the header claims, and every count
is bounded before a loop trusts it, so the work is bounded by the size of the file.

    file     = "GGUF" version tensor_count key_count  key*  tensor*  padding  data
    key      = name type value             value of type ARRAY = item_type count item*
    tensor   = name rank extent*rank type offset           offset counts from the aligned start of data
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import msgspec

MAGIC: Final = b"GGUF"
VERSIONS: Final = frozenset({2, 3})
KEYS_CAP: Final = 1 << 16
TENSORS_CAP: Final = 1 << 16
ITEMS_CAP: Final = 1 << 24
NAME_CAP_BYTES: Final = 1 << 16
TEXT_CAP_BYTES: Final = 1 << 20
RANK_CAP: Final = 4
ALIGNMENT_KEY: Final = "general.alignment"
ALIGNMENT_DEFAULT: Final = 32
ALIGNMENT_CAP: Final = 1 << 16
TOKENS_KEY: Final = "tokenizer.ggml.tokens"

_STRING: Final = 8
_ARRAY: Final = 9
_BOOL: Final = 7

_SCALARS: Final[dict[int, struct.Struct]] = {
    0: struct.Struct("<B"),
    1: struct.Struct("<b"),
    2: struct.Struct("<H"),
    3: struct.Struct("<h"),
    4: struct.Struct("<I"),
    5: struct.Struct("<i"),
    6: struct.Struct("<f"),
    _BOOL: struct.Struct("<B"),
    10: struct.Struct("<Q"),
    11: struct.Struct("<q"),
    12: struct.Struct("<d"),
}
_U32: Final = _SCALARS[4]
_U64: Final = _SCALARS[10]


class TensorType(NamedTuple):
    """How elements are packed: `block` of them take `block_bytes`."""

    name: str
    block: int
    block_bytes: int


TENSOR_TYPES: Final[dict[int, TensorType]] = {
    0: TensorType("F32", 1, 4),
    1: TensorType("F16", 1, 2),
    2: TensorType("Q4_0", 32, 18),
    3: TensorType("Q4_1", 32, 20),
    6: TensorType("Q5_0", 32, 22),
    7: TensorType("Q5_1", 32, 24),
    8: TensorType("Q8_0", 32, 34),
    9: TensorType("Q8_1", 32, 36),
    10: TensorType("Q2_K", 256, 84),
    11: TensorType("Q3_K", 256, 110),
    12: TensorType("Q4_K", 256, 144),
    13: TensorType("Q5_K", 256, 176),
    14: TensorType("Q6_K", 256, 210),
    15: TensorType("Q8_K", 256, 292),
    16: TensorType("IQ2_XXS", 256, 66),
    17: TensorType("IQ2_XS", 256, 74),
    18: TensorType("IQ3_XXS", 256, 98),
    19: TensorType("IQ1_S", 256, 50),
    20: TensorType("IQ4_NL", 32, 18),
    21: TensorType("IQ3_S", 256, 110),
    22: TensorType("IQ2_S", 256, 82),
    23: TensorType("IQ4_XS", 256, 136),
    24: TensorType("I8", 1, 1),
    25: TensorType("I16", 1, 2),
    26: TensorType("I32", 1, 4),
    27: TensorType("I64", 1, 8),
    28: TensorType("F64", 1, 8),
    29: TensorType("IQ1_M", 256, 56),
    30: TensorType("BF16", 1, 2),
    34: TensorType("TQ1_0", 256, 54),
    35: TensorType("TQ2_0", 256, 66),
    39: TensorType("MXFP4", 32, 17),
}


class GgufError(ValueError):
    """The file is not a GGUF file that can be trusted; the text says why."""


class Items(NamedTuple):
    """An array of the header: how many items, and the longest in bytes (0 for numbers).  The items are not kept."""

    length: int
    longest_bytes: int = 0


class Tensor(NamedTuple):
    """`extents` as the file writes them: the row length first."""

    extents: tuple[int, ...]
    type: str
    elements: int


Value = int | float | bool | str | Items


class GgufFile(msgspec.Struct, frozen=True):
    """What the header says.  `size_bytes` is the file's own."""

    keys: dict[str, Value]
    tensors: dict[str, Tensor]
    size_bytes: int

    def text(self, key: str) -> str | None:
        """A string of the header, None if absent or empty.  Raises `GgufError` if it is something else."""
        value = self.keys.get(key)
        if value is None or value == "":
            return None
        if not isinstance(value, str):
            raise GgufError(f"{key} is not text")
        return value

    def number(self, key: str) -> int | None:
        """A whole number of the header, None if absent.  Raises `GgufError` if it is something else."""
        value = self.keys.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            raise GgufError(f"{key} is not a whole number")
        return value

    def items(self, key: str) -> Items | None:
        """An array of the header, None if absent.  Raises `GgufError` if it is something else."""
        value = self.keys.get(key)
        if value is None or isinstance(value, Items):
            return value
        raise GgufError(f"{key} is not an array")


def read_gguf(path: Path) -> GgufFile:
    """The header of the file at `path`, checked against its size.  Raises `GgufError`, or `OSError` for the disk."""
    with path.open("rb") as file:
        return _Reader(file, os.fstat(file.fileno()).st_size).read()


class _Reader:
    """One pass over one header."""

    def __init__(self, file: BinaryIO, size_bytes: int) -> None:
        self._file = file
        self._size = size_bytes
        self._at = 0

    def read(self) -> GgufFile:
        if self._take(4) != MAGIC:
            raise GgufError("this is not a GGUF file")
        version = self._scalar(_U32)
        if version not in VERSIONS:
            raise GgufError(f"GGUF version {version} is not known")
        tensor_count = self._count(TENSORS_CAP, "tensors")
        key_count = self._count(KEYS_CAP, "keys")
        if not tensor_count or not key_count:
            raise GgufError("the file holds no tensors or no keys")
        keys = self._keys(key_count)
        alignment = _alignment(keys)
        tensors, data_bytes = self._tensors(tensor_count, alignment)
        start = -(-self._at // alignment) * alignment
        if start + data_bytes > self._size:
            raise GgufError(f"the file is truncated: it has {self._size} bytes and needs {start + data_bytes}")
        return GgufFile(keys, tensors, self._size)

    def _keys(self, count: int) -> dict[str, Value]:
        keys: dict[str, Value] = {}
        for _ in range(count):
            name = self._string(NAME_CAP_BYTES)
            if name in keys:
                raise GgufError(f"the key {name[:80]!r} stands twice")
            keys[name] = self._value(int(self._scalar(_U32)))
        return keys

    def _value(self, kind: int) -> Value:
        if kind == _STRING:
            return self._string(TEXT_CAP_BYTES)
        if kind == _ARRAY:
            return self._array()
        packing = _SCALARS.get(kind)
        if packing is None:
            raise GgufError(f"value type {kind} is not known")
        value = self._scalar(packing)
        return bool(value) if kind == _BOOL else value

    def _array(self) -> Items:
        """Steps over the items; only strings are looked at, for their length."""
        kind = int(self._scalar(_U32))
        count = self._count(ITEMS_CAP, "items of an array")
        packing = _SCALARS.get(kind)
        if packing is not None:
            self._skip(packing.size * count)
            return Items(count)
        if kind != _STRING:
            raise GgufError(f"an array of type {kind} is not known")
        longest = 0
        for _ in range(count):
            length = self._length(NAME_CAP_BYTES)
            self._take(length)
            longest = max(longest, length)
        return Items(count, longest)

    def _tensors(self, count: int, alignment: int) -> tuple[dict[str, Tensor], int]:
        """The tensors, and where the last one ends, counted from the start of the data."""
        tensors: dict[str, Tensor] = {}
        end = 0
        for _ in range(count):
            name = self._string(NAME_CAP_BYTES)
            if name in tensors:
                raise GgufError(f"the tensor {name[:80]!r} stands twice")
            tensor, offset, size = self._tensor(name[:80])
            if offset % alignment:
                raise GgufError(f"the tensor {name[:80]!r} is not aligned")
            tensors[name] = tensor
            end = max(end, offset + size)
        return tensors, end

    def _tensor(self, name: str) -> tuple[Tensor, int, int]:
        rank = int(self._scalar(_U32))
        if not 1 <= rank <= RANK_CAP:
            raise GgufError(f"the tensor {name!r} has rank {rank}")
        extents = tuple(int(self._scalar(_U64)) for _ in range(rank))
        code = int(self._scalar(_U32))
        offset = int(self._scalar(_U64))
        kind = TENSOR_TYPES.get(code)
        if kind is None:
            raise GgufError(f"the tensor {name!r} has type {code}, which is not known")
        elements = 1
        for extent in extents:
            elements *= extent
        if not elements or extents[0] % kind.block:
            raise GgufError(f"the tensor {name!r} has rows of {extents[0]}, which {kind.name} cannot pack")
        return Tensor(extents, kind.name, elements), offset, elements // kind.block * kind.block_bytes

    def _string(self, cap_bytes: int) -> str:
        return self._take(self._length(cap_bytes)).decode("utf-8", "replace")

    def _length(self, cap_bytes: int) -> int:
        length = int(self._scalar(_U64))
        if length > cap_bytes:
            raise GgufError(f"a text of {length} bytes in the header is longer than {cap_bytes}")
        return length

    def _count(self, cap: int, what: str) -> int:
        count = int(self._scalar(_U64))
        if count > cap:
            raise GgufError(f"{count} {what} are more than {cap}")
        return count

    def _scalar(self, packing: struct.Struct) -> int | float:
        value: int | float = packing.unpack(self._take(packing.size))[0]
        return value

    def _skip(self, count: int) -> None:
        if count > self._size - self._at:
            raise GgufError("the header is truncated")
        self._file.seek(count, os.SEEK_CUR)
        self._at += count

    def _take(self, count: int) -> bytes:
        data = self._file.read(count)
        if len(data) != count:
            raise GgufError("the header is truncated")
        self._at += count
        return data


def _alignment(keys: Mapping[str, Value]) -> int:
    value = keys.get(ALIGNMENT_KEY, ALIGNMENT_DEFAULT)
    if isinstance(value, bool) or not isinstance(value, int) or not 8 <= value <= ALIGNMENT_CAP or value & (value - 1):
        raise GgufError(f"{ALIGNMENT_KEY} is not a power of two between 8 and {ALIGNMENT_CAP}")
    return value

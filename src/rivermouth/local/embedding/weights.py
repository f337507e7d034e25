"""The numbers of a safetensors file, tensor by tensor.  What the file must be: `models.safetensors`."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from rivermouth.local.models.safetensors import read_tensors

PREFIX_BYTES: Final = 8

# How a number lies in the file, little-endian.  A BF16 is the upper half of a float32.
DTYPES: Final[dict[str, str]] = {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}

Array = NDArray[np.float32]


class BadWeights(ValueError):
    """Not what a network can be built of."""


class Weights:
    """An open file."""

    def __init__(self, path: Path) -> None:
        """Raises `IrError` for a file that is broken, and `OSError` for one that cannot be read."""
        self._tensors = read_tensors(path)
        with path.open("rb") as file:
            self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        (header,) = struct.unpack("<Q", self._data[:PREFIX_BYTES])
        self._start = PREFIX_BYTES + header

    def tensor(self, name: str, *shape: int) -> Array:
        """A copy as float32.  Raises `BadWeights` when it is not there, or not of that shape."""
        place = self._tensors.get(name)
        if place is None:
            raise BadWeights(f"the weights have no tensor {name!r}")
        if place.shape != shape:
            raise BadWeights(f"the tensor {name!r} has the shape {list(place.shape)} instead of {list(shape)}")
        kind = DTYPES.get(place.dtype)
        if kind is None:
            raise BadWeights(f"the tensor {name!r} is of {place.dtype}, not of {', '.join(DTYPES)}")
        begin, end = place.data_offsets
        numbers: NDArray[Any] = np.frombuffer(self._data[self._start + begin : self._start + end], dtype=kind)
        if place.dtype == "BF16":
            numbers = (numbers.astype(np.uint32) << 16).view(np.float32)
        return numbers.astype(np.float32).reshape(shape)

    def close(self) -> None:
        self._data.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

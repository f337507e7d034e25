"""Which files of a folder or repository make a model.  Pure: names in, names out."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from rivermouth.local.models.names import is_file_name
from rivermouth.local.models.openvino_ir import ALLOWED, MAIN, NEEDED

GGUF: Final = ".gguf"
_SPLIT: Final = re.compile(r"-\d{5}-of-\d{5}\.gguf$")
SHOWN: Final = 12


class Unclear(ValueError):
    """No model can be made out; the text says why."""


def chosen(names: Iterable[str]) -> tuple[str, ...] | None:
    """The files of an OpenVINO model, the main one first; None when there is none.  What is missing is found later."""
    found = sorted(ALLOWED & set(names))
    if MAIN not in found:
        return None
    return (MAIN, *(name for name in found if name != MAIN))


def whole_repository(names: Iterable[str]) -> tuple[str, ...]:
    """The OpenVINO model of a repository, else its one GGUF file.  Raises `Unclear`."""
    names = list(names)
    folder = chosen(names)
    if folder is not None:
        missing = sorted(set(NEEDED) - set(folder))
        if missing:
            raise Unclear(f"its OpenVINO model lacks {', '.join(missing)}")
        return folder
    single = sorted(name for name in names if name.lower().endswith(GGUF))
    if not single:
        raise Unclear("it holds neither an OpenVINO model nor a GGUF file")
    if len(single) > 1:
        more = ", ..." if len(single) > SHOWN else ""
        raise Unclear(f"it holds several GGUF files; name one of them: {', '.join(single[:SHOWN])}{more}")
    return one_file(single[0], names)


def one_file(path: str, names: Iterable[str]) -> tuple[str, ...]:
    """The one GGUF file of that path.  Raises `Unclear`."""
    if path not in names:
        raise Unclear(f"it has no file {path!r}")
    if not path.lower().endswith(GGUF) or not all(map(is_file_name, path.split("/"))):
        raise Unclear(f"{path!r} is not the name of a GGUF file")
    if _SPLIT.search(path):
        raise Unclear(f"{path!r} is one part of a model that was cut in pieces, which the engine cannot read")
    return (path,)

"""Will the engine take this folder?  An OpenVINO model with its tokenizer, judged from its texts alone.

    openvino_model.xml/.bin            the network: what it needs of the .bin stands in the .xml, so a cut file is seen
    openvino_tokenizer.xml/.bin        text to tokens; `rt_info` at its end may hold the template and the end token
    openvino_detokenizer.xml/.bin      tokens to text
    config.json                        architecture, context, end tokens
    generation_config.json, tokenizer.json, tokenizer_config.json, chat_template.jinja ...      where they are there

No native code is asked.  An .xml is read as a stream, without a document type, so that nothing in it can swell.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final
from xml.parsers import expat

from rivermouth.ir.errors import WireError
from rivermouth.local.models.gguf import GgufError
from rivermouth.local.models.support import CONTEXT_CAP_TOKENS, ModelFacts
from rivermouth.wire import json

NETWORKS: Final = ("openvino_model", "openvino_tokenizer", "openvino_detokenizer")
NEEDED: Final = (*(f"{name}{suffix}" for name in NETWORKS for suffix in (".xml", ".bin")), "config.json")
MAIN: Final = "openvino_model.xml"
USEFUL: Final = (
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "tokenizer.model",
    "chat_template.jinja",
    "chat_template.json",
    "openvino_config.json",
)
ALLOWED: Final = frozenset((*NEEDED, *USEFUL))
"""Every other name in a folder or repository is left where it is."""

TEXT_CAP_BYTES: Final = 64 << 20
XML_CAP_BYTES: Final = 512 << 20
LONGEST_TOKEN_BYTES: Final = 1024
"""Taken for the longest token where no vocabulary can be read; real ones have a quarter of it."""

WEIGHT_ELEMENTS: Final = 4096
"""Constants with fewer elements say nothing about how the weights are packed."""

_BITS: Final[dict[str, int]] = {
    "boolean": 8, "u1": 1, "u2": 2, "u3": 3, "u4": 4, "u6": 6, "i4": 4, "nf4": 4, "f4e2m1": 4, "f8e4m3": 8, "f8e5m2": 8,
    "f8e8m0": 8, "u8": 8, "i8": 8, "u16": 16, "i16": 16, "f16": 16, "bf16": 16, "u32": 32, "i32": 32, "f32": 32,
    "u64": 64, "i64": 64, "f64": 64,
}  # fmt: skip
PACKINGS: Final[dict[str, str]] = {"u4": "INT4", "i4": "INT4", "u8": "INT8", "i8": "INT8"}


class IrError(GgufError):
    """The folder is not a model that can be trusted, or that the engine can run; the text says why."""


class Network:
    """What an .xml says: which types its weights have, how many elements, and how far into the .bin they reach."""

    def __init__(self) -> None:
        self.parameters = 0
        self.packings = Counter[str]()
        self.needs_bytes = 0
        self.info: dict[str, str] = {}
        self.root: str | None = None
        self._path: list[str] = []
        self._constant = False

    def started(self, tag: str, said: Mapping[str, str]) -> None:
        """One element begins."""
        if self.root is None:
            self.root = tag
        if tag == "layer" and self._path == ["net", "layers"]:
            self._constant = said.get("type") == "Const"
        elif tag == "data" and self._constant and self._path == ["net", "layers", "layer"]:
            self._weights(said)
        elif self._path == ["net", "rt_info"] and "value" in said:
            self.info[tag] = said["value"]
        self._path.append(tag)
        if len(self._path) > 64:
            raise IrError("its elements are nested too deeply")

    def ended(self, tag: str) -> None:
        """It ends."""
        self._path.pop()

    def _weights(self, said: Mapping[str, str]) -> None:
        kind = said.get("element_type", "")
        try:
            offset, size = int(said["offset"]), int(said["size"])
            extents = [int(extent) for extent in said.get("shape", "").split(",") if extent.strip()]
        except (KeyError, ValueError):
            raise IrError("a constant has no place or shape") from None
        elements = math.prod(extents)
        bits = _BITS.get(kind)
        if offset < 0 or size < 0 or elements < 0 or (bits is not None and size < elements * bits // 8):
            raise IrError("a constant has fewer bytes than its shape needs")
        self.needs_bytes = max(self.needs_bytes, offset + size)
        if elements >= WEIGHT_ELEMENTS and kind not in ("i64", "i32", "string"):
            self.packings[kind] += elements
            self.parameters += elements


def inspect_ir(folder: Path) -> ModelFacts:
    """What the folder says of itself.  Raises `IrError`, or `OSError` for the disk."""
    for name in NEEDED:
        if not (folder / name).is_file():
            raise IrError(f"{name} is missing")
    networks = {name: _network(folder, name) for name in NETWORKS}
    config = read_object(folder / "config.json")
    model, tokenizer = networks["openvino_model"], networks["openvino_tokenizer"]
    if not model.packings:
        raise IrError("openvino_model.xml has no weights")
    packing = model.packings.most_common(1)[0][0]
    return ModelFacts(
        architecture=text_of(config, "model_type") or "unknown",
        name=None,
        license=None,
        context_tokens=_context(config),
        parameters=model.parameters,
        quantization=PACKINGS.get(packing, packing.upper()),
        template=_template(folder, tokenizer.info),
        longest_token_bytes=_longest_token(folder),
        end_tokens=_end_tokens(folder, config, tokenizer.info),
        unpacked=False,
    )


def check_texts(folder: Path) -> None:
    """Refuses by the small files alone, before the large ones are fetched.  Raises `IrError`."""
    config = read_object(folder / "config.json")
    _context(config)
    _template(folder, {})
    _longest_token(folder)


def read_object(path: Path) -> dict[str, Any]:
    """A JSON object of bounded size; an absent file is empty.  Raises `IrError`."""
    if not path.is_file():
        return {}
    if path.stat().st_size > TEXT_CAP_BYTES:
        raise IrError(f"{path.name} is larger than {TEXT_CAP_BYTES} bytes")
    try:
        found = json.decode(path.read_bytes())
    except WireError as error:
        raise IrError(f"{path.name} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise IrError(f"{path.name} is not a JSON object")
    return found


def text_of(said: Mapping[str, Any], key: str) -> str | None:
    """A text of the object; None where there is none or something else."""
    value = said.get(key)
    return value if isinstance(value, str) and value else None


def whole_number(said: Mapping[str, Any], key: str) -> int | None:
    """A positive whole number of the object; None where there is none or something else."""
    value = said.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _network(folder: Path, name: str) -> Network:
    path = folder / f"{name}.xml"
    if path.stat().st_size > XML_CAP_BYTES:
        raise IrError(f"{path.name} is larger than {XML_CAP_BYTES} bytes")
    network = Network()
    parser = expat.ParserCreate()
    parser.StartElementHandler = network.started
    parser.EndElementHandler = network.ended
    parser.StartDoctypeDeclHandler = _refuse_doctype
    try:
        with path.open("rb") as file:
            parser.ParseFile(file)
    except expat.ExpatError as error:
        raise IrError(f"{path.name} is not XML: {expat.ErrorString(error.code)}, line {error.lineno}") from None
    except IrError as error:
        raise IrError(f"{path.name}: {error}") from None
    if network.root != "net":
        raise IrError(f"{path.name} is not an OpenVINO model")
    has = path.with_suffix(".bin").stat().st_size
    if has < network.needs_bytes:
        raise IrError(f"{name}.bin is truncated: it has {has} bytes and needs {network.needs_bytes}")
    return network


def _refuse_doctype(*_: object) -> None:
    raise IrError("it has a document type, which no model has")


def _context(config: Mapping[str, Any]) -> int:
    """Of the config itself, or of the language part of a larger one."""
    inner = config.get("text_config")
    for part in (config, inner if isinstance(inner, dict) else {}):
        found = whole_number(part, "max_position_embeddings") or whole_number(part, "n_positions")
        if found is not None:
            if found > CONTEXT_CAP_TOKENS:
                raise IrError("config.json claims a longer context than a model can have")
            return found
    raise IrError("config.json does not say how long the context is (max_position_embeddings)")


def _end_tokens(folder: Path, config: Mapping[str, Any], info: Mapping[str, str]) -> tuple[int, ...]:
    generation = read_object(folder / "generation_config.json")
    said = [*_numbers(generation.get("eos_token_id")), *_numbers(config.get("eos_token_id"))]
    if info.get("eos_token_id", "").isdigit():
        said.append(int(info["eos_token_id"]))
    if not said:
        raise IrError("nothing names the token that ends an answer (eos_token_id)")
    return tuple(dict.fromkeys(said))


def _numbers(value: object) -> Iterable[int]:
    values = value if isinstance(value, list) else [value]
    return [n for n in values[:64] if isinstance(n, int) and not isinstance(n, bool) and n >= 0]


def _template(folder: Path, info: Mapping[str, str]) -> str | None:
    """The first of the places where a chat template may stand."""
    path = folder / "chat_template.jinja"
    if path.is_file():
        if path.stat().st_size > 1 << 20:
            raise IrError("chat_template.jinja is larger than 1 MiB")
        return path.read_text(encoding="utf-8", errors="replace") or None
    for name in ("chat_template.json", "tokenizer_config.json"):
        found = read_object(folder / name).get("chat_template")
        if isinstance(found, list):  # several, each with a name
            named = {one.get("name"): one.get("template") for one in found if isinstance(one, dict)}
            found = named.get("default")
        if isinstance(found, str) and found:
            return found
    return info.get("chat_template") or None


def _longest_token(folder: Path) -> int:
    """Of the vocabulary where it can be read, never less than one byte for each of its letters."""
    model = read_object(folder / "tokenizer.json").get("model")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    match vocabulary:
        case dict():
            tokens: Iterable[object] = vocabulary.keys()
        case list():
            tokens = (row[0] for row in vocabulary if isinstance(row, list) and row)
        case _:
            return LONGEST_TOKEN_BYTES
    longest = max((len(token.encode(errors="replace")) for token in tokens if isinstance(token, str)), default=0)
    return longest or LONGEST_TOKEN_BYTES

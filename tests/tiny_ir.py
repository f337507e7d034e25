"""A folder that looks like an OpenVINO model to everything but the native engine: small, and made by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rivermouth.wire import json

TEMPLATE = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
NET = """<?xml version="1.0"?>
<net name="Model0" version="11">
	<layers>
		<layer id="0" name="input_ids" type="Parameter" version="opset1"><data shape="?,?" element_type="i64" /></layer>
{constants}
	</layers>
	<edges />
	<rt_info>{info}</rt_info>
</net>
"""
CONSTANT = (
    '		<layer id="{id}" name="C{id}" type="Const" version="opset1">'
    '<data element_type="{kind}" shape="{shape}" offset="{offset}" size="{size}" /></layer>'
)
CONFIG = {"model_type": "qwen2", "max_position_embeddings": 4096, "eos_token_id": 7}


def network(*constants: tuple[str, str, int, int], info: str = "") -> bytes:
    """An .xml with these constants: type, shape, offset, size."""
    lines = [
        CONSTANT.format(id=number, kind=kind, shape=shape, offset=offset, size=size)
        for number, (kind, shape, offset, size) in enumerate(constants, 1)
    ]
    return NET.format(constants="\n".join(lines), info=info).encode()


def ir_files(*, config: dict[str, Any] | None = None, weights: bytes | None = None) -> dict[str, bytes]:
    """All files of a small model, by name.  `weights` are what openvino_model.bin holds."""
    info = '<chat_template value="{{ from_rt_info }}" /><eos_token_id value="9" />'
    return {
        "openvino_model.xml": network(("i8", "128,64", 0, 8192), ("f32", "", 8192, 4)),
        "openvino_model.bin": bytes(range(256)) * 33 if weights is None else weights,
        "openvino_tokenizer.xml": network(("u8", "16", 0, 16), info=info),
        "openvino_tokenizer.bin": b"tokenizer weights",
        "openvino_detokenizer.xml": network(("u8", "8", 0, 8)),
        "openvino_detokenizer.bin": b"detokenizer weights",
        "config.json": json.encode(CONFIG if config is None else config),
        "generation_config.json": json.encode({"eos_token_id": [7, 8]}),
        "tokenizer_config.json": json.encode({"chat_template": TEMPLATE}),
        "tokenizer.json": json.encode({"model": {"type": "BPE", "vocab": {"a": 0, "long token": 1}}}),
    }


def write_ir(folder: Path, files: dict[str, bytes] | None = None) -> Path:
    """The files in a new folder."""
    folder.mkdir(parents=True)
    for name, data in (ir_files() if files is None else files).items():
        (folder / name).write_bytes(data)
    return folder

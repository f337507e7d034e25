"""A folder with a tiny embedding model: whole by its header and texts, though its weights are zeros."""

from __future__ import annotations

import struct
from pathlib import Path

from rivermouth.wire import json

WIDTH = 8
TABLE = "embeddings.word_embeddings.weight"
CONFIG = {"model_type": "bert", "hidden_size": WIDTH, "max_position_embeddings": 512}


def weights(header: object = None, data: bytes = bytes(4 * 16 * WIDTH)) -> bytes:
    """A file with one table, or with another header."""
    table = {"dtype": "F32", "shape": [16, WIDTH], "data_offsets": [0, 4 * 16 * WIDTH]}
    text = json.encode({"__metadata__": {"format": "pt"}, TABLE: table} if header is None else header)
    return struct.pack("<Q", len(text)) + text + data


def embedding_folder(tmp_path: Path, **changes: bytes | None) -> Path:
    """The files in an existing folder.  `changes` by name with "__" for the dot; None leaves a file out."""
    files: dict[str, bytes | None] = {
        "model.safetensors": weights(),
        "config.json": json.encode(CONFIG),
        "tokenizer.json": b'{"model": {"type": "WordPiece"}}',
        "sentence_bert_config.json": b'{"max_seq_length": 256}',
    }
    files |= {name.replace("__", "."): data for name, data in changes.items()}
    for name, data in files.items():
        if data is not None:
            (tmp_path / name).write_bytes(data)
    return tmp_path

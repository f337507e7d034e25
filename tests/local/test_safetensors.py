"""An embedding model, judged by its header and its texts."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from rivermouth.local.models.openvino_ir import IrError
from rivermouth.local.models.safetensors import HEADER_CAP_BYTES, inspect_embedding
from rivermouth.wire import json
from tests.local.embedding_folder import CONFIG, TABLE, WIDTH, embedding_folder, weights


def tensor(**changes: object) -> dict[str, Any]:
    return {TABLE: {"dtype": "F32", "shape": [16, WIDTH], "data_offsets": [0, 512], **changes}}


def test_what_it_says(tmp_path: Path) -> None:
    facts, dimensions = inspect_embedding(embedding_folder(tmp_path))
    assert dimensions == WIDTH
    assert (facts.architecture, facts.parameters, facts.quantization) == ("bert", 16 * WIDTH, "F32")
    assert facts.context_tokens == 256


def test_without_a_longest_input_the_positions_are_the_limit(tmp_path: Path) -> None:
    facts, _ = inspect_embedding(embedding_folder(tmp_path, sentence_bert_config__json=None))
    assert facts.context_tokens == 512


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tokenizer__json": None}, r"tokenizer\.json is missing"),
        ({"tokenizer__json": b"{}"}, "no vocabulary"),
        ({"config__json": json.encode({**CONFIG, "model_type": "t5"})}, "'t5' is not one of bert"),
        ({"config__json": b'{"model_type": "bert"}'}, "does not say hidden_size"),
        ({"config__json": json.encode({**CONFIG, "hidden_size": 9})}, "does not fit hidden_size"),
        ({"model__safetensors": b""}, "truncated"),
        ({"model__safetensors": struct.pack("<Q", 1 << 62) + b"{}"}, "truncated"),
        ({"model__safetensors": struct.pack("<Q", HEADER_CAP_BYTES + 1) + b"{}"}, "truncated"),
        ({"model__safetensors": struct.pack("<Q", 2) + b"[]"}, "broken"),
        ({"model__safetensors": weights({})}, "no tensors"),
        ({"model__safetensors": weights()[:-1]}, "truncated: it has"),
        ({"model__safetensors": weights(tensor(dtype="X9"))}, "not known"),
        ({"model__safetensors": weights(tensor(shape=[-16, -8]))}, "not known"),
        ({"model__safetensors": weights(tensor(data_offsets=[0, 511]))}, "another size"),
        ({"model__safetensors": weights(tensor(data_offsets=[-512, 0]))}, "another size"),
        ({"model__safetensors": weights(tensor(shape=[1 << 60, 8]))}, "another size"),
        ({"model__safetensors": weights({"other": tensor()[TABLE]})}, "word embeddings is missing"),
    ],
)
def test_what_makes_it_none(tmp_path: Path, changes: dict[str, bytes | None], words: str) -> None:
    with pytest.raises(IrError, match=words):
        inspect_embedding(embedding_folder(tmp_path, **changes))

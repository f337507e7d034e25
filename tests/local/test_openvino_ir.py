"""An OpenVINO folder, judged by its texts: what it says, and everything that makes it none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rivermouth.local.models.openvino_ir import LONGEST_TOKEN_BYTES, IrError, inspect_ir
from rivermouth.wire import json
from tests.tiny_ir import CONFIG, TEMPLATE, ir_files, network, write_ir


def inspected(tmp_path: Path, **changes: bytes | None) -> Any:
    """`changes` by file name with "__" for the dot; None takes the file away."""
    files = ir_files() | {name.replace("__", "."): data for name, data in changes.items()}  # type: ignore[dict-item]
    return inspect_ir(write_ir(tmp_path / "ir", {name: data for name, data in files.items() if data is not None}))


def test_what_it_says(tmp_path: Path) -> None:
    facts = inspected(tmp_path)
    assert facts.architecture == "qwen2"
    assert facts.context_tokens == 4096
    assert facts.parameters == 128 * 64
    assert facts.quantization == "INT8"
    assert facts.template == TEMPLATE
    assert facts.longest_token_bytes == len("long token")
    assert facts.end_tokens == (7, 8, 9)


@pytest.mark.parametrize(
    ("changes", "template"),
    [
        ({"chat_template__jinja": b"{{ jinja }}"}, "{{ jinja }}"),
        ({"chat_template__json": b'{"chat_template": "{{ json }}"}'}, "{{ json }}"),
        ({"tokenizer_config__json": None}, "{{ from_rt_info }}"),
        (
            {"tokenizer_config__json": b'{"chat_template": [{"name": "default", "template": "{{ named }}"}]}'},
            "{{ named }}",
        ),
        ({"tokenizer_config__json": None, "openvino_tokenizer__xml": network()}, None),
    ],
)
def test_where_the_template_stands(tmp_path: Path, changes: dict[str, bytes | None], template: str | None) -> None:
    assert inspected(tmp_path, **changes).template == template


@pytest.mark.parametrize(
    ("kind", "shape", "size", "named"),
    [("u4", "100,100", 5000, "INT4"), ("f16", "100,100", 20_000, "F16"), ("nf4", "8192", 4096, "NF4")],
)
def test_how_the_weights_are_packed(tmp_path: Path, kind: str, shape: str, size: int, named: str) -> None:
    facts = inspected(tmp_path, openvino_model__xml=network((kind, shape, 0, size)), openvino_model__bin=bytes(size))
    assert facts.quantization == named


@pytest.mark.parametrize(
    ("vocabulary", "longest"),
    [
        ([["é", -1.0], ["abc", -2.0]], 3),  # Unigram: rows with a score
        (None, LONGEST_TOKEN_BYTES),
        ({}, LONGEST_TOKEN_BYTES),
    ],
)
def test_the_longest_token(tmp_path: Path, vocabulary: object, longest: int) -> None:
    text = json.encode({"model": {"vocab": vocabulary}})
    assert inspected(tmp_path, tokenizer__json=text).longest_token_bytes == longest


def test_the_context_of_a_model_inside_another(tmp_path: Path) -> None:
    config = {"model_type": "gemma3", "text_config": {"max_position_embeddings": 99}}
    assert inspected(tmp_path, config__json=json.encode(config)).context_tokens == 99


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"openvino_tokenizer__bin": None}, r"openvino_tokenizer\.bin is missing"),
        ({"config__json": None}, r"config\.json is missing"),
        ({"config__json": b"{"}, r"config\.json is not JSON"),
        ({"config__json": b"[" * 100_000}, r"config\.json is not JSON"),
        ({"config__json": b"7"}, "not a JSON object"),
        ({"config__json": json.encode({**CONFIG, "max_position_embeddings": True})}, "how long the context is"),
        ({"config__json": json.encode({**CONFIG, "max_position_embeddings": -1})}, "how long the context is"),
        ({"config__json": json.encode({**CONFIG, "max_position_embeddings": 1 << 40})}, "longer context"),
        ({"openvino_model__xml": b""}, "is not XML"),
        ({"openvino_model__xml": b"<html></html>"}, "is not an OpenVINO model"),
        ({"openvino_model__xml": b"<net>" + b"<a>" * 100}, "nested too deeply"),
        ({"openvino_model__xml": network()}, "has no weights"),
        ({"openvino_model__xml": network(("f32", "100,100", 0, 40_000))}, "is truncated"),
        ({"openvino_model__xml": network(("f32", "100,100", 0, 4))}, "fewer bytes than its shape"),
        ({"openvino_model__xml": network(("f32", "100,100", -5, 40_000))}, "fewer bytes than its shape"),
        ({"openvino_model__xml": network(("f32", "ten", 0, 40_000))}, "no place or shape"),
        ({"openvino_tokenizer__bin": b"x"}, r"openvino_tokenizer\.bin is truncated"),
        (
            {"openvino_model__xml": b'<!DOCTYPE net [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><net>&b;</net>'},
            "document type",
        ),
        (
            {
                "config__json": b'{"max_position_embeddings": 9}',
                "generation_config__json": None,
                "openvino_tokenizer__xml": network(),
            },
            "the token that ends an answer",
        ),
    ],
)
def test_what_makes_it_none(tmp_path: Path, changes: dict[str, bytes | None], words: str) -> None:
    with pytest.raises(IrError, match=words):
        inspected(tmp_path, **changes)

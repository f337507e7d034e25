"""Builds a tiny real encoder of texts, and says what its vectors must be.

The files are those of a published model: weights, config and tokenizer, 31 KB in all.  The weights are pseudo-random
numbers that half precision can hold, and so can the sum of any two, so storing the network that way changes nothing.
`vector_of` is the same network once more, written down with numpy alone; only its sums are made in another order.

The tokenizer's file also sets limits (8 tokens, filled up), as that of the real model does; they must not be obeyed.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

SPECIAL: Final = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORDS: Final = ("river", "mouth", "sea", "stream", "the", "of", ".", "!")
LETTERS: Final = tuple("abcdefghijklmnopqrstuvwxyz")
VOCABULARY: Final = (*SPECIAL, *WORDS, *LETTERS, *(f"##{letter}" for letter in LETTERS))
UNKNOWN, CLS, SEP = 1, 2, 3

WIDTH, HEADS, INNER, LAYERS, POSITIONS, TOKENS = 16, 2, 32, 2, 32, 16
EPSILON: Final = 1e-12

Weights = dict[str, NDArray[np.float32]]


def build(folder: Path, *, without: Sequence[str] = (), **config: object) -> Path:
    """Writes the model's files into `folder` and returns it.  without: tensors to leave out."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {name: value for name, value in weights().items() if name not in without}
    (folder / "model.safetensors").write_bytes(assemble(tensors))
    said = {
        "model_type": "bert",
        "vocab_size": len(VOCABULARY),
        "hidden_size": WIDTH,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "intermediate_size": INNER,
        "max_position_embeddings": POSITIONS,
        "type_vocab_size": 2,
        "hidden_act": "gelu",
        "layer_norm_eps": EPSILON,
    }
    (folder / "config.json").write_text(json.dumps(said | config))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer()))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": TOKENS}))
    return folder


def assemble(tensors: Mapping[str, NDArray[Any]], dtype: str = "F32") -> bytes:
    """A whole safetensors file."""
    header: dict[str, Any] = {"__metadata__": {"format": "np"}}
    data = b""
    for name, value in tensors.items():
        raw = value.tobytes()
        header[name] = {"dtype": dtype, "shape": value.shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    head = json.dumps(header).encode()
    return struct.pack("<Q", len(head)) + head + data


def weights() -> Weights:
    """All tensors, by the names that the published models give them."""
    chance = np.random.default_rng(7)

    def some(*shape: int) -> NDArray[np.float32]:
        return (np.clip(np.round(chance.normal(0, 128, shape)), -1000, 1000) / 256).astype(np.float32)

    tensors = {
        "embeddings.word_embeddings.weight": some(len(VOCABULARY), WIDTH),
        "embeddings.position_embeddings.weight": some(POSITIONS, WIDTH),
        "embeddings.token_type_embeddings.weight": some(2, WIDTH),
    }
    linear = {
        "attention.self.query": (WIDTH, WIDTH),
        "attention.self.key": (WIDTH, WIDTH),
        "attention.self.value": (WIDTH, WIDTH),
        "attention.output.dense": (WIDTH, WIDTH),
        "intermediate.dense": (INNER, WIDTH),
        "output.dense": (WIDTH, INNER),
    }
    norms = ["embeddings.LayerNorm"]
    for n in range(LAYERS):
        for name, shape in linear.items():
            tensors[f"encoder.layer.{n}.{name}.weight"] = some(*shape)
            tensors[f"encoder.layer.{n}.{name}.bias"] = some(shape[0])
        norms += [f"encoder.layer.{n}.attention.output.LayerNorm", f"encoder.layer.{n}.output.LayerNorm"]
    for name in norms:
        tensors[f"{name}.weight"] = 1 + some(WIDTH) / 4
        tensors[f"{name}.bias"] = some(WIDTH) / 8
    return tensors


def tokenizer() -> dict[str, Any]:
    """`tokenizer.json`: words of the vocabulary, or their letters."""
    ends = {token: {"id": token, "ids": [VOCABULARY.index(token)], "tokens": [token]} for token in ("[CLS]", "[SEP]")}
    single: list[Any] = [
        {"SpecialToken": {"id": "[CLS]", "type_id": 0}},
        {"Sequence": {"id": "A", "type_id": 0}},
        {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
    ]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {
        "version": "1.0",
        "truncation": {"direction": "Right", "max_length": 8, "strategy": "LongestFirst", "stride": 0},
        "padding": {
            "strategy": {"Fixed": 8},
            "direction": "Right",
            "pad_to_multiple_of": None,
            "pad_id": 0,
            "pad_type_id": 0,
            "pad_token": "[PAD]",
        },
        "added_tokens": [{"id": n, "content": token, **flags} for n, token in enumerate(SPECIAL)],
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": True,
            "strip_accents": None,
            "lowercase": True,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "TemplateProcessing", "single": single, "pair": single, "special_tokens": ends},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": {token: n for n, token in enumerate(VOCABULARY)},
        },
    }


def ids_of(text: str) -> list[int]:
    """The tokens of a text of lower-case words, those around it included."""
    ids = [CLS]
    for word in text.split():
        if word in VOCABULARY:
            ids.append(VOCABULARY.index(word))
        elif set(word) <= set(LETTERS):
            ids += [VOCABULARY.index(letter if n == 0 else f"##{letter}") for n, letter in enumerate(word)]
        else:
            ids.append(UNKNOWN)
    return [*ids, SEP]


def vector_of(ids: Sequence[int]) -> NDArray[np.float64]:
    """What the network makes of these tokens, at double precision."""
    of = {name: value.astype(np.float64) for name, value in weights().items()}

    def norm(x: NDArray[np.float64], name: str) -> NDArray[np.float64]:
        spread = np.sqrt(x.var(-1, keepdims=True) + EPSILON)
        return (x - x.mean(-1, keepdims=True)) / spread * of[f"{name}.weight"] + of[f"{name}.bias"]

    def linear(x: NDArray[np.float64], name: str) -> NDArray[np.float64]:
        return x @ of[f"{name}.weight"].T + of[f"{name}.bias"]

    x = of["embeddings.word_embeddings.weight"][list(ids)] + of["embeddings.position_embeddings.weight"][: len(ids)]
    x = norm(x + of["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    for n in range(LAYERS):
        at = f"encoder.layer.{n}"
        query, key, value = (
            linear(x, f"{at}.attention.self.{part}").reshape(len(ids), HEADS, -1).swapaxes(0, 1)
            for part in ("query", "key", "value")
        )
        scores = np.exp(query @ key.swapaxes(1, 2) / math.sqrt(WIDTH // HEADS))
        seen = (scores / scores.sum(-1, keepdims=True)) @ value
        seen = linear(seen.swapaxes(0, 1).reshape(len(ids), WIDTH), f"{at}.attention.output.dense")
        x = norm(x + seen, f"{at}.attention.output.LayerNorm")
        inner = linear(x, f"{at}.intermediate.dense")
        inner = inner * (1 + np.vectorize(math.erf)(inner / math.sqrt(2))) / 2
        x = norm(x + linear(inner, f"{at}.output.dense"), f"{at}.output.LayerNorm")
    mean = x.mean(0)
    unit: NDArray[np.float64] = mean / np.linalg.norm(mean)
    return unit

"""A BERT encoder as a network of the engine's own operations, from its weights and its `config.json`.

    tokens, mask -> embeddings -> layers of attention and feed-forward -> mean over the tokens that count -> length 1

The mean and the scaling are part of the network, so what leaves it is the vector and nothing larger.  All positions of
a text have the token type 0, whose row is therefore added to the positions once, here.
"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any, Final

import msgspec
import numpy as np

from rivermouth.ir.errors import WireError
from rivermouth.local.embedding.weights import BadWeights, Weights
from rivermouth.wire import json

WEIGHTS: Final = "model.safetensors"
CONFIG: Final = "config.json"
CONFIG_CAP_BYTES: Final = 1 << 20
LAYERS_CAP: Final = 256
TOKENS_INPUT: Final = "tokens"
MASK_INPUT: Final = "mask"
VECTORS_OUTPUT: Final = "vectors"
# Added to the attention of what is only padding: enough that nothing of it is left.
FAR: Final = -1e30


class BertConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What `config.json` says of the network's shape."""

    model_type: str
    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    max_position_embeddings: int
    type_vocab_size: int = 2
    hidden_act: str = "gelu"
    layer_norm_eps: float = 1e-12
    position_embedding_type: str = "absolute"


_CONFIG: Final = json.typed(BertConfig)


def read_config(path: Path) -> BertConfig:
    """Raises `BadWeights` for a network that is not built here."""
    with path.open("rb") as file:
        data = file.read(CONFIG_CAP_BYTES + 1)
    try:
        config = json.decode_as(_CONFIG, data)
    except WireError as error:
        raise BadWeights(f"{CONFIG} cannot be read: {error}") from None
    fixed = {"model_type": "bert", "hidden_act": "gelu", "position_embedding_type": "absolute"}
    for field, known in fixed.items():
        if getattr(config, field) != known:
            raise BadWeights(f"{field} is {str(getattr(config, field))[:40]!r}; only {known!r} is built here")
    sizes = [value for value in msgspec.structs.astuple(config) if isinstance(value, int)]
    if min(sizes) < 1 or config.num_hidden_layers > LAYERS_CAP or config.hidden_size % config.num_attention_heads:
        raise BadWeights(f"the sizes in {CONFIG} do not fit together")
    return config


def build(openvino: ModuleType, config: BertConfig, weights: Weights) -> Any:
    """The network: `tokens` and `mask` (both [texts, length], int64) to `vectors` ([texts, hidden_size], float32).

    Raises `BadWeights` when a tensor is missing or of another shape.
    """
    return _Builder(openvino, config, weights).network()


class _Builder:
    def __init__(self, openvino: ModuleType, config: BertConfig, weights: Weights) -> None:
        self._openvino = openvino
        self._op = openvino.opset13
        self._config = config
        self._weights = weights

    def network(self) -> Any:
        op = self._op
        tokens, mask = self._input(TOKENS_INPUT), self._input(MASK_INPUT)
        counted = op.convert(mask, "f32")
        far = op.multiply(op.subtract(self._number(1.0), op.unsqueeze(counted, self._whole([1, 2]))), self._number(FAR))
        x = self._embedded(tokens)
        for n in range(self._config.num_hidden_layers):
            x = self._layer(x, far, f"encoder.layer.{n}.")
        result = op.result(self._pooled(x, counted))
        result.output(0).set_names({VECTORS_OUTPUT})
        return self._openvino.Model([result], [tokens, mask], "encoder")

    def _embedded(self, tokens: Any) -> Any:
        op, config = self._op, self._config
        width = config.hidden_size
        words = self._weights.tensor("embeddings.word_embeddings.weight", config.vocab_size, width)
        places = self._weights.tensor("embeddings.position_embeddings.weight", config.max_position_embeddings, width)
        kinds = self._weights.tensor("embeddings.token_type_embeddings.weight", config.type_vocab_size, width)
        length = op.gather(op.shape_of(tokens, "i64"), self._whole(1), self._whole(0))
        at = op.range(self._whole(0), length, self._whole(1), "i64")
        word = op.gather(op.constant(words), tokens, self._whole(0))
        place = op.gather(op.constant(places + kinds[0]), at, self._whole(0))
        return self._norm(op.add(word, place), "embeddings.LayerNorm")

    def _layer(self, x: Any, far: Any, name: str) -> Any:
        op, width, inner = self._op, self._config.hidden_size, self._config.intermediate_size
        query, key, value = (
            self._heads(self._linear(x, f"{name}attention.self.{part}", width, width))
            for part in ("query", "key", "value")
        )
        seen = op.transpose(op.scaled_dot_product_attention(query, key, value, far), self._whole([0, 2, 1, 3]))
        seen = op.reshape(seen, self._whole([0, 0, width]), True)
        seen = self._linear(seen, f"{name}attention.output.dense", width, width)
        x = self._norm(op.add(x, seen), f"{name}attention.output.LayerNorm")
        thought = op.gelu(self._linear(x, f"{name}intermediate.dense", width, inner), "erf")
        thought = self._linear(thought, f"{name}output.dense", inner, width)
        return self._norm(op.add(x, thought), f"{name}output.LayerNorm")

    def _heads(self, x: Any) -> Any:
        """[texts, length, width] to [texts, heads, length, width / heads]."""
        heads = self._config.num_attention_heads
        split = self._op.reshape(x, self._whole([0, 0, heads, self._config.hidden_size // heads]), True)
        return self._op.transpose(split, self._whole([0, 2, 1, 3]))

    def _pooled(self, x: Any, counted: Any) -> Any:
        op = self._op
        total = op.reduce_sum(op.multiply(x, op.unsqueeze(counted, self._whole(2))), self._whole(1))
        mean = op.divide(total, op.reduce_sum(counted, self._whole(1), True))
        return op.normalize_l2(mean, self._whole([1]), 1e-12, "max")

    def _linear(self, x: Any, name: str, width: int, out: int) -> Any:
        op = self._op
        product = op.matmul(x, op.constant(self._weights.tensor(f"{name}.weight", out, width)), False, True)
        return op.add(product, op.constant(self._weights.tensor(f"{name}.bias", out)))

    def _norm(self, x: Any, name: str) -> Any:
        op, width = self._op, self._config.hidden_size
        even = op.mvn(x, self._whole([-1]), True, self._config.layer_norm_eps, "INSIDE_SQRT")
        scaled = op.multiply(even, op.constant(self._weights.tensor(f"{name}.weight", width)))
        return op.add(scaled, op.constant(self._weights.tensor(f"{name}.bias", width)))

    def _input(self, name: str) -> Any:
        made = self._op.parameter([-1, -1], np.int64, name=name)
        made.output(0).set_names({name})
        return made

    def _whole(self, value: int | list[int]) -> Any:
        return self._op.constant(np.array(value, np.int64))

    def _number(self, value: float) -> Any:
        return self._op.constant(np.array(value, np.float32))

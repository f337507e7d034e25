"""The loaded encoder and the texts that it is working on, a step at a time.

The texts of all calls go through the network together.  Each step begins with another call, and fills up with texts of
the others, so many short calls cost as much as one long one, and a long one does not hold up the short.
"""

from __future__ import annotations

import base64
import sys
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from rivermouth.ir.errors import Kind
from rivermouth.local.embedding import store
from rivermouth.local.embedding.batches import Item, in_order, pick
from rivermouth.local.embedding.bert import CONFIG, WEIGHTS, BertConfig, build, read_config
from rivermouth.local.embedding.tokens import Cut, Tokenizer, read
from rivermouth.local.embedding.tokens import load_tokenizer as load_tokenizer
from rivermouth.local.embedding.weights import BadWeights, Weights
from rivermouth.local.words.protocol import Embed, Embedded, Failed, Vectors, Word

# Full precision: the engine's default on some processors is coarser, and no faster for a network of this size.
PRECISION: Final = {"INFERENCE_PRECISION_HINT": "f32"}
# What the tokenizer puts around a text, and one token of it.
LEAST_TOKENS: Final = 3


class Network(Protocol):
    """Tokens and mask, [texts, length], to vectors, [texts, width]."""

    def __call__(self, tokens: NDArray[np.int64], mask: NDArray[np.int64]) -> NDArray[np.float32]: ...


class Live:
    """One call: what of it waits for a step, and what has been told of it."""

    def __init__(self, identity: int, items: deque[Item], tokens: int, cut: int) -> None:
        self.id = identity
        self.waiting = items
        self.tokens = tokens
        self.cut = cut

    def embedded(self, reason: str) -> Embedded:
        return Embedded(id=self.id, reason=reason, prompt_tokens=self.tokens, cut=self.cut)


class Encoder:
    """`context_tokens`: no text may have more."""

    def __init__(self, network: Network, tokenizer: Tokenizer, context_tokens: int) -> None:
        self._network = network
        self._tokenizer = tokenizer
        self._context_tokens = context_tokens
        self._live: dict[int, Live] = {}

    @property
    def idle(self) -> bool:
        return not self._live

    def warm_up(self) -> None:
        """One short text, because the first after a load is slower."""
        self.admit(Embed(id=0, texts=("Hello",), context_tokens=self._context_tokens, cut=Cut.END))
        while self._live:
            self.step()

    def admit(self, wanted: Embed) -> Embedded | Failed | None:
        """Takes a call on; its end if there is nothing to do, or why it cannot be done."""
        limit = min(wanted.context_tokens, self._context_tokens)
        if limit < LEAST_TOKENS:
            return _refused(wanted, f"a text must be allowed {LEAST_TOKENS} tokens at least", "context_tokens", None)
        items: list[Item] = []
        cut = 0
        for at, text in enumerate(wanted.texts):
            tokens = read(self._tokenizer, text, limit, Cut(wanted.cut))
            if tokens is None:
                message = f"input {wanted.offset + at} has more than the {limit} tokens that can be read of it"
                return _refused(wanted, message, "input", "context_length_exceeded")
            cut += tokens.cut
            items.append(Item(wanted.id, at, tokens.ids))
        live = Live(wanted.id, in_order(items), sum(len(item.ids) for item in items), cut)
        if not items:
            return live.embedded("done")
        self._live[wanted.id] = live
        return None

    def cancel(self, identity: int) -> Embedded | None:
        """Forgets a call; None when it has ended already."""
        live = self._live.pop(identity, None)
        return live.embedded("cancelled") if live is not None else None

    def step(self) -> list[Word]:
        """One run of the network, and what it made.  Raises `RuntimeError` when the engine has become unusable."""
        batch = pick(live.waiting for live in self._live.values())
        if not batch:
            return []
        first = batch[0].call
        self._live[first] = self._live.pop(first)  # the next step begins with another
        vectors = self._network(*padded(batch))
        words: list[Word] = []
        for call in dict.fromkeys(item.call for item in batch):
            rows = [row for row, item in enumerate(batch) if item.call == call]
            data = base64.b64encode(vectors[rows].astype("<f4").tobytes()).decode()
            words.append(Vectors(call, tuple(batch[row].at for row in rows), data))
            live = self._live[call]
            if not live.waiting:
                words.append(live.embedded("done"))
                del self._live[call]
        return words


def padded(batch: Sequence[Item]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The tokens, filled up with zeros to one length, and a mask with a 1 for each that counts."""
    length = max(len(item.ids) for item in batch)
    tokens = np.zeros((len(batch), length), np.int64)
    mask = np.zeros_like(tokens)
    for row, item in enumerate(batch):
        tokens[row, : len(item.ids)] = item.ids
        mask[row, : len(item.ids)] = 1
    return tokens, mask


def load_network(openvino: ModuleType, folder: Path, cache: Path, device: str) -> tuple[Network, BertConfig]:
    """The network of the model in `folder`, from the cache, where it is put if it is not there.

    A cache that cannot be written costs the time to build it again, and nothing else.  Raises `ValueError`, `OSError`,
    `RuntimeError`.
    """
    config = read_config(folder / CONFIG)
    core = openvino.Core()
    form = store.form_of(openvino.__version__)
    network: Any = store.stored(cache / form)
    if network is None:
        with Weights(folder / WEIGHTS) as weights:
            network = build(openvino, config, weights)
        try:
            network = store.keep(cache, form, store.saver(openvino, network))
        except (OSError, RuntimeError) as error:
            sys.stderr.write(f"the network could not be stored: {error}\n")
    if isinstance(network, Path):
        core.set_property({"CACHE_DIR": str(network.parent / store.COMPILED)})
        network = str(network)
    compiled = core.compile_model(network, device, PRECISION)
    request = compiled.create_infer_request()

    def run(tokens: NDArray[np.int64], mask: NDArray[np.int64]) -> NDArray[np.float32]:
        made: NDArray[np.float32] = request.infer([tokens, mask])[0]
        return made

    return run, config


def check_room(config: BertConfig, context_tokens: int) -> None:
    """Raises `BadWeights` when the network has no positions for so many tokens."""
    if not LEAST_TOKENS <= context_tokens <= config.max_position_embeddings:
        raise BadWeights(f"the network reads {config.max_position_embeddings} tokens, not {context_tokens}")


def _refused(wanted: Embed, message: str, param: str, code: str | None) -> Failed:
    return Failed(id=wanted.id, kind=Kind.INVALID_REQUEST.value, message=message, param=param, code=code)

"""Continuous batching in a bounded memory: a request goes to the engine when there is room for all that it may need.

    add_request -> handle        step()        handle.can_read(), read(), get_status(), cancel(), stop()

Without that the engine pushes an answer out of its memory when another needs the room, and computes it again later.
With prompts that share memory this goes wrong in the present version (2026.4): the answer goes on with another's state,
or is refused (measured; a test shows that it does not happen here).

* Room for a request is its prompt and the longest answer it may get, in whole blocks.  What a shared beginning saves
  is not counted on.
* Those that do not fit stand in line, in order; a small one does not overtake a large one, which so gets its turn.
* Room is free again behind the step that put the request away.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final

from rivermouth.local.inference.stateful import RUNNING

BLOCK_TOKENS: Final = {"CPU": 32}
OTHER_BLOCK_TOKENS: Final = 16


def block_of(device: str) -> int:
    """How many tokens a block of the engine's memory holds."""
    return BLOCK_TOKENS.get(device.partition(".")[0], OTHER_BLOCK_TOKENS)


def blocks_for(tokens: int, block: int) -> int:
    """In whole blocks."""
    return -(-tokens // block)


class Handle:
    """One request, given to the engine or not yet."""

    def __init__(self, identity: int, tokens: Any, config: Any, blocks: int) -> None:
        self.identity = identity
        self.tokens = tokens
        self.config = config
        self.blocks = blocks
        self.unwanted = False
        self.native: Any = None

    def can_read(self) -> bool:
        return self.native is not None and bool(self.native.can_read())

    def read(self) -> Any:
        return self.native.read()

    def get_status(self) -> Any:
        return RUNNING if self.native is None else self.native.get_status()

    def cancel(self) -> None:
        self.unwanted = True
        if self.native is not None:
            self.native.cancel()

    def stop(self) -> None:
        self.unwanted = True
        if self.native is not None:
            self.native.stop()

    @property
    def over(self) -> bool:
        return self.unwanted or self.get_status().name != RUNNING.name


class BatchingPipeline:
    """`native` is a ContinuousBatchingPipeline with a memory of `blocks` blocks of `block` tokens each."""

    def __init__(self, native: Any, blocks: int, block: int) -> None:
        self._native = native
        self._blocks = blocks
        self._block = block
        self._taken = 0
        self._waiting: deque[Handle] = deque()
        self._active: list[Handle] = []

    def get_tokenizer(self) -> Any:
        return self._native.get_tokenizer()

    def add_request(self, identity: int, tokens: Any, config: Any) -> Handle:
        """Stands in line.  Raises `ValueError` for one that would never fit."""
        blocks = blocks_for(int(tokens.shape[1]) + int(config.max_new_tokens), self._block)
        if blocks > self._blocks:
            raise ValueError(f"the prompt and its answer take {blocks} blocks of memory, and there are {self._blocks}")
        handle = Handle(identity, tokens, config, blocks)
        self._waiting.append(handle)
        return handle

    def has_non_finished_requests(self) -> bool:
        return bool(self._native.has_non_finished_requests()) or any(not handle.unwanted for handle in self._waiting)

    def step(self) -> None:
        """One step for all that have room.  Raises what the engine does."""
        self._let_in()
        leaving = [handle for handle in self._active if handle.unwanted]
        if self._native.has_non_finished_requests():
            self._native.step()
        for handle in [one for one in self._active if one in leaving or (one.over and not one.unwanted)]:
            self._active.remove(handle)
            self._taken -= handle.blocks

    def statistics(self) -> dict[str, int]:
        return {"waiting": len(self._waiting), "blocks": self._blocks, "taken": self._taken}

    def _let_in(self) -> None:
        while self._waiting:
            handle = self._waiting[0]
            if not handle.unwanted:
                if self._taken + handle.blocks > self._blocks:
                    return
                handle.native = self._native.add_request(handle.identity, handle.tokens, handle.config)
                self._active.append(handle)
                self._taken += handle.blocks
            self._waiting.popleft()

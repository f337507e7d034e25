"""One answer at a time, behind the same face as the engine's continuous batching.

    add_request -> handle        step()        handle.can_read(), read(), get_status(), cancel(), stop()

The stateful pipeline is what an NPU runs, and what starts fastest elsewhere; it makes one answer to its end in a single
native call.  That call runs in a thread of its own, so commands are read meanwhile, and a `step` is a short wait for
what it has made.

* A cancel is seen at the next token.  While a prompt is read there is none, so the next request waits in line until the
  thread has come back.
* A call that raises makes the next `step` raise: as with the other pipeline, the engine is then not to be used again.
"""

from __future__ import annotations

import threading
from collections import deque
from types import ModuleType
from typing import Any, Final, NamedTuple

LOOK_S: Final = 0.05
"""How long a step waits for a token before commands are looked at again."""


class Word(NamedTuple):
    """The engine's own words are enumerations with a name; ours are these."""

    name: str


RUNNING: Final = Word("RUNNING")
FINISHED: Final = Word("FINISHED")
NONE: Final = Word("NONE")


class Output(NamedTuple):
    """Tokens that were made, and why they are the last; `NONE` while they are not."""

    generated_ids: list[int]
    finish_reason: Any


class Handle:
    """One request.  Its tokens are written by the native thread and read by the other."""

    def __init__(self, tokens: Any, config: Any, changed: threading.Condition) -> None:
        self.tokens = tokens
        self.config = config
        self.unwanted = False
        self._changed = changed
        self._made: deque[Output] = deque()
        self._status = RUNNING

    def can_read(self) -> bool:
        return bool(self._made)

    def read(self) -> dict[int, Output]:
        """Everything that has been made since the last time, in order."""
        with self._changed:
            made = list(self._made)
            self._made.clear()
        return dict(enumerate(made))

    def get_status(self) -> Word:
        return self._status

    def cancel(self) -> None:
        """The answer is not wanted any more."""
        self.unwanted = True

    stop = cancel

    def write(self, tokens: list[int]) -> None:
        with self._changed:
            self._made.append(Output(tokens, NONE))
            self._changed.notify_all()

    def finish(self, reason: Any) -> None:
        with self._changed:
            self._made.append(Output([], reason))
            self._status = FINISHED
            self._changed.notify_all()


class StatefulPipeline:
    """`native` is an LLMPipeline."""

    def __init__(self, genai: ModuleType, native: Any) -> None:
        self._native = native
        self._changed = threading.Condition()
        self._waiting: deque[Handle] = deque()
        self._running: Handle | None = None
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._streamer = _streamer_class(genai)

    def get_tokenizer(self) -> Any:
        return self._native.get_tokenizer()

    def add_request(self, identity: int, tokens: Any, config: Any) -> Handle:
        """Stands in line."""
        handle = Handle(tokens, config, self._changed)
        self._waiting.append(handle)
        return handle

    def has_non_finished_requests(self) -> bool:
        """Whether the native call has not come back, or somebody waits for it."""
        self._join()
        return self._running is not None or any(not handle.unwanted for handle in self._waiting)

    def step(self) -> None:
        """Waits a little for the answer that is being made, or begins the next.  Raises what the native call did."""
        self._join()
        if self._running is None:
            self._begin()
        handle = self._running
        if handle is None:
            return
        with self._changed:
            self._changed.wait_for(lambda: handle.can_read() or handle.get_status() is not RUNNING, LOOK_S)
        self._join()

    def _begin(self) -> None:
        while self._waiting:
            handle = self._waiting.popleft()
            if handle.unwanted:
                continue
            self._running = handle
            self._thread = threading.Thread(target=self._generate, args=(handle,), daemon=True)
            self._thread.start()
            return

    def _join(self) -> None:
        """Takes leave of a native call that has come back."""
        if self._thread is not None and self._running is not None and self._running.get_status() is not RUNNING:
            self._thread.join()
            self._thread = self._running = None
        if self._failure is not None:
            raise RuntimeError(str(self._failure)) from self._failure

    def _generate(self, handle: Handle) -> None:
        """The native call, in its thread."""
        reason: Any = NONE
        try:
            result = self._native.generate(handle.tokens, handle.config, self._streamer(handle))
            reason = result.finish_reasons[0] if result.finish_reasons else NONE
        except (RuntimeError, ValueError, TypeError) as error:
            self._failure = error
        finally:
            handle.finish(reason)


def _streamer_class(genai: ModuleType) -> Any:
    """The engine calls the methods of an object of its own class, made here because it is known only now."""
    go_on, cancel = genai.StreamingStatus.RUNNING, genai.StreamingStatus.CANCEL

    class Streamer(genai.StreamerBase):  # type: ignore[misc, name-defined]
        def __init__(self, handle: Handle) -> None:
            super().__init__()
            self._handle = handle

        def write(self, tokens: int | list[int]) -> Any:
            """Called in the native thread; whatever it raised would be swallowed, and generation go on."""
            if self._handle.unwanted:
                return cancel
            self._handle.write([tokens] if isinstance(tokens, int) else list(tokens))
            return cancel if self._handle.unwanted else go_on

        def end(self) -> None:
            """The result says it."""

    return Streamer

"""The engine process: the only code that touches the native engine.  Run as `python -m rivermouth.local.child PARENT`.

Why a process: native code crashes, and one step of the engine holds Python's interpreter lock.  Here either costs
nobody but the calls of this model.

Theory of operation
* One thread.  Round and round: take the commands that are there (waiting only when idle), one `step` for all live
  generations, hand out what the step made.  So a cancel is seen between steps: the step in flight ends, and none is
  begun for that call.  A prompt is read in chunks of `STEP_TOKENS`, so that is true during a long prompt too.
* fd 1 is moved away and pointed at fd 2 before anything native loads: what native code prints cannot break the
  protocol.
* A failure of one request while it is read or admitted is its own.  An exception out of `step` leaves the engine
  unusable for all, so the process says why and ends; the server starts another for the next call.
* The process ends when its stdin does, and on Linux with its parent, however that died.  Ctrl-C is the server's.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import re
import signal
import sys
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final, NoReturn

from rivermouth.ir.errors import ApiError, Kind, invalid
from rivermouth.local.commands import Commands, Taken, Unreadable
from rivermouth.local.detokenize import Detokenizer
from rivermouth.local.prompt import context_exceeded
from rivermouth.local.protocol import (
    Began,
    Cancel,
    Delta,
    Done,
    Failed,
    Fatal,
    Generate,
    Load,
    Ready,
    Turn,
    Word,
)
from rivermouth.local.stops import StopFilter
from rivermouth.wire import json
from rivermouth.wire.ndjson import line

STEP_TOKENS: Final = 256
# The tokenizer that the engine makes of a GGUF file keeps the last so many tokens of a text and drops the others in
# silence, whatever it is told, so a prompt that has as many may have had more.
PROMPT_CAP_TOKENS: Final = 8192
WARM_UP_TOKENS: Final = 4
REASON_CAP: Final = 300
PR_SET_PDEATHSIG: Final = 1
SOURCE_PLACE: Final = re.compile(r"^.*\.(?:cpp|cc|hpp|h):\d+:?\s*")

# What the engine calls an end, as the protocol's reason.
REASONS: Final[dict[str, str]] = {"STOP": "stop", "LENGTH": "length", "NONE": "stop", "TOOL_CALLS": "stop"}

Send = Callable[[list[Word]], None]


class Live:
    """One generation that the engine is working on."""

    def __init__(self, wanted: Generate, handle: Any, prompt_tokens: int, decode: Callable[[list[int]], str]) -> None:
        self.id = wanted.id
        self.handle = handle
        self.prompt_tokens = prompt_tokens
        self.output_tokens = 0
        self.text = Detokenizer(decode)
        self.stops = StopFilter(wanted.stop)
        self._begun_ns = time.monotonic_ns()
        self._first_ns: int | None = None

    def take(self) -> tuple[str, str]:
        """What the engine made since the last look: the text that may be shown, and the engine's word for the end."""
        shown, word = "", "NONE"
        while self.handle.can_read():
            for output in self.handle.read().values():
                tokens = output.generated_ids
                if self._first_ns is None:
                    self._first_ns = time.monotonic_ns()
                self.output_tokens += len(tokens)
                shown += self.stops.feed(self.text.feed(tokens))
                word = output.finish_reason.name
        return shown, word

    def flush(self) -> str:
        """The text that was held back, at a good end."""
        return self.stops.feed(self.text.flush()) + self.stops.flush()

    def done(self, reason: str) -> Done:
        now = time.monotonic_ns()
        first = self._first_ns or now
        return Done(
            id=self.id,
            reason=reason,
            prompt_tokens=self.prompt_tokens,
            output_tokens=self.output_tokens,
            prompt_ns=first - self._begun_ns,
            output_ns=now - first,
            stop_sequence=self.stops.matched,
        )


class Engine:
    """The loaded model and what it is working on."""

    def __init__(self, genai: ModuleType, load: Load) -> None:
        scheduler = genai.SchedulerConfig()
        scheduler.cache_size = 0  # grows on demand; what bounds it is max_num_seqs times the context
        scheduler.max_num_seqs = load.max_active
        scheduler.max_num_batched_tokens = STEP_TOKENS
        scheduler.enable_prefix_caching = load.prefix_cache
        self._genai = genai
        self._pipeline = genai.ContinuousBatchingPipeline(load.path, scheduler, load.device, load.properties)
        self._tokenizer = self._pipeline.get_tokenizer()
        self._end_tokens = set(load.end_tokens)
        self._context_tokens = load.context_tokens
        self._live: dict[int, Live] = {}

    @property
    def idle(self) -> bool:
        return not self._live

    def warm_up(self) -> None:
        """One short answer, because the first after a load is several times slower."""
        wanted = Generate(id=0, prompt="Hello", context_tokens=self._context_tokens, max_tokens=WARM_UP_TOKENS)
        self.admit(wanted)
        while self._live:
            self.step()

    def admit(self, wanted: Generate) -> Began | Failed:
        """Renders, counts and checks the prompt, then hands it to the engine."""
        try:
            tokens = self._encode(wanted)
            count = int(tokens.shape[1])
            limit = min(wanted.context_tokens, self._context_tokens)
            refused = unfit(count, limit)
            if refused is not None:
                return Failed(
                    id=wanted.id, kind=refused.kind.value, message=refused.message, code=refused.code,
                    param=refused.param,
                )  # fmt: skip
            config = self._config(wanted, limit - count)
            handle = self._pipeline.add_request(wanted.id, tokens, config)
        except (RuntimeError, ValueError, TypeError) as error:
            return Failed(id=wanted.id, kind=Kind.INVALID_REQUEST.value, message=native_reason(error))
        self._live[wanted.id] = Live(wanted, handle, count, self._tokenizer.decode)
        return Began(wanted.id, count)

    def cancel(self, identity: int) -> Done | None:
        """Stops a generation; None when it has ended already."""
        live = self._live.pop(identity, None)
        if live is None:
            return None
        live.take()
        live.handle.cancel()
        return live.done("cancelled")

    def step(self) -> list[Word]:
        """One step for all, and what it made.  Raises `RuntimeError` when the engine has become unusable."""
        if self._pipeline.has_non_finished_requests():
            self._pipeline.step()
        words: list[Word] = []
        for live in list(self._live.values()):
            status = live.handle.get_status().name  # before reading, so that nothing is read too early
            shown, word = live.take()
            if live.stops.matched is not None:
                live.handle.stop()
                end: Done | Failed | None = live.done("stop")
            elif status == "RUNNING":
                end = None
            else:
                end = self._ended(live, status, word)
                shown += live.flush() if isinstance(end, Done) else ""
            if shown:
                words.append(Delta(live.id, shown))
            if end is not None:
                words.append(end)
                del self._live[live.id]
        if not self._live and self._pipeline.has_non_finished_requests():
            self._pipeline.step()  # lets the engine put away what was stopped; makes no token
        return words

    def release(self) -> None:
        """Lets the engine put away what was cancelled."""
        if not self._live and self._pipeline.has_non_finished_requests():
            self._pipeline.step()

    def _ended(self, live: Live, status: str, word: str) -> Done | Failed:
        if status != "FINISHED":
            return Failed(
                id=live.id,
                kind=Kind.OVERLOADED.value,
                message="the engine has no memory left for the context of this call",
                code="context_memory_full",
            )
        return live.done(REASONS[word])

    def _encode(self, wanted: Generate) -> Any:
        if wanted.turns is None:
            return self._tokenizer.encode(wanted.prompt or "").input_ids
        context = {} if wanted.enable_thinking is None else {"enable_thinking": wanted.enable_thinking}
        text = self._tokenizer.apply_chat_template(
            [_message(turn) for turn in wanted.turns], add_generation_prompt=True, extra_context=context
        )
        return self._tokenizer.encode(text, add_special_tokens=False).input_ids

    def _config(self, wanted: Generate, room: int) -> Any:
        config = self._genai.GenerationConfig()
        config.set_eos_token_id(self._tokenizer.get_eos_token_id())
        config.stop_token_ids = set(config.stop_token_ids) | self._end_tokens
        config.max_new_tokens = room if wanted.max_tokens is None else min(room, wanted.max_tokens)
        for field in wanted.decoding.__struct_fields__:
            value = getattr(wanted.decoding, field)
            if value is not None:
                setattr(config, field, value)
        if wanted.schema is not None:
            config.structured_output_config = self._genai.StructuredOutputConfig(json_schema=wanted.schema)
        config.validate()
        return config


def serve(engine: Engine, commands: Commands, early: list[Taken], send: Send) -> None:
    """Until stdin ends."""
    waiting: list[Taken] | None = early
    while waiting is not None:
        answers: list[Word] = []
        for command in waiting:
            answer = _obey(engine, command)
            if answer is not None:
                answers.append(answer)
        if answers:
            send(answers)
        if engine.idle:
            engine.release()
        else:
            made = engine.step()
            if made:
                send(made)
        waiting = commands.take(wait=engine.idle)


def _obey(engine: Engine, command: Taken) -> Word | None:
    match command:
        case Generate():
            return engine.admit(command)
        case Cancel():
            return engine.cancel(command.id)
        case Unreadable(id=int(identity)):
            message = f"the engine cannot read this request: {command.reason}"
            return Failed(id=identity, kind=Kind.INVALID_REQUEST.value, message=message, code="unreadable_request")
        case Unreadable() | Load():  # nobody's request, so there is nobody to tell but the log
            sys.stderr.write(f"passed over: {command}"[:REASON_CAP] + "\n")
            return None


def unfit(prompt_tokens: int, context_tokens: int) -> ApiError | None:
    """Why a prompt of so many tokens, as the tokenizer counts them, cannot be answered."""
    if prompt_tokens == 0:
        return invalid("the prompt is empty", param="messages")
    if prompt_tokens >= min(context_tokens, PROMPT_CAP_TOKENS):
        many = f"{prompt_tokens} tokens{' or more' if prompt_tokens == PROMPT_CAP_TOKENS else ''}"
        return context_exceeded(f"the prompt of {many}", min(context_tokens, PROMPT_CAP_TOKENS))
    return None


def native_reason(error: BaseException) -> str:
    """The last line of a native error, without the place in the native source."""
    lines = [text.strip() for text in str(error).splitlines() if text.strip()]
    last = lines[-1] if lines else type(error).__name__
    return (SOURCE_PLACE.sub("", last) or last)[:REASON_CAP]


def main() -> NoReturn:
    out = _own_stdout()
    _die_with_parent(int(sys.argv[1]))

    def send(words: list[Word]) -> None:
        _write_all(out, b"".join(line(json.encode(word)) for word in words))

    commands = Commands(0)
    load, early = _first_command(commands)
    try:
        genai = _import_engine()
    except ImportError as error:
        send([Fatal(f"the engine's packages cannot be imported: {native_reason(error)}", "engine_not_installed")])
        _leave(3)
    try:
        engine = Engine(genai, load)
        engine.warm_up()
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        send([Fatal(native_reason(error), "load_failed")])
        _leave(3)
    send([Ready(load.device, genai.__version__)])
    try:
        serve(engine, commands, early, send)
    except RuntimeError as error:
        send([Fatal(native_reason(error), "engine_failed")])
        _leave(4)
    _leave(0)


def _first_command(commands: Commands) -> tuple[Load, list[Taken]]:
    taken: list[Taken] | None = []
    while not taken:
        taken = commands.take(wait=True)
        if taken is None:
            _leave(0)
    load, *early = taken
    if not isinstance(load, Load):
        raise SystemExit(f"the first command must be load, not {load}"[:REASON_CAP])
    return load, early


def _message(turn: Turn) -> dict[str, object]:
    message: dict[str, object] = {"role": turn.role, "content": turn.content}
    if turn.name is not None:
        message["name"] = turn.name
    if turn.tool_calls:
        message["tool_calls"] = list(turn.tool_calls)
    if turn.tool_call_id is not None:
        message["tool_call_id"] = turn.tool_call_id
    return message


def _import_engine() -> ModuleType:
    # The telemetry package phones home when its user once agreed to that for other tools; here it does not exist, and
    # the engine falls back to a stub of its own.
    sys.modules["openvino_telemetry"] = None  # type: ignore[assignment]
    return importlib.import_module("openvino_genai")


def _own_stdout() -> int:
    """The protocol's descriptor; what anyone else writes to stdout goes to stderr."""
    sys.stdout.flush()
    out = os.dup(1)
    os.dup2(2, 1)
    return out


def _die_with_parent(parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before the line above
            raise SystemExit(0)


def _write_all(descriptor: int, data: bytes) -> None:
    try:
        while data:
            data = data[os.write(descriptor, data) :]
    except BrokenPipeError:
        _leave(0)


def _leave(status: int) -> NoReturn:
    """Ends at once: the system takes the memory back sooner than the engine would, and without its complaints."""
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    main()

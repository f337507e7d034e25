"""The engine process: the only code that touches the native engine.

Run as `python -m rivermouth.local.inference.child PARENT`.

Why a process: native code crashes, and one step of the engine holds Python's interpreter lock.  Here either costs
nobody but the calls of this model.

Theory of operation
* One thread.  Round and round: take the commands that are there (waiting only when idle), one `step` for all live
  generations, hand out what the step made.  So a cancel is seen between steps: the step in flight ends, and none is
  begun for that call.  A prompt is read in chunks of `STEP_TOKENS`, so that is true during a long prompt too.
* While it works it says something at least every `BEAT_S`, or after the step that takes longer; the server ends a
  process that has been silent for too long.
* fd 1 is moved away and pointed at fd 2 before anything native loads: what native code prints cannot break the
  protocol.
* A failure of one request while it is read or admitted is its own.  An exception out of `step` leaves the engine
  unusable for all, so the process says why and ends; the server starts another for the next call.
* The process ends when its stdin does, and on Linux with its parent, however that died.  Ctrl-C is the server's.
"""

from __future__ import annotations

import functools
import importlib
import operator
import sys
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final, NoReturn

from rivermouth.ir.errors import ApiError, Kind, invalid
from rivermouth.local.inference.commands import Commands, Taken, Unreadable
from rivermouth.local.inference.detokenize import Decode, Detokenizer, spelling
from rivermouth.local.inference.loading import GGUF, opened
from rivermouth.local.inference.loading import STEP_TOKENS as STEP_TOKENS
from rivermouth.local.inference.running import Send, run
from rivermouth.local.inference.stdio import native_reason as native_reason
from rivermouth.local.inference.stdio import (
    without_telemetry,
)
from rivermouth.local.words.families import THINK_CLOSE, ThoughtTokens, opens_thought, template_reason, without_thought
from rivermouth.local.words.prompt import context_exceeded
from rivermouth.local.words.protocol import (
    Beat,
    Began,
    CallSchema,
    Cancel,
    Delta,
    Done,
    Embed,
    Failed,
    Generate,
    Load,
    LoadEncoder,
    Ready,
    Turn,
    Word,
)
from rivermouth.local.words.stops import StopFilter
from rivermouth.wire import json

# The tokenizer that the engine makes of a GGUF file keeps the last so many tokens of a text and drops the others in
# silence, whatever it is told, so a prompt that has as many may have had more.
PROMPT_CAP_TOKENS: Final = 8192
WARM_UP_TOKENS: Final = 4
BEAT_S: Final = 1.0

# What the engine calls an end, as the protocol's reason.
REASONS: Final[dict[str, str]] = {"STOP": "stop", "LENGTH": "length", "NONE": "stop", "TOOL_CALLS": "stop"}


class Live:
    """One generation that the engine is working on."""

    def __init__(self, wanted: Generate, handle: Any, began: Began, decode: Decode) -> None:
        self.id = wanted.id
        self.handle = handle
        self.prompt_tokens = began.prompt_tokens
        self.output_tokens = 0
        self.thought = ThoughtTokens(in_thought=began.in_thought) if THINK_CLOSE in wanted.marks else None
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
                text = self.text.feed(tokens)
                if self.thought is not None:
                    self.thought.feed(text, len(tokens))
                shown += self.stops.feed(text)
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
            reasoning_tokens=self.thought.count if self.thought is not None else None,
        )


class Engine:
    """The loaded model and what it is working on."""

    def __init__(self, genai: ModuleType, load: Load) -> None:
        self._genai = genai
        self._pipeline, self.cached = opened(genai, load)
        self._tokenizer = self._pipeline.get_tokenizer()
        self._end_tokens = set(load.end_tokens)
        self._context_tokens = load.context_tokens
        self._prompt_cap = prompt_cap(load, self._tokenizer)
        self._live: dict[int, Live] = {}
        self._mark_tokens: dict[str, int | None] = {}

    @property
    def idle(self) -> bool:
        return not self._live

    def warm_up(self) -> None:
        """One short answer, because the first after a load is several times slower."""
        wanted = Generate(id=0, prompt="Hello", context_tokens=self._context_tokens, max_tokens=WARM_UP_TOKENS)
        self.admit(wanted)
        while self._live:
            self.step()

    def admit(self, wanted: Generate) -> Began | Done | Failed:
        """Renders, counts and checks the prompt, then hands it to the engine."""
        try:
            tokens, in_thought = self._encode(wanted)
            count = int(tokens.shape[1])
            limit = min(wanted.context_tokens, self._context_tokens)
            if wanted.count_only:  # what is too long here may be asked for elsewhere
                refused = unfit(count, wanted.context_tokens)
            else:
                refused = unfit(count, limit, self._prompt_cap)
            if refused is not None:
                return failed(wanted.id, refused)
            if wanted.count_only:
                return counted(wanted.id, count)
            config = self._config(wanted, limit - count)
            handle = self._pipeline.add_request(wanted.id, tokens, config)
        except ApiError as error:
            return failed(wanted.id, error)
        except (RuntimeError, ValueError, TypeError) as error:
            return Failed(id=wanted.id, kind=Kind.INVALID_REQUEST.value, message=native_reason(error), foreign=True)
        began = Began(wanted.id, count, in_thought)
        self._live[wanted.id] = Live(wanted, handle, began, self._spelling(wanted.marks))
        return began

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

    def _encode(self, wanted: Generate) -> tuple[Any, bool]:
        """The prompt's tokens, and whether it ends inside a thought."""
        if wanted.turns is None:
            return self._tokenizer.encode(wanted.prompt or "").input_ids, False
        context = {} if wanted.enable_thinking is None else {"enable_thinking": wanted.enable_thinking}
        messages, tools = [_message(turn) for turn in wanted.turns], list(wanted.tools) or None
        try:
            text = self._tokenizer.apply_chat_template(
                messages, add_generation_prompt=True, tools=tools, extra_context=context
            )
        except RuntimeError as error:
            text = f"the chat template refuses these messages: {template_reason(str(error))}"
            raise ApiError(Kind.INVALID_REQUEST, text, param="messages", foreign=True) from None
        if wanted.answer_at_once:
            text = without_thought(text, switched=wanted.enable_thinking is not None)
        return self._tokenizer.encode(text, add_special_tokens=False).input_ids, opens_thought(text)

    def _spelling(self, marks: tuple[str, ...]) -> Decode:
        """Tokens to text, the marks among them shown and what ends an answer not."""
        shown = {token: mark for mark in marks if (token := self._token_of(mark)) is not None}
        return spelling(self._tokenizer.decode, shown, self._end_tokens)

    def _token_of(self, mark: str) -> int | None:
        """The one token that is this mark; None where it is several."""
        if mark not in self._mark_tokens:
            ids = self._tokenizer.encode(mark, add_special_tokens=False).input_ids.data[0].tolist()
            self._mark_tokens[mark] = int(ids[0]) if len(ids) == 1 else None
        return self._mark_tokens[mark]

    def _config(self, wanted: Generate, room: int) -> Any:
        config = self._genai.GenerationConfig()
        config.set_eos_token_id(self._tokenizer.get_eos_token_id())
        config.stop_token_ids = set(config.stop_token_ids) | self._end_tokens
        config.max_new_tokens = room if wanted.max_tokens is None else min(room, wanted.max_tokens)
        for field in wanted.decoding.__struct_fields__:
            value = getattr(wanted.decoding, field)
            if value is not None:
                setattr(config, field, value)
        if wanted.calls:
            config.structured_output_config = self._one_call(wanted.calls)
        elif wanted.regex is not None:
            config.structured_output_config = self._genai.StructuredOutputConfig(regex=wanted.regex)
        elif wanted.schema is not None:
            config.structured_output_config = self._genai.StructuredOutputConfig(json_schema=wanted.schema)
        config.validate()
        return config

    def _one_call(self, calls: tuple[CallSchema, ...]) -> Any:
        """The grammar of a call of one of these, and of nothing else."""
        grammars = self._genai.StructuredOutputConfig
        each = [
            grammars.Concat(
                grammars.ConstString(f'{{"name": {json.encode(call.name).decode()}, "arguments": '),
                grammars.JSONSchema(call.parameters),
                grammars.ConstString("}"),
            )
            for call in calls
        ]
        return grammars(compound_grammar=functools.reduce(operator.or_, each))


def serve(
    engine: Engine,
    commands: Commands,
    early: list[Taken],
    send: Send,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Until stdin ends."""
    said_at = clock()

    def say(words: list[Word]) -> None:
        nonlocal said_at
        send(words)
        said_at = clock()

    waiting: list[Taken] | None = early
    while waiting is not None:
        answers: list[Word] = []
        for command in waiting:
            answer = _obey(engine, command)
            if answer is not None:
                answers.append(answer)
        if answers:
            say(answers)
        if engine.idle:
            engine.release()
        else:
            made = engine.step()
            if made:
                say(made)
            elif clock() - said_at >= BEAT_S:  # a long prompt, or an answer whose text is held back
                say([Beat()])
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
        case Unreadable() | Load() | LoadEncoder() | Embed():  # no request of ours: there is nobody to tell but the log
            sys.stderr.write(f"passed over: {type(command).__name__}\n")
            return None


def failed(identity: int, error: ApiError) -> Failed:
    """One request that is refused."""
    return Failed(
        id=identity,
        kind=error.kind.value,
        message=error.message,
        code=error.code,
        param=error.param,
        foreign=error.foreign,
    )


def counted(identity: int, prompt_tokens: int) -> Done:
    """The answer to `count_only`."""
    return Done(id=identity, reason="stop", prompt_tokens=prompt_tokens, output_tokens=0, prompt_ns=0, output_ns=0)


def prompt_cap(load: Load, tokenizer: Any) -> int:
    """A prompt of so many tokens is too long for the device, or may have been longer before the tokenizer cut it."""
    cap = PROMPT_CAP_TOKENS
    if not load.path.endswith(GGUF):  # its tokenizer was made elsewhere, and may cut anywhere
        counted = int(tokenizer.encode("1 2 " * (load.context_tokens // 2 + 1)).input_ids.shape[1])
        cap = counted if counted <= load.context_tokens else load.context_tokens + 1
    return cap if load.prompt_tokens is None else min(cap, load.prompt_tokens + 1)


def unfit(prompt_tokens: int, context_tokens: int, cap_tokens: int = PROMPT_CAP_TOKENS) -> ApiError | None:
    """Why a prompt of so many tokens, as the tokenizer counts them, cannot be answered.

    cap_tokens: what the tokenizer counts to at most, or what the device takes.
    """
    if prompt_tokens == 0:
        return invalid("the prompt is empty", param="messages")
    if prompt_tokens >= min(context_tokens, cap_tokens):
        many = f"{prompt_tokens} tokens{' or more' if prompt_tokens == cap_tokens else ''}"
        return context_exceeded(f"the prompt of {many}", min(context_tokens, cap_tokens))
    return None


def main() -> NoReturn:
    run(Load, _loaded, serve)


def _loaded(load: Load) -> tuple[Engine, Ready]:
    genai = _import_engine()
    engine = Engine(genai, load)
    engine.warm_up()
    return engine, Ready(load.device, genai.__version__, engine.cached)


def _message(turn: Turn) -> dict[str, object]:
    message: dict[str, object] = {"role": turn.role, "content": turn.content}
    if turn.reasoning_content is not None:
        message["reasoning_content"] = turn.reasoning_content
    if turn.name is not None:
        message["name"] = turn.name
    if turn.tool_calls:
        message["tool_calls"] = list(turn.tool_calls)
    if turn.tool_call_id is not None:
        message["tool_call_id"] = turn.tool_call_id
    return message


def _import_engine() -> ModuleType:
    without_telemetry()
    return importlib.import_module("openvino_genai")


if __name__ == "__main__":
    main()

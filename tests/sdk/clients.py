"""The vendors' SDKs behind one face: the same wish, and what the client saw, in words that can be compared."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any, Final, NamedTuple, Protocol

import anthropic
import ollama
import openai

from tests.sdk.said import PIXEL

ROOM: Final = 4000


class Ask(NamedTuple):
    """One wish.  `results`: the answers to the calls of the turn before, of a talk of three turns."""

    text: str = "Hi"
    system: str | None = None
    tool: dict[str, Any] | None = None
    forced: bool = False
    results: tuple[str, ...] = ()
    images: int = 0
    schema: dict[str, Any] | None = None
    stop: str | None = None
    limit: int | None = None
    think: bool = False


class Seen(NamedTuple):
    """What a client saw.  finish: in OpenAI's words.  stopped_by: the stop sequence, where the protocol says which."""

    text: str = ""
    thinking: str = ""
    signed: bool = False
    calls: tuple[tuple[str, str], ...] = ()
    finish: str | None = None
    stopped_by: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None


class Failed(Exception):
    """The SDK raised its own error.  status: of the HTTP answer; 200 for an error in a stream."""

    def __init__(self, status: int, message: str, text: str) -> None:
        super().__init__(message)
        self.status = status
        self.text = text


class Client(Protocol):
    """One SDK, pointed at one server."""

    def whole(self, model: str, ask: Ask) -> Seen: ...

    def streamed(self, model: str, ask: Ask) -> Seen: ...

    def pieces(self, model: str, ask: Ask) -> Iterator[str]:
        """The pieces of text as they come; closing the iterator closes the connection."""
        ...

    def agent(self, model: str, ask: Ask, result: str) -> Seen:
        """Two turns as an agent has them: the calls, then what the SDK gave back as it is, with a result for each."""
        ...

    def close(self) -> None: ...


def finish_of(word: str | None, calls: Any) -> str | None:
    """Any dialect's word in OpenAI's, calls told by their presence where the word does not tell them."""
    known = {"end_turn": "stop", "stop_sequence": "stop", "tool_use": "tool_calls", "max_tokens": "length"}
    finish = known.get(word or "", word)
    return "tool_calls" if finish == "stop" and calls else finish


def called(name: str, arguments: Any) -> tuple[str, str]:
    """A call with its arguments as JSON of one form; text that is no JSON as it is."""
    try:
        value = json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return name, str(arguments)
    return name, json.dumps(value, sort_keys=True, ensure_ascii=False)


class OpenAi:
    """The OpenAI SDK."""

    def __init__(self, url: str) -> None:
        self._sdk = openai.OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0)

    def whole(self, model: str, ask: Ask) -> Seen:
        with self._errors():
            reply = self._sdk.chat.completions.create(**self._fields(model, ask))
        return self._seen(reply)

    def streamed(self, model: str, ask: Ask) -> Seen:
        text = ""
        fields = {**self._fields(model, ask), "stream_options": {"include_usage": True}}
        thinking, signed = "", False
        with self._errors(lambda: text), self._sdk.chat.completions.stream(**fields) as stream:
            try:
                for event in stream:
                    for choice in event.chunk.choices if event.type == "chunk" else ():
                        extra = choice.delta.model_extra or {}
                        text += choice.delta.content or ""
                        thinking += extra.get("reasoning_content") or ""
                        signed |= any(d.get("signature") for d in extra.get("reasoning_details") or ())
                seen = self._seen(stream.get_final_completion())
            except openai.LengthFinishReasonError as cut:  # this SDK's way to say so in this helper
                seen = self._seen(cut.completion)
        assert (seen.text, seen.thinking, seen.signed) == (text, thinking, signed)
        return seen

    def pieces(self, model: str, ask: Ask) -> Iterator[str]:
        fields = {**self._fields(model, ask), "stream": True}
        with closing(self._sdk.chat.completions.create(**fields)) as stream:
            for chunk in stream:
                yield from (c.delta.content for c in chunk.choices if c.delta.content)

    def agent(self, model: str, ask: Ask, result: str) -> Seen:
        fields = self._fields(model, ask)
        with self._errors():
            said = self._sdk.chat.completions.create(**fields).choices[0].message
            results = [{"role": "tool", "tool_call_id": c.id, "content": result} for c in said.tool_calls or []]
            return self._seen(
                self._sdk.chat.completions.create(**{**fields, "messages": [*fields["messages"], said, *results]})
            )

    def close(self) -> None:
        self._sdk.close()

    def _fields(self, model: str, ask: Ask) -> dict[str, Any]:
        content: Any = ask.text
        if ask.images:
            image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
            content = [{"type": "text", "text": ask.text}, *[image] * ask.images]
        messages: list[Any] = [{"role": "developer", "content": ask.system}] if ask.system is not None else []
        messages.append({"role": "user", "content": content})
        if ask.results:
            calls = [
                {"id": f"call_{n}", "type": "function", "function": {"name": "tool", "arguments": "{}"}}
                for n in range(len(ask.results))
            ]
            messages.append({"role": "assistant", "tool_calls": calls})
            messages += [{"role": "tool", "tool_call_id": f"call_{n}", "content": r} for n, r in enumerate(ask.results)]
        fields: dict[str, Any] = {"model": model, "messages": messages}
        if ask.tool is not None:
            fields["tools"] = [{"type": "function", "function": {"name": "tool", "parameters": ask.tool}}]
            if ask.forced:
                fields["tool_choice"] = {"type": "function", "function": {"name": "tool"}}
        if ask.schema is not None:
            shape = {"name": "shape", "schema": ask.schema}
            fields["response_format"] = {"type": "json_schema", "json_schema": shape}
        fields |= {"stop": [ask.stop]} if ask.stop is not None else {}
        fields |= {"max_tokens": ask.limit} if ask.limit is not None else {}
        fields |= {"reasoning_effort": "low"} if ask.think else {}
        return fields

    def _seen(self, reply: Any) -> Seen:
        (choice,) = reply.choices
        message, usage = choice.message, reply.usage
        extra = message.model_extra or {}
        details = usage.completion_tokens_details
        calls = message.tool_calls or []
        return Seen(
            text=message.content or "",
            thinking=extra.get("reasoning_content") or "",
            signed=any(d.get("signature") for d in extra.get("reasoning_details") or ()),
            calls=tuple(called(c.function.name, c.function.arguments) for c in calls),
            finish=choice.finish_reason,
            input_tokens=usage.prompt_tokens,
            output_tokens=usage.completion_tokens,
            reasoning_tokens=details.reasoning_tokens if details is not None else None,
        )

    @contextmanager
    def _errors(self, text: Callable[[], str] = str) -> Iterator[None]:
        try:
            yield
        except openai.APIStatusError as error:
            raise Failed(error.status_code, error.message, text()) from error
        except openai.APIError as error:
            raise Failed(200, error.message, text()) from error


class Responses:
    """The OpenAI SDK's other protocol."""

    def __init__(self, url: str) -> None:
        self._sdk = openai.OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0)

    def whole(self, model: str, ask: Ask) -> Seen:
        with self._errors():
            return self._seen(self._sdk.responses.create(**self._fields(model, ask)))

    def streamed(self, model: str, ask: Ask) -> Seen:
        text, thinking = "", ""
        last: Any = None
        with self._errors(lambda: text), self._sdk.responses.stream(**self._fields(model, ask)) as stream:
            for event in stream:
                last = event
                text += event.delta if event.type == "response.output_text.delta" else ""
                thinking += event.delta if event.type == "response.reasoning_summary_text.delta" else ""
            if last.type == "response.failed":
                raise Failed(200, last.response.error.message, text)
            # For an incomplete one the SDK's accumulator has no answer; the event itself has it.
            seen = self._seen(last.response if last.type == "response.incomplete" else stream.get_final_response())
        assert (seen.text, seen.thinking) == (text, thinking)
        return seen

    def pieces(self, model: str, ask: Ask) -> Iterator[str]:
        with closing(self._sdk.responses.create(**self._fields(model, ask), stream=True)) as stream:
            for event in stream:
                if event.type == "response.output_text.delta":
                    yield event.delta

    def agent(self, model: str, ask: Ask, result: str) -> Seen:
        fields = self._fields(model, ask)
        with self._errors():
            said = self._sdk.responses.create(**fields).output
            results = [
                {"type": "function_call_output", "call_id": item.call_id, "output": result}
                for item in said
                if item.type == "function_call"
            ]
            return self._seen(self._sdk.responses.create(**{**fields, "input": [*fields["input"], *said, *results]}))

    def close(self) -> None:
        self._sdk.close()

    def _fields(self, model: str, ask: Ask) -> dict[str, Any]:
        image = {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}", "detail": "auto"}
        content = [{"type": "input_text", "text": ask.text}, *[image] * ask.images]
        items: list[Any] = [{"role": "user", "content": content}]
        calls = [
            {"type": "function_call", "call_id": f"call_{n}", "name": "tool", "arguments": "{}"}
            for n in range(len(ask.results))
        ]
        results = [
            {"type": "function_call_output", "call_id": f"call_{n}", "output": r} for n, r in enumerate(ask.results)
        ]
        fields: dict[str, Any] = {"model": model, "input": [*items, *calls, *results]}
        fields |= {"instructions": ask.system} if ask.system is not None else {}
        if ask.tool is not None:
            fields["tools"] = [{"type": "function", "name": "tool", "parameters": ask.tool, "strict": False}]
            if ask.forced:
                fields["tool_choice"] = {"type": "function", "name": "tool"}
        if ask.schema is not None:
            fields["text"] = {"format": {"type": "json_schema", "name": "shape", "schema": ask.schema}}
        fields |= {"max_output_tokens": ask.limit} if ask.limit is not None else {}
        fields |= {"reasoning": {"effort": "low", "summary": "auto"}} if ask.think else {}
        return fields

    def _seen(self, response: Any) -> Seen:
        items, usage = response.output, response.usage
        thoughts = [i for i in items if i.type == "reasoning"]
        calls = [called(i.name, i.arguments) for i in items if i.type == "function_call"]
        ends = {"completed": "tool_calls" if calls else "stop", "incomplete": "length"}
        return Seen(
            text=response.output_text,
            thinking="".join(s.text for i in thoughts for s in i.summary),
            signed=any(i.encrypted_content for i in thoughts),
            calls=tuple(calls),
            finish=ends.get(response.status),
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            reasoning_tokens=usage.output_tokens_details.reasoning_tokens,
        )

    @contextmanager
    def _errors(self, text: Callable[[], str] = str) -> Iterator[None]:
        try:
            yield
        except openai.APIStatusError as error:
            raise Failed(error.status_code, error.message, text()) from error


class Anthropic:
    """The Anthropic SDK."""

    def __init__(self, url: str) -> None:
        self._sdk = anthropic.Anthropic(base_url=url, api_key="any", max_retries=0)

    def whole(self, model: str, ask: Ask) -> Seen:
        with self._errors():
            message = self._sdk.messages.create(**self._fields(model, ask))
        return self._seen(message)

    def streamed(self, model: str, ask: Ask) -> Seen:
        text = ""
        with self._errors(lambda: text), self._sdk.messages.stream(**self._fields(model, ask)) as stream:
            for piece in stream.text_stream:
                text += piece
            seen = self._seen(stream.get_final_message())
        assert seen.text == text
        return seen

    def pieces(self, model: str, ask: Ask) -> Iterator[str]:
        with self._sdk.messages.stream(**self._fields(model, ask)) as stream:
            yield from stream.text_stream

    def agent(self, model: str, ask: Ask, result: str) -> Seen:
        fields = self._fields(model, ask)
        with self._errors():
            said = self._sdk.messages.create(**fields).content
            results = [
                {"type": "tool_result", "tool_use_id": b.id, "content": result} for b in said if b.type == "tool_use"
            ]
            turns = [{"role": "assistant", "content": said}, {"role": "user", "content": results}]
            return self._seen(self._sdk.messages.create(**{**fields, "messages": [*fields["messages"], *turns]}))

    def close(self) -> None:
        self._sdk.close()

    def _fields(self, model: str, ask: Ask) -> dict[str, Any]:
        image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
        content = [{"type": "text", "text": ask.text}, *[image] * ask.images]
        messages: list[Any] = [{"role": "user", "content": content}]
        if ask.results:
            numbers = range(len(ask.results))
            calls = [{"type": "tool_use", "id": f"call_{n}", "name": "tool", "input": {}} for n in numbers]
            results = [
                {"type": "tool_result", "tool_use_id": f"call_{n}", "content": r} for n, r in enumerate(ask.results)
            ]
            messages += [{"role": "assistant", "content": calls}, {"role": "user", "content": results}]
        fields: dict[str, Any] = {"model": model, "max_tokens": ask.limit or ROOM, "messages": messages}
        fields |= {"system": ask.system} if ask.system is not None else {}
        if ask.tool is not None:
            fields["tools"] = [{"name": "tool", "input_schema": ask.tool}]
            if ask.forced:
                fields["tool_choice"] = {"type": "tool", "name": "tool"}
        if ask.schema is not None:
            fields["output_config"] = {"format": {"type": "json_schema", "schema": ask.schema}}
        fields |= {"stop_sequences": [ask.stop]} if ask.stop is not None else {}
        fields |= {"thinking": {"type": "enabled", "budget_tokens": 1024}} if ask.think else {}
        return fields

    def _seen(self, message: Any) -> Seen:
        blocks = message.content
        details = message.usage.output_tokens_details
        calls = [called(b.name, b.input) for b in blocks if b.type == "tool_use"]
        return Seen(
            text="".join(b.text for b in blocks if b.type == "text"),
            thinking="".join(b.thinking for b in blocks if b.type == "thinking"),
            signed=any(b.signature for b in blocks if b.type == "thinking"),
            calls=tuple(calls),
            finish=finish_of(message.stop_reason, calls),
            stopped_by=message.stop_sequence,
            input_tokens=message.usage.input_tokens,
            output_tokens=message.usage.output_tokens,
            reasoning_tokens=details.thinking_tokens if details is not None else None,
        )

    @contextmanager
    def _errors(self, text: Callable[[], str] = str) -> Iterator[None]:
        try:
            yield
        except anthropic.APIStatusError as error:
            raise Failed(error.status_code, error.message, text()) from error


class Ollama:
    """The Ollama SDK."""

    def __init__(self, url: str) -> None:
        self._sdk = ollama.Client(host=url)

    def whole(self, model: str, ask: Ask) -> Seen:
        with self._errors():
            reply = self._sdk.chat(**self._fields(model, ask))
        return self._seen([reply])

    def streamed(self, model: str, ask: Ask) -> Seen:
        frames: list[Any] = []
        with self._errors(lambda: "".join(f.message.content or "" for f in frames)):
            for frame in self._sdk.chat(**self._fields(model, ask), stream=True):
                frames.append(frame)  # noqa: PERF402  what came before an error is wanted too
        return self._seen(frames)

    def pieces(self, model: str, ask: Ask) -> Iterator[str]:
        stream: Any = self._sdk.chat(**self._fields(model, ask), stream=True)
        with closing(stream):
            for frame in stream:
                if frame.message.content:
                    yield frame.message.content

    def agent(self, model: str, ask: Ask, result: str) -> Seen:
        fields = self._fields(model, ask)
        with self._errors():
            said = self._sdk.chat(**fields).message
            results = [{"role": "tool", "tool_name": c.function.name, "content": result} for c in said.tool_calls or []]
            return self._seen([self._sdk.chat(**{**fields, "messages": [*fields["messages"], said, *results]})])

    def close(self) -> None:
        self._sdk.close()  # type: ignore[no-untyped-call]

    def _fields(self, model: str, ask: Ask) -> dict[str, Any]:
        messages: list[Any] = [{"role": "system", "content": ask.system}] if ask.system is not None else []
        messages.append({"role": "user", "content": ask.text, "images": [PIXEL] * ask.images})
        if ask.results:
            calls = [{"function": {"name": "tool", "arguments": {}}}] * len(ask.results)
            messages.append({"role": "assistant", "tool_calls": calls})
            messages += [{"role": "tool", "tool_name": "tool", "content": r} for r in ask.results]
        options = {"stop": [ask.stop] if ask.stop is not None else None, "num_predict": ask.limit}
        fields: dict[str, Any] = {"model": model, "messages": messages}
        fields["options"] = {name: value for name, value in options.items() if value is not None}
        if ask.tool is not None:
            fields["tools"] = [{"type": "function", "function": {"name": "tool", "parameters": ask.tool}}]
        fields |= {"format": ask.schema} if ask.schema is not None else {}
        fields |= {"think": True} if ask.think else {}
        return fields

    def _seen(self, frames: list[Any]) -> Seen:
        last = frames[-1]
        assert last.done, "a clean end without a last frame"
        calls = [
            called(c.function.name, dict(c.function.arguments)) for f in frames for c in f.message.tool_calls or []
        ]
        return Seen(
            text="".join(f.message.content or "" for f in frames),
            thinking="".join(f.message.thinking or "" for f in frames),
            calls=tuple(calls),
            finish=finish_of(last.done_reason, calls),
            input_tokens=last.prompt_eval_count,
            output_tokens=last.eval_count,
        )

    @contextmanager
    def _errors(self, text: Callable[[], str] = str) -> Iterator[None]:
        try:
            yield
        except ollama.ResponseError as error:
            status = 200 if error.status_code == -1 else error.status_code
            raise Failed(status, error.error, text()) from error


CLIENTS: Final[dict[str, Callable[[str], Client]]] = {
    "openai": OpenAi,
    "responses": Responses,
    "anthropic": Anthropic,
    "ollama": Ollama,
}

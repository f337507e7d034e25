"""The recorded streams of every dialect, and what each means: the upstream half of the goldens.

    <dialect>/streams/NAME.sse .ndjson .json .bin    what a server sent, byte for byte
    <dialect>/streams/NAME.http                      an answer that failed before its stream: status, headers, body
    <dialect>/streams/NAME.events.jsonl              the events that these are, written by `make goldens`

A recording is composed after the vendor's own documents and clients, never by our encoders.  For each case of `CASES` a
dialect has one, under the case's name or the one in `SHOWN_BY`, or a reason why its protocol cannot show it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from rivermouth.dialects import discover
from rivermouth.dialects.dialect import Dialect
from rivermouth.ir.events import Error, Event
from tests.dialects.conformance import Decoded
from tests.dialects.events_text import describe

HERE: Final = Path(__file__).parent
STREAMS: Final = (".sse", ".ndjson", ".json", ".bin")
FAILED: Final = ".http"
MEANING: Final = ".events.jsonl"

RECORDINGS: Final = [
    path for path in sorted(HERE.glob("*/streams/*")) if path.suffix in (*STREAMS, FAILED)
]  # fmt: skip

CASES: Final = (
    "text",
    "long_text",
    "unicode",
    "one_tool",
    "parallel_tools",
    "reasoning_signed",
    "stop_sequence",
    "length",
    "content_filter",
    "usage_cached",
    "error_before",
    "error_inside",
    "cut",
)

SHOWN_BY: Final[dict[tuple[str, str], str]] = {
    ("openai_chat", "usage_cached"): "text",
    ("openai_chat", "reasoning_signed"): "signed",
    ("openai_chat", "content_filter"): "filtered",
    ("openai_chat", "error_inside"): "error",
    ("anthropic", "parallel_tools"): "tools",
    ("anthropic", "reasoning_signed"): "tools",
    ("anthropic", "usage_cached"): "tools",
    ("anthropic", "stop_sequence"): "redacted",
    ("anthropic", "content_filter"): "refusal",
    ("anthropic", "error_inside"): "error",
    ("ollama", "text"): "chat_text",
    ("ollama", "parallel_tools"): "chat_thinking_tools",
    ("ollama", "length"): "generate_length",
    ("ollama", "error_inside"): "chat_error",
    ("gemini", "parallel_tools"): "parallel_calls",
    ("gemini", "reasoning_signed"): "thoughts_and_signed_call",
    ("gemini", "content_filter"): "safety",
    ("gemini", "error_inside"): "error",
    ("cohere_v1", "parallel_tools"): "tools",
    ("cohere_v1", "content_filter"): "toxic",
    ("cohere_v1", "error_inside"): "error",
    ("cohere_v2", "parallel_tools"): "tools",
    ("cohere_v2", "stop_sequence"): "thinking",
    ("cohere_v2", "content_filter"): "filtered",
    ("cohere_v2", "usage_cached"): "thinking",
    ("cohere_v2", "error_inside"): "error",
    ("tgi", "text"): "chat_text",
    ("tgi", "one_tool"): "chat_tool",
    ("tgi", "stop_sequence"): "native_stop_sequence",
    ("tgi", "length"): "native_length",
    ("tgi", "error_inside"): "chat_error",
    ("bedrock_invoke", "text"): "titan",
    ("bedrock_invoke", "parallel_tools"): "anthropic_tools",
    ("bedrock_invoke", "reasoning_signed"): "anthropic_tools",
    ("bedrock_invoke", "error_inside"): "titan_failure",
}

NOWHERE: Final[dict[tuple[str, str], str]] = {
    ("openai_chat", "stop_sequence"): "the word is stop, and nothing says which sequence",
    ("openai_responses", "stop_sequence"): "there are no stop sequences",
    ("openai_completions", "one_tool"): "there are no tools",
    ("openai_completions", "parallel_tools"): "there are no tools",
    ("openai_completions", "reasoning_signed"): "there is no reasoning",
    ("openai_completions", "stop_sequence"): "the word is stop, and nothing says which sequence",
    ("ollama", "reasoning_signed"): "reasoning has no signature",
    ("ollama", "stop_sequence"): "the word is stop, and nothing says which sequence",
    ("ollama", "content_filter"): "there is no word for it",
    ("ollama", "usage_cached"): "cached tokens are not counted",
    ("gemini", "stop_sequence"): "the word is STOP, and nothing says which sequence",
    ("cohere_v1", "reasoning_signed"): "there is no reasoning",
    ("cohere_v2", "reasoning_signed"): "reasoning has no signature",
    ("tgi", "reasoning_signed"): "there is no reasoning",
    ("tgi", "content_filter"): "there is no word for it",
    ("tgi", "usage_cached"): "cached tokens are not counted",
}


def dialect_of(recording: Path) -> Dialect:
    return discover()[recording.parent.parent.name]


def meaning_of(recording: Path) -> Path:
    """The file beside it that says what it means."""
    return recording.with_name(recording.stem + MEANING)


def events_of(recording: Path) -> list[Event]:
    """What our decoder makes of it, to its end; the end of what was cut is the error that says so."""
    dialect, data = dialect_of(recording), recording.read_bytes()
    if recording.suffix == FAILED:
        return [Error(dialect.parse_error(*_answer(data)))]
    reader = Decoded(dialect)
    return [*reader.feed(data), *reader.eof()]


def meaning(recording: Path) -> str:
    """The same as lines of text, in ASCII: nothing in it can hide."""
    return "".join(json.dumps(describe(event)) + "\n" for event in events_of(recording))


def _answer(data: bytes) -> tuple[int, dict[str, str], bytes]:
    head, _, body = data.partition(b"\n\n")
    first, *lines = head.decode().split("\n")
    headers = dict(line.split(": ", 1) for line in lines)
    return int(first.split()[1]), headers, body


def shown(dialect: str, case: str) -> Path | None:
    """The recording that shows this case."""
    stem = SHOWN_BY.get((dialect, case), case)
    return next((p for p in RECORDINGS if p.parent.parent.name == dialect and p.stem == stem), None)

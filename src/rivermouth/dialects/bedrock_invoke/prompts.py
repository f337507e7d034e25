"""Talks as the one prompt that a model was trained on, both ways.

A model takes its control tokens for what they are wherever they stand, so a text of the talk that holds one would be
another turn of it.  There they are written apart (`<| eot_id |>`), which is named as a loss.  Reading takes linear
time, and a prompt that is not of the layout is no talk.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from rivermouth.dialects.bedrock_invoke.text_request import words
from rivermouth.ir.request import Message, Request, Role, Text

CONTROL: Final = "messages.control_tokens"


class Layout(NamedTuple):
    """A talk of Llama's.  A turn is `open` role `close` two line ends text `end`."""

    open: str
    close: str
    end: str


_BEGIN: Final = "<|begin_of_text|>"
_BLANK: Final = "\n\n"
_LLAMA_3: Final = Layout("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>")
_LLAMA_4: Final = Layout("<|header_start|>", "<|header_end|>", "<|eot|>")
LLAMA_LAYOUTS: Final = (_LLAMA_3, _LLAMA_4)
_FOURTH: Final = re.compile(r"llama-?4")
_LLAMA_TOKEN: Final = re.compile(r"<\|(\w+)\|>")
_ROLES: Final = {role.value: role for role in (Role.SYSTEM, Role.USER, Role.ASSISTANT)}

_ASK: Final = "[INST]"
_ASKED: Final = "[/INST]"
_START: Final = "<s>"
_END: Final = "</s>"
_MISTRAL_TOKEN: Final = re.compile(r"\[(/?INST)\]|<(/?s)>")


def layout_of(model: str) -> Layout:
    """The layout of this model's generation."""
    return _LLAMA_4 if _FOURTH.search(model) else _LLAMA_3


def write_llama(layout: Layout, request: Request, losses: set[str]) -> str:
    """The talk, up to where the model goes on."""
    turns = [(Role.SYSTEM, text.text) for text in request.system if text.text]
    turns += [(message.role, words(message, losses)) for message in request.messages]
    plain = [(role, _apart(_LLAMA_TOKEN, r"<| \1 |>", text, losses)) for role, text in turns]
    goes_on = plain.pop()[1] if plain and plain[-1][0] is Role.ASSISTANT else ""
    told = "".join(f"{_head(layout, role.value)}{text}{layout.end}" for role, text in plain)
    return f"{_BEGIN}{told}{_head(layout, Role.ASSISTANT.value)}{goes_on}"


def _head(layout: Layout, role: str) -> str:
    return f"{layout.open}{role}{layout.close}{_BLANK}"


def read_llama(layouts: Iterable[Layout], prompt: str) -> list[Message] | None:
    """The talk of a prompt; None for one of another layout."""
    return next((talk for layout in layouts if (talk := _read_llama(layout, prompt)) is not None), None)


def _read_llama(layout: Layout, prompt: str) -> list[Message] | None:
    at = len(_BEGIN) if prompt.startswith(_BEGIN) else 0
    turns: list[tuple[Role, str]] = []
    while at < len(prompt):
        close = prompt.find(layout.close, at)
        role = _ROLES.get(prompt[at + len(layout.open) : close].strip())
        if not prompt.startswith(layout.open, at) or close < 0 or role is None:
            return None
        start = close + len(layout.close)
        start += len(_BLANK) if prompt.startswith(_BLANK, start) else 0
        end = prompt.find(layout.end, start)
        text = prompt[start : end if end >= 0 else len(prompt)]
        if layout.open in text or (end < 0 and role is not Role.ASSISTANT):
            return None
        turns.append((role, text))
        at = end + len(layout.end) if end >= 0 else len(prompt)
        at += 1 if prompt.startswith("\n", at) else 0
    return _talk(turns)


def write_mistral(request: Request, losses: set[str]) -> str:
    """The talk, up to where the model goes on.  Instructions stand before the first question."""
    asked = [text.text for text in request.system if text.text]
    out: list[str] = [_START]
    answered = False
    for message in request.messages:
        text = _apart(_MISTRAL_TOKEN, r"[ \1\2 ]", words(message, losses), losses)
        if message.role is not Role.ASSISTANT:
            if answered:
                out.append(_END)
            answered = False
            asked.append(text)
            continue
        if asked or len(out) == 1:
            out.append(_question(asked))
        out.append(f" {text}" if asked or not answered else text)
        asked, answered = [], True
    if asked:
        out.append(_question(asked))
    return "".join(out)


def _question(texts: list[str]) -> str:
    return f"{_ASK} {_BLANK.join(texts)} {_ASKED}"


def read_mistral(prompt: str) -> list[Message] | None:
    """The talk of a prompt; None for one of another layout."""
    at = len(_START) if prompt.startswith(_START) else 0
    turns: list[tuple[Role, str]] = []
    while at < len(prompt):
        if not prompt.startswith(_ASK, at):
            return None
        close = prompt.find(_ASKED, at)
        if close < 0:
            return None
        question = prompt[at + len(_ASK) : close]
        end = prompt.find(_END, close)
        answer = prompt[close + len(_ASKED) : end if end >= 0 else len(prompt)]
        if _ASK in question or _ASK in answer:
            return None
        turns += [(Role.USER, _trimmed(question)), (Role.ASSISTANT, answer.removeprefix(" "))]
        at = end + len(_END) if end >= 0 else len(prompt)
        while prompt.startswith((" ", "\n"), at):
            at += 1
    return _talk(turns)


def _trimmed(text: str) -> str:
    """Without the one blank that the layout has on either side."""
    return text.removeprefix(" ").removesuffix(" ")


def _talk(turns: list[tuple[Role, str]]) -> list[Message] | None:
    """The turns that say something; None if there are none."""
    return [Message(role, (Text(text),)) for role, text in turns if text] or None


def _apart(token: re.Pattern[str], spaced: str, text: str, losses: set[str]) -> str:
    """The text with control tokens written apart."""
    plain, count = token.subn(spaced, text)
    if count:
        losses.add(CONTROL)
    return plain

"""How a model writes tool calls and thoughts, read off its chat template.

A model is trained to write what its template shows, so the words in the template name the family:

    Hermes, Qwen     <tool_call>{"name": ..., "arguments": {...}}</tool_call>, as often as there are calls
    Mistral          [TOOL_CALLS][{"name": ..., "arguments": {...}}, ...]  or  [TOOL_CALLS]name[ARGS]{...}
    Llama 3          {"name": ..., "parameters": {...}}, nothing else, perhaps after <|python_tag|>
    thoughts         <think> ... </think> before the answer; some templates write the opening tag themselves

What else a template can do is read off it too: whether it shows tools, whether thinking can be switched off, whether
it takes the thoughts of earlier turns.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec


class Calls(StrEnum):
    """How calls are written.  FORCED: the answer is nothing but one call, because its grammar allows nothing else."""

    NONE = "none"
    HERMES = "hermes"
    LLAMA3 = "llama3"
    MISTRAL = "mistral"
    FORCED = "forced"


THINK_OPEN: Final = "<think>"
THINK_CLOSE: Final = "</think>"
HERMES_OPEN: Final = "<tool_call>"
HERMES_CLOSE: Final = "</tool_call>"
MISTRAL_OPEN: Final = "[TOOL_CALLS]"
MISTRAL_ID: Final = "[CALL_ID]"
MISTRAL_ARGS: Final = "[ARGS]"
LLAMA_TAG: Final = "<|python_tag|>"

# The marks of each family.  In many tokenizers each is one token, which decoding leaves out unless it is asked for.
MARKS: Final[dict[Calls, tuple[str, ...]]] = {
    Calls.NONE: (),
    Calls.HERMES: (HERMES_OPEN, HERMES_CLOSE),
    Calls.LLAMA3: (LLAMA_TAG,),
    Calls.MISTRAL: (MISTRAL_OPEN, MISTRAL_ID, MISTRAL_ARGS),
    Calls.FORCED: (),
}

# The first row whose words are all in the template names the family.  "<function=" is a way of writing calls between
# Hermes's marks that is none of ours.
_WORDS: Final = (
    (("<function=",), Calls.NONE),
    ((HERMES_OPEN,), Calls.HERMES),
    ((MISTRAL_OPEN,), Calls.MISTRAL),
    ((LLAMA_TAG,), Calls.LLAMA3),
    (('"name":', '"parameters":'), Calls.LLAMA3),
)
_REASON: Final = "Minja's error:"
REASON_CHARS: Final = 300
_TOOLS: Final = "tools"
_SWITCH: Final = "enable_thinking"
_RECALLS: Final = "reasoning_content"
_ARGUMENTS: Final = "arguments"
_TO_JSON: Final = "tojson"


class Family(msgspec.Struct, frozen=True):
    """What a template's model writes, and what the template can be told.

    calls: NONE too where the template shows tools, but calls are written in a way that is not read here.  tools: the
    template shows tools to the model.  switch: it can be told not to think.  recalls: it takes earlier thoughts.
    quotes: it puts the arguments of earlier calls into the prompt as they are, so they have to be text already.
    """

    calls: Calls = Calls.NONE
    thinks: bool = False
    tools: bool = False
    switch: bool = False
    recalls: bool = False
    quotes: bool = False


def family_of(template: str | None) -> Family:
    """The family of a template; of none, nothing is expected."""
    if template is None:
        return Family()
    shows = _TOOLS in template
    calls = next((family for words, family in _WORDS if all(w in template for w in words)), Calls.NONE)
    return Family(
        calls=calls if shows else Calls.NONE,
        thinks=THINK_OPEN in template or THINK_CLOSE in template,
        tools=shows,
        switch=_SWITCH in template,
        recalls=_RECALLS in template,
        quotes=_ARGUMENTS in template and _TO_JSON not in template,
    )


def opens_thought(prompt: str) -> bool:
    """True when a rendered prompt ends inside a thought, so that the answer begins there."""
    return prompt.rstrip().endswith(THINK_OPEN)


def without_thought(prompt: str, *, switched: bool) -> str:
    """The rendered prompt with its thought over, so that the answer begins at once.

    switched: the template was told not to think, and did what it does then.
    """
    if opens_thought(prompt):
        return f"{prompt.rstrip()}\n\n{THINK_CLOSE}\n\n"
    return prompt if switched else f"{prompt}{THINK_OPEN}\n\n{THINK_CLOSE}\n\n"


def template_reason(error: str) -> str:
    """What the engine says of a template that cannot be rendered, without the template, which it repeats throughout."""
    _, _, said = error.partition(_REASON)
    return (said or error).partition(" at row ")[0].strip()[:REASON_CHARS] or "no reason is given"


class ThoughtTokens:
    """Counts the tokens of a thought while the text goes by, its marks included.

    in_thought: the prompt opened it.  `count` is 0 when the answer came without one.
    """

    def __init__(self, *, in_thought: bool) -> None:
        self.count = 0
        self._head: str | None = None if in_thought else ""  # what came before it was clear what this is
        self._tail = ""
        self._over = False

    def feed(self, text: str, tokens: int) -> None:
        if self._over:
            return
        self.count += tokens
        if self._head is not None:
            self._head += text
            begun = self._head.lstrip()
            if THINK_OPEN.startswith(begun):
                return
            self._over = not begun.startswith(THINK_OPEN)
            self._head = None
            if self._over:
                self.count = 0
                return
        self._tail += text
        self._over = THINK_CLOSE in self._tail
        self._tail = self._tail[-len(THINK_CLOSE) :]

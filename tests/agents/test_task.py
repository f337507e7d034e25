"""The played model: what it answers to what, in both dialects."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.agents import anthropic_wire, openai_wire
from tests.agents.task import (
    ASIDE,
    COMMANDS,
    PROMPT,
    SHELLS,
    THOUGHTS,
    WORKS,
    Move,
    Result,
    Seen,
    command_of,
    conclusion,
    next_move,
    of_the_task,
    strays,
    word_in,
)

SHELL = frozenset({"bash", "read"})
WORD = "rivermouth-7"


def seen(*commands: str, **more: Any) -> Seen:
    """The task, with these commands run."""
    results = tuple(Result(json.dumps({"command": command}), f"{WORD}\n") for command in commands)
    return Seen(tools=SHELL, asked=f"please: {PROMPT}", results=results, **more)


def test_the_task_is_two_calls_and_a_text() -> None:
    first, second, last = (next_move(seen(*COMMANDS[:done])) for done in range(3))
    assert (first.thoughts, first.text) == (THOUGHTS, WORKS)
    assert [move.call.arguments["command"] for move in (first, second) if move.call is not None] == list(COMMANDS)
    assert last == Move(text=conclusion(WORD))


def test_the_word_is_that_of_the_result_alone() -> None:
    assert word_in(f"Exit code 0\n{WORD}\n") == WORD
    assert word_in("cat: copy.txt: No such file").startswith("unknown")
    assert word_in(f"{WORD}\nrivermouth-8").startswith("unknown")
    assert word_in(f'[{{"result": "{WORD}\\n"}}]') == WORD


@pytest.mark.parametrize("other", [Seen(tools=SHELL, asked="a title?"), Seen(asked=PROMPT)])
def test_what_is_not_of_the_task_gets_a_few_words(other: Seen) -> None:
    assert not of_the_task(other)
    assert next_move(other) == Move(text=ASIDE)


def test_a_beginning_gets_its_rest() -> None:
    assert next_move(seen(unfinished=WORKS[:8])).text == WORKS[8:]
    assert next_move(seen(unfinished=WORKS)).text == ""
    assert next_move(seen(unfinished="Something else")).text == WORKS


@pytest.mark.parametrize("arguments", ["", "null", "[]", '{"command": "cp word.', '{"command": "rm"}'])
def test_a_call_that_the_model_did_not_make_is_a_stray(arguments: str) -> None:
    result = Result(arguments, "Tool execution aborted")
    wandering = Seen(tools=SHELL, asked=PROMPT, results=(result,))
    assert strays(wandering) == 1
    assert strays(wandering, "execution aborted") == 0
    assert next_move(wandering).text == WORKS, "it is no step of the task"


def test_a_call_that_the_model_made_is_none() -> None:
    assert strays(seen(*COMMANDS)) == 0


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_runs_the_commands_of_the_task(shell: str) -> None:
    move = next_move(Seen(tools=frozenset({shell}), asked=PROMPT))
    assert move.call is not None
    assert (move.call.name, command_of(json.dumps(move.call.arguments))) == (shell, COMMANDS[0])


CALL = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
USER = {"role": "user", "content": "hi"}
CALLED = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "out"}
SAID = {"role": "assistant", "content": "half"}


@pytest.mark.parametrize(
    ("messages", "more", "problem"),
    [
        ([USER, CALLED, RESULT], {}, None),
        ([USER, SAID, USER], {"stream": True, "stream_options": {}}, None),
        ([USER, CALLED], {}, "calls without a result"),
        ([USER, CALLED, USER], {}, "calls without a result"),
        ([USER, RESULT], {}, "a result of no open call"),
        ([USER, {"role": "assistant", "content": None}], {}, "neither content nor calls"),
        ([{"role": "critic", "content": "hm"}], {}, "role"),
        ([], {}, "no messages"),
        ([USER], {"thinking": {}}, "unknown fields"),
        ([USER], {"stream_options": {"include_usage": True}}, "stream_options without stream"),
    ],
)
def test_the_openai_upstream_is_as_strict_as_its_vendor(
    messages: list[Any], more: dict[str, Any], problem: str | None
) -> None:
    problems = openai_wire.read({"model": "m", "messages": messages, **more}).problems
    assert (len(problems) == 1 and problem in problems[0]) if problem else problems == ()


def test_what_the_openai_upstream_sees() -> None:
    tools = [{"type": "function", "function": {"name": "bash"}}]
    found = openai_wire.read({"messages": [USER, CALLED, RESULT, SAID, USER], "tools": tools})
    assert (found.tools, found.asked, found.said) == (frozenset({"bash"}), "hi\nhi", ("", "half"))
    assert (found.results, found.unfinished) == ((Result('{"command": "ls"}', "out"),), "half")
    assert openai_wire.read({"messages": [USER, SAID]}).unfinished == "half", "where it ends with it, too"


THOUGHT = {"type": "thinking", "thinking": "hm", "signature": anthropic_wire.signature("hm")}
USE = {"type": "tool_use", "id": "t1", "name": "bash", "input": {"command": "ls"}}
USED = {"role": "assistant", "content": [THOUGHT, USE]}
GAVE = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "out"}]}


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ([USER, USED, GAVE], None),
        ([USER, USED, GAVE, {"role": "system", "content": "late"}, SAID], None),
        ([USER, USED], "calls without a result"),
        ([USER, USED, USER], "where ['t1'] are wanted"),
        ([USER, GAVE], "results of ['t1']"),
        ([SAID, USER], "the first message is not the user's"),
        ([USER, {"role": "assistant", "content": [{"type": "text", "text": ""}]}], "an empty text"),
        (
            [USER, {"role": "assistant", "content": [{**THOUGHT, "signature": "forged"}]}],
            "a thought with the signature",
        ),
        ([USER, {"role": "critic", "content": "hm"}], "role"),
    ],
)
def test_the_anthropic_upstream_is_as_strict_as_its_vendor(messages: list[Any], problem: str | None) -> None:
    problems = anthropic_wire.read({"max_tokens": 9, "messages": messages}).problems
    assert (len(problems) == 1 and problem in problems[0]) if problem else problems == ()


def test_the_anthropic_upstream_wants_a_limit() -> None:
    assert anthropic_wire.read({"messages": [USER]}).problems == ("max_tokens is required",)


def test_what_the_anthropic_upstream_sees() -> None:
    found = anthropic_wire.read(
        {"max_tokens": 9, "messages": [USER, USED, GAVE, SAID, USER], "tools": [{"name": "Bash"}]}
    )
    assert (found.tools, found.asked, found.said) == (frozenset({"Bash"}), "hi\nhi", ("", "half"))
    assert (found.results, found.unfinished) == ((Result('{"command": "ls"}', "out"),), "half")

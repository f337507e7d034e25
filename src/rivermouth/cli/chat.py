"""`rivermouth chat`: a talk in the terminal, or one question and its answer.

The answer goes to stdout, all else to stderr, so the file of `rivermouth chat -p ... > file` holds the answer alone.
Behind a pipe nobody may be looking, and a small model may never come to an end: there, a local model has a limit.
Ctrl-C during an answer stops it, and what was said stays in the history; at the prompt it ends the talk.
"""

from __future__ import annotations

import os
import signal
import stat
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, TextIO

import typer

from rivermouth.cli.client import Client
from rivermouth.cli.places import configured, data_of, running
from rivermouth.cli.term import DIM, PLAIN, Exit, colourful, dimmed, fail, printable, say
from rivermouth.config import Config
from rivermouth.ir.errors import ApiError
from rivermouth.ir.events import Finish, Reason, ReasoningDelta, TextDelta
from rivermouth.ir.reply import ModelInfo
from rivermouth.ir.request import Message, Request, Role, Text
from rivermouth.local.inference.process import PROVIDER
from rivermouth.local.models.registry import Registry
from rivermouth.secrets import Secret
from rivermouth.store.datadir import DataDir

PROMPT: Final = ">>> "
TICK_S: Final = 0.2
PIPED_TOKENS: Final = 2048
QUITS: Final = frozenset({"/bye", "/quit", "/exit"})
MORE: Final = f"A piped question gets {PIPED_TOKENS} tokens of a local model; --max-tokens N gives it others."
NOTES: Final = {
    Reason.LENGTH: "(cut: the token limit is reached)",
    Reason.CONTENT_FILTER: "(stopped by a content filter)",
}


def run(
    *,
    model: str | None,
    prompt: str | None,
    system: str | None,
    max_tokens: int | None,
    url: str | None,
    key: str | None,
    config_file: Path | None,
    data_dir: Path | None,
) -> None:
    """One answer when there is a prompt or a pipe, else a talk.  Raises `ApiError`, `DataDirBusy`."""
    question = asked(prompt, sys.stdin)
    piped = question is not None and (prompt is None or _piped(sys.stdin))
    with signals_noticed(), server(url, key, config_file, data_dir, model) as (client, name):
        bound = piped and max_tokens is None and is_local(client, name)
        talk = Talk(client, name, system, PIPED_TOKENS if bound else max_tokens)
        if question is not None:
            once(talk, question, MORE if bound else "")
        else:
            converse(talk)


def asked(prompt: str | None, stdin: TextIO) -> str | None:
    """The question of a one-shot call: the prompt, what was piped in, or both; None for a talk.

    Beside a prompt, stdin is read only when it is a pipe or a file: a terminal or /dev/null has nothing to add.
    """
    if prompt is not None and not _piped(stdin):
        return prompt
    if prompt is None and stdin.isatty():
        return None
    piped = stdin.read().strip()
    whole = "\n\n".join(part for part in (prompt, piped) if part)
    if not whole:
        raise typer.BadParameter("there is no question: give one as an argument, with -p, or on stdin")
    return whole


def _piped(stdin: TextIO) -> bool:
    try:
        mode = os.fstat(stdin.fileno()).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode)


@contextmanager
def signals_noticed() -> Iterator[None]:
    """While this lasts, a signal that came just before a wait began is noticed within `TICK_S`.

    Python runs its handlers between instructions; one that comes after the last of them and before the system call
    (of a read, of the line editor) would wait for the next key or byte.  A timer interrupts every wait.
    """
    before = signal.signal(signal.SIGALRM, lambda number, frame: None)
    timer = signal.setitimer(signal.ITIMER_REAL, TICK_S, TICK_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *timer)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def server(
    url: str | None, key: str | None, config_file: Path | None, data_dir: Path | None, model: str | None
) -> Iterator[tuple[Client, str]]:
    """Who answers, and the name of the model: the server that was named, one that is found, or one in this process."""
    secret = Secret(key) if key else None
    if url is not None:  # the configuration that happens to lie here is not that server's, and may want its secrets
        config = configured(config_file) if config_file is not None else Config()
        client = Client(url, secret)
        yield client, model or chosen(config, client.models())
        return
    config = configured(config_file)
    data = data_of(data_dir, config=config)
    found = running(config, data)
    if found is not None:
        client = Client(found.url, secret) if secret else found
        yield client, model or chosen(config, client.models())
        return
    name = model or chosen(config, local_models(data))  # before the server is started: without a model none is
    from rivermouth.cli.embedded import embedded

    with embedded(config, data, name) as address:
        yield Client(address, config.server.keys[0] if config.server.keys else None), name


def local_models(data: DataDir) -> list[ModelInfo]:
    """What is in the registry, as a server would list it."""
    return [ModelInfo(id=str(model.name), owner=PROVIDER) for model in Registry(data.path / "models").models()]


def chosen(config: Config, models: list[ModelInfo]) -> str:
    """The model to talk to when none was named: the configured one, else the first local one; exits without either.

    Never a provider's: its answers may cost money, so it must be named.
    """
    if config.default_model is not None:
        return config.default_model
    local = next((model.id for model in models if model.owner == PROVIDER), None)
    if local is None:
        others = ", ".join(model.id for model in models[:5])
        hint = f"  Or name one of: {others}" if others else ""
        fail(f"there is no local model to talk to.  Get one: rivermouth pull smollm2:135m{hint}", Exit.NOT_FOUND)
    return local


def is_local(client: Client, model: str) -> bool:
    """The server's own engine answers; False where that cannot be found out.  A provider may refuse a limit."""
    try:
        return client.owner(model) == PROVIDER
    except ApiError:
        return False  # the question is about to meet the same, and says it


class Talk:
    """One model and what was said so far.  max_tokens: of each answer."""

    def __init__(self, client: Client, model: str, system: str | None = None, max_tokens: int | None = None) -> None:
        self.client = client
        self.model = model
        self._max_tokens = max_tokens
        self._system = (Text(system),) if system else ()
        self.history: list[Message] = []

    def ask(self, question: str, paper: Paper) -> bool:
        """Streams the answer to `paper`; False when Ctrl-C stopped it.  Raises `ApiError`.

        Whatever was said before the end stays in the history; a question without any answer does not.
        """
        messages = (*self.history, Message(Role.USER, (Text(question),)))
        request = Request(
            model=self.model, messages=messages, system=self._system, stream=True, max_tokens=self._max_tokens
        )
        try:
            with paper, closing(self.client.stream(request)) as events:
                for event in events:
                    paper.write(event)
        except KeyboardInterrupt:
            return False
        finally:
            if paper.text:
                self.history = [*messages, Message(Role.ASSISTANT, (Text(paper.text),))]
        return True


class Paper:
    """Where an answer is written as it comes: text to stdout, reasoning dimmed to stderr."""

    def __init__(self) -> None:
        self.reason: Reason | None = None
        self._said: list[str] = []
        self._raw = not sys.stdout.isatty()
        self._dim = colourful(sys.stderr)
        self._thinking = False

    @property
    def text(self) -> str:
        """What the model has said, reasoning left out."""
        return "".join(self._said)

    def __enter__(self) -> Paper:
        return self

    def __exit__(self, *_: object) -> None:
        self._think_no_more()
        if self._said and not self._said[-1].endswith("\n"):
            self._out("\n")

    def write(self, event: object) -> None:
        match event:
            case TextDelta():
                self._think_no_more()
                self._said.append(event.text)
                self._out(event.text)
            case ReasoningDelta():
                if not self._thinking:
                    self._thinking = True
                    self._err(DIM if self._dim else "")
                self._err(printable(event.text))
            case Finish():
                self.reason = event.reason
                if event.reason in NOTES:
                    self._think_no_more()
                    self._err(dimmed("\n" + NOTES[event.reason], sys.stderr))

    def _think_no_more(self) -> None:
        if self._thinking:
            self._thinking = False
            self._err((PLAIN if self._dim else "") + "\n")

    def _out(self, text: str) -> None:
        sys.stdout.write(text if self._raw else printable(text))
        sys.stdout.flush()

    def _err(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()


def once(talk: Talk, question: str, cut: str = "") -> None:
    """One answer.  Raises `ApiError`; exits with `Exit.INTERRUPTED` when it was stopped.

    cut: what is said where the limit of tokens has ended it.
    """
    paper = Paper()
    if not talk.ask(question, paper):
        raise typer.Exit(Exit.INTERRUPTED)
    if cut and paper.reason is Reason.LENGTH:
        say(dimmed(cut, sys.stderr))


def converse(talk: Talk) -> None:
    """Question and answer until Ctrl-D, `/bye`, or Ctrl-C at the prompt."""
    say(f"{talk.model} at {talk.client.url}.  Ctrl-C stops an answer; Ctrl-D or /bye ends the talk.")
    while (question := next_question()) is not None:
        if not question:
            continue
        try:
            whole = talk.ask(question, Paper())
        except ApiError as error:
            say(f"rivermouth: {error.message}")
        else:
            if not whole:
                say(dimmed("(stopped)", sys.stderr))


def next_question() -> str | None:
    """A line from the terminal; None at its end.  Raises `KeyboardInterrupt`."""
    try:
        if sys.stdout.isatty():
            import readline  # noqa: F401 - importing it is what gives `input` its line editing

            line = input(PROMPT)
        else:
            sys.stderr.write(PROMPT)
            sys.stderr.flush()
            line = input()
    except EOFError:
        say("")
        return None
    except KeyboardInterrupt:
        say("")
        raise
    line = line.strip()
    return None if line in QUITS else line

"""The engine process of an encoder.  Run as `python -m rivermouth.local.embedding.child PARENT`.

One thread, as in `inference.child`, and with the same rules: round and round it takes the commands that are there
(waiting only when idle) and makes one step, so a cancel is seen between steps.  A failure of one request is its own; an
exception out of a step ends the process, and the server starts another for the next call.

The process yields to others: vectors are wanted by the thousand and may wait, while the server beside it hands out the
tokens of talks that may not.

What needs a native package is imported inside, where it can be told that it is missing.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from rivermouth.ir.errors import Kind
from rivermouth.local.inference.commands import Commands, Taken, Unreadable
from rivermouth.local.inference.running import Send, run
from rivermouth.local.inference.stdio import (
    without_telemetry,
)
from rivermouth.local.words.protocol import Cancel, Embed, Failed, Generate, Load, LoadEncoder, Ready, Word

if TYPE_CHECKING:
    from rivermouth.local.embedding.encoder import Encoder

PACKAGES: Final = ("openvino", "openvino.opset13", "tokenizers", "rivermouth.local.embedding.encoder")

NICENESS: Final = 5


def serve(encoder: Encoder, commands: Commands, early: list[Taken], send: Send) -> None:
    """Until stdin ends."""
    waiting: list[Taken] | None = early
    while waiting is not None:
        words = [word for command in waiting if (word := obey(encoder, command)) is not None]
        words += encoder.step()
        if words:
            send(words)
        waiting = commands.take(wait=encoder.idle)


def obey(encoder: Encoder, command: Taken) -> Word | None:
    """Does what a command says; the word that answers it at once, if there is one."""
    match command:
        case Embed():
            return encoder.admit(command)
        case Cancel():
            return encoder.cancel(command.id)
        case Unreadable(id=int(identity)):
            message = f"the engine cannot read this request: {command.reason}"
            return Failed(id=identity, kind=Kind.INVALID_REQUEST.value, message=message, code="unreadable_request")
        case Unreadable() | LoadEncoder() | Load() | Generate():  # no request of ours: nobody to tell but the log
            sys.stderr.write(f"passed over: {type(command).__name__}\n")
            return None


def loaded(load: LoadEncoder) -> tuple[Encoder, Ready]:
    """The encoder, warm, and the word that says so.

    Raises `ImportError` when a package is missing, and `ValueError`, `OSError` or `RuntimeError` for a bad model.
    """
    without_telemetry()
    openvino, _, tokenizers, encoder = map(importlib.import_module, PACKAGES)
    folder = Path(load.folder)
    network, config = encoder.load_network(openvino, folder, Path(load.cache), load.device)
    encoder.check_room(config, load.context_tokens)
    tokenizer = encoder.load_tokenizer(tokenizers, folder, config.vocab_size)
    made: Encoder = encoder.Encoder(network, tokenizer, load.context_tokens)
    made.warm_up()
    return made, Ready(load.device, openvino.__version__)


def main() -> NoReturn:
    os.nice(NICENESS)
    run(LoadEncoder, loaded, serve)


if __name__ == "__main__":
    main()

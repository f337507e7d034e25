"""Events to what a client of the native routes reads.

stream := ("data:" {"index":n,"token":{...},"generated_text":null,"details":null} blank)*
          "data:" {... token special, "generated_text": all of it, "details": {...}} blank
failed := frames* "data:" {"error","error_type"} blank                  and nothing after it

The wire has one text, so of the parts that are open one speaks and the others wait.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from rivermouth.dialects.dialect import Answer
from rivermouth.dialects.tgi.failures import error_body
from rivermouth.dialects.tgi.parameters import wishes
from rivermouth.dialects.tgi.tables import COMPAT, FINISH_OUT, STOP_SEQUENCE
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.events import (
    Error,
    Event,
    Finish,
    MediaDelta,
    PartEnd,
    PartKind,
    PartStart,
    TextDelta,
    Usage,
    merge_usage,
)
from rivermouth.ir.lanes import WAITING_CAP_CHARS, Lanes, Said
from rivermouth.ir.media import plain_text, sentence
from rivermouth.ir.reply import Reply
from rivermouth.wire import json

_SPOKEN: Final = frozenset({PartKind.TEXT, PartKind.REFUSAL, PartKind.IMAGE, PartKind.FILE})
_ONE_LANE: Final = "generated_text"
_TAIL: Final = b',"logprob":0.0,"special":false},"generated_text":null,"details":null}\n\n'
_encode: Final = json.encode


@lru_cache(maxsize=4096)
def _head(number: int) -> bytes:
    """What stands before the text of this piece: the same in every stream."""
    return b'data:{"index":%d,"token":{"id":%d,"text":' % (number, number)


def frame(payload: bytes) -> bytes:
    """O1: no space behind the colon."""
    return b"data:" + payload + b"\n\n"


class NativeEncoder:
    """One frame for each piece of text, one that closes, which repeats the whole text.

    Raises `ApiError` when the text, or what has to wait, is more than the cap; what came before it goes out before the
    error.
    """

    __slots__ = (
        "_cap_chars",
        "_chars",
        "_done",
        "_kinds",
        "_lanes",
        "_pieces",
        "_speaker",
        "_text",
        "_unsent",
        "_usage",
        "_wishes",
    )

    def __init__(self, answer: Answer, cap_chars: int = WAITING_CAP_CHARS) -> None:
        self._wishes = wishes(answer.request)
        self._pieces = 0
        self._text: list[str] = []
        self._chars = 0
        self._cap_chars = cap_chars
        self._lanes = Lanes(cap_chars)
        self._kinds: dict[int, PartKind] = {}  # of the open parts that have a place here
        self._speaker: int | None = None
        self._unsent: list[bytes] = []
        self._usage: Usage | None = None
        self._done = False

    def feed(self, events: list[Event]) -> bytes:
        """The frames of these events, all at once."""
        if self._done:
            return b""
        out: list[bytes] = []
        try:
            self._write(events, out)
        except ApiError:
            self._unsent += out
            raise
        return b"".join(out)

    def statistics(self) -> dict[str, int]:
        """`text_chars` of the answer so far, which its last frame repeats; `waiting_chars`; `cap_chars` of each."""
        return {**self._lanes.statistics(), "text_chars": self._chars}

    def _write(self, events: list[Event], out: list[bytes]) -> None:
        speaker, texts = self._speaker, self._text
        for event in events:
            if type(event) is TextDelta and event.part == speaker:
                text = event.text
                self._chars = chars = self._chars + len(text)
                if chars > self._cap_chars:
                    cap = self._cap_chars
                    raise ApiError(Kind.UPSTREAM, f"the answer is longer than the {cap} characters it may have here")
                texts.append(text)
                self._pieces = number = self._pieces + 1
                out += (_head(number), _encode(text), _TAIL)
            else:
                self._other(event, out)
                if self._done:
                    return
                speaker = self._speaker

    def _other(self, event: Event, out: list[bytes]) -> None:
        match event:
            case PartStart(choice=0) if event.kind in _SPOKEN:
                self._kinds[event.part] = event.kind
                if self._lanes.open(event.part, _ONE_LANE):
                    self._speaker = event.part
            case TextDelta() | MediaDelta() | PartEnd() if self._lanes.waits(event.part):
                self._lanes.hold(event.part, event)
            case MediaDelta() if event.part in self._kinds:
                self._write([TextDelta(event.part, sentence(self._kinds[event.part], event.url))], out)
            case PartEnd() if event.part in self._kinds:
                self._end(event.part)
                self._take_turns(self._lanes.close(event.part), out)
            case Usage():
                self._usage = merge_usage(self._usage, event)
            case Finish():
                self._done = True
                out.append(frame(_encode(self._closing(event))))
            case Error():
                out[:0] = self._unsent
                self._text.clear()
                self._chars = 0  # nothing will be repeated, so what waited may still be said, however long it is
                self._take_turns(self._lanes.drain(), out)
                self._done = True
                out.append(frame(error_body(event.error)))
            case _:  # what the protocol has no place for
                pass

    def _end(self, part: int) -> None:
        self._speaker = None
        del self._kinds[part]

    def _take_turns(self, turns: list[Said], out: list[bytes]) -> None:
        """Parts that waited say what they have to say."""
        for part, events, ended in turns:
            self._speaker = part
            self._write(events, out)
            if ended:
                self._end(part)

    def _closing(self, event: Finish) -> dict[str, Any]:
        wanted = self._wishes
        return {
            "index": self._pieces + 1,
            "token": {"id": 0, "text": "", "logprob": 0.0, "special": True},
            "generated_text": wanted.prompt + "".join(self._text),
            "details": _counted(finish_word(event), self._usage, self._pieces, wanted.seed),
        }


def encode_native(reply: Reply, answer: Answer) -> bytes:
    """The whole answer; in a list of one on the compatible route (O3), with details if they were asked for."""
    wanted = wishes(answer.request)
    choice = reply.choices[0]
    text = plain_text(choice.parts)
    document: dict[str, Any] = {"generated_text": wanted.prompt + text}
    if wanted.details:
        word = finish_word(Finish(choice.reason, choice.stop_sequence))
        counted = _counted(word, reply.usage, 1 if text else 0, wanted.seed)
        document["details"] = {**counted, "prefill": [], "tokens": []}
    return _encode([document] if answer.kind == COMPAT else document)


def finish_word(event: Finish) -> str:
    """`finish_reason`; a stop that the client's own sequence brought is said so."""
    word = FINISH_OUT[event.reason]
    return STOP_SEQUENCE if word == "eos_token" and event.stop_sequence is not None else word


def _counted(word: str, usage: Usage | None, pieces: int, seed: int | None) -> dict[str, Any]:
    """The details of the end.  Tokens as the model counted them; else the pieces, which is all that is known."""
    counts = usage or Usage()
    tokens = counts.output_tokens if counts.output_tokens is not None else pieces
    said: dict[str, Any] = {"finish_reason": word, "generated_tokens": tokens}
    if counts.input_tokens is not None:
        said["input_length"] = counts.input_tokens
    said["seed"] = seed
    return said

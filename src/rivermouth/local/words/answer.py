"""A local model's text to events: thoughts into reasoning parts, written tool calls into tool parts.

    text pieces -> Answer.feed -> PartStart, deltas, PartEnd ...        and at the end what was held back

* A mark may be cut anywhere; only what may still become one is held back, so text is shown as it comes.
* A call is held until its tool's name and the beginning of its arguments are there; from then on it is a call, and its
  arguments are passed on as they are written.  (A slow model takes a minute for one, in which silence would look like
  a stall.)  A call written in an unusual form is held until it is whole.  What turns out to be no call (no JSON, no
  offered tool's name, cut before its arguments) is text, as the model wrote it: nothing is dropped.
* Blanks around thoughts and calls are layout and not shown; so blanks are held until it is clear what follows them.
* Which marks count depends on where the answer stands: thoughts only before the answer, calls only where tools were
  offered.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final

from rivermouth.ir.events import ArgsDelta, Event, PartEnd, PartKind, PartStart, ReasoningDelta, TextDelta
from rivermouth.local.words.families import HERMES_CLOSE, THINK_CLOSE, THINK_OPEN, Calls, Family
from rivermouth.local.words.stops import overlap
from rivermouth.local.words.written import OPENS, ArgumentsScan, after, calls_in, head, is_no_call

HELD_CAP_CHARS: Final = 64 * 1024
"""What is held longer is text."""


class Where(Enum):
    START = "start"  # nothing but blanks so far: thoughts may come, or an answer that is all calls
    THOUGHT = "thought"
    TEXT = "text"
    CALL = "call"  # a call may have begun
    ARGUMENTS = "arguments"  # of a call that is one
    AFTER = "after"  # behind the arguments: layout, then another call or text
    OVER = "over"  # nothing more is wanted


class Answer:
    """One answer being read.

    tools: the names that may be called, none where calls are text.  in_thought: the template has opened the thought.
    most_calls: what comes after so many is dropped.  call_id: makes the id of the n-th call.
    """

    def __init__(
        self,
        family: Family,
        tools: frozenset[str] = frozenset(),
        *,
        in_thought: bool = False,
        most_calls: int | None = None,
        call_id: Callable[[int], str],
    ) -> None:
        self._calls = family.calls if tools else Calls.NONE
        self._thinks = family.thinks or in_thought
        self._tools = tools
        self._most_calls = most_calls
        self._call_id = call_id
        self._where = Where.THOUGHT if in_thought else Where.START
        self._held = ""
        self._scan = ArgumentsScan()
        self._part = -1
        self._open: PartKind | None = None
        self._fresh = in_thought  # the blanks that begin a thought, or follow one or a call, are not shown
        self.calls = 0

    def feed(self, text: str) -> list[Event]:
        """What this piece of text says."""
        self._held += text
        events: list[Event] = []
        while self._step(events):
            pass
        return events

    def end(self) -> list[Event]:
        """No more text comes: what was held back, and the part that is open is closed."""
        events: list[Event] = []
        if self._where is Where.CALL:
            self._called(self._held, events)
        elif self._held and self._where not in (Where.AFTER, Where.OVER):
            self._say(self._held, events)
        self._held = ""
        self._close(events)
        return events

    def statistics(self) -> dict[str, int]:
        return {"held_chars": len(self._held), "cap_chars": HELD_CAP_CHARS}

    # Each step looks at what is held from where the answer stands; True when there may be another step.

    def _step(self, events: list[Event]) -> bool:
        match self._where:
            case Where.START:
                return self._begin()
            case Where.THOUGHT:
                return self._think(events)
            case Where.TEXT:
                return self._tell(events)
            case Where.CALL:
                return self._call(events)
            case Where.ARGUMENTS:
                return self._argue(events)
            case Where.AFTER:
                return self._go_on(events)
            case Where.OVER:
                self._held = ""
                return False

    def _begin(self) -> bool:
        """What kind of answer is it?"""
        if not self._thinks and self._calls not in (Calls.FORCED, Calls.LLAMA3):
            self._where = Where.TEXT
            return True
        text = self._held.lstrip()
        if not text:
            return False
        if self._thinks and THINK_OPEN.startswith(text[: len(THINK_OPEN)]):
            if len(text) < len(THINK_OPEN):
                return False
            self._held = text[len(THINK_OPEN) :]
            self._where = Where.THOUGHT
            self._fresh = True
        elif self._calls is Calls.FORCED or (self._calls is Calls.LLAMA3 and text[0] == "{"):
            self._held = text
            self._where = Where.CALL
        else:
            self._where = Where.TEXT
        return True

    def _think(self, events: list[Event]) -> bool:
        before, found, after_it = self._held.partition(THINK_CLOSE)
        if not found:
            self._say(self._shown(THINK_CLOSE), events)
            return False
        self._say(before.rstrip(), events)
        self._close(events)
        self._fresh = True
        self._held = after_it
        self._where = Where.START
        self._thinks = False
        return True

    def _tell(self, events: list[Event]) -> bool:
        mark = OPENS.get(self._calls)
        if mark is None:
            shown, self._held = self._held, ""
            self._say(shown, events)
            return False
        before, found, after_it = self._held.partition(mark)
        if not found:
            self._say(self._shown(mark), events)
            return False
        self._say(before.rstrip(), events)
        self._held = mark + after_it
        self._where = Where.CALL
        return True

    def _call(self, events: list[Event]) -> bool:
        """A call that can be passed on while it comes; else one that is whole; else more has to come."""
        begun = head(self._calls, self._held)
        if begun is not None and begun.name in self._tools:
            self._open_call(begun.name, events)
            self._held = self._held[begun.length :]
            self._scan = ArgumentsScan()
            self._where = Where.ARGUMENTS
            return True
        if self._calls is Calls.HERMES:
            end = self._held.find(HERMES_CLOSE)
            if end < 0 and len(self._held) <= HELD_CAP_CHARS:
                return False
            cut = end + len(HERMES_CLOSE) if end >= 0 else len(self._held)
            written, self._held = self._held[:cut], self._held[cut:]
            self._where = Where.TEXT
            self._called(written, events)
            return bool(self._held)
        if len(self._held) > HELD_CAP_CHARS or is_no_call(self._calls, self._held, self._tools):
            written, self._held = self._held, ""
            self._where = Where.TEXT
            self._calls = Calls.NONE
            self._say(written, events)
        return False  # the others write nothing after their calls: the end shows what they are

    def _argue(self, events: list[Event]) -> bool:
        length = self._scan.feed(self._held)
        said, self._held = (self._held, "") if length is None else (self._held[:length], self._held[length:])
        if said:
            events.append(ArgsDelta(self._part, said))
        if length is None:
            return False
        self._close_call(events)
        if self._where is not Where.OVER:
            self._where = Where.AFTER
        return True

    def _go_on(self, events: list[Event]) -> bool:
        follows = after(self._calls, self._held)
        self._held = follows.rest
        if follows.again is None:
            return False
        self._where = Where.CALL if follows.again else Where.TEXT
        return True

    def _called(self, written: str, events: list[Event]) -> None:
        """Calls as they were written; text, if they are none."""
        found = calls_in(self._calls, written, self._tools)
        if not found:
            self._say(written, events)
        for name, arguments in found:
            if self._where is not Where.OVER:
                self._open_call(name, events)
                events.append(ArgsDelta(self._part, arguments))
                self._close_call(events)

    def _open_call(self, name: str, events: list[Event]) -> None:
        self._close(events)
        self._part += 1
        self._open = PartKind.TOOL
        events.append(PartStart(self._part, PartKind.TOOL, id=self._call_id(self.calls), name=name))
        self.calls += 1

    def _close_call(self, events: list[Event]) -> None:
        self._close(events)
        self._fresh = True
        if self.calls == self._most_calls:
            self._where = Where.OVER

    def _shown(self, mark: str) -> str:
        """Takes what is safe to show: not what may become the mark, nor the blanks before it."""
        text = self._held
        shown = text[: len(text) - overlap(text, mark)]
        if len(text) <= HELD_CAP_CHARS:
            shown = shown.rstrip()
        self._held = text[len(shown) :]
        return shown

    def _say(self, text: str, events: list[Event]) -> None:
        """Text or thought, in a part of its own kind that stays open for more."""
        if self._fresh:
            text = text.lstrip()
        if not text:
            return
        self._fresh = False
        kind = PartKind.REASONING if self._where is Where.THOUGHT else PartKind.TEXT
        if self._open is not kind:
            self._close(events)
            self._part += 1
            self._open = kind
            events.append(PartStart(self._part, kind))
        made = ReasoningDelta(self._part, text) if kind is PartKind.REASONING else TextDelta(self._part, text)
        events.append(made)

    def _close(self, events: list[Event]) -> None:
        if self._open is not None:
            events.append(PartEnd(self._part))
            self._open = None

"""A golden: one page for each way of asking and each case, that a person can read in a diff.

    > PartStart {...}       an event, as its neutral form is
    < data: {...}           the bytes that it makes us send, see `visible`

Beside the stream stands the same answer without one; where a request is shown, what an upstream of the dialect gets.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from rivermouth.ir.errors import ApiError
from rivermouth.ir.events import Error, Event
from rivermouth.ir.fold import fold
from tests.dialects.events_text import describe
from tests.goldens.cases import ANSWERS, QUESTIONS, REFUSALS
from tests.goldens.visible import abridged, document, messages, visible
from tests.goldens.ways import BRIEF, WAYS, answer_of, dialect_of

GOLDENS: Final = Path(__file__).parent
BINARY: Final = "application/vnd.amazon.eventstream"


class Page(msgspec.Struct, frozen=True):
    way: str
    case: str

    @property
    def path(self) -> Path:
        return GOLDENS / self.way / f"{self.case}.txt"


def pages() -> Iterator[Page]:
    """Every golden that there is."""
    for name, way in WAYS.items():
        for case in BRIEF if way.brief else (*ANSWERS, *REFUSALS, *QUESTIONS):
            yield Page(name, case)


def golden(page: Page) -> str:
    """What the code says now."""
    make = _question if page.case in QUESTIONS else _refusal if page.case in REFUSALS else _answer
    return "\n".join([f"# {page.way}: {page.case}", *make(page)]) + "\n"


def _answer(page: Page) -> list[str]:
    way, events = WAYS[page.way], ANSWERS[page.case]
    surface = answer_of(way).surface
    body = json.dumps(way.body, ensure_ascii=False)
    headers = (("content-type", surface.stream_type), *surface.stream_headers)
    lines = [f"# POST {way.path} {body}", "", "# a stream", ""]
    lines += [*(f"< {name}: {value}" for name, value in headers), *_stream(page, events)]
    if not isinstance(events[-1], Error):
        whole = dialect_of(way).encode_reply(fold(events), answer_of(way))
        lines += ["", "# without a stream", "", *(_sent(abridged(document(whole), whole)))]
    return lines


def _stream(page: Page, events: list[Event]) -> list[str]:
    """Each event and the bytes that it makes us send."""
    way = WAYS[page.way]
    answer = answer_of(way)
    encoder = dialect_of(way).encoder(answer)
    lines, sent = [], []
    for event in events:
        data = encoder.feed([event])
        sent.append(data)
        show = messages if answer.surface.stream_type == BINARY else visible
        lines += [_event(event), *_sent(show(data))]
    return abridged(lines, b"".join(sent))


def _event(event: Event) -> str:
    ((name, fields),) = describe(event).items()
    return f"> {name} {json.dumps(fields)}"


def _sent(lines: list[str]) -> list[str]:
    return [f"< {line}".rstrip(" ") if not line.strip(" ") else f"< {line}" for line in lines]


def _refusal(page: Page) -> list[str]:
    way, error = WAYS[page.way], REFUSALS[page.case]
    failure = dialect_of(way).encode_error(error, answer_of(way).id)
    headers = [f"< {name}: {value}" for name, value in failure.headers.items()]
    return ["", _event(Error(error)), f"< {failure.status}", *headers, *_sent(document(failure.body))]


def _question(page: Page) -> list[str]:
    way, request = WAYS[page.way], QUESTIONS[page.case]
    try:
        outgoing = dialect_of(way).build_request(request, answer_of(way).model)
    except ApiError as refused:
        return ["", "# the upstream is asked nothing", _event(Error(refused))]
    headers = [f"< {name}: {value}" for name, value in outgoing.headers.items()]
    lost = [f"# lost: {', '.join(outgoing.losses)}"] if outgoing.losses else []
    return [*lost, "", f"< POST {outgoing.path}", *headers, *_sent(document(outgoing.body))]

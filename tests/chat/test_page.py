"""docs/chat.md says what the code does."""

from __future__ import annotations

import re

import pytest
from docs.chat_page import PAGE, WHAT, generate_chat

from rivermouth.chat.machine import Move
from rivermouth.chat.wire import EVENTS, STREAM, Ending, ending, sse, start
from rivermouth.http.api.chats import chat_routes
from rivermouth.http.chats import METHODS, CancelBody, StreamBody
from rivermouth.log.port import FrameId
from tests.chat.lab import read_frames

TEXT = PAGE.read_text(encoding="utf-8")


def test_what_is_drawn_from_the_table_is_drawn_from_this_one():
    assert generate_chat(TEXT) == TEXT, "run `make docs`"
    assert set(WHAT) == set(Move)


def test_every_route_is_documented():
    handlers = chat_routes(None, None)  # type: ignore[arg-type]
    served = {f"{m} {p.replace('{chat_id:int}', '{id}')}" for h in handlers for m in h.http_methods for p in h.paths}
    served |= {f"{method} /api/chats/{{id}}/{name}" for name, method in METHODS.items()}
    served.add("GET /api/chats/openapi.json")
    documented = set(re.findall(r"^\| `([A-Z]+ /api/[^`]*)` \|", TEXT, re.MULTILINE))
    assert {route for route in served if not route.startswith("OPTIONS")} == documented


@pytest.mark.parametrize("shape", [StreamBody, CancelBody])
def test_every_member_of_a_body_is_documented(shape):  # type: ignore[no-untyped-def]
    assert [name for name in shape.__struct_fields__ if name not in TEXT] == []


@pytest.mark.promise(110, 113, 114, 115, 129)
@pytest.mark.parametrize(
    ("state", "error", "chars", "frame"),
    [
        ("completed", None, 3, {"event": "done", "message_id": 7, "provider": "p"}),
        (
            "failed",
            "network",
            3,
            {"event": "done", "message_id": 7, "provider": "p", "interrupted": {"type": "network"}},
        ),
        ("failed", "network", 0, {"event": "error", "error": {"type": "network", "message": "m"}}),
        ("interrupted", "unavailable", 0, {"event": "error", "error": {"type": "unavailable", "message": "m"}}),
        ("stopped", None, 3, {"event": "cancelled", "reason": "stopped by the user", "message_id": 7}),
        ("superseded", None, 0, {"event": "cancelled", "reason": "superseded by a newer request", "message_id": 7}),
    ],
)
def test_every_way_to_end_is_one_frame(state: str, error: str | None, chars: int, frame: dict[str, object]):
    failure = {"type": error, "message": "m"} if error else None
    end = Ending(state=state, message_id=7, provider="p", error=failure, text_chars=chars, digest="d")
    assert read_frames(ending(FrameId(2, 5), end, STREAM)) == [{**frame, "#": "2-5"}]
    whole = read_frames(ending(FrameId(2, 5), end, EVENTS))[0]
    assert frame.items() <= whole.items()


def test_a_frame_is_an_id_and_one_line_of_data():
    data = start(FrameId(3, 0), 9, 3, STREAM, 8)
    assert data == b'id: 3-0\ndata: {"event":"start","message_id":9,"generation":3}\n\n'
    assert sse("token", None, token="\u2028\n") == b'data: {"event":"token","token":"\\u2028\\n"}\n\n'

from __future__ import annotations

from typing import Any

import pytest

from rivermouth.ir.request import File, Message, Role, Text
from rivermouth.vendors.cohere.documents import document, grounded


@pytest.mark.parametrize(
    ("data", "identity", "text", "name"),
    [
        ("plain", None, "plain", None),
        ("plain", "d", "plain", "d"),
        ({"snippet": "x"}, "d", "x", "d"),
        ({"id": "own", "text": "x"}, "d", "x", "d"),
        ({"title": "T", "n": 1, "deep": [1]}, "d", "title: T\nn: 1\ndeep: [1]", "T"),
        ({"title": 7, "secret": "s", "_excludes": ["secret", 3]}, None, "7", None),
        ({"a": "b", "_excludes": "nonsense"}, None, "b", None),
        ({}, None, "", None),
        (7, None, "7", None),
    ],
)
def test_a_document_as_text(data: Any, identity: str | None, text: str, name: str | None) -> None:
    assert document(data, identity) == File("text/plain", text=text, name=name)


def test_documents_stand_in_the_last_turn_of_the_user() -> None:
    file = File(text="x")
    user, spoken = Message(Role.USER, (Text("a"),)), Message(Role.ASSISTANT, (Text("b"),))
    assert grounded([user, spoken], []) == (user, spoken)
    assert grounded([user, user, spoken], [file]) == (user, Message(Role.USER, (file, Text("a"))), spoken)
    assert grounded([spoken], [file]) == (Message(Role.USER, (file,)), spoken)

"""What is said where there is nothing but text."""

from __future__ import annotations

import pytest

from rivermouth.ir.events import PartKind
from rivermouth.ir.media import plain_text, sentence, sentence_for
from rivermouth.ir.request import File, Image, Reasoning, Refusal, Text, ToolCall


@pytest.mark.parametrize(
    ("part", "kind", "words"),
    [
        (Image("image/png", "QUJD"), PartKind.IMAGE, "[image: this protocol cannot carry it]"),
        (Image(url="https://x/y.png"), PartKind.IMAGE, "[image](https://x/y.png)"),
        (File("application/pdf", "QUJD"), PartKind.FILE, "[file: this protocol cannot carry it]"),
        (File(url="https://x/y.pdf"), PartKind.FILE, "[file](https://x/y.pdf)"),
    ],
)
def test_media_are_a_sentence_in_a_stream_and_in_a_whole_answer_alike(
    part: Image | File, kind: PartKind, words: str
) -> None:
    assert sentence_for(part) == sentence(kind, part.url) == words


def test_reasoning_and_calls_are_no_text() -> None:
    parts = (Reasoning("hm"), Text("a"), ToolCall("c", "f", "{}"), Refusal("no"), Image(url="https://x"))
    assert plain_text(parts) == "ano[image](https://x)"

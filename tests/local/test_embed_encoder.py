"""The encoder's steps, with a network that only says what it was given; and the loop of its process around them."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import tokenizers

from rivermouth.local.embedding.batches import STEP_TEXTS, Item
from rivermouth.local.embedding.child import serve
from rivermouth.local.embedding.encoder import Encoder, padded
from rivermouth.local.embedding.tokens import load_tokenizer
from rivermouth.local.inference.commands import Commands, Taken, Unreadable
from rivermouth.local.words.protocol import Cancel, Embed, Embedded, Failed, Generate, LoadEncoder, Vectors, Word
from tests.tiny_bert import CLS, SEP, TOKENS, VOCABULARY, build, ids_of

SEA = VOCABULARY.index("sea")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("encoder"))


@pytest.fixture
def steps() -> list[int]:
    """How many texts each step had."""
    return []


@pytest.fixture
def encoder(folder: Path, steps: list[int]) -> Encoder:
    def sums(tokens: np.ndarray, mask: np.ndarray) -> np.ndarray:
        steps.append(len(tokens))
        return np.stack([(tokens * mask).sum(1), mask.sum(1)], 1).astype(np.float32)

    return Encoder(sums, load_tokenizer(tokenizers, folder, len(VOCABULARY)), TOKENS)


def wanted(identity: int, *texts: str, **fields: Any) -> Embed:
    return Embed(**{"id": identity, "texts": texts, "context_tokens": TOKENS, "cut": "end"} | fields)


def calls_of(words: list[Word]) -> list[tuple[str, int]]:
    return [(type(word).__name__, word.id) for word in words]  # type: ignore[union-attr]


def test_a_step_begins_with_another_call_each_time(encoder: Encoder, steps: list[int]) -> None:
    encoder.admit(wanted(1, *["sea"] * STEP_TEXTS * 3))
    encoder.admit(wanted(2, *["sea"] * (STEP_TEXTS + 1)))
    told = [calls_of(encoder.step()) for _ in range(5)]
    assert told[:3] == [[("Vectors", 1)], [("Vectors", 2)], [("Vectors", 1)]]
    assert told[3] == [("Vectors", 2), ("Embedded", 2), ("Vectors", 1)]
    assert told[4] == [("Vectors", 1), ("Embedded", 1)]
    assert (steps, encoder.idle) == ([32, 32, 32, 32, 1], True)


def test_a_call_s_vectors_have_its_places(encoder: Encoder) -> None:
    encoder.admit(wanted(1, "the river", "sea"))
    encoder.admit(wanted(2, "sea sea sea"))
    words = encoder.step()
    numbers = {w.id: (w.at, np.frombuffer(base64.b64decode(w.data), "<f4")) for w in words if isinstance(w, Vectors)}
    assert numbers[1][0] == (0, 1)
    assert numbers[1][1].tolist() == [sum(ids_of("the river")), 4, sum(ids_of("sea")), 3]
    assert numbers[2][1].tolist() == [sum(ids_of("sea sea sea")), 5]
    assert [word for word in words if isinstance(word, Embedded)] == [
        Embedded(id=1, reason="done", prompt_tokens=7),
        Embedded(id=2, reason="done", prompt_tokens=5),
    ]


def test_what_was_cut_is_counted(encoder: Encoder) -> None:
    encoder.admit(wanted(1, "sea", "sea " * 40, "sea " * 14))
    assert encoder.step()[-1] == Embedded(id=1, reason="done", prompt_tokens=3 + 16 + 16, cut=1)


def test_a_cancelled_call_is_forgotten(encoder: Encoder, steps: list[int]) -> None:
    encoder.admit(wanted(1, *["sea"] * 40))
    encoder.step()
    assert encoder.cancel(1) == Embedded(id=1, reason="cancelled", prompt_tokens=120)
    assert encoder.cancel(1) is None
    assert (encoder.step(), steps, encoder.idle) == ([], [32], True)


def test_nothing_asked_is_done_at_once(encoder: Encoder) -> None:
    assert encoder.admit(wanted(1)) == Embedded(id=1, reason="done", prompt_tokens=0)
    assert encoder.idle


def test_a_refused_call_costs_no_step(encoder: Encoder, steps: list[int]) -> None:
    refused = encoder.admit(wanted(1, "sea", "sea " * 15, cut="none", offset=7))
    assert isinstance(refused, Failed)
    assert (refused.param, refused.code) == ("input", "context_length_exceeded")
    assert refused.message.startswith("input 8 has more than the 16 tokens")
    assert (encoder.step(), steps) == ([], [])


def test_shorter_texts_are_filled_up_and_masked() -> None:
    tokens, mask = padded([Item(1, 0, (CLS, SEA, SEP)), Item(1, 1, (CLS, SEP))])
    assert tokens.tolist() == [[CLS, SEA, SEP], [CLS, SEP, 0]]
    assert mask.tolist() == [[1, 1, 1], [1, 1, 0]]


class FakeCommands:
    """Gives out what is scripted, one round at a time, then the end of stdin."""

    def __init__(self, *rounds: list[Taken]) -> None:
        self.rounds = list(rounds)
        self.waits: list[bool] = []

    def take(self, *, wait: bool) -> list[Taken] | None:
        self.waits.append(wait)
        return self.rounds.pop(0) if self.rounds else None


@pytest.mark.promise(35)
def test_a_cancel_is_seen_before_the_next_step(encoder: Encoder) -> None:
    commands = FakeCommands([Cancel(1)], [])
    sent: list[list[Word]] = []
    serve(encoder, cast("Commands", commands), [wanted(1, *["sea"] * 100)], sent.append)
    assert [calls_of(words) for words in sent] == [[("Vectors", 1)], [("Embedded", 1)]]
    assert commands.waits == [False, True, True]


@pytest.mark.fault("F10")
def test_a_command_that_cannot_be_read_is_one_failed_request(
    encoder: Encoder, capsys: pytest.CaptureFixture[str]
) -> None:
    load = LoadEncoder(folder="f", cache="c", device="CPU", context_tokens=8)
    foreign = Generate(id=4, prompt="x", context_tokens=8)
    sent: list[list[Word]] = []
    early: list[Taken] = [wanted(1, "sea"), Unreadable(2, "why"), Unreadable(None, "who"), load, foreign]
    serve(encoder, cast("Commands", FakeCommands()), early, sent.append)
    (words,) = sent
    assert calls_of(words) == [("Failed", 2), ("Vectors", 1), ("Embedded", 1)]
    assert isinstance(words[0], Failed)
    assert "why" in words[0].message
    assert [line[:12] for line in capsys.readouterr().err.splitlines()] == ["passed over:"] * 3

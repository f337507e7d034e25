"""One answer at a time, as on an NPU: against a fake of the native engine, because there is no NPU here."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from rivermouth.local.inference import converted
from rivermouth.local.inference.child import Engine
from rivermouth.local.inference.spec import EngineSpec, load_command
from rivermouth.local.words.protocol import Began, Delta, Done, Failed, Generate, Load, Word
from tests.local import fake_genai
from tests.local.fake_genai import LLMPipeline

GENAI: ModuleType = sys.modules["tests.local.fake_genai"]


def load(device: str = "NPU", **fields: object) -> Load:
    spec = EngineSpec(
        path=Path("/models/folder"),
        context_tokens=8192,
        end_tokens=(2,),
        device=device,
        max_active=1,
        prompt_tokens=10 if device == "NPU" else None,
        **fields,  # type: ignore[arg-type]
    )
    command = load_command(spec)
    assert isinstance(command, Load)
    return command


@pytest.fixture
def engine() -> Iterator[Engine]:
    LLMPipeline.made.clear()
    yield Engine(GENAI, load())
    for made in LLMPipeline.made:  # nobody waits any more
        made.prefill.set()
        made.token.release(1000)


def native() -> LLMPipeline:
    (made,) = LLMPipeline.made
    return made


def wanted(identity: int, prompt: str = "abc", **fields: object) -> Generate:
    return Generate(id=identity, prompt=prompt, context_tokens=8192, **fields)  # type: ignore[arg-type]


def until_end(engine: Engine, identity: int) -> list[Word]:
    """Steps until that request has ended."""
    words: list[Word] = []
    while not any(isinstance(word, Done | Failed) and word.id == identity for word in words):
        words += engine.step()
    return words


def text_of(words: list[Word]) -> str:
    return "".join(word.text for word in words if isinstance(word, Delta))


def test_what_an_npu_is_opened_with(engine: Engine, tmp_path: Path) -> None:
    assert native().device == "NPU"
    assert native().properties == {"MAX_PROMPT_LEN": 256, "MIN_RESPONSE_LEN": 512}
    Engine(GENAI, load(cache=tmp_path))
    assert LLMPipeline.made[1].properties["CACHE_DIR"] == str(tmp_path / converted.COMPILED)
    Engine(GENAI, load("CPU", cache=tmp_path))
    assert LLMPipeline.made[2].properties["ATTENTION_BACKEND"] == "SDPA"
    assert "MAX_PROMPT_LEN" not in LLMPipeline.made[2].properties


def test_an_answer_comes_token_by_token_with_its_counts(engine: Engine) -> None:
    assert engine.admit(wanted(1)) == Began(1, 3)
    assert engine.step() == [], "no token, no word"
    native().token.release(2)
    words: list[Word] = []
    while text_of(words) != "cb":
        words += engine.step()
    native().token.release(2)
    words += until_end(engine, 1)
    assert text_of(words) == "cba"
    done = words[-1]
    assert isinstance(done, Done)
    assert (done.reason, done.prompt_tokens, done.output_tokens) == ("stop", 3, 4)
    assert engine.idle


def test_length_and_stop_strings_end_it(engine: Engine) -> None:
    native().token.release(100)
    engine.admit(wanted(1, max_tokens=2))
    words = until_end(engine, 1)
    assert (text_of(words), words[-1].reason) == ("cb", "length")  # type: ignore[union-attr]
    engine.admit(wanted(2, "abcdef", stop=("dc",)))
    words = until_end(engine, 2)
    assert (text_of(words), words[-1].reason) == ("fe", "stop")  # type: ignore[union-attr]


@pytest.mark.promise(35)
def test_a_cancel_is_seen_at_the_next_token_and_the_next_answer_waits_for_that(engine: Engine) -> None:
    engine.admit(wanted(1, "abcdef"))
    native().token.release(1)
    words: list[Word] = []
    while not text_of(words):
        words += engine.step()
    done = engine.cancel(1)
    assert done is not None
    assert done.reason == "cancelled"
    engine.admit(wanted(2, "xyz"))
    engine.step()
    assert native().calls == 1, "the native call has not come back: it is at its next token"
    native().token.release(100)
    assert text_of(until_end(engine, 2)) == "zyx"
    assert native().calls == 2


def test_what_is_cancelled_while_it_waits_is_never_begun(engine: Engine) -> None:
    native().prefill.clear()
    engine.admit(wanted(1))
    engine.step()
    engine.admit(wanted(2))
    engine.cancel(2)
    engine.cancel(1)
    engine.release()
    native().prefill.set()
    native().token.release(100)
    engine.admit(wanted(3, "xyz"))
    assert text_of(until_end(engine, 3)) == "zyx"
    assert native().calls == 2


def test_a_prompt_longer_than_the_device_takes_is_refused_but_counted(engine: Engine) -> None:
    """An NPU would garble it in silence; the count is what sends it elsewhere."""
    refused = engine.admit(wanted(1, "x" * 11))
    assert isinstance(refused, Failed)
    assert refused.code == "context_length_exceeded"
    counted = engine.admit(wanted(2, "x" * 2000, count_only=True))
    assert isinstance(counted, Done)
    assert counted.prompt_tokens == 2000
    assert isinstance(engine.admit(wanted(3, "x" * 10)), Began)


def test_a_tokenizer_that_cuts_is_found_out_and_what_it_may_have_cut_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An OpenVINO folder brings its own, which may keep the last so many tokens of a text and say nothing."""
    encode = fake_genai.Tokenizer.encode
    monkeypatch.setattr(fake_genai.Tokenizer, "encode", lambda self, text, **_: encode(self, text[-100:]))
    engine = Engine(GENAI, load("CPU"))
    refused = engine.admit(wanted(1, "x" * 5000))
    assert isinstance(refused, Failed)
    assert (refused.code, "100 tokens or more" in refused.message) == ("context_length_exceeded", True)
    assert isinstance(engine.admit(wanted(2, "x" * 99)), Began)
    LLMPipeline.made[-1].token.release(1000)


def test_a_native_failure_ends_the_engine(engine: Engine) -> None:
    native().failure = ValueError("Check failed")
    engine.admit(wanted(1))
    with pytest.raises(RuntimeError, match="Check failed"):
        until_end(engine, 1)


def test_a_device_that_cannot_be_opened_fails_in_words() -> None:
    with pytest.raises(RuntimeError, match="no such device"):
        Engine(GENAI, load(properties={"fails": 1}))


def test_warm_up_is_one_short_answer(engine: Engine) -> None:
    native().token.release(4)
    engine.warm_up()
    assert engine.idle
    assert native().calls == 1

"""What a chat does when providers fail: before the first token the next one, after it a warning; and who is asked."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from rivermouth.chat.failures import TYPES, WARNINGS, type_of
from rivermouth.chat.settings import CHAT_LIMITS, ChatSettings
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.store.port import Status
from tests.chat.lab import ChatLab, LedProvider, events, run, tokens, with_settings

TYPES_OF_THE_DOCUMENT = {"timeout", "network", "http", "unavailable", "not_configured"}
HALF = "half an answer"


def names(*which: str):  # type: ignore[no-untyped-def]
    return lambda: tuple(LedProvider(name) for name in which)


@pytest.mark.promise(115)
def test_every_kind_of_failure_has_its_word_and_every_word_its_sentence():
    assert set(TYPES) == set(Kind)
    assert set(TYPES.values()) | {"not_configured"} == TYPES_OF_THE_DOCUMENT
    assert set(WARNINGS) == TYPES_OF_THE_DOCUMENT
    assert type_of(ApiError(Kind.INVALID_REQUEST, "x", code="not_configured")) == "not_configured"


@pytest.mark.promise(115, 116)
def test_with_no_provider_the_answer_is_an_error_before_any_token(tmp_path: Path):
    async def story(lab: ChatLab) -> None:
        turn = await lab.ask()
        frames = await lab.follow(turn)
        assert events(frames) == ["start", "error"]
        assert frames[-1]["error"]["type"] == "not_configured"
        row = await lab.over(turn)
        assert (row.state, row.upstream_called) == ("failed", False)
        assert [m.role for m in (await lab.service.chat("anna", turn.chat_id)).messages] == ["user", "assistant"]

    run(story, tmp_path, make=names())


@pytest.mark.promise(116, 128)
def test_a_provider_that_has_no_key_can_be_chosen_and_says_so(tmp_path: Path):
    async def story(lab: ChatLab) -> None:
        await lab.service.prefer("anna", "kimi")
        frames = await lab.follow(await lab.ask())
        assert frames[-1]["error"] == {"type": "not_configured", "message": "kimi is not configured"}

    run(story, tmp_path)


@pytest.mark.promise(117, 119)
@pytest.mark.parametrize(
    "error",
    [
        ApiError(Kind.UPSTREAM, "500"),
        ApiError(Kind.RATE_LIMITED, "429"),
        ApiError(Kind.AUTHENTICATION, "401"),
        ApiError(Kind.INVALID_REQUEST, "400"),
        ApiError(Kind.NETWORK, "refused"),
        ApiError(Kind.TIMEOUT, "connect", clock="connect"),
    ],
    ids=lambda e: e.message,
)
def test_a_failure_before_the_first_token_is_the_next_providers_turn(tmp_path: Path, error: ApiError):
    async def story(lab: ChatLab) -> None:
        lab.providers["kimi"].refuse = error
        turn = await lab.ask()
        call = await lab.providers["gemini"].asked()
        call.say("from the second")
        call.finish()
        frames = await lab.follow(turn)
        assert events(frames) == ["start", "provider", "token", "done"]
        assert [f["provider"] for f in frames if "provider" in f] == ["gemini", "gemini"]
        assert lab.providers["groq"].calls == []
        assert [a.provider for a in lab.records[0].attempts] == ["kimi", "gemini"]

    run(story, tmp_path, make=names("groq", "gemini", "kimi"))


@pytest.mark.promise(117)
def test_an_error_inside_a_stream_before_its_first_token_counts_the_same(tmp_path: Path):
    async def story(lab: ChatLab) -> None:
        turn = await lab.ask()
        (await lab.providers["kimi"].asked()).fail(ApiError(Kind.OVERLOADED, "busy"))
        call = await lab.providers["groq"].asked()
        call.say("x")
        call.finish()
        assert (await lab.over(turn)).provider == "groq"

    run(story, tmp_path, make=names("kimi", "groq"))


@pytest.mark.promise(118)
def test_when_all_fail_the_last_error_is_told(tmp_path: Path):
    async def story(lab: ChatLab) -> None:
        lab.providers["kimi"].refuse = ApiError(Kind.NETWORK, "no way")
        lab.providers["groq"].refuse = ApiError(Kind.OVERLOADED, "at capacity")
        turn = await lab.ask()
        frames = await lab.follow(turn)
        assert events(frames) == ["start", "error"]
        assert frames[-1]["error"] == {"type": "unavailable", "message": "at capacity"}
        assert lab.records[0].status is Status.FAILED

    run(story, tmp_path, make=names("kimi", "groq"))


@pytest.mark.promise(120)
@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ApiError(Kind.NETWORK, "reset"), "network"),
        (ApiError(Kind.TRUNCATED, "cut"), "network"),
        (ApiError(Kind.UPSTREAM, "exploded"), "http"),
    ],
)
def test_a_failure_after_tokens_is_a_warning_and_nobody_else_is_asked(tmp_path: Path, error: ApiError, kind: str):
    async def story(lab: ChatLab) -> None:
        turn = await lab.ask()
        call = await lab.providers["kimi"].asked()
        call.say(HALF)
        await asyncio.sleep(0.2)
        call.fail(error)
        frames = await lab.follow(turn)
        assert events(frames) == ["start", "provider", "token", "done"]
        warning = [f["token"] for f in frames if f["event"] == "token"][-1]
        assert warning.startswith("⚠️ ")
        assert tokens(frames) == f"{HALF}\n\n{warning}"
        assert frames[-1]["interrupted"] == {"type": kind}
        row = await lab.over(turn)
        assert (row.state, lab.records[0].status) == ("failed", Status.FAILED)
        assert (await lab.message(row.assistant_message_id)).text == tokens(frames)
        assert lab.providers["groq"].calls == []
        view = (await lab.service.chat("anna", turn.chat_id)).messages[-1]
        assert (view.state, view.interrupted) == ("interrupted", {"type": kind})
        # What we said ourselves is never sent to a model.
        await lab.ask("go on")
        again = await lab.providers["kimi"].asked()
        assert again.asked_text() == [("user", "hello"), ("assistant", HALF), ("user", "go on")]

    run(story, tmp_path, make=names("kimi", "groq"))


@pytest.mark.promise(121, 126)
def test_silence_before_the_first_token_is_the_next_providers_turn_and_after_it_a_warning(tmp_path: Path):
    async def story(lab: ChatLab) -> None:
        turn = await lab.ask()
        silent = await lab.providers["kimi"].asked()
        call = await lab.providers["groq"].asked()
        assert asyncio.get_running_loop().time() == pytest.approx(30, abs=1)
        assert silent.closed.is_set()
        call.say(HALF)
        row = await lab.over(turn)
        assert asyncio.get_running_loop().time() == pytest.approx(60, abs=1.5)
        frames = await lab.follow(turn)
        assert "⚠️ Stalled" in tokens(frames)
        assert frames[-1]["interrupted"] == {"type": "timeout"}
        assert row.state == "failed"
        assert call.closed.is_set()

    run(story, tmp_path, make=names("kimi", "groq"))


@pytest.mark.promise(122, 125)
def test_a_spent_budget_is_a_warning_after_tokens_and_an_error_without(tmp_path: Path):
    async def story(lab: ChatLab) -> None:
        turn = await lab.ask()
        call = await lab.model.asked()
        for _ in range(13):
            call.say("x")
            await asyncio.sleep(10)
        row = await lab.over(turn)
        frames = await lab.follow(turn)
        assert "⚠️ Timed out" in tokens(frames)
        assert frames[-1]["interrupted"] == {"type": "timeout"}
        assert row.ended_ns is not None
        assert (row.ended_ns - row.created_ns) / 1e9 == pytest.approx(120, abs=1)
        quiet = await lab.ask("again")
        frames = await lab.follow(quiet)
        assert events(frames) == ["start", "error"]
        assert frames[-1]["error"]["type"] == "timeout"

    run(story, tmp_path)


def test_the_clocks_of_the_chat_are_those_of_the_document():
    assert (CHAT_LIMITS.total_s, CHAT_LIMITS.idle_s, CHAT_LIMITS.first_token_s) == (120.0, 30.0, 30.0)
    assert ChatSettings().limits == CHAT_LIMITS


# -- who is asked


@pytest.mark.promise(127)
def test_auto_asks_kimi_then_gemini_then_groq_then_the_others_then_what_runs_here(tmp_path: Path):
    asked: list[str] = []

    def make() -> tuple[LedProvider, ...]:
        made = [LedProvider(name) for name in ("mistral", "groq", "local", "gemini", "lab", "kimi")]
        for provider in made:
            provider.refuse = ApiError(Kind.OVERLOADED, "full")
        return tuple(made)

    async def story(lab: ChatLab) -> None:
        await lab.over(await lab.ask())
        asked.extend(a.provider for a in lab.records[0].attempts)

    run(story, tmp_path, make=make, own=("local",))
    assert asked == ["kimi", "gemini", "groq", "mistral", "lab", "local"]
    asked.clear()
    (tmp_path / "local").mkdir()
    run(story, tmp_path / "local", make=make, own=("local",), settings=with_settings(prefer_local=True))
    assert asked[0] == "local"


@pytest.mark.promise(96, 128)
def test_a_message_chooses_else_the_saved_choice_else_auto(tmp_path: Path):
    async def story(lab: ChatLab) -> None:
        async def who(**more: object) -> tuple[str | None, str | None]:
            turn = await lab.ask("x", **more)
            row = await lab.over(turn)
            return row.provider, row.model

        for provider in lab.providers.values():
            provider.script = lambda call: (call.say("x"), call.finish())  # type: ignore[assignment,return-value]
        assert await who() == ("kimi", "m")
        await lab.service.prefer("anna", "groq")
        assert (await lab.service.models("anna"))["selected"] == "groq"
        assert await who() == ("groq", "m")
        assert await who(asked="kimi") == ("kimi", "m")
        assert await who(asked="auto") == ("kimi", "m")
        assert await who(asked="groq/special") == ("groq", "special")
        await lab.service.prefer("anna", "kimi/other")
        assert await who() == ("kimi", "other")
        for nonsense in ("nobody", "nobody/x"):
            with pytest.raises(ApiError) as refused:
                await lab.service.prefer("anna", nonsense)
            assert refused.value.status == 404
            with pytest.raises(ApiError):
                await lab.ask("x", asked=nonsense)
        assert (await lab.service.models("bob"))["selected"] == "auto"

    run(story, tmp_path, make=names("kimi", "groq"))


def test_a_provider_that_was_chosen_by_name_answers_alone(tmp_path: Path):
    async def story(lab: ChatLab) -> None:
        lab.providers["kimi"].refuse = ApiError(Kind.OVERLOADED, "full")
        frames = await lab.follow(await lab.ask(asked="kimi"))
        assert frames[-1]["event"] == "error"
        assert lab.providers["groq"].calls == []

    run(story, tmp_path, make=names("kimi", "groq"))


@pytest.mark.promise(95)
def test_every_choice_is_listed_with_whether_it_can_answer(tmp_path: Path):
    async def story(lab: ChatLab) -> None:
        listed = {row["id"]: row for row in (await lab.service.models("anna"))["models"]}
        assert {name: listed[name]["configured"] for name in ("auto", "kimi", "gemini", "groq", "lab")} == {
            "auto": True,
            "kimi": False,
            "gemini": False,
            "groq": True,
            "lab": True,
        }
        assert "key" in listed["kimi"]["reason"]
        assert listed["lab/big"]["kind"] == "model"

    run(story, tmp_path, make=lambda: (LedProvider("groq"), LedProvider("lab", ("big", "small"))))


OFFER = {"model": "river:1b", "bytes": 7, "license": "MIT"}


@pytest.mark.parametrize(("here", "offered"), [((), OFFER), (("other:1b",), OFFER), (("river:1b",), None)])
def test_a_model_is_offered_as_long_as_it_is_not_here(tmp_path: Path, here: tuple[str, ...], offered: object):
    async def story(lab: ChatLab) -> None:
        assert (await lab.service.models("anna"))["offer"] == offered

    settings = with_settings(offer=OFFER)
    run(story, tmp_path, make=lambda: (LedProvider("local", here),), own=("local",), settings=settings)


# -- a talk that is too long for the model (R29)


def test_the_oldest_turns_are_left_out_of_a_prompt_that_would_not_fit(tmp_path: Path):
    async def story(lab: ChatLab) -> None:
        for number in range(8):
            turn = await lab.ask(f"{number} " + "word " * 200)
            call = await lab.model.asked()
            call.say("so")
            call.finish()
            await lab.over(turn)
        sent = call.asked_text()
        assert sent[-1][1].startswith("7 ")
        assert not sent[0][1].startswith("0 ")
        view = await lab.service.chat("anna", turn.chat_id)
        assert len(view.messages) == 16
        first = next(m for m in view.messages if m.content == sent[0][1])
        assert view.messages[-1].context_from == first.id
        assert view.messages[1].context_from is None

    run(story, tmp_path, make=lambda: (LedProvider("led", context_tokens=1_000),))


def test_a_model_that_refuses_the_length_is_sent_less_until_it_fits(tmp_path: Path):
    async def story(lab: ChatLab) -> None:
        for number in range(6):
            turn = await lab.ask(f"{number}")
            call = await lab.model.asked()
            call.say("so")
            call.finish()
            await lab.over(turn)
        lab.model.refuse_once = ApiError(Kind.INVALID_REQUEST, "too long", code="context_length_exceeded")
        turn = await lab.ask("6")
        call = await lab.model.asked()
        assert [text for role, text in call.asked_text() if role == "user"] == ["3", "4", "5", "6"]
        call.say("ok")
        call.finish()
        assert await lab.text_of(turn) == "ok"
        assert (await lab.message(turn.assistant_message_id)).context_from is not None
        lab.model.refuse = ApiError(Kind.INVALID_REQUEST, "too long", code="context_length_exceeded")
        frames = await lab.follow(await lab.ask("7"))
        assert frames[-1]["error"] == {"type": "http", "message": "too long"}

    run(story, tmp_path)


def test_the_clocks_can_be_set(tmp_path: Path):
    limits = msgspec.structs.replace(CHAT_LIMITS, first_token_s=5.0, idle_s=5.0)

    async def story(lab: ChatLab) -> None:
        frames = await lab.follow(await lab.ask())
        assert frames[-1]["error"]["type"] == "timeout"
        assert asyncio.get_running_loop().time() == pytest.approx(5, abs=0.5)

    run(story, tmp_path, settings=with_settings(limits=limits))

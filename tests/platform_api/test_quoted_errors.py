"""How a provider puts an error may quote the prompt: it is text, and kept where and as long as texts are.

What the record itself says of the error is of this server's making.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from rivermouth.ir.errors import ApiError, Kind, invalid
from rivermouth.store.port import CallText, Quoted, Status
from rivermouth.store.sqlite_archive import SqliteCallArchive
from tests.engine.client import calling
from tests.engine.lab import Lab, lab
from tests.engine.place import placed
from tests.engine.words import OPENAI, PLAIN, ROLE, begin, data, model, provider, refusal, says, talk
from tests.fakes import JSON, Asked

pytestmark = pytest.mark.anyio

PROMPT = "a mellifluous quokka"
WORDS = f"I cannot answer {PROMPT!r}"
BOT = f"""
from rivermouth.ir.errors import ApiError, Kind

def answer(messages):
    yield "well, "
    raise ValueError({WORDS!r})
"""


def records(text: str, more: str = "") -> Callable[[str], str]:
    return lambda url: f'{PLAIN}[records]\ntext = "{text}"\n' + provider("lab", url) + provider("b", url) + more


def kept(server: Lab, call_id: str) -> CallText | None:
    archive = SqliteCallArchive.reader(server.data_path / "rivermouth.db")
    try:
        return archive.text(call_id)
    finally:
        archive.dispose()


def traces(server: Lab) -> list[str]:
    """The files that have a word of it."""
    files = [file for file in server.data_path.rglob("*") if file.is_file()]
    return [file.name for file in files if PROMPT.encode() in file.read_bytes()]


async def refuses(asked: Asked) -> None:
    await asked.answer(400, JSON, refusal(WORDS))


async def breaks(asked: Asked) -> None:
    error = {"message": WORDS, "type": "invalid_request_error", "code": "content_policy_violation"}
    await begin(asked, ROLE, says("well, "), data({"error": error}))
    await asked.end()


@pytest.mark.parametrize(
    ("fails", "told"),
    [(refuses, "lab: invalid_request"), (breaks, "lab: content_policy_violation")],
    ids=["before the stream", "in the stream"],
)
async def test_where_no_text_may_be_kept_no_word_of_it_is(tmp_path: Path, fails: Callable[..., object], told: str):
    """The client has it all the same: it was the client's own."""
    async with placed(tmp_path, records("none")) as place:
        body = talk("lab/m") | {"messages": [{"role": "user", "content": PROMPT}]}
        async with calling(place.server.port, OPENAI.path, body) as client:
            await fails(await place.asked())  # type: ignore[misc]
            answer = await client.answer()
            assert PROMPT.encode() in await answer.rest()
        record = await place.server.record(answer.call_id)
        assert (record.status, record.message) == (Status.FAILED, told)
        assert [attempt.message for attempt in record.attempts] == [told]
        assert kept(place.server, answer.call_id) is None
    assert traces(place.server) == []


async def test_it_stands_beside_the_texts_where_these_are(tmp_path: Path):
    async with placed(tmp_path, records("all", model("two", "lab", "b"))) as place:
        async with calling(place.server.port, OPENAI.path, talk("two")) as client:
            await (await place.asked()).answer(503, JSON, refusal(WORDS))
            await breaks(await place.asked())
            answer = await client.answer()
            await answer.rest()
        record = await place.server.record(answer.call_id)
        text = kept(place.server, answer.call_id)
    assert [a.message for a in record.attempts] == ["lab: overloaded", "b: content_policy_violation"]
    assert traces(place.server), "who looks for traces would find them"
    assert text is not None
    assert text.errors == (Quoted(1, WORDS), Quoted(2, WORDS))
    assert text.answer == "well, "


async def test_a_policy_that_wants_no_text_wants_none_of_it_either(tmp_path: Path):
    mute = '[server]\npolicy = "quiet"\n[policies.quiet]\nrecords_text = false\n'
    async with placed(tmp_path, records("all", mute)) as place:
        async with calling(place.server.port, OPENAI.path, talk("lab/m")) as client:
            await refuses(await place.asked())
            answer = await client.answer()
            await answer.rest()
        await place.server.record(answer.call_id)
        assert kept(place.server, answer.call_id) is None
    assert traces(place.server) == []


@pytest.mark.parametrize(
    ("raised", "kind", "told"),
    [
        ("ValueError(", Kind.UPSTREAM, "bot: upstream"),
        ("ApiError(Kind.NETWORK, ", Kind.NETWORK, "bot: network"),
    ],
    ids=["theirs", "ours"],
)
async def test_so_it_is_with_what_a_function_raises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raised: str, kind: Kind, told: str
):
    """Also with an error of our own class: its words are the function's."""
    name = f"quoting_bot_{kind.value}"
    (tmp_path / f"{name}.py").write_text(BOT.replace("ValueError(", raised))
    monkeypatch.syspath_prepend(tmp_path)
    with lab(tmp_path / "server", f'{PLAIN}[providers.bot]\npython = "{name}:answer"\n') as server:
        async with calling(server.port, OPENAI.path, talk("bot/m")) as client:
            answer = await client.answer()
            assert WORDS.encode() in await answer.rest()
        record = await server.record(answer.call_id)
    assert (record.kind, record.message) == (kind, told)
    assert traces(server) == []


async def test_a_provider_that_says_our_code_says_its_own_words(tmp_path: Path):
    """`no_credentials` is told in the log with its reason; an upstream can say so too."""
    async with placed(tmp_path, records("none")) as place:
        async with calling(place.server.port, OPENAI.path, talk("lab/m")) as client:
            error = {"error": {"message": WORDS, "type": "authentication_error", "code": "no_credentials"}}
            await (await place.asked()).answer(401, JSON, json.dumps(error).encode())
            answer = await client.answer()
            assert b"did not accept this server's key" in await answer.rest()
        await place.server.record(answer.call_id)
        assert any(line["event"] == "call.provider_refused" for line in place.server.log)
        assert PROMPT not in str(place.server.log)


@pytest.mark.parametrize("dialect", ["anthropic", "bedrock_converse"])
async def test_what_is_refused_here_is_named_and_not_repeated(tmp_path: Path, dialect: str):
    """A media type is any words that a client likes."""
    image = {"type": "image_url", "image_url": {"url": f"data:{PROMPT.replace(' ', '-')}/x;base64,AAAA"}}
    asked = talk("lab/m") | {"messages": [{"role": "user", "content": [image]}]}
    spoken = f"{PLAIN}" + provider("lab", "http://127.0.0.1:9", dialect=dialect, more='api_key = "abcdefgh"\n')
    with lab(tmp_path, spoken) as server:
        async with calling(server.port, OPENAI.path, asked) as client:
            answer = await client.answer()
            assert b"mellifluous" in await answer.rest()
        record = await server.record(answer.call_id)
    assert (record.kind, record.message) == (Kind.INVALID_REQUEST, "refused here: messages")


async def test_a_schema_that_is_refused_here_is_not_repeated(tmp_path: Path):
    schema = {"$ref": f"http://x/{PROMPT}"}
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    with lab(tmp_path) as server:
        async with calling(server.port, OPENAI.path, talk("scripted", response_format=form)) as client:
            answer = await client.answer()
            assert answer.status == 400
            await answer.rest()
        record = await server.record(answer.call_id)
    assert record.message == "refused here: response_format"
    assert traces(server) == []


@pytest.mark.parametrize(
    ("param", "code", "words"),
    [
        ("messages[0].content", None, "refused here: messages"),
        ("tools", "unsupported_value", "refused here: unsupported_value"),
        (PROMPT, PROMPT, "refused here: invalid_request"),
        (None, None, "refused here: invalid_request"),
    ],
)
def test_our_own_refusals_name_the_field(param: str | None, code: str | None, words: str):
    assert invalid(WORDS, param=param, code=code).own_words == words


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (None, "lab: rate_limited"),
        ("insufficient_quota", "lab: insufficient_quota"),
        ("you asked: who am I", "lab: rate_limited"),
        ("x" * 65, "lab: rate_limited"),
    ],
)
def test_a_code_is_kept_where_it_is_a_word_for_machines(code: str | None, words: str):
    assert ApiError(Kind.RATE_LIMITED, WORDS, code=code, provider="lab", foreign=True).own_words == words


def test_our_own_words_are_kept():
    assert (
        ApiError(Kind.NETWORK, "the connection was refused", provider="lab").own_words == "the connection was refused"
    )

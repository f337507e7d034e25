"""Signatures for AWS, judged by a fake Bedrock that computes them once more with botocore from what came to it."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from rivermouth.dialects import discover
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.events import Error, Event, Finish, PartEnd, PartKind, PartStart, Reason, Start, TextDelta
from rivermouth.ir.request import EmbedRequest, Message, Request, Role, Text
from rivermouth.providers.http import HttpProvider, HttpTarget
from rivermouth.providers.signing import INLINE_BODY_BYTES, SigV4
from rivermouth.wire import aws_eventstream as wire
from tests.dialects.bedrock_invoke.case import encode
from tests.fakes import Asked, FakeUpstream, Script

pytestmark = pytest.mark.anyio

BEDROCK = discover()["bedrock_invoke"]
KEY, SECRET, TOKEN = "AKIA-river-mouth", "secret+that/must-not/show", "session-token-that-must-not-show=="
REGION = "eu-west-1"
MODEL = "arn:aws:bedrock:eu-west-1:1:inference-profile/eu.anthropic.claude-x:0"
SIGNATURE = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(?P<scope>[^,]+), SignedHeaders=(?P<names>[^,]+), Signature=(?P<hex>\w+)"
)
SAID: list[Event] = [
    Start(),
    PartStart(0, PartKind.TEXT),
    TextDelta(0, "Hi"),
    PartEnd(0),
    Finish(Reason.STOP),
]


@pytest.fixture(autouse=True)
def no_credentials_but_those_given(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing of this machine's, and nobody is asked over a network."""
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


@pytest.fixture
def in_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_SESSION_TOKEN", TOKEN)


def is_signed(asked: Asked, credentials: Credentials, region: str = REGION) -> bool:
    """As the service judges it: from the path as it came, the headers that the signature names, and the body."""
    found = SIGNATURE.fullmatch(asked.headers["authorization"])
    assert found is not None
    names = found["names"].split(";")
    assert {"host", "x-amz-date"} <= set(names)
    request = AWSRequest(
        method=asked.method,
        url=f"http://{asked.headers['host']}{asked.path}",
        headers={name: asked.headers[name] for name in names},
        data=asked.body,
    )
    request.context["timestamp"] = asked.headers["x-amz-date"]
    judge = SigV4Auth(credentials, "bedrock", region)
    assert found["scope"] == judge.scope(request)
    assert asked.headers.get("x-amz-security-token") == credentials.token
    wanted = judge.signature(judge.string_to_sign(request, judge.canonical_request(request)), request)
    return bool(wanted == found["hex"])


def answering(stream: bytes) -> Script:
    async def script(asked: Asked) -> None:
        await asked.answer(200, "application/vnd.amazon.eventstream", stream)

    return script


def a_stream() -> bytes:
    return encode(SAID, "anthropic", "binary")


def talk(text: str = "hi") -> Request:
    return Request(model=MODEL, messages=(Message(Role.USER, (Text(text),)),), stream=True)


def ignore(field: str) -> None:
    """A `warn` for tests that look at something else."""


@asynccontextmanager
async def provider(url: str, signer: SigV4) -> AsyncIterator[HttpProvider]:
    made = HttpProvider(HttpTarget(name="bedrock", dialect=BEDROCK, base_url=url, signer=signer))
    try:
        yield made
    finally:
        await made.close()


async def asked_for(made: HttpProvider, request: Request) -> list[Event]:
    upstream = await made.open(request, MODEL, same_dialect=False, warn=ignore)
    events: list[Event] = []
    try:
        while not events or not isinstance(events[-1], Finish | Error):
            events += (await upstream.read()).events
    finally:
        await upstream.close()
    return events


async def sent(request: Request, signer: SigV4, count: int = 1) -> list[Asked]:
    """The requests as they came by the wire."""
    async with FakeUpstream(answering(a_stream())) as fake, provider(fake.url, signer) as made:
        for _ in range(count):
            assert isinstance((await asked_for(made, request))[-1], Finish)
        return list(fake.requests)


TEXTS = {"ascii": "hi", "unicode": "Grüße \u2028 😀", "large": "x" * (INLINE_BODY_BYTES + 1)}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
async def test_the_service_accepts_the_signature(in_environment: None, text: str) -> None:
    first, second = await sent(talk(text), SigV4("bedrock", region=REGION), count=2)
    for asked in (first, second):
        assert is_signed(asked, Credentials(KEY, SECRET, TOKEN))
        assert unquote(asked.path) == f"/model/{MODEL}/invoke-with-response-stream"
        assert asked.path.count("/") == 3, "the model's name is one segment"
    spoilt = Asked(first.method, first.path, first.headers, first.body + b" ", None)  # type: ignore[arg-type]
    assert not is_signed(spoilt, Credentials(KEY, SECRET, TOKEN)), "the judge looks at the body"
    assert not is_signed(first, Credentials(KEY, "another", TOKEN)), "and at the secret"


async def test_a_profile_is_asked_for_its_keys(in_environment: None, tmp_path: Path) -> None:
    (tmp_path / "credentials").write_text(
        "[work]\naws_access_key_id = AKIA-of-the-profile\naws_secret_access_key = profile-secret\n"
    )
    (asked,) = await sent(talk(), SigV4("bedrock", region="us-east-1", profile="work"))
    assert is_signed(asked, Credentials("AKIA-of-the-profile", "profile-secret"), "us-east-1")


@pytest.fixture
def process(tmp_path: Path) -> Callable[..., Path]:
    """Credentials that a process gives, new ones each time, good for that many minutes; the file counts the times."""

    def configured(*minutes: int) -> Path:
        counter, script = tmp_path / "count", tmp_path / "give.py"
        counter.write_text("0")
        script.write_text(
            "import json, pathlib, sys\n"
            f"file = pathlib.Path({str(counter)!r})\n"
            "number = int(file.read_text()) + 1\n"
            "file.write_text(str(number))\n"
            "given = {'Version': 1, 'AccessKeyId': f'ASIA{number:016}', 'SecretAccessKey': 's', 'SessionToken': 't'}\n"
            "print(json.dumps(given | {'Expiration': sys.argv[number]}))\n"
        )
        ends = " ".join(f"{datetime.now(UTC) + timedelta(minutes=m):%Y-%m-%dT%H:%M:%SZ}" for m in minutes)
        (tmp_path / "config").write_text(f"[default]\ncredential_process = {sys.executable} {script} {ends}\n")
        return counter

    return configured


async def test_credentials_that_are_about_to_expire_are_renewed(process: Callable[..., Path]) -> None:
    process(11, 600)
    for asked in await sent(talk(), SigV4("bedrock", region=REGION), count=2):
        assert is_signed(asked, Credentials("ASIA0000000000000002", "s", "t"))


async def test_calls_that_come_together_look_for_credentials_once(process: Callable[..., Path]) -> None:
    counter, signer = process(600), SigV4("bedrock", region=REGION)
    async with FakeUpstream(answering(a_stream())) as fake, provider(fake.url, signer) as made:
        await asyncio.gather(*(asked_for(made, talk()) for _ in range(5)))
        assert all(is_signed(asked, Credentials("ASIA0000000000000001", "s", "t")) for asked in fake.requests)
    assert counter.read_text() == "1"


@pytest.mark.parametrize(
    ("profile", "says"),
    [
        (None, "no AWS credentials were found"),
        ("nobody", "no AWS credentials for the profile nobody: profile not found"),
    ],
)
async def test_without_credentials_nothing_is_sent(profile: str | None, says: str) -> None:
    signer = SigV4("bedrock", region=REGION, profile=profile)
    async with FakeUpstream(answering(a_stream())) as fake, provider(fake.url, signer) as made:
        with pytest.raises(ApiError, match=says) as raised:
            await asked_for(made, talk())
        assert fake.requests == []
    assert (raised.value.kind, raised.value.provider) == (Kind.INTERNAL, "bedrock")


@pytest.mark.fault("F36")
@pytest.mark.parametrize("status", [200, 403])
async def test_what_an_upstream_repeats_of_it_does_not_show(in_environment: None, status: int) -> None:
    """AWS explains a wrong signature with the whole request that it should have been made for."""

    async def script(asked: Asked) -> None:
        told: dict[str, Any] = {"message": f"Canonical: {asked.headers} and {SECRET}"}
        if status == 403:
            kind = "InvalidSignatureException"
            await asked.answer(403, "application/json", json.dumps(told).encode(), x_amzn_errortype=kind)
        else:
            stream = wire.message(wire.exception_headers("validationException"), json.dumps(told).encode())
            await asked.answer(200, "application/vnd.amazon.eventstream", stream)

    signer = SigV4("bedrock", region=REGION)
    async with FakeUpstream(script) as fake, provider(fake.url, signer) as made:
        try:
            last = (await asked_for(made, talk()))[-1]
            assert isinstance(last, Error)
            error = last.error
        except ApiError as raised:
            error = raised
    assert "Canonical" in error.message
    for secret in (KEY, SECRET, TOKEN):
        assert secret not in error.message
        assert secret not in repr(signer)


async def test_embeddings_are_signed_too(in_environment: None) -> None:
    async def script(asked: Asked) -> None:
        await asked.answer(200, "application/json", b'{"embedding":[0.5,1],"inputTextTokenCount":3}')

    signer = SigV4("bedrock", region=REGION)
    async with FakeUpstream(script) as fake, provider(fake.url, signer) as made:
        reply = await made.embed(EmbedRequest(model="m", input=("a",)), "amazon.titan-embed-text-v2:0", warn=ignore)
        (asked,) = fake.requests
    assert reply.vectors == ((0.5, 1.0),)
    assert is_signed(asked, Credentials(KEY, SECRET, TOKEN))

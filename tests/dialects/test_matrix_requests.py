"""Every client over every upstream: what an upstream is asked, what vectors come back, which models are listed.

    what a client wants -> its own wire -> neutral -> the upstream's wire -> what the upstream is asked

The upstream sees the same wish, but for what `losses` names; what would be answered wrongly is refused, and the refusal
names a field.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec
import pytest

from rivermouth.dialects import discover
from rivermouth.dialects.dialect import Answer, Operation
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.reply import EmbedReply, ModelInfo
from rivermouth.ir.request import (
    Audio,
    Choose,
    EmbedRequest,
    File,
    Format,
    Image,
    Message,
    Reasoning,
    Request,
    ResponseFormat,
    Role,
    Sampling,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
)
from tests.dialects.conformance import arrived, wanted
from tests.dialects.forms import FORMS, Form, dialect_of, parsed, parsed_embed, sent
from tests.goldens.cases import PIXEL, QUESTION, QUESTIONS, SCHEMA
from tests.in_turn import in_turn

WEATHER: Final = Tool("weather", "Today's weather", SCHEMA)
TIME: Final = Tool("time")
CALLED: Final = Message(
    Role.ASSISTANT, (ToolCall("call_1", "weather", '{"city":"Köln"}'), ToolCall("call_2", "time", "{}"))
)


def asking(*parts: Any, **more: Any) -> Request:
    return Request(model="m", messages=(Message(Role.USER, (Text("What is this?"), *parts)),), **more)


WISHES: Final[dict[str, Request]] = {
    **{name: msgspec.structs.replace(q, stream=False) for name, q in QUESTIONS.items()},
    "text": asking(system=(Text("Be brief."),)),
    "unicode": asking(Text('a\u2028b\u2029c\u0085d cafe\u0301 👩\u200d👧 😀 \\ "q"\n\tend')),
    "talk": Request(
        model="m",
        messages=(QUESTION, Message(Role.ASSISTANT, (Text("Wet."),)), Message(Role.USER, (Text("And now?"),))),
    ),
    "limits": asking(max_tokens=77, stop=("END", "STOP"), sampling=Sampling(temperature=0.5, top_p=0.5)),
    "all of sampling": asking(
        max_tokens=77,
        sampling=Sampling(
            temperature=0.5, top_p=0.5, top_k=5, min_p=0.1, seed=7, frequency_penalty=0.1, presence_penalty=0.1,
            repetition_penalty=1.1, logit_bias={"1": 1.0}, logprobs=True, top_logprobs=2,
        ),
    ),
    "tools": asking(tools=(WEATHER, TIME), tool_choice=ToolChoice(Choose.AUTO)),
    "no tool": asking(tools=(WEATHER,), tool_choice=ToolChoice(Choose.NONE)),
    "some tool": asking(tools=(WEATHER,), tool_choice=ToolChoice(Choose.REQUIRED)),
    "this tool": asking(tools=(WEATHER,), tool_choice=ToolChoice(Choose.NAMED, "weather")),
    "one at a time": asking(tools=(WEATHER,), parallel_tools=False),
    "results the other way round": Request(
        model="m",
        messages=(
            QUESTION,
            CALLED,
            Message(Role.TOOL, (ToolResult("call_2", (Text("noon"),)),)),
            Message(Role.TOOL, (ToolResult("call_1", (Text("rain"),)),)),
            Message(Role.USER, (Text("So?"),)),
        ),
        tools=(WEATHER, TIME),
    ),
    "image by URL": asking(Image(url="https://example.org/x.png")),
    "two images": asking(Image("image/png", PIXEL), Image("image/jpeg", "/9j/4AAQ")),
    "file": asking(File("application/pdf", "JVBERi0=", name="x.pdf")),
    "sound": asking(Audio("AAAA", "wav")),
    "json": asking(response_format=ResponseFormat(Format.JSON)),
    "think hard": asking(max_tokens=32_000, thinking=Thinking(effort="high")),
    "think for": asking(max_tokens=32_000, thinking=Thinking(budget_tokens=8192)),
    "do not think": asking(thinking=Thinking(enabled=False)),
    "two choices": asking(n=2),
    "labels": asking(user="u1", metadata={"team": "y"}),
    "earlier reasoning": Request(
        model="m",
        messages=(
            QUESTION,
            Message(Role.ASSISTANT, (Reasoning("hm", "c2ln"), Text("Wet."))),
            Message(Role.USER, (Text("And now?"),)),
        ),
    ),
}  # fmt: skip


def through(client: Form, upstream: Form, request: Request) -> tuple[Request, set[str]]:
    """What the upstream is asked when a client asks this, and what was lost, by name, on the way."""
    outgoing = sent(client, request)
    read = parsed(client, outgoing)
    # Both may be one vendor's: what passes as it came is the subject of relays, here each is written anew.
    again = sent(upstream, msgspec.structs.replace(read, original=None) if client is upstream else read)
    assert set(again.losses) <= dialect_of(upstream).losses | set(read.unmodelled)
    seen = parsed(upstream, again)
    if arrived(dialect_of(upstream), again.path)[0].kind not in upstream.nameless:
        assert seen.model == upstream.model
    return seen, {*outgoing.losses, *again.losses}


FLAT: Final = {"bedrock_invoke-titan", "bedrock_invoke-mistral", "openai_completions"}
"""Bodies with one text for the whole talk, instructions included: it is all there, and nobody knows who said it."""


def differences(request: Request, seen: Request, lost: set[str]) -> Iterator[str]:
    """Every wish that the upstream was asked for differently, although no loss names it."""
    instructed, told = ("".join(t.text for t in r.system) for r in (request, seen))
    checks: dict[str, tuple[Any, Any]] = {
        "messages": (_talk(request, lost), _talk(seen, lost)),
        # Where JSON cannot be demanded, it is asked for in words.
        "system": (instructed, told.removesuffix(told[len(instructed) :] if "response_format" in lost else "")),
        "stream": (request.stream, seen.stream),
        "n": (request.n, seen.n),
        "max_tokens": (request.max_tokens or seen.max_tokens, seen.max_tokens),
        "stop": (request.stop, seen.stop),
        "tools": (_tools(request), _tools(seen)),
        "tool_choice": (_must_call(request), _must_call(seen)),
        "parallel_tools": (request.parallel_tools, seen.parallel_tools),
        "response_format": (_format(request), _format(seen)),
        "thinking": (_thinks(request), _thinks(seen)),
        "thinking.effort": _both(request, seen, "effort"),
        "user": (request.user, seen.user or (request.user and None)),
        **{f: (getattr(request.sampling, f), getattr(seen.sampling, f)) for f in Sampling.__struct_fields__},
    }
    yield from (name for name, (want, have) in checks.items() if name not in lost and want != have)


def _talk(request: Request, lost: set[str]) -> list[Any]:
    return [_atom(atom, lost) for atom in wanted(request) if atom[0] != "reasoning" or "messages.reasoning" not in lost]


def _atom(atom: tuple[Any, ...], lost: set[str]) -> tuple[Any, ...]:
    """A part of the talk, as far as it is the client's: a signature is for its maker, a URL may tell its own type."""
    match atom:
        case ("reasoning", text, _, redacted):
            return ("reasoning", text, redacted)
        case ("image", role, _, None):
            return ("image", role, None)
        case (role, File() as file) if "file.name" in lost:
            return (role, msgspec.structs.replace(file, name=None))
    return atom


def _tools(request: Request) -> list[Any]:
    """The tools that may be called."""
    choice = request.tool_choice or ToolChoice(Choose.AUTO)
    offered = [] if choice.mode is Choose.NONE else request.tools
    named = [t for t in offered if choice.name in (None, t.name)]
    return [(t.name, t.description, t.parameters) for t in named]


def _must_call(request: Request) -> bool:
    """To name the only tool that may be called, and to demand that some tool is called, is the same."""
    return request.tool_choice is not None and request.tool_choice.mode in (Choose.REQUIRED, Choose.NAMED)


def _format(request: Request) -> Any:
    """Any JSON at all is an object without a word about its members."""
    wish = request.response_format
    if wish is None or wish.kind is Format.TEXT:
        return None
    return {"type": "object"} if wish.kind is Format.JSON else wish.schema


def _thinks(request: Request) -> bool | None:
    return request.thinking.enabled if request.thinking is not None else None


def _both(request: Request, seen: Request, name: str) -> tuple[Any, Any]:
    """That of the two wishes to think, if both say it: effort and budget are two ways to say how much."""
    if request.thinking is None or seen.thinking is None:
        return None, None
    said = getattr(request.thinking, name), getattr(seen.thinking, name)
    return said if None not in said else (None, None)


@pytest.mark.parametrize("client", FORMS)
@in_turn("upstream", FORMS)
def test_the_upstream_is_asked_what_the_client_wants(client: str, upstream: str) -> None:
    wrong = {
        case: said
        for case, wish in WISHES.items()
        for request in (wish, msgspec.structs.replace(wish, stream=True))
        for said in [complaints(client, upstream, case, request)]
        if said
    }
    assert wrong == {}


def complaints(client: str, upstream: str, case: str, request: Request) -> list[str]:
    """What is wrong with what the upstream is asked, or with the refusal."""
    try:
        seen, lost = through(FORMS[client], FORMS[upstream], request)
    except ApiError as refused:
        if (refused.kind, bool(refused.param)) == (Kind.INVALID_REQUEST, True) and case not in ALWAYS_CARRIED:
            return []
        return [f"refused: {refused!r}"]
    if {client, upstream} & FLAT:
        return [f"not said: {said}" for said in texts(request) if said not in whole(seen)]
    return list(differences(request, seen, lost))


def texts(request: Request) -> list[str]:
    return [t.text for t in request.system] + [p.text for m in request.messages for p in m.parts if isinstance(p, Text)]


def whole(request: Request) -> str:
    return "".join(texts(request))


ALWAYS_CARRIED: Final = {"text", "unicode", "talk", "limits", "all of sampling", "labels", "do not think", "think hard"}
"""What no protocol refuses, whatever it loses of it."""


# -- embeddings and models


VECTORS: Final = ((0.25, -1.0, 0.5), (0.0, 1.0, 3.5))
EMBEDS: Final = [name for name, form in FORMS.items() if dialect_of(form).parse_embed and dialect_of(form).build_embed]
LISTS: Final = [n for n, d in discover().items() if d.encode_models is not None and d.parse_models is not None]


@pytest.mark.parametrize("client", EMBEDS)
@in_turn("upstream", EMBEDS)
def test_vectors_come_back_in_order(client: str, upstream: str) -> None:
    there, here = dialect_of(FORMS[upstream]), dialect_of(FORMS[client])
    assert here.build_embed is not None
    assert there.build_embed is not None
    assert there.encode_embed is not None
    assert here.encode_embed is not None
    assert there.parse_embed_reply is not None
    assert here.parse_embed_reply is not None
    for texts in (("river \u2028 mouth",), ("river", "mouth")):
        try:
            request = parsed_embed(here, here.build_embed(EmbedRequest(model="m", input=texts), FORMS[client].model))
            asked = parsed_embed(there, there.build_embed(request, FORMS[upstream].model))
        except ApiError:
            assert len(texts) > 1, "one text is embedded by everybody"
            continue
        assert asked.input == request.input == texts
        made = EmbedReply(model="up", vectors=VECTORS[: len(texts)], input_tokens=5)
        told = there.parse_embed_reply(there.encode_embed(made, asked, answer(upstream)))
        back = here.parse_embed_reply(here.encode_embed(told, request, answer(client)))
        assert [list(vector) for vector in back.vectors] == [list(v) for v in made.vectors]
        assert told.input_tokens in (5, None)


def answer(name: str) -> Answer:
    form, dialect = FORMS[name], dialect_of(FORMS[name])
    route = next(r for r in dialect.routes if r.operation is Operation.EMBED)
    return Answer(id="c1", model=form.model, created_ns=0, surface=dialect.surfaces[0], kind=route.kind)


@pytest.mark.parametrize("client", LISTS)
@in_turn("upstream", LISTS)
def test_models_are_listed_by_their_names(client: str, upstream: str) -> None:
    there, here = discover()[upstream], discover()[client]
    names = ["gpt-x", "smollm2:135m", "lab/org/model@1"]
    listed = _listed(upstream, [ModelInfo(id=name, owner="lab", created=7) for name in names])
    assert [model.id for model in listed] == names
    assert [model.id for model in _listed(client, listed)] == names
    assert (there.name, here.name) == (upstream, client)


def _listed(name: str, models: list[ModelInfo]) -> list[ModelInfo]:
    """The models as a client of the dialect reads the list of its server."""
    dialect = discover()[name]
    assert dialect.encode_models is not None
    assert dialect.parse_models is not None
    route = next(r for r in dialect.routes if r.operation is Operation.MODELS)
    return dialect.parse_models(dialect.encode_models(models, route))


def test_every_form_is_found_again_at_the_path_of_its_own_call() -> None:
    for form in FORMS.values():
        outgoing = sent(form, asking())
        route, model = arrived(dialect_of(form), outgoing.path)
        assert route.operation is Operation.GENERATE
        assert model in (form.model, None)

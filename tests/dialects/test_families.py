"""Reasoning and tools between families of dialects: without loss where both sides have a place for them.

The traps are those that every translation between vendors' protocols falls into, for every pair of dialects that the
suite finds.  `test_matrix` and `test_matrix_requests` hold what is said and asked; here is what travels in between.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from itertools import groupby, pairwise, product
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.dialects import discover
from rivermouth.ir.errors import ApiError
from rivermouth.ir.events import Finish, PartKind, Reason, Signature, Usage
from rivermouth.ir.fold import fold, unfold
from rivermouth.ir.opaque import SEALED, SEALED_BASE64, opened
from rivermouth.ir.reply import Choice, Reply
from rivermouth.ir.request import (
    Choose,
    Image,
    Message,
    Reasoning,
    Request,
    Role,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
)
from rivermouth.ir.turns import LOST, NO_RESULT, paired
from rivermouth.vendors.output_caps import output_cap
from tests.dialects.conformance import FEWER, Decoded, answer, carries, decoded, encoded
from tests.dialects.forms import FORMS, parsed, sent
from tests.dialects.recordings import RECORDINGS, STREAMS
from tests.dialects.talks import (
    KEEPS,
    TALKING,
    asked_again,
    envelopes,
    keeps,
    kept_turn,
    outline,
    strings,
    thoughts,
)
from tests.goldens.cases import PIXEL
from tests.in_turn import in_turn
from tests.strategies import arguments, spoken, words

clients = pytest.mark.parametrize("client", TALKING)
talking = pytest.mark.parametrize("upstream", TALKING)
HI: Final = Message(Role.USER, (Text("Hi"),))
SO: Final = Message(Role.USER, (Text("So?"),))
WEATHER: Final = Tool("weather", "Today's", {"type": "object", "properties": {"city": {"type": "string"}}})


def pairs(test: Callable[..., None]) -> Callable[..., None]:
    """The test for every client, over every upstream in turn."""
    return clients(in_turn("upstream", TALKING)(test))


def asking(*messages: Message, **more: Any) -> Request:
    return Request(**{"model": "m", "messages": messages, "max_tokens": 99, **more})


def passed_on(client: str, upstream: str, request: Request) -> tuple[Request, Any, set[str]]:
    """What the upstream is asked as its own server reads it, its body, and what was lost, as a client asks this."""
    read = parsed(FORMS[client], sent(FORMS[client], request))
    outgoing = sent(FORMS[upstream], msgspec.structs.replace(read, original=None))
    return parsed(FORMS[upstream], outgoing), json.loads(outgoing.body), set(outgoing.losses)


# -- signatures -------------------------------------------------------------------------------------------------------


@cache
def signed_turns() -> dict[str, tuple[str, tuple[Any, ...]]]:
    """What vendors' models really signed: every recorded stream with a signature, and its dialect."""
    found = {}
    for path in RECORDINGS:
        name = path.parent.parent.name
        if path.suffix not in STREAMS:
            continue
        reader = Decoded(discover()[name])
        events = [*reader.feed(path.read_bytes()), *reader.eof()]
        parts = fold(events).choices[0].parts if isinstance(events[-1], Finish) else ()
        signed = any(isinstance(e, Signature) for e in events)
        if signed and all(isinstance(p, Text | Reasoning | ToolCall) for p in parts):
            found[f"{name}-{path.stem}"] = (name, parts)
    return found


def has_place(client: str) -> bool:
    """Whether clients of this body have a place for opaque strings."""
    reply = Reply(choices=(Choice((Reasoning("hm", "x:y"), Text("x")), Reason.STOP),))
    kept = asked_again(FORMS[client], HI, kept_turn(FORMS[client], reply), (Text("x"),), [SO])
    return [r.signature for r in thoughts(kept.messages)] == ["x:y"]


PLACES: Final = [name for name in TALKING if has_place(name)]
CARRIED: Final = [(turn, client) for turn in signed_turns() for client in PLACES]


def next_request(client: str, parts: tuple[Any, ...]) -> Request:
    """What that client asks next, after this answer of a model's."""
    calls = [p for p in parts if isinstance(p, ToolCall)]
    reason = Reason.TOOL_CALLS if calls else Reason.STOP
    reply = Reply(choices=(Choice(parts, reason),))
    results = [Message(Role.TOOL, tuple(ToolResult(c.id, (Text("done"),)) for c in calls))] if calls else []
    return asked_again(FORMS[client], HI, kept_turn(FORMS[client], reply), parts, [*results, SO])


def test_every_family_that_signs_is_here() -> None:
    assert {name for name, _ in signed_turns().values()} >= {"anthropic", "gemini", "openai_chat", "bedrock_invoke"}
    assert set(PLACES) >= {"openai_chat", "tgi", "anthropic", "gemini", "bedrock_invoke-anthropic"}


@pytest.mark.fault("F25")
@in_turn(("turn", "client"), CARRIED)
def test_a_signature_comes_back_to_its_maker_as_it_was(turn: str, client: str) -> None:
    """Model -> client of any dialect -> model, byte for byte, where it stood."""
    maker, parts = signed_turns()[turn]
    came = next_request(client, parts)
    assert [(r.text, r.signature, r.redacted) for r in thoughts(came.messages)] == [
        (r.text, r.signature, r.redacted) for r in parts if isinstance(r, Reasoning)
    ]
    home = next(name for name in TALKING if FORMS[name].dialect == maker)
    outgoing = sent(FORMS[home], msgspec.structs.replace(came, original=None))
    direct = sent(FORMS[home], asking(HI, Message(Role.ASSISTANT, parts), *came.messages[2:]))
    assert _talk(outgoing.body) == _talk(direct.body)
    assert outgoing.losses == direct.losses
    for signature in [r.signature for r in parts if isinstance(r, Reasoning) and r.signature is not None]:
        assert signature.rpartition(":")[2] in set(strings(json.loads(outgoing.body)))


def _talk(body: bytes) -> Any:
    fields = json.loads(body)
    return next(fields[name] for name in ("messages", "contents", "input") if name in fields)


@pytest.mark.fault("F25")
@in_turn(("turn", "client"), CARRIED)
def test_a_signature_goes_to_nobody_else_and_is_never_read(turn: str, client: str) -> None:
    parts = signed_turns()[turn][1]
    signed = [r.signature for r in parts if isinstance(r, Reasoning) and r.signature is not None]
    told = [*strings(kept_turn(FORMS[client], Reply(choices=(Choice(parts, Reason.STOP),))))]
    assert not any(signature in word for word in told for signature in signed), "a neutral mark is on no wire"
    came = next_request(client, parts)
    visible = [p.text for m in came.messages for p in m.parts if isinstance(p, Text)]
    assert "".join(visible) == "".join(["Hi", *(p.text for p in parts if isinstance(p, Text)), "So?"])
    for upstream in TALKING:
        outgoing = sent(FORMS[upstream], msgspec.structs.replace(came, original=None))
        assert envelopes(outgoing.body) == []
        sent_on = set(strings(json.loads(outgoing.body)))
        foreign = {s.rpartition(":")[2] for s in signed if not s.startswith(keeps(upstream).mark)}
        assert not sent_on & foreign or upstream not in KEEPS, upstream


@pytest.mark.fault("F25")
@in_turn(("turn", "client"), CARRIED)
def test_a_body_that_goes_on_as_it_came_has_no_envelope_in_it(turn: str, client: str) -> None:
    came = next_request(client, signed_turns()[turn][1])
    assert came.original is not None
    assert envelopes(sent(FORMS[client], came).body) == []


@pytest.mark.fault("F25")
@in_turn(("first", "second"), product(PLACES, PLACES))
def test_an_envelope_may_move_from_one_clients_wire_to_anothers(first: str, second: str) -> None:
    """A program that keeps its talks in one dialect's words and sends them in another's."""
    parts = (Reasoning("hm", "vendor:c2ln"), Text("x"))
    reply = Reply(choices=(Choice(parts, Reason.STOP),))
    sealed = [s for s in strings(kept_turn(FORMS[first], reply)) if opened(s) is not None]
    turn = json.dumps(kept_turn(FORMS[second], reply))
    (own,) = [s for s in strings(json.loads(turn)) if opened(s) is not None]
    came = asked_again(FORMS[second], HI, json.loads(turn.replace(own, sealed[0])), parts, [SO])
    assert [r.signature for r in thoughts(came.messages)] == ["vendor:c2ln"]


@pytest.mark.parametrize("client", PLACES)
@pytest.mark.parametrize("broken", [SEALED + "!", SEALED_BASE64 + "AA==", SEALED + "Lg"])
def test_a_broken_envelope_is_no_signature(client: str, broken: str) -> None:
    parts = (Reasoning("hm", "vendor:c2ln"), Text("x"))
    turn = json.dumps(kept_turn(FORMS[client], Reply(choices=(Choice(parts, Reason.STOP),))))
    (own,) = [s for s in strings(json.loads(turn)) if opened(s) is not None]
    came = asked_again(FORMS[client], HI, json.loads(turn.replace(own, broken)), parts, [SO])
    assert [r.signature for r in thoughts(came.messages) if r.signature is not None] == []
    for upstream in TALKING:
        assert envelopes(sent(FORMS[upstream], msgspec.structs.replace(came, original=None)).body) == []


# -- ids and arguments ------------------------------------------------------------------------------------------------

ODD_IDS: Final = ("call_1", "toolu_01AbC", "functions.f:0", "a b/é", "x" * 70, "rmid_", "rmid_YQ")


@pytest.mark.fault("F20")
@pytest.mark.parametrize("identity", ODD_IDS)
@pairs
def test_an_id_of_any_vendor_pairs_and_comes_back(client: str, upstream: str, identity: str) -> None:
    call = ToolCall(identity, "weather", '{"city":"Köln"}')
    came = next_request(client, (call,))
    outgoing = sent(FORMS[upstream], msgspec.structs.replace(came, original=None))
    seen = parsed(FORMS[upstream], outgoing)
    for request in (came, seen):
        (called,) = [p for m in request.messages for p in m.parts if isinstance(p, ToolCall)]
        (result,) = [p for m in request.messages for p in m.parts if isinstance(p, ToolResult)]
        assert called.id == result.id
        assert (called.name, json.loads(called.arguments)) == ("weather", {"city": "Köln"})
        assert "".join(t.text for t in result.content if isinstance(t, Text)) == "done"
    assert [p.id for m in came.messages for p in m.parts if isinstance(p, ToolCall)] == [identity]
    assert not set(outgoing.losses) & {LOST}


@pytest.mark.fault("F20", "F21")
@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("", {}),
        ("null", {}),
        ('{"q":1.5,"w":[null,"é\\u2028"]}', {"q": 1.5, "w": [None, "é\u2028"]}),
        ('{"q": ', {"input": '{"q": '}),
        ("[1]", {"input": [1]}),
        ("rain", {"input": "rain"}),
    ],
)
@pairs
def test_arguments_of_a_past_call_reach_every_upstream(client: str, upstream: str, written: str, meant: Any) -> None:
    """An object as it was; what is none is text where calls have text, and else wrapped: never lost, no failure."""
    talk = asking(HI, Message(Role.ASSISTANT, (ToolCall("c", "weather", written),)), _answered("c"), SO)
    seen, _, _ = passed_on(client, upstream, talk)
    (called,) = [p for m in seen.messages for p in m.parts if isinstance(p, ToolCall)]
    assert called.arguments == written or json.loads(called.arguments or "{}") == meant
    (result,) = [p for m in seen.messages for p in m.parts if isinstance(p, ToolResult)]
    assert result.id == called.id


# -- results ----------------------------------------------------------------------------------------------------------


def _answered(*ids: str, text: str = "done") -> Message:
    return Message(Role.TOOL, tuple(ToolResult(i, (Text(text),)) for i in ids))


def _called(*ids: str) -> Message:
    return Message(Role.ASSISTANT, tuple(ToolCall(i, "weather", '{"city":"x"}') for i in ids))


INTERRUPTED: Final[dict[str, tuple[Message, ...]]] = {
    "no result": (HI, _called("a"), SO),
    "one of two": (HI, _called("a", "b"), _answered("b"), SO),
    "at the end": (HI, _called("a")),
    "of nothing": (HI, _answered("zzz"), SO),
    "twice": (HI, _called("a"), _answered("a"), _answered("a", text="again"), SO),
    "the other way round": (HI, _called("a", "b"), _answered("b"), _answered("a"), SO),
    "after the user's words": (HI, _called("a"), Message(Role.USER, (Text("wait"),)), _answered("a"), SO),
    "ids again": (HI, _called("a"), _answered("a"), _called("a"), SO),
    "calls one by one": (HI, _called("a"), _called("b"), _answered("a"), _answered("b"), SO),
}


@pytest.mark.fault("F20")
@talking
@in_turn("case", INTERRUPTED)
def test_an_interrupted_turn_is_one_that_the_upstream_accepts(upstream: str, case: str) -> None:
    outgoing = sent(FORMS[upstream], asking(*INTERRUPTED[case]))
    seen = parsed(FORMS[upstream], outgoing)
    wanted, orphans = paired(INTERRUPTED[case])
    assert outline(seen.messages) == outline(wanted)
    assert (LOST in outgoing.losses) is orphans
    assert (NO_RESULT in json.dumps(json.loads(outgoing.body))) is (NO_RESULT in str(wanted))
    atoms = [p for m in seen.messages for p in m.parts]
    for calls, after in pairwise([list(run) for _, run in groupby(atoms, type)] + [[]]):
        owed = [p.id for p in calls if isinstance(p, ToolCall)]
        assert owed == ([p.id for p in after if isinstance(p, ToolResult)] if owed else [])
    called = [p.id for m in seen.messages for p in m.parts if isinstance(p, ToolCall)]
    if keeps(upstream).failures and "anthropic" in upstream:
        assert len(set(called)) == len(called), "ids are unique in the whole talk"


@pytest.mark.parametrize("case", ["one of two", "the other way round", "at the end"])
@pairs
def test_an_interrupted_turn_of_any_client_is_repaired(client: str, upstream: str, case: str) -> None:
    """The client's own body says it as it is: what its dialect would have repaired on the way is taken out of it."""
    whole = asking(*paired(INTERRUPTED[case]).messages)
    read = parsed(FORMS[client], sent(FORMS[client], whole))
    cut = msgspec.structs.replace(read, original=None, messages=tuple(filter(_real, read.messages)))
    seen = parsed(FORMS[upstream], sent(FORMS[upstream], cut))
    assert outline(seen.messages) == outline(paired(cut.messages).messages)


def _real(message: Message) -> bool:
    return NO_RESULT not in str(message)


@pairs
def test_a_failure_is_a_failure_or_says_so(client: str, upstream: str) -> None:
    failed = Message(Role.TOOL, (ToolResult("a", (Text("boom"),), is_error=True),))
    seen, body, losses = passed_on(client, upstream, asking(HI, _called("a"), failed, SO))
    (result,) = [p for m in seen.messages for p in m.parts if isinstance(p, ToolResult)]
    text = "".join(p.text for p in result.content if isinstance(p, Text))
    assert (text, result.is_error) in [("boom", True), ("Error: boom", False)]
    if keeps(client).failures and keeps(upstream).failures:
        assert result.is_error
    assert "boom" in json.dumps(body)
    assert not any("is_error" in loss for loss in losses)


@cache
def sees(name: str) -> bool:
    """Whether the body has a place for images at all."""
    try:
        sent(FORMS[name], asking(Message(Role.USER, (Text("What is this?"), Image("image/png", PIXEL)))))
    except ApiError:
        return False
    return True


@pairs
def test_an_image_in_a_result_is_seen_or_refused(client: str, upstream: str) -> None:
    shown = Message(Role.TOOL, (ToolResult("a", (Text("look"), Image("image/png", PIXEL))),))
    if not (sees(client) and sees(upstream)):
        with pytest.raises(ApiError, match="image") as refused:
            passed_on(client, upstream, asking(HI, _called("a"), shown, SO))
        assert refused.value.param
        return
    seen, _, _ = passed_on(client, upstream, asking(HI, _called("a"), shown, SO))
    results = [i for i, m in enumerate(seen.messages) if m.role is Role.TOOL]
    images = [i for i, m in enumerate(seen.messages) if PIXEL in str(m)]
    assert len(images) == 1
    assert images[0] in (results[0], results[0] + 1), "in the result, or right after it"
    assert str(seen.messages).count("look") == 1


# -- the turn around them ---------------------------------------------------------------------------------------------


@pairs
def test_instructions_in_the_middle_stay_where_they_are(client: str, upstream: str) -> None:
    now = Message(Role.SYSTEM, (Text("Be brief now."),))
    talk = asking(HI, Message(Role.ASSISTANT, (Text("Hello."),)), now, SO, system=(Text("Be kind."),))
    seen, _, _ = passed_on(client, upstream, talk)
    told = "".join(t.text for t in seen.system) + "".join(m.text for m in seen.messages)
    assert told == "Be kind.HiHello.Be brief now.So?"


EMPTY: Final[dict[str, tuple[Message, ...]]] = {
    "an empty text": (HI, Message(Role.ASSISTANT, (Text(""), Text("x"))), SO),
    "nothing but an empty text": (HI, Message(Role.ASSISTANT, (Text(""),)), SO),
    "nothing": (HI, Message(Role.ASSISTANT, ()), SO),
    "calls alone": (HI, Message(Role.ASSISTANT, (Text(""), ToolCall("a", "weather", "{}"))), _answered("a"), SO),
    "reasoning alone": (HI, Message(Role.ASSISTANT, (Reasoning("hm"),)), SO),
    "an empty result": (HI, _called("a"), Message(Role.TOOL, (ToolResult("a"),)), SO),
    "neighbours": (HI, SO, Message(Role.ASSISTANT, (Text("a"),)), Message(Role.ASSISTANT, (Text("b"),)), HI),
}


@pytest.mark.fault("F21")
@pytest.mark.parametrize("case", EMPTY)
@pairs
def test_empty_contents_are_nothing_and_lose_nothing(client: str, upstream: str, case: str) -> None:
    seen, _, _ = passed_on(client, upstream, asking(*EMPTY[case]))
    said = [(m.role, p.text) for m in seen.messages for p in m.parts if isinstance(p, Text)]
    wanted = [(m.role, p.text) for m in EMPTY[case] for p in m.parts if isinstance(p, Text) if p.text]
    assert [text for _, text in said] == [text for _, text in wanted] or "".join(t for _, t in said) == "".join(
        t for _, t in wanted
    )
    calls = [p.name for m in seen.messages for p in m.parts if isinstance(p, ToolCall)]
    assert calls == [p.name for m in EMPTY[case] for p in m.parts if isinstance(p, ToolCall)]


CONTROLS: Final = {
    "none": Thinking(enabled=False),
    **{effort: Thinking(effort=effort) for effort in ("minimal", "low", "medium", "high", "xhigh", "max")},
    "2048": Thinking(budget_tokens=2048),
    "8192": Thinking(budget_tokens=8192),
    "20000": Thinking(budget_tokens=20_000),
}
_LEVELS: Final = ("minimal", "low", "medium", "high", "xhigh", "max")


@pytest.mark.parametrize("control", CONTROLS)
@pairs
def test_how_hard_to_think_reaches_every_upstream_or_is_named(client: str, upstream: str, control: str) -> None:
    wish = CONTROLS[control]
    read = parsed(FORMS[client], sent(FORMS[client], asking(HI, thinking=wish, max_tokens=64_000)))
    outgoing = sent(FORMS[upstream], msgspec.structs.replace(read, original=None))
    seen = parsed(FORMS[upstream], outgoing).thinking
    if read.thinking is None or "thinking" in outgoing.losses:
        return
    assert seen is not None
    assert seen.enabled is read.thinking.enabled
    if read.thinking.effort and seen.effort:
        wanted, have = _LEVELS.index(read.thinking.effort), _LEVELS.index(seen.effort)
        assert abs(wanted - have) <= 2, "the nearest word"
    if read.thinking.budget_tokens and seen.budget_tokens:
        assert seen.budget_tokens == read.thinking.budget_tokens
    if read.thinking.budget_tokens and not seen.budget_tokens:
        assert "thinking.budget_tokens" in outgoing.losses
    if read.thinking.effort and not (seen.effort or seen.budget_tokens):
        assert "thinking.effort" in outgoing.losses


CAPPED: Final = {
    "anthropic": "claude-3-opus-20240229",
    "bedrock_converse": "us.anthropic.claude-3-opus-20240229-v1:0",
    "bedrock_invoke-anthropic": "anthropic.claude-3-opus-20240229-v1:0",
    "cohere_v1": "command-r-plus",
    "cohere_v2": "command-r-plus",
    "gemini": "gemini-2.0-flash",
    "openai_chat": "gpt-4-turbo",
    "openai_responses": "gpt-4o",
}
"""Models that refuse a greater limit than they can give."""


@pytest.mark.parametrize("upstream", CAPPED)
def test_a_limit_is_no_more_than_the_model_can_give(upstream: str) -> None:
    form = msgspec.structs.replace(FORMS[upstream], model=CAPPED[upstream])
    for wanted in (32_000, 9, None):
        outgoing = sent(form, asking(HI, max_tokens=wanted))
        limit = parsed(form, outgoing).max_tokens
        cap = output_cap(form.model)
        assert cap is not None
        assert limit in (min(wanted, cap),) if wanted is not None else limit in (None, cap)
        assert ("max_tokens" in outgoing.losses) is (wanted == 32_000)


@talking
@in_turn("mode", Choose)
def test_a_choice_of_tools_without_tools_is_none(upstream: str, mode: Choose) -> None:
    choice = ToolChoice(mode, "weather" if mode is Choose.NAMED else None)
    outgoing = sent(FORMS[upstream], asking(HI, tool_choice=choice, parallel_tools=False))
    words = json.dumps(json.loads(outgoing.body))
    assert not any(name in words for name in ("tool_choice", "toolChoice", "toolConfig", "parallel", "functionCalling"))


@talking
def test_a_tool_without_parameters_takes_an_object(upstream: str) -> None:
    outgoing = sent(FORMS[upstream], asking(HI, tools=(Tool("time"), WEATHER)))
    seen = parsed(FORMS[upstream], outgoing)
    assert [t.parameters.get("type") for t in seen.tools] == ["object", "object"]
    assert all(t.strict is None for t in seen.tools), "nobody has asked for strictness"


# -- answers ----------------------------------------------------------------------------------------------------------


@pytest.mark.fault("F28")
@pytest.mark.parametrize("client", sorted(discover()))
@in_turn("upstream", sorted(discover()))
def test_cached_tokens_are_counted_once_on_every_wire(client: str, upstream: str) -> None:
    """The whole prompt is the sum of its parts, whichever of them a protocol leaves out of it."""
    usage = Usage(input_tokens=1000, output_tokens=50, cached_tokens=600, cache_write_tokens=100, reasoning_tokens=20)
    reply = Reply(choices=(Choice((Text("x"),), Reason.STOP),), usage=usage)
    there, here = discover()[upstream], discover()[client]
    told = there.parse_reply(there.encode_reply(reply, answer(there)))
    heard = here.parse_reply(here.encode_reply(told, answer(here))).usage
    assert told.usage is not None
    assert heard is not None
    counts = carries(client).counts & carries(upstream).counts
    assert {name: getattr(heard, name) for name in counts} == {name: getattr(usage, name) for name in counts}


@pytest.mark.fault("F26")
@pytest.mark.parametrize("client", sorted(discover()))
@in_turn("upstream", sorted(discover()))
def test_signed_reasoning_streams_through_both_as_it_was(client: str, upstream: str) -> None:
    reply = Reply(
        choices=(
            Choice(
                (Reasoning("hm…", "vendor:c2ln"), Text("I look."), ToolCall("a", "weather", '{"city":"x"}')),
                Reason.TOOL_CALLS,
            ),
        )
    )
    there, here = discover()[upstream], discover()[client]
    heard = fold(decoded(here, encoded(here, decoded(there, encoded(there, unfold(reply)))))).choices[0]
    kinds = set(carries(client).kinds) & set(carries(upstream).kinds)
    assert "".join(p.text for p in heard.parts if isinstance(p, Text)) == "I look."
    reasoned = [p for p in heard.parts if isinstance(p, Reasoning)]
    if PartKind.REASONING in kinds:
        assert "".join(p.text for p in reasoned) == "hm…"
        if {client, upstream} <= {FORMS[name].dialect for name in PLACES}:
            assert [p.signature for p in reasoned] == ["vendor:c2ln"]
    else:
        assert reasoned == []
    if PartKind.TOOL in kinds:
        assert [(p.name, json.loads(p.arguments)) for p in heard.parts if isinstance(p, ToolCall)] == [
            ("weather", {"city": "x"})
        ]
        assert heard.reason is Reason.TOOL_CALLS


# -- chains -----------------------------------------------------------------------------------------------------------

MARKS: Final = ("anthropic:", "gemini:", "openai_chat:", "openai:", "other:")
signatures = st.none() | st.builds(str.__add__, st.sampled_from(MARKS), st.sampled_from(("EqQB", "c2ln", "AA==")))
HIDDEN: Final = ("anthropic:EqQB", "openai_chat:c2ln", "openai:rs_1:gAAA", "other:AA==")  # not every vendor hides
reasonings = st.one_of(
    st.builds(Reasoning, spoken, signatures),
    st.sampled_from(HIDDEN).map(lambda signature: Reasoning("", signature, redacted=True)),
)


@st.composite
def talks(draw: st.DrawFn) -> Request:
    """A talk with reasoning, parallel calls, and turns that were interrupted anywhere."""
    messages: list[Message] = []
    for turn in range(draw(st.integers(1, 3))):
        messages.append(Message(Role.USER, (Text(draw(spoken)),)))
        thought = draw(st.lists(reasonings, max_size=2))
        said = [Text(draw(spoken))] if draw(st.booleans()) else []
        calls = [ToolCall(f"call_{turn}_{i}", draw(words), draw(arguments)) for i in range(draw(st.integers(0, 3)))]
        messages.append(Message(Role.ASSISTANT, (*thought, *said, *calls)))
        came = draw(st.permutations([c for c in calls if draw(st.integers(0, 3))]))
        results = [ToolResult(c.id, (Text(draw(spoken)),), draw(st.booleans())) for c in came]
        if draw(st.integers(0, 4)) == 0:
            results.append(ToolResult("of_nothing", (Text(draw(spoken)),)))
        messages += [Message(Role.TOOL, (result,)) for result in results]
    messages.append(Message(Role.USER, (Text(draw(spoken)),)))
    return asking(*messages)


@pytest.mark.fault("F20", "F25")
@FEWER
@given(talk=talks(), chain=st.lists(st.sampled_from(TALKING), min_size=2, max_size=3))
def test_a_talk_through_a_chain_of_dialects_keeps_what_each_can_carry(talk: Request, chain: list[str]) -> None:
    for hops in (*([name] for name in TALKING), chain):
        request = talk
        for name in hops:
            outgoing = sent(FORMS[name], msgspec.structs.replace(request, original=None))
            seen = parsed(FORMS[name], outgoing)
            check_hop(name, request, seen, set(outgoing.losses))
            assert envelopes(outgoing.body) == []
            request = seen


def check_hop(name: str, before: Request, after: Request, losses: set[str]) -> None:
    """One body: nothing visible changes, no reasoning appears, what is native stays, and what goes is named."""
    whole, orphans = paired(before.messages)
    assert outline(after.messages) == outline(whole)
    assert (LOST in losses) is orphans
    had, kept, can = thoughts(whole), thoughts(after.messages), keeps(name)
    home = [r for r in had if r.signature is not None and r.signature.startswith(can.mark)]
    signed = [r for r in kept if r.signature is not None]
    assert [(r.text, r.signature, r.redacted) for r in signed if name in KEEPS] == [
        (r.text, r.signature, r.redacted) for r in home
    ]
    if can.thoughts == "text":
        assert "".join(r.text for r in kept) == "".join(r.text for r in had)
    elif name in KEEPS:
        assert [r.text for r in kept] == [r.text for r in home]
    assert {r.signature for r in signed} <= {r.signature for r in had}
    gone = [r for r in had if not any(r.text in k.text and (r.text or r.signature == k.signature) for k in kept)]
    if gone:
        assert "messages.reasoning" in losses

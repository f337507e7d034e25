from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from rivermouth.dialects.dialect import Outgoing
from rivermouth.dialects.gemini import DIALECT
from rivermouth.dialects.gemini.opaque import NOT_OURS, to_client
from rivermouth.dialects.gemini.turns import NO_USER
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.opaque import SEALED_BASE64
from rivermouth.ir.request import (
    Audio,
    Choose,
    File,
    Format,
    Image,
    Local,
    Message,
    Part,
    Reasoning,
    Refusal,
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
from rivermouth.ir.turns import NO_RESULT
from tests.dialects.gemini.case import body, build, route

HI = Message(Role.USER, (Text("Hi"),))
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}}}


def request(**changes: Any) -> Request:
    return Request(**{"model": "asked", "messages": (HI,), **changes})


def outgoing(model: str = "gemini-x", **changes: Any) -> Outgoing:
    return DIALECT.build_request(request(**changes), model)


def contents(*messages: Message, model: str = "gemini-x") -> list[Any]:
    found: list[Any] = build(request(messages=messages), model)["contents"]
    return found


def says(*parts: Part) -> Message:
    return Message(Role.ASSISTANT, parts)


def results(*parts: ToolResult) -> Message:
    return Message(Role.TOOL, parts)


def repeated(given: dict[str, Any], model: str = "gemini-x") -> Any:
    """What a Gemini upstream gets of a Gemini client's body."""
    parsed = DIALECT.parse_request(json.dumps(given).encode(), route("generateContent"), "asked")
    return json.loads(DIALECT.build_request(parsed, model).body)


@pytest.mark.parametrize(
    ("model", "stream", "path"),
    [
        ("gemini-x", False, "/models/gemini-x:generateContent"),
        ("gemini-x", True, "/models/gemini-x:streamGenerateContent?alt=sse"),
        ("models/x", False, "/models/x:generateContent"),
        ("tunedModels/my-x", False, "/tunedModels/my-x:generateContent"),
        ("lab/x:7b@1", False, "/models/lab/x:7b@1:generateContent"),
        ("a b?c#d%\u2028", False, "/models/a%20b%3Fc%23d%25%E2%80%A8:generateContent"),
    ],
)
def test_the_model_and_the_wish_for_a_stream_are_in_the_path(model: str, stream: bool, path: str) -> None:
    assert outgoing(model, stream=stream).path == path


@pytest.mark.fault("F36")
@pytest.mark.parametrize("model", ["..", "../../v1/files", "a/./b", "models/../x"])
def test_a_model_name_cannot_leave_its_place(model: str) -> None:
    with pytest.raises(ApiError) as caught:
        outgoing(model)
    assert (caught.value.kind, caught.value.param) == (Kind.INVALID_REQUEST, "model")


def test_a_full_request() -> None:
    built = build(
        request(
            system=(Text("Be brief."), Text("")),
            messages=(HI, says(Text("Yes?"), Text("")), Message(Role.USER, (Text("Go"),))),
            n=2,
            max_tokens=77,
            stop=("END",),
            tools=(Tool("f", "d", SCHEMA), Tool("g")),
            tool_choice=ToolChoice(Choose.NAMED, "f"),
            response_format=ResponseFormat(Format.JSON_SCHEMA, SCHEMA, "place"),
            sampling=Sampling(
                temperature=0.5, top_p=0.9, top_k=3, seed=7, frequency_penalty=0.1, logprobs=True, top_logprobs=2
            ),
        )
    )
    older = {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}}
    assert built == {
        "contents": [
            {"role": "user", "parts": [{"text": "Hi"}]},
            {"role": "model", "parts": [{"text": "Yes?"}]},
            {"role": "user", "parts": [{"text": "Go"}]},
        ],
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "tools": [
            {
                "functionDeclarations": [
                    {"name": "f", "description": "d", "parameters": older},
                    {"name": "g", "parametersJsonSchema": {"type": "object", "properties": {}}},
                ]
            }
        ],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"]}},
        "generationConfig": {
            "candidateCount": 2,
            "maxOutputTokens": 77,
            "stopSequences": ["END"],
            "temperature": 0.5,
            "topP": 0.9,
            "topK": 3,
            "seed": 7,
            "frequencyPenalty": 0.1,
            "responseLogprobs": True,
            "logprobs": 2,
            "responseMimeType": "application/json",
            "responseSchema": older,
        },
    }


@pytest.mark.fault("F20")
def test_results_follow_their_calls_one_for_each_in_their_order() -> None:
    built = contents(
        HI,
        says(Text("Two."), ToolCall("1", "f", '{"a":1}'), ToolCall("2", "g"), ToolCall("3", "h", "{}")),
        results(ToolResult("2", (Text("two"),))),
        results(ToolResult("1", (Text('{"b": 2}'),)), ToolResult("9", (Text("whose?"),))),
        Message(Role.USER, (Text("So?"),)),
    )
    assert built[1]["parts"][1] == {"functionCall": {"id": "1", "name": "f", "args": {"a": 1}}}
    assert built[2] == {
        "role": "user",
        "parts": [
            {"functionResponse": {"id": "1", "name": "f", "response": {"b": 2}}},
            {"functionResponse": {"id": "2", "name": "g", "response": {"output": "two"}}},
            {"functionResponse": {"id": "3", "name": "h", "response": {"error": NO_RESULT}}},
        ],
    }
    assert built[3] == {"role": "user", "parts": [{"text": "So?"}]}
    assert "messages.tool_result" in outgoing(messages=(HI, results(ToolResult("9")), HI)).losses


def test_a_call_without_results_gets_them_and_an_error_is_said() -> None:
    built = contents(
        HI, says(ToolCall("1", "f")), results(ToolResult("1", (Text("no"),), is_error=True)), says(Text("a"))
    )
    assert built[2]["parts"][0]["functionResponse"]["response"] == {"error": "no"}
    assert contents(HI, says(ToolCall("1", "f")))[2]["parts"][0]["functionResponse"]["id"] == "1"


def test_neighbours_of_the_models_are_one_content() -> None:
    built = contents(HI, says(Text("a")), says(ToolCall("1", "f")), results(ToolResult("1")))
    assert [c["role"] for c in built] == ["user", "model", "user"]


def test_media_in_a_result_stand_where_the_model_reads_them() -> None:
    talk = (HI, says(ToolCall("1", "f")), results(ToolResult("1", (Text("a"), Image("image/png", "AA==")))))
    inline = {"inlineData": {"mimeType": "image/png", "data": "AA=="}}
    nested, beside = contents(*talk, model="gemini-3-pro")[2], contents(*talk, model="gemini-2.5-flash")[2]
    assert nested["parts"][0]["functionResponse"]["parts"] == [inline]
    assert beside["parts"][1] == inline
    assert "parts" not in beside["parts"][0]["functionResponse"]


def test_every_kind_of_part_a_user_may_send() -> None:
    parts = (
        Image(url="data:image/png;base64,AA=="),
        Image(url="https://x/y.webp"),
        Image("image/gif", "AA=="),
        File("application/pdf", "AA==", name="a.pdf"),
        File(text="plain"),
        File(file_id="https://generativelanguage.googleapis.com/v1beta/files/x"),
        Audio("AA==", "wav"),
    )
    (content,) = contents(Message(Role.USER, parts))
    assert content["parts"] == [
        {"inlineData": {"mimeType": "image/png", "data": "AA=="}},
        {"fileData": {"mimeType": "image/webp", "fileUri": "https://x/y.webp"}},
        {"inlineData": {"mimeType": "image/gif", "data": "AA=="}},
        {"inlineData": {"mimeType": "application/pdf", "data": "AA=="}},
        {"text": "plain"},
        {"fileData": {"fileUri": "https://generativelanguage.googleapis.com/v1beta/files/x"}},
        {"inlineData": {"mimeType": "audio/wav", "data": "AA=="}},
    ]
    assert outgoing(messages=(Message(Role.USER, parts),)).losses == ("file.name",)


@pytest.mark.fault("F25")
def test_reasoning_goes_back_only_to_its_maker() -> None:
    turn = says(
        Reasoning("mine", "gemini-call:C"),
        ToolCall("1", "f"),
        Reasoning("foreign", "anthropic:E"),
        Reasoning("nobody's"),
        Reasoning(signature="x", redacted=True),
        Text("a"),
        Reasoning("", "gemini-text:T"),
        Refusal("no"),
    )
    assert contents(HI, turn)[1]["parts"] == [
        {"text": "mine", "thought": True},
        {"functionCall": {"id": "1", "name": "f", "args": {}}, "thoughtSignature": "C"},
        {"text": "a", "thoughtSignature": "T"},
        {"text": "no"},
    ]
    assert outgoing(messages=(HI, turn)).losses == ("messages.reasoning",)
    assert outgoing(messages=(HI, says(Reasoning("mine", "gemini:H"), Text("a")))).losses == ()


def test_calls_of_other_models_are_vouched_for_where_the_vendor_asks_for_it() -> None:
    talk = (
        HI,
        says(ToolCall("0", "f")),
        results(ToolResult("0")),
        says(Text("done")),
        HI,
        says(ToolCall("1", "f"), ToolCall("2", "g")),
        results(ToolResult("1"), ToolResult("2")),
        says(Reasoning("", "gemini-call:C"), ToolCall("3", "f")),
        results(ToolResult("3")),
    )

    def signatures(model: str) -> list[list[Any]]:
        built = [c for c in contents(*talk, model=model) if c["role"] == "model"]
        found = [[p.get("thoughtSignature") for p in c["parts"] if "functionCall" in p] for c in built]
        return [each for each in found if each]

    assert signatures("gemini-3-pro-preview") == [[None], [NOT_OURS, None], ["C"]]
    assert signatures("gemini-2.5-flash") == [[None], [None, None], ["C"]]


@pytest.mark.parametrize(
    ("thinking", "model", "config", "losses"),
    [
        (Thinking(effort="high"), "gemini-x", {"thinkingLevel": "HIGH", "includeThoughts": True}, ()),
        (Thinking(effort="high"), "gemini-2.5-pro", {"thinkingBudget": 24576, "includeThoughts": True}, ()),
        (Thinking(budget_tokens=99), "gemini-3-pro", {"thinkingBudget": 99, "includeThoughts": True}, ()),
        (
            Thinking(effort="low", budget_tokens=99),
            "gemini-x",
            {"thinkingBudget": 99, "includeThoughts": True},
            ("thinking.effort",),
        ),
        (Thinking(effort="warp"), "gemini-x", {"includeThoughts": True}, ("thinking.effort",)),
        (Thinking(), "gemini-x", {"includeThoughts": True}, ()),
        (Thinking(enabled=False), "gemini-x", {"thinkingBudget": 0}, ()),
        (Thinking(enabled=False), "gemini-3-pro", {"thinkingLevel": "MINIMAL"}, ("thinking",)),
    ],
)
def test_thinking(thinking: Thinking, model: str, config: Any, losses: tuple[str, ...]) -> None:
    built = outgoing(model, thinking=thinking)
    assert json.loads(built.body)["generationConfig"]["thinkingConfig"] == config
    assert built.losses == losses


@pytest.mark.parametrize(
    ("changes", "loss"),
    [
        ({"sampling": Sampling(min_p=0.1)}, "min_p"),
        ({"sampling": Sampling(logit_bias={"1": 1.0})}, "logit_bias"),
        ({"sampling": Sampling(repetition_penalty=1.1)}, "repetition_penalty"),
        ({"user": "u"}, "user"),
        ({"metadata": {"a": "b"}}, "metadata"),
        ({"local": Local(keep_alive_s=0.0)}, "keep_alive_s"),
        ({"local": Local(raw=True)}, "raw"),
        ({"tools": (Tool("f"),), "parallel_tools": False}, "parallel_tools"),
        ({"tools": (Tool("f", strict=True),)}, "tool.strict"),
        ({"messages": (Message(Role.USER, (Text("a"),), "Ann"),)}, "message.name"),
        ({"messages": (Message(Role.USER, (Image(url="https://x", detail="low"),)),)}, "image.detail"),
        ({"unmodelled": ("logit_processor",)}, "logit_processor"),
    ],
)
def test_what_is_left_out_is_named(changes: Any, loss: str) -> None:
    assert outgoing(**changes).losses == (loss,)
    assert loss in DIALECT.losses or "unmodelled" in changes


def test_what_a_user_cannot_say_is_left_out_by_name() -> None:
    odd = Message(Role.USER, (Text("a"), Reasoning("hm"), ToolCall("1", "f")))
    assert contents(odd) == [{"role": "user", "parts": [{"text": "a"}]}]
    assert outgoing(messages=(odd,)).losses == ("messages.reasoning", "messages.tool_result")
    assert contents(HI, says(ToolCall("1", "f")), results(ToolResult("1", (Text("{no"),))))[2]["parts"][0][
        "functionResponse"
    ]["response"] == {"output": "{no"}


def test_what_cannot_be_translated_is_refused() -> None:
    with pytest.raises(ApiError) as caught:
        outgoing(untranslatable=("suffix",))
    assert caught.value.param == "suffix"


def test_a_talk_without_words_has_one_content() -> None:
    assert contents() == contents(Message(Role.USER, (Text(""),))) == [{"role": "user", "parts": [{"text": NO_USER}]}]


def test_json_without_a_schema_and_text() -> None:
    asked = request(response_format=ResponseFormat(Format.JSON))
    assert build(asked)["generationConfig"] == {"responseMimeType": "application/json"}
    assert "generationConfig" not in build(request(response_format=ResponseFormat(Format.TEXT)))


def test_a_body_of_this_dialect_goes_as_it_came() -> None:
    given = body(
        contents={"parts": {"text": "Hi"}},
        system_instruction={"parts": [{"text": "S"}]},
        safety_settings=[{"category": "X"}],
        cachedContent="cachedContents/1",
        tools=[{"googleSearch": {}}],
    )
    assert repeated(given) == given
    assert repeated({**given, "model": "models/asked"}) == {**given, "model": "models/gemini-x"}


@pytest.mark.fault("F25")
def test_foreign_signatures_never_go_to_a_real_model() -> None:
    wrapped = to_client("anthropic:E").wire
    thought = {"text": "", "thought": True, "thoughtSignature": wrapped}
    moved = {"functionCall": {"name": "f"}, "thought_signature": wrapped}
    own = {"functionCall": {"name": "g"}, "thoughtSignature": "EqQB"}
    user = {"role": "user", "parts": [{"text": "Hi"}]}
    given = body(
        contents=[user, {"role": "model", "parts": [thought, moved, own]}, {"role": "model", "parts": [thought]}]
    )
    kept = {"role": "model", "parts": [{"functionCall": {"name": "f"}}, own]}
    assert repeated(given)["contents"] == [user, kept]
    assert SEALED_BASE64 not in json.dumps(repeated(given, "gemini-3-pro"))


def test_a_repeated_body_is_vouched_for_where_its_calls_have_lost_their_signatures() -> None:
    user = {"role": "user", "parts": [{"text": "Hi"}]}
    bare, signed = {"function_call": {"name": "f"}}, {"functionCall": {"name": "f"}, "thoughtSignature": "EqQB"}
    answered = {"role": "user", "parts": [{"function_response": {"name": "f", "response": {}}}]}
    lost = body(contents=[user, {"role": "model", "parts": [bare]}, answered])
    assert repeated(lost, "gemini-2.5-pro") == lost
    found = repeated(lost, "gemini-3-pro")["contents"]
    assert found == [user, {"role": "model", "parts": [{**bare, "thoughtSignature": NOT_OURS}]}, answered]
    whole = body(contents=[user, {"role": "model", "parts": [signed]}, answered])
    assert repeated(whole, "gemini-3-pro") == whole


def test_a_repeated_stream_is_asked_for_in_the_path() -> None:
    parsed = DIALECT.parse_request(json.dumps(body()).encode(), route(), "asked")
    assert DIALECT.build_request(parsed, "x").path == "/models/x:streamGenerateContent?alt=sse"
    whole = msgspec.structs.replace(parsed, stream=False)
    assert DIALECT.build_request(whole, "x").path == "/models/x:generateContent"

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rivermouth.dialects.gemini import DIALECT
from rivermouth.dialects.gemini.opaque import to_client
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.request import (
    Audio,
    Choose,
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
from tests.cost import assert_linear
from tests.dialects.gemini.case import body, parse, route

FUNCTION = {"name": "f", "parameters": {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}}}
G = {"name": "g"}


def user(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "parts": list(parts)}


def model(*parts: Any) -> dict[str, Any]:
    return {"role": "model", "parts": list(parts)}


def text(said: str, **more: Any) -> dict[str, Any]:
    return {"text": said, **more}


def called(name: str = "f", **more: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, **more}}


def came(name: str | None = "f", **more: Any) -> dict[str, Any]:
    return {"functionResponse": {"name": name, **more}}


def talk(*contents: Any) -> tuple[Message, ...]:
    return parse(contents=list(contents)).messages


def refused(method: str = "generateContent", **changes: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        parse(method, **changes)
    assert caught.value.kind is Kind.INVALID_REQUEST
    return caught.value


def test_the_model_and_the_wish_for_a_stream_are_in_the_path() -> None:
    assert (parse().model, parse().stream) == ("gpt-x", False)
    assert parse("streamGenerateContent").stream
    with pytest.raises(ApiError) as caught:
        DIALECT.parse_request(json.dumps(body()).encode(), route(), None)
    assert caught.value.param == "model"
    named = DIALECT.parse_request(json.dumps(body()).encode(), route(), "models/lab/x")
    assert named.model == "lab/x"


def test_a_full_request() -> None:
    request = parse(
        systemInstruction={"parts": [text("Be brief."), text("Be kind.")]},
        contents=[user(text("Hi")), model(text("Yes?")), user(text("Go"))],
        tools=[{"functionDeclarations": [FUNCTION, {"name": "g", "description": "d"}]}],
        toolConfig={"functionCallingConfig": {"mode": "AUTO"}},
        generationConfig={
            "temperature": 0.5,
            "topP": 0.9,
            "topK": 40.0,
            "candidateCount": 2,
            "maxOutputTokens": 77,
            "stopSequences": ["END", ""],
            "seed": 7,
            "presencePenalty": 0.1,
            "frequencyPenalty": 0.2,
            "responseLogprobs": True,
            "logprobs": 3,
            "responseMimeType": "application/json",
            "responseSchema": {"type": "ARRAY", "items": {"type": "STRING"}},
            "thinkingConfig": {"thinkingBudget": 100, "includeThoughts": True},
        },
    )
    assert request.original is not None
    assert request.original.dialect == "gemini"
    assert request == Request(
        model="gpt-x",
        messages=(
            Message(Role.USER, (Text("Hi"),)),
            Message(Role.ASSISTANT, (Text("Yes?"),)),
            Message(Role.USER, (Text("Go"),)),
        ),
        system=(Text("Be brief."), Text("Be kind.")),
        include_usage=True,
        n=2,
        max_tokens=77,
        stop=("END",),
        tools=(Tool("f", None, {"type": "object", "properties": {"a": {"type": "string"}}}), Tool("g", "d")),
        tool_choice=ToolChoice(Choose.AUTO),
        response_format=ResponseFormat(Format.JSON_SCHEMA, {"type": "array", "items": {"type": "string"}}),
        sampling=Sampling(
            temperature=0.5,
            top_p=0.9,
            top_k=40,
            seed=7,
            presence_penalty=0.1,
            frequency_penalty=0.2,
            logprobs=True,
            top_logprobs=3,
        ),
        thinking=Thinking(budget_tokens=100),
        original=request.original,
    )


def test_snake_case_single_values_and_numbers_as_text_are_read() -> None:
    request = parse(
        contents={"parts": {"inline_data": {"mime_type": "image/png", "data": "_-8"}}},
        system_instruction={"parts": {"text": "S"}},
        tools={"function_declarations": {"name": "f", "parameters_json_schema": {"type": "object", "my_key": 1}}},
        tool_config={"function_calling_config": {"mode": "any", "allowed_function_names": "f"}},
        generation_config={
            "max_output_tokens": "12",
            "top_k": "3",
            "stop_sequences": "X",
            "thinking_config": {"thinking_level": "low"},
            "response_mime_type": "application/json",
            "response_schema": {"type": "OBJECT", "properties": {"snake_name": {"type": "STRING"}}},
        },
    )
    assert request.messages == (Message(Role.USER, (Image("image/png", "/+8="),)),)
    assert request.system == (Text("S"),)
    assert request.tools == (Tool("f", None, {"type": "object", "my_key": 1}),)
    assert request.tool_choice == ToolChoice(Choose.NAMED, "f")
    assert (request.max_tokens, request.sampling.top_k, request.stop) == (12, 3, ("X",))
    assert request.thinking == Thinking(effort="low")
    assert request.response_format is not None
    assert request.response_format.schema == {"type": "object", "properties": {"snake_name": {"type": "string"}}}


def test_chunks_of_a_stream_that_come_back_are_one_turn() -> None:
    wrapped = to_client("anthropic:EqQB").wire
    chunks = [
        model(text("h", thought=True)),
        model(text("m", thought=True)),
        model(text("", thought=True, thoughtSignature=wrapped)),
        model(text("Hel")),
        model(text("lo")),
        model(called(id="c1", args={"a": 1})),
        model(text("")),
    ]
    assert talk(user(text("Hi")), *chunks, user(text("a"), text("b")), user(text("c"))) == (
        Message(Role.USER, (Text("Hi"),)),
        Message(Role.ASSISTANT, (Reasoning("hm", "anthropic:EqQB"), Text("Hello"), ToolCall("c1", "f", '{"a":1}'))),
        Message(Role.USER, (Text("a"), Text("b"))),
        Message(Role.USER, (Text("c"),)),
    )


def test_signatures_become_reasoning_that_knows_its_place() -> None:
    (turn,) = talk(
        model(
            text("hm", thought=True),
            {**called(id="1"), "thoughtSignature": "C"},
            called("g", id="2"),
            text("a", thoughtSignature="T"),
            text("", thoughtSignature="E"),
            text("", thought=True, thoughtSignature=to_client("x", redacted=True).wire),
        )
    )
    assert turn.parts == (
        Reasoning("hm", "gemini-call:C"),
        ToolCall("1", "f"),
        ToolCall("2", "g"),
        Text("a"),
        Reasoning("", "gemini-text:T"),
        Reasoning("", "gemini-end:E"),
        Reasoning("", "x", redacted=True),
    )


@pytest.mark.fault("F20")
def test_responses_find_their_calls_by_id_by_name_and_in_order() -> None:
    messages = talk(
        user(text("Hi")),
        model(called("f", id="x"), called("g"), called("f")),
        user(came("f", response={"output": "third?"}), came("g", response={}), came("f", id="x", response={"a": 1})),
    )
    assert [p.id for p in messages[1].parts if isinstance(p, ToolCall)] == ["x", "call_1_1", "call_1_2"]
    assert messages[2].parts == (
        ToolResult("x", (Text("third?"),), name="f"),
        ToolResult("call_1_1", (), name="g"),
        ToolResult("x", (Text('{"a":1}'),), name="f"),
    )
    one = talk(user(text("Hi")), model(called("f")), user(came(None, response={"output": "1"}), text("So?")))
    assert one[2:] == (
        Message(Role.TOOL, (ToolResult("call_1_0", (Text("1"),), name="f"),)),
        Message(Role.USER, (Text("So?"),)),
    )


@pytest.mark.parametrize(
    ("response", "said", "is_error"),
    [
        ({"output": "x"}, "x", False),
        ({"result": "x"}, "x", False),
        ({"result": [1, 2]}, "[1,2]", False),
        ({"error": "no"}, "no", True),
        ({"error": {"code": 1}}, '{"code":1}', True),
        ({"output": "x", "more": 1}, '{"output":"x","more":1}', False),
        ({"snake_case": 1}, '{"snake_case":1}', False),
        (None, "", False),
    ],
)
def test_what_a_response_says(response: Any, said: str, is_error: bool) -> None:
    last = talk(model(called(id="1")), user(came(id="1", response=response)))[-1]
    (result,) = last.parts
    assert isinstance(result, ToolResult)
    assert ("".join(c.text for c in result.content if isinstance(c, Text)), result.is_error) == (said, is_error)


def test_media_by_their_type() -> None:
    def blob(kind: str) -> dict[str, Any]:
        return {"inlineData": {"mimeType": kind, "data": "AA=="}}

    (turn,) = talk(
        user(
            blob("image/png"),
            blob("audio/wav"),
            blob("application/pdf"),
            {"fileData": {"mimeType": "image/jpeg", "fileUri": "https://x/a"}},
            {"fileData": {"fileUri": "gs://b/c"}},
        )
    )
    assert turn.parts == (
        Image("image/png", "AA=="),
        Audio("AA==", "wav"),
        File("application/pdf", "AA=="),
        Image("image/jpeg", url="https://x/a"),
        File(url="gs://b/c"),
    )
    nested = {**came(id="1", response={})["functionResponse"], "parts": [blob("image/png"), blob("text/plain")]}
    (result,) = talk(model(called(id="1")), user({"functionResponse": nested}))[-1].parts
    assert isinstance(result, ToolResult)
    assert result.content == (Image("image/png", "AA=="), File("text/plain", "AA=="))


@pytest.mark.parametrize(
    ("config", "thinking"),
    [
        ({"thinkingBudget": 0}, Thinking(enabled=False)),
        ({"thinkingBudget": -1}, Thinking()),
        ({"thinkingBudget": 512}, Thinking(budget_tokens=512)),
        ({"thinkingLevel": "HIGH"}, Thinking(effort="high")),
        ({"thinkingLevel": "XHIGH"}, Thinking(effort="xhigh")),
        ({"includeThoughts": True}, Thinking()),
        ({"includeThoughts": False}, None),
        ({}, None),
    ],
)
def test_thinking(config: Any, thinking: Thinking | None) -> None:
    assert parse(generationConfig={"thinkingConfig": config}).thinking == thinking


@pytest.mark.parametrize(
    ("calling", "choice", "names"),
    [
        ({"mode": "ANY"}, ToolChoice(Choose.REQUIRED), "fg"),
        ({"mode": "ANY", "allowedFunctionNames": ["g"]}, ToolChoice(Choose.NAMED, "g"), "fg"),
        ({"mode": "ANY", "allowedFunctionNames": ["g", "f"]}, ToolChoice(Choose.REQUIRED), "fg"),
        ({"mode": "NONE"}, ToolChoice(Choose.NONE), "fg"),
        ({"mode": "VALIDATED"}, ToolChoice(Choose.AUTO), "fg"),
        ({"mode": "MODE_UNSPECIFIED"}, None, "fg"),
        ({}, None, "fg"),
    ],
)
def test_tool_choice(calling: Any, choice: ToolChoice | None, names: str) -> None:
    tools = [{"functionDeclarations": [FUNCTION]}, {"functionDeclarations": [G]}]
    request = parse(tools=tools, toolConfig={"functionCallingConfig": calling})
    assert (request.tool_choice, "".join(t.name for t in request.tools)) == (choice, names)
    assert parse(toolConfig={"functionCallingConfig": calling}).tool_choice is None


def test_several_allowed_names_leave_those_tools_and_no_others() -> None:
    tools = [{"functionDeclarations": [FUNCTION, G, {"name": "h"}]}]
    calling = {"mode": "ANY", "allowedFunctionNames": ["f", "h"]}
    request = parse(tools=tools, toolConfig={"functionCallingConfig": calling})
    assert [t.name for t in request.tools] == ["f", "h"]


@pytest.mark.parametrize(
    ("config", "wanted"),
    [
        ({"responseMimeType": "application/json"}, ResponseFormat(Format.JSON)),
        ({"responseJsonSchema": {"type": "object"}}, ResponseFormat(Format.JSON_SCHEMA, {"type": "object"})),
        ({"responseSchema": {"type": "OBJECT"}}, ResponseFormat(Format.JSON_SCHEMA, {"type": "object"})),
        ({"responseMimeType": "text/plain"}, None),
        ({}, None),
    ],
)
def test_response_formats(config: Any, wanted: ResponseFormat | None) -> None:
    assert parse(generationConfig=config).response_format == wanted


def test_what_only_the_vendor_can_do_is_named() -> None:
    request = parse(
        contents=[
            user(text("Hi")),
            model({"executableCode": {"code": "1"}}, {"codeExecutionResult": {}}),
            user(text("x")),
        ],
        tools=[{"googleSearch": {}}, {"functionDeclarations": [G], "codeExecution": {}}],
        safetySettings=[{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}],
        generationConfig={"mediaResolution": "MEDIA_RESOLUTION_LOW"},
    )
    assert request.unmodelled == (
        "safetySettings",
        "generationConfig.mediaResolution",
        "tools.googleSearch",
        "tools.codeExecution",
        "contents.executableCode",
        "contents.codeExecutionResult",
    )
    assert request.untranslatable == ()
    vendors: dict[str, dict[str, Any]] = {
        "cachedContent": {"cachedContent": "cachedContents/x"},
        "generationConfig.responseModalities": {"generationConfig": {"responseModalities": ["TEXT", "IMAGE"]}},
        "generationConfig.responseMimeType": {"generationConfig": {"responseMimeType": "text/x.enum"}},
    }
    for field, changes in vendors.items():
        assert parse(**changes).untranslatable == (field,)
    assert parse(generationConfig={"responseModalities": ["TEXT"]}).untranslatable == ()


def test_counting_takes_either_form() -> None:
    inner = {"model": "models/x", "contents": [user(text("Hi"))], "systemInstruction": {"parts": [text("S")]}}
    assert parse("countTokens").messages == parse("countTokens", contents=None, generateContentRequest=inner).messages
    assert parse("countTokens", contents=None, generateContentRequest=inner).system == (Text("S"),)


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"contents": None}, "contents"),
        ({"contents": []}, "contents"),
        ({"contents": "Hi"}, "contents[0]"),
        ({"contents": [{"role": "assistant", "parts": []}]}, "contents[0].role"),
        ({"contents": [user({"text": 1})]}, "contents[0].parts[0].text"),
        ({"contents": [user(text("a"), {"inlineData": {}})]}, "contents[0].parts[1].inlineData.data"),
        ({"contents": [user(called())]}, "contents[0].parts[0]"),
        ({"contents": [model(came())]}, "contents[0].parts[0]"),
        ({"contents": [model(called(""))]}, "contents[0].parts[0].functionCall.name"),
        ({"contents": [model(called(args="{}"))]}, "contents[0].parts[0].functionCall.args"),
        ({"tools": [{"functionDeclarations": [{}]}]}, "tools[0].functionDeclarations[0].name"),
        ({"tools": [{"functionDeclarations": [{"name": ""}]}]}, "tools[0].functionDeclarations[0].name"),
        ({"tools": "x"}, "tools[0]"),
        ({"generationConfig": {"topK": "x"}}, "generationConfig.topK"),
        ({"generationConfig": {"topK": "NaN"}}, "generationConfig.topK"),
        ({"generationConfig": {"top_k": "-Infinity"}}, "generationConfig.topK"),
        ({"generationConfig": {"temperature": "Infinity"}}, "generationConfig.temperature"),
        ({"generationConfig": {"maxOutputTokens": 0}}, "generationConfig.maxOutputTokens"),
        ({"generationConfig": {"candidateCount": -1}}, "generationConfig.candidateCount"),
        ({"generationConfig": []}, None),
        (
            {"generationConfig": {"thinkingConfig": {"thinkingLevel": "HUGE"}}},
            "generationConfig.thinkingConfig.thinkingLevel",
        ),
    ],
)
def test_what_is_wrong_is_named(changes: Any, param: str | None) -> None:
    if changes == {"generationConfig": []}:
        assert parse(**changes).max_tokens is None  # an empty value is no value
        return
    assert refused(**changes).param == param


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b"\xff"])
def test_what_is_no_object_is_refused(data: bytes) -> None:
    with pytest.raises(ApiError) as caught:
        DIALECT.parse_request(data, route(), "m")
    assert caught.value.kind is Kind.INVALID_REQUEST


def test_a_minted_id_avoids_those_that_are_taken() -> None:
    turn = talk(user(text("Hi")), model(called(), called("g", id="call_1_0")))[1]
    assert [p.id for p in turn.parts if isinstance(p, ToolCall)] == ["call_1_0x", "call_1_0"]


def test_a_choice_of_a_tool_that_is_not_there_is_refused() -> None:
    where = "toolConfig.functionCallingConfig"
    tools = [{"functionDeclarations": [FUNCTION]}]
    wrong = {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["nope"]}}
    assert refused(tools=tools, toolConfig=wrong).param == f"{where}.allowedFunctionNames"
    assert refused(tools=tools, toolConfig={"functionCallingConfig": {"mode": "X"}}).param == f"{where}.mode"


NAMES = [
    "args",
    "contents",
    "data",
    "functionDeclarations",
    "functionResponse",
    "function_call",
    "generationConfig",
    "inlineData",
    "mimeType",
    "name",
    "parts",
    "properties",
    "response",
    "responseSchema",
    "role",
    "text",
    "thinkingBudget",
    "thinkingConfig",
    "thoughtSignature",
    "toolConfig",
    "tools",
    "topK",
    "type",
]
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(NAMES),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@settings(max_examples=200)
@given(ANY, st.sampled_from(["contents", "tools", "generationConfig", "toolConfig", "systemInstruction", "x"]))
def test_any_json_is_a_request_or_an_invalid_request(value: Any, place: str) -> None:
    given_body = {**body(), place: value}
    for method in ("streamGenerateContent", "countTokens"):
        try:
            request = DIALECT.parse_request(json.dumps(given_body).encode(), route(method), "m")
        except ApiError as refusal:
            error = refusal
        else:
            DIALECT.build_request(request, "gemini-3-pro")
            continue
        assert error.kind is Kind.INVALID_REQUEST


def _pieces(count: int, **flags: Any) -> dict[str, Any]:
    return {"contents": [model(*(text("a" * 40, **flags) for _ in range(count)))]}


def _allowed(count: int) -> dict[str, Any]:
    names = [f"f{i}" for i in range(count)]
    calling = {"mode": "ANY", "allowedFunctionNames": names}
    declared = [{"functionDeclarations": [{"name": name} for name in names]}]
    return {"tools": declared, "toolConfig": {"functionCallingConfig": calling}}


@pytest.mark.fault("F34")
@pytest.mark.parametrize("make", [_pieces, lambda count: _pieces(count, thought=True), _allowed])
def test_a_request_of_many_small_pieces_costs_what_it_is_long(make: Any) -> None:
    def prepare(count: int) -> Callable[[], object]:
        data = json.dumps(body(**make(count))).encode()
        return lambda: DIALECT.parse_request(data, route(), "m")

    assert_linear(prepare, 2000)


@pytest.mark.parametrize("depth", [100, 2000, 100_000])
@pytest.mark.parametrize("place", ["schema", "unknown", "part"])
def test_what_is_nested_too_deeply_is_the_clients_fault(place: str, depth: int) -> None:
    anything = '{"a":' * depth + "1" + "}" * depth
    schema = '{"type":"OBJECT","properties":{"a":' * depth + "{}" + "}}" * depth
    text, beside = {
        "schema": ("", f',"generationConfig":{{"responseSchema":{schema}}}'),
        "unknown": ("", f',"z":{anything}'),
        "part": (f',"x":{anything}', ""),
    }[place]
    sent = f'{{"contents":[{{"parts":[{{"text":"Hi"{text}}}]}}]{beside}}}'.encode()
    try:
        read = DIALECT.parse_request(sent, route("generateContent"), "m")
    except ApiError as error:
        assert (error.kind, depth > 100) == (Kind.INVALID_REQUEST, True)  # noqa: PT017
        assert "nested too deeply" in error.message  # noqa: PT017
    else:
        assert (read.messages[0].text, depth) == ("Hi", 100)

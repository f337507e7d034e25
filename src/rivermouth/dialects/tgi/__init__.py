"""Text Generation Inference, both directions: its native routes, and its OpenAI route.

Spec: docs/openapi.json and router/src/server.rs of huggingface/text-generation-inference 3, and the clients of
huggingface_hub 2.4; checked 2026-11.

Where a reader starts:

    request     the client's body <-> neutral         parameters  the native routes' part     chat  the OpenAI route's
    encode      events -> native frames               decode      both streams -> events      relay both sides at once
    failures, documents, tables

Oddities
O1   Native frames are `data:` without a space and end with the connection; the OpenAI route has the space, and its
     terminator must be exactly `data: [DONE]`: clients compare the line.
O2   Every native frame has a token, the last too.  The last repeats the whole text and says why it ended.
O3   The root, with or without a slash, takes `stream` in the body and answers a plain call with a list of one.  The
     native routes have no model: the server has one.  On the OpenAI route clients without a name for it send "dummy",
     older ones "tgi".
O4   Ids and log probabilities of tokens are not known here: a frame's id is the number of its piece, its logprob 0.
     A piece may be more than one token; `generated_tokens` is the model's own count where there is one.
O5   An error has an `error_type`, which chooses the exception of the client; a stream's error is the same object.
     An error text with "`model_kwargs` are not used by the model" in it makes clients ask again without them.
O6   Without `do_sample` a server is greedy, and it refuses a temperature of 0: both mean the same.
O7   No chat template touches `inputs`.
O8   A schema stands in `response_format.value` under the type json or json_object, and in `parameters.grammar`.
O9   A tool is chosen by its bare name, or by {"function": {"name"}} without a type.
O10  Older servers send `delta.tool_calls` as one object, not as a list.
O11  Special tokens are no text, whatever they say.
O12  Only the OpenAI route has tools, images, several messages; the native answer has one text, and what it has no
     place for (reasoning, calls) is left out of it.
O13  `logit_bias` is a list here, which servers read and do not use.
O14  A server leaves the stop sequence that ended the answer in the text; here it is left out, as everywhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rivermouth.dialects.dialect import Dialect, Key, Operation, Route, Surface
from rivermouth.dialects.tgi import chat
from rivermouth.dialects.tgi.decode import Decoder, parse_reply
from rivermouth.dialects.tgi.documents import encode_health, encode_info
from rivermouth.dialects.tgi.failures import encode_error, parse_error
from rivermouth.dialects.tgi.relay import Relay, encode_reply, encoder, relay_reply
from rivermouth.dialects.tgi.request import build_request, parse_request
from rivermouth.dialects.tgi.tables import CHAT, COMPAT, GENERATE, GENERATE_STREAM, LOSSES, NAME
from rivermouth.wire import sse

STREAM_TYPE: Final = "text/event-stream"
MODELS_PATH: Final = "/v1/models"


def auth(key: str) -> Mapping[str, str]:
    """The headers that carry a provider's key; a server of one's own needs none."""
    return {"authorization": f"Bearer {key}"} if key else {}


DIALECT: Final = Dialect(
    name=NAME,
    surfaces=(Surface(prefix="/tgi", stream_type=STREAM_TYPE),),
    routes=(
        Route(method="POST", path=chat.PATH, operation=Operation.GENERATE, kind=CHAT, streams=True),
        Route(method="POST", path="", operation=Operation.GENERATE, kind=COMPAT, streams=True),
        Route(method="POST", path="/invocations", operation=Operation.GENERATE, kind=COMPAT, streams=True),
        Route(method="POST", path="/generate", operation=Operation.GENERATE, kind=GENERATE),
        Route(method="POST", path="/generate_stream", operation=Operation.GENERATE, kind=GENERATE_STREAM, streams=True),
        Route(method="GET", path="/info", operation=Operation.INFO),
        Route(method="GET", path="/health", operation=Operation.HEALTH),
        Route(method="GET", path=MODELS_PATH, operation=Operation.MODELS),
    ),
    keys=(Key(header="authorization", scheme="Bearer"),),
    keep_alive=sse.KEEP_ALIVE,
    losses=LOSSES,
    parse_request=parse_request,
    encoder=encoder,
    encode_reply=encode_reply,
    encode_error=encode_error,
    build_request=build_request,
    reader=sse.SseReader,
    decoder=Decoder,
    parse_reply=parse_reply,
    parse_error=parse_error,
    auth=auth,
    relay=Relay,
    relay_reply=relay_reply,
    models_path=MODELS_PATH,
    parse_models=chat.parse_models,
    encode_models=chat.encode_models,
    documents={Operation.INFO: encode_info, Operation.HEALTH: encode_health},
)

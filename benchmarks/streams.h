// The streams that the fake upstream can render, as data.  A gateway is given the first alone; the others are
// there to test the checker with, straight.
//
// In a frame $t is a chunk's text and $w all of it (both as they stand in a JSON string), $m the model, $n
// the number of chunks and $s that and nine more.
#ifndef STREAMS_H
#define STREAMS_H

typedef struct {
  const char *path; // what the request's path has in it
  const char *type; // media type
  int binary;       // each frame is the payload of a binary message
  const char *text, *failure;
  const char *opening[2], *closing; // before the first text, after the last
  const char *reason;               // a frame of its own that says why it ended
  const char *usage;                // a frame that is only there when it was asked for
  const char *done, *unreasoned;    // the terminator; the same without the reason, where it is in it
} stream;

#define DATA(json) "data: " json "\n\n"
#define EVENT(name, members) "event: " name "\ndata: {\"type\":\"" name "\"" members "}\n\n"
#define OF_TYPE(name, members) "{\"type\":\"" name "\"" members "}"
#define SSE_TYPE "text/event-stream; charset=utf-8"

#define OPENAI(members)                                                                                      \
  DATA("{\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,"             \
       "\"model\":\"$m\",\"system_fingerprint\":\"fp_bench\"," members "}")

// Anthropic's events, in either framing.
#define A_START(event)                                                                                       \
  event("message_start", ",\"message\":{\"id\":\"msg_bench\",\"type\":\"message\",\"role\":\"assistant\","   \
                         "\"model\":\"$m\",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,"      \
                         "\"usage\":{\"input_tokens\":9,\"output_tokens\":1}}")
#define A_BLOCK(event)                                                                                       \
  event("content_block_start", ",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}")
#define A_TEXT(event)                                                                                        \
  event("content_block_delta", ",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"$t\"}")
#define A_BLOCK_STOP(event) event("content_block_stop", ",\"index\":0")
#define A_REASON(event)                                                                                      \
  event("message_delta", ",\"delta\":{\"stop_reason\":\"end_turn\",\"stop_sequence\":null},"                 \
                         "\"usage\":{\"output_tokens\":$n}")
#define A_STOP(event) event("message_stop", "")
#define A_FAILURE(event) event("error", ",\"error\":{\"type\":\"api_error\",\"message\":\"boom\"}")

#define OLLAMA(members) "{\"model\":\"$m\",\"created_at\":\"2023-11-14T22:13:20Z\"," members "}\n"
#define GEMINI(text, reason)                                                                                 \
  DATA("{\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"" text "\"}]}," reason      \
       "\"index\":0}],\"modelVersion\":\"$m\",\"responseId\":\"bench\"}")
#define COHERE_END(reason)                                                                                   \
  EVENT("message-end", ",\"id\":\"bench\",\"delta\":{" reason "\"usage\":{\"billed_units\":{"                \
                       "\"input_tokens\":9,\"output_tokens\":$n}}}")
#define COHERE_LINE(finished, type, members)                                                                 \
  "{\"is_finished\":" finished ",\"event_type\":\"" type "\"" members "}\n"
#define COHERE_LAST(reason)                                                                                  \
  COHERE_LINE("true", "stream-end", reason ",\"response\":{\"response_id\":\"bench\",\"text\":\"$w\"}")
#define TGI(text, special, rest)                                                                             \
  "data:{\"index\":1,\"token\":{\"id\":1,\"text\":\"" text "\",\"logprob\":0.0,\"special\":" special         \
  "}," rest "}\n\n"

static const stream streams[] = {
    {.path = "",
     .type = SSE_TYPE,
     .opening = {OPENAI(
         "\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\",\"refusal\":"
         "null},\"logprobs\":null,\"finish_reason\":null}]")},
     .text = OPENAI(
         "\"choices\":[{\"index\":0,\"delta\":{\"content\":\"$t\"},\"logprobs\":null,\"finish_reason\":"
         "null}]"),
     .failure = DATA("{\"error\":{\"message\":\"boom\"}}"),
     .reason =
         OPENAI("\"choices\":[{\"index\":0,\"delta\":{},\"logprobs\":null,\"finish_reason\":\"stop\"}]"),
     .usage = OPENAI(
         "\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":$n,\"total_tokens\":$s}"),
     .done = DATA("[DONE]")},
    {.path = "/v1/messages",
     .type = SSE_TYPE,
     .opening = {A_START(EVENT), A_BLOCK(EVENT)},
     .text = A_TEXT(EVENT),
     .failure = A_FAILURE(EVENT),
     .closing = A_BLOCK_STOP(EVENT),
     .reason = A_REASON(EVENT),
     .done = A_STOP(EVENT)},
    {.path = "/api/chat",
     .type = "application/x-ndjson",
     .text = OLLAMA("\"message\":{\"role\":\"assistant\",\"content\":\"$t\"},\"done\":false"),
     .failure = "{\"error\":\"boom\"}\n",
     .done = OLLAMA(
         "\"message\":{\"role\":\"assistant\",\"content\":\"\"},\"done\":true,\"done_reason\":\"stop\""),
     .unreasoned = OLLAMA("\"message\":{\"role\":\"assistant\",\"content\":\"\"},\"done\":true")},
    {.path = ":streamGenerateContent",
     .type = SSE_TYPE,
     .text = GEMINI("$t", ""),
     .failure = DATA("{\"error\":{\"code\":500,\"message\":\"boom\",\"status\":\"INTERNAL\"}}"),
     .done = GEMINI("", "\"finishReason\":\"STOP\","),
     .unreasoned = GEMINI("", "")},
    {.path = "/cohere/v2/chat",
     .type = SSE_TYPE,
     .opening = {EVENT("message-start", ",\"id\":\"bench\",\"delta\":{\"message\":{\"role\":\"assistant\","
                                        "\"content\":[]}}"),
                 EVENT("content-start", ",\"index\":0,\"delta\":{\"message\":{\"content\":{\"type\":\"text\","
                                        "\"text\":\"\"}}}")},
     .text = EVENT("content-delta", ",\"index\":0,\"delta\":{\"message\":{\"content\":{\"text\":\"$t\"}}}"),
     .failure = EVENT("message-end", ",\"delta\":{\"error\":\"boom\",\"finish_reason\":\"ERROR\"}"),
     .closing = EVENT("content-end", ",\"index\":0"),
     .done = COHERE_END("\"finish_reason\":\"COMPLETE\","),
     .unreasoned = COHERE_END("")},
    {.path = "/cohere/v1/chat",
     .type = "application/json",
     .opening = {COHERE_LINE("false", "stream-start", ",\"generation_id\":\"bench\"")},
     .text = COHERE_LINE("false", "text-generation", ",\"text\":\"$t\""),
     .failure = COHERE_LINE("true", "stream-end", ",\"finish_reason\":\"ERROR\",\"error\":\"boom\""),
     .done = COHERE_LAST(",\"finish_reason\":\"COMPLETE\""),
     .unreasoned = COHERE_LAST("")},
    {.path = "/generate_stream",
     .type = "text/event-stream",
     .text = TGI("$t", "false", "\"generated_text\":null,\"details\":null"),
     .failure = "data:{\"error\":\"boom\",\"error_type\":\"generation\"}\n\n",
     .done =
         TGI("", "true",
             "\"generated_text\":\"$w\",\"details\":{\"finish_reason\":\"eos_token\",\"generated_tokens\":$n,"
             "\"seed\":null}"),
     .unreasoned = TGI("", "true", "\"generated_text\":\"$w\",\"details\":null")},
    {.path = "/invoke-with-response-stream",
     .type = "application/vnd.amazon.eventstream",
     .binary = 1,
     .opening = {A_START(OF_TYPE), A_BLOCK(OF_TYPE)},
     .text = A_TEXT(OF_TYPE),
     .failure = "{\"message\":\"boom\"}",
     .closing = A_BLOCK_STOP(OF_TYPE),
     .reason = A_REASON(OF_TYPE),
     .done = OF_TYPE("message_stop", ",\"amazon-bedrock-invocationMetrics\":{\"inputTokenCount\":9,"
                                     "\"outputTokenCount\":$n}")},
};

#endif

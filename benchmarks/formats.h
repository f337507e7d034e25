// What the frames of each client's protocol mean, and how it asks.
#ifndef FORMATS_H
#define FORMATS_H
#include "check.h"

static int has(const char *p, const char *e, const char *what) {
  return memmem(p, e - p, what, strlen(what)) != 0;
}

static int starts(const char *p, const char *e, const char *what) {
  size_t n = strlen(what);
  return (size_t)(e - p) >= n && !memcmp(p, what, n);
}

// Where the string is that the member `key` (with its quotes) has for a value; 0 if it has none.
static const char *after(const char *p, const char *e, const char *key) {
  size_t l = strlen(key);
  const char *q = memmem(p, e - p, key, l);
  if (!q)
    return 0;
  q += l;
  while (q < e && (*q == ' ' || *q == ':'))
    q++;
  return q < e && *q == '"' ? q + 1 : 0;
}

static void take_member(conn *k, const char *p, const char *e, const char *key, int inw) {
  const char *q = after(p, e, key);
  if (q)
    take(k, q, e, inw);
}

// -- each takes one frame: the payload of an event, a line, the object in a message

static void openai(conn *k, const char *p, const char *e, int inw) {
  if (e - p == 6 && starts(p, e, "[DONE]")) {
    k->term++;
    return;
  }
  k->errev += starts(p, e, "{\"error\"");
  take_member(k, p, e, "\"content\"", inw);
  k->fin += after(p, e, "\"finish_reason\"") != 0;
}

static void anthropic(conn *k, const char *p, const char *e, int inw) {
  if (has(p, e, "\"text_delta\""))
    take_member(k, p, e, "\"text\"", inw);
  else if (has(p, e, "\"message_stop\""))
    k->term++;
  else if (after(p, e, "\"stop_reason\""))
    k->fin++;
  else if (has(p, e, "\"error\""))
    k->errev++;
}

static void ollama(conn *k, const char *p, const char *e, int inw) {
  k->errev += has(p, e, "\"error\"");
  take_member(k, p, e, "\"content\"", inw);
  k->term += has(p, e, "\"done\":true");
  k->fin += after(p, e, "\"done_reason\"") != 0;
}

static void gemini(conn *k, const char *p, const char *e, int inw) {
  k->errev += starts(p, e, "{\"error\"");
  take_member(k, p, e, "\"text\"", inw);
  if (after(p, e, "\"finishReason\"")) {
    k->term++;
    k->fin++;
  }
}

static void cohere_v2(conn *k, const char *p, const char *e, int inw) {
  if (has(p, e, "\"content-delta\""))
    take_member(k, p, e, "\"text\"", inw);
  else if (has(p, e, "\"message-end\"")) {
    k->term++;
    k->fin += after(p, e, "\"finish_reason\"") != 0;
    k->errev += has(p, e, "\"error\"");
  }
}

static void cohere_v1(conn *k, const char *p, const char *e, int inw) {
  if (has(p, e, "\"text-generation\""))
    take_member(k, p, e, "\"text\"", inw);
  else if (has(p, e, "\"stream-end\"")) {
    k->term++;
    k->fin += after(p, e, "\"finish_reason\"") != 0;
    k->errev += has(p, e, "\"error\"");
    if (!k->errev)
      repeated(k, after(p, e, "\"text\""), e);
  }
  if (has(p, e, "\"is_finished\":true") != (k->term > 0))
    k->bad = WRONG_FORM;
}

static void tgi(conn *k, const char *p, const char *e, int inw) {
  const char *whole = after(p, e, "\"generated_text\"");
  k->errev += starts(p, e, "{\"error\"");
  if (!whole)
    take_member(k, p, e, "\"text\"", inw);
  else {
    k->term++;
    k->fin += after(p, e, "\"finish_reason\"") != 0;
    repeated(k, whole, e);
  }
}

#define CHAT(stream)                                                                                         \
  "{\"model\":\"$m\",\"max_tokens\":4096,\"stream\":" stream ",$u\"messages\":[{\"role\":\"user\","          \
  "\"content\":\"$p\"}]}"

enum framing { SSE, LINES, MESSAGES, WHOLE, UNREAD };

// A client's format.  In `ask`, its request's body, $m is the model, $p the prompt and $u asks for usage.
static const struct format {
  const char *name;
  enum framing framing;
  int named; // events have names, which are also the types in their data
  int bare;  // nothing but `data: ` lines
  void (*judge)(conn *k, const char *p, const char *e, int inw);
  const char *ask;
} formats[] = {
    {.name = "openai", .framing = SSE, .judge = openai, .ask = CHAT("true")},
    {.name = "anthropic", .framing = SSE, .named = 1, .judge = anthropic, .ask = CHAT("true")},
    {.name = "ollama", .framing = LINES, .judge = ollama, .ask = CHAT("true")},
    {.name = "gemini",
     .framing = SSE,
     .bare = 1,
     .judge = gemini,
     .ask = "{\"contents\":[{\"role\":\"user\",\"parts\":[{\"text\":\"$p\"}]}],"
            "\"generationConfig\":{\"maxOutputTokens\":4096}}"},
    {.name = "cohere_v2", .framing = SSE, .named = 1, .judge = cohere_v2, .ask = CHAT("true")},
    {.name = "cohere_v1",
     .framing = LINES,
     .judge = cohere_v1,
     .ask = "{\"model\":\"$m\",\"max_tokens\":4096,\"stream\":true,\"message\":\"$p\"}"},
    {.name = "tgi",
     .framing = SSE,
     .judge = tgi,
     .ask = "{\"inputs\":\"$p\",\"parameters\":{\"max_new_tokens\":4096},\"stream\":true}"},
    {.name = "bedrock",
     .framing = MESSAGES,
     .judge = anthropic,
     .ask = "{\"anthropic_version\":\"bedrock-2023-05-31\",\"max_tokens\":4096,"
            "\"messages\":[{\"role\":\"user\",\"content\":\"$p\"}]}"},
    {.name = "json", .framing = WHOLE, .ask = CHAT("false")},
    {.name = "raw", .framing = UNREAD, .ask = CHAT("true")},
};

static const struct format *fmt = formats;

#endif

// What the fake upstream says: a response is rendered once for each model name, and then only copied to
// sockets.
#ifndef RENDER_H
#define RENDER_H
#include "eventstream.h"
#include "streams.h"

enum fault {
  FAULT_NONE,
  FAULT_DROPPED,
  FAULT_TWO_DONES,
  FAULT_NO_DONE,
  FAULT_WRONG_BYTE,
  FAULT_REPEATED,
  FAULT_SWAPPED,
  FAULT_MERGED,
  FAULT_NO_FINISH,
  FAULT_ERROR_EVENT,
  FAULT_TEXT_AFTER_DONE,
  FAULT_DONE_CUT,     // the terminator's last byte is missing, the response ends well
  FAULT_OTHER_REPEAT, // the whole text that the terminator repeats is another
  FAULT_EVENT_NAME,   // an event's name is not the type in its data
  FAULT_NO_BLANK,     // two events in one
  FAULT_COMMENT,      // a line that is no data
  FAULT_PRELUDE_CRC,
  FAULT_MESSAGE_CRC,
  FAULT_BASE64,
};

#define FAULTY_CHUNK 3 // the chunk that a fault befalls

typedef struct {
  int n, s, c, e, x, f;
  u64 iv, ttft; // interval and time to the first byte, ns
} knobs;

// A rendered response.  Event i ends at end[i]; ts[i] is where its 16 digits of time go, 0 if it has none.
typedef struct resp {
  struct resp *next;
  char *key;
  knobs k;
  char *buf;
  size_t len;
  int nev;
  size_t *end, *ts;
} resp;

static resp *cache;
static char *B; // the buffer that is rendered into: BL of BC bytes
static size_t BL, BC;

static void add(const char *p, size_t n) {
  if (BL + n > BC)
    B = realloc(B, BC = (BL + n) * 2 + 4096);
  memcpy(B + BL, p, n);
  BL += n;
}

static void addf(const char *f, ...) {
  char t[8192];
  va_list a;
  va_start(a, f);
  int n = vsnprintf(t, sizeof t, f, a);
  va_end(a);
  add(t, n);
}

static int esc(const char *p, int n, char *o) {
  int m = 0;
  for (int i = 0; i < n; i++)
    switch (p[i]) {
    case '"':
      o[m++] = '\\';
      o[m++] = '"';
      break;
    case '\\':
      o[m++] = '\\';
      o[m++] = '\\';
      break;
    case '\n':
      o[m++] = '\\';
      o[m++] = 'n';
      break;
    case '\t':
      o[m++] = '\\';
      o[m++] = 't';
      break;
    default: o[m++] = p[i];
    }
  return m;
}

static void httpchunk(const char *p, int n) {
  addf("%x\r\n", n);
  add(p, n);
  add("\r\n", 2);
}

static void mark(resp *r) { // an event ends here
  r->end[r->nev++] = BL;
}

static knobs parse_knobs(const char *model) {
  knobs k = {.n = 100, .s = 32};
  const char *p = strstr(model, "bench");
  if (!p)
    return k;
  for (p = strchr(p, '-'); p && p[1]; p = strchr(p + 1, '-')) {
    long v = atol(p + 2);
    switch (p[1]) {
    case 'n': k.n = v; break;
    case 'i': k.iv = (u64)v * 1000000; break;
    case 'u': k.iv = (u64)v * 1000; break;
    case 't': k.ttft = (u64)v * 1000000; break;
    case 's': k.s = v; break;
    case 'c': k.c = v; break;
    case 'e': k.e = v; break;
    case 'x': k.x = v; break;
    case 'f': k.f = v; break;
    }
  }
  return k;
}

static void render_json(resp *r, int status, const char *body, size_t n) {
  addf("HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n", status,
       status == 200 ? "OK" : "Bench", n);
  add(body, n);
  mark(r);
}

static void render_error(resp *r) {
  static const char body[] =
      "{\"error\":{\"message\":\"bench error\",\"type\":\"server_error\",\"param\":null,"
      "\"code\":\"bench\"}}";
  render_json(r, r->k.e, body, sizeof body - 1);
}

static void render_reply(resp *r, const char *model) {
  char *text = malloc(2 * r->k.s + 512), *body = malloc((size_t)r->k.n * (2 * r->k.s + 128) + 1024);
  size_t m = sprintf(body,
                     "{\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion\",\"created\":1700000000,"
                     "\"model\":\"%s\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\","
                     "\"content\":\"",
                     model);
  for (int i = 0; i < r->k.n; i++) {
    int l = gen_chunk(i, r->k.s, text);
    m += esc(text, l, body + m);
  }
  m += sprintf(body + m,
               "\",\"refusal\":null},\"logprobs\":null,\"finish_reason\":\"stop\"}],"
               "\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":%d,\"total_tokens\":%d}}",
               r->k.n, r->k.n + 9);
  render_json(r, 200, body, m);
  free(text);
  free(body);
}

static const stream *spoken;  // what is being rendered
static const char *said[128]; // what stands for $x in its frames
static char *frame_buf;       // where one frame is put together

// A binary message of type `chunk`, or of an exception.
static size_t message(char *out, const char *json, size_t n, int failed, enum fault fault) {
  static const char chunk[] = "\x0b:event-type\x07\0\x05"
                              "chunk\x0d:content-type\x07\0\x10"
                              "application/json"
                              "\x0d:message-type\x07\0\x05"
                              "event";
  static const char exception[] = "\x0f:exception-type\x07\0\x17"
                                  "internalServerException"
                                  "\x0d:content-type\x07\0\x10"
                                  "application/json"
                                  "\x0d:message-type\x07\0\x09"
                                  "exception";
  const char *headers = failed ? exception : chunk;
  size_t size = failed ? sizeof exception - 1 : sizeof chunk - 1, end = PRELUDE + size;
  memcpy(out + PRELUDE, headers, size);
  if (failed)
    end += sprintf(out + end, "%s", json);
  else {
    end += sprintf(out + end, "{\"bytes\":\"");
    size_t from = end;
    end += base64_encode(json, n, out + end);
    if (fault == FAULT_BASE64)
      out[from + 8] = '.';
    end += sprintf(out + end, "\"}");
  }
  put_u32(out, end + 4);
  put_u32(out + 4, size);
  put_u32(out + 8, crc32_of(out, 8) ^ (fault == FAULT_PRELUDE_CRC));
  put_u32(out + end, crc32_of(out, end) ^ (fault == FAULT_MESSAGE_CRC));
  return end + 4;
}

// Puts a frame together; its length.
static size_t compose(const char *template, enum fault fault) {
  if (!spoken->binary)
    return expand(frame_buf, template, said);
  size_t n = expand(frame_buf, template, said);
  char json[n + 1];
  memcpy(json, frame_buf, n + 1);
  return message(frame_buf, json, n, template == spoken->failure, fault);
}

static void frame(resp *r, const char *template) {
  if (!template)
    return;
  httpchunk(frame_buf, compose(template, FAULT_NONE));
  mark(r);
}

static void render_content(resp *r, int i, char *text, char *escaped) {
  const knobs *k = &r->k;
  int faulty = i == FAULTY_CHUNK, which = i;
  if (k->f == FAULT_REPEATED && faulty)
    which = i - 1;
  if (k->f == FAULT_SWAPPED && (faulty || i == FAULTY_CHUNK + 1))
    which = 2 * FAULTY_CHUNK + 1 - i;
  int l = gen_chunk(which, k->s, text);
  if (k->f == FAULT_WRONG_BYTE && faulty)
    text[l - 1] ^= 1;
  if (k->f == FAULT_MERGED && faulty)
    l += gen_chunk(i + 1, k->s, text + l);
  escaped[esc(text, l, escaped)] = 0;
  if (k->f == FAULT_ERROR_EVENT && faulty)
    frame(r, spoken->failure);
  if (k->f == FAULT_COMMENT && faulty)
    httpchunk(": comment\n", 10);
  size_t from = BL, n = compose(spoken->text, faulty ? k->f : FAULT_NONE);
  if (k->f == FAULT_NO_BLANK && faulty)
    n--;
  if (k->f == FAULT_EVENT_NAME && faulty)
    frame_buf[strcspn(frame_buf, "\n") - 1] = '_';
  httpchunk(frame_buf, n);
  char *digits = memmem(B + from, BL - from, "\"@", 2);
  r->ts[r->nev] = digits ? digits + 2 - B : 0; // those in base64 cannot be changed any more
  mark(r);
}

// What $w stands for, in streams that say it.
static char *whole_text(const knobs *k) {
  if (!strstr(spoken->done, "$w"))
    return calloc(1, 1);
  char *text = malloc(2 * k->s + 512), *whole = malloc((size_t)k->n * (2 * k->s + 128) + 1);
  size_t m = 0;
  for (int i = 0; i < k->n; i++)
    m += esc(text, gen_chunk(i, k->s, text), whole + m);
  whole[m] = 0;
  if (k->f == FAULT_OTHER_REPEAT)
    whole[m - 1] ^= 1;
  free(text);
  return whole;
}

static void render_end(resp *r) {
  const knobs *k = &r->k;
  int reasoned = k->f != FAULT_NO_FINISH;
  const char *done = reasoned || spoken->reason ? spoken->done : spoken->unreasoned;
  frame(r, spoken->closing);
  if (reasoned)
    frame(r, spoken->reason);
  frame(r, said['u'] ? spoken->usage : 0);
  if (k->f != FAULT_NO_DONE)
    httpchunk(frame_buf, compose(done, FAULT_NONE) - (k->f == FAULT_DONE_CUT));
  if (k->f == FAULT_TWO_DONES)
    httpchunk(frame_buf, compose(done, FAULT_NONE));
  if (k->f == FAULT_TEXT_AFTER_DONE)
    httpchunk(frame_buf, compose(spoken->text, FAULT_NONE));
  add("0\r\n\r\n", 5);
  mark(r);
}

static void render_stream(resp *r, const char *model, int usage) {
  const knobs *k = &r->k;
  char n[16], sum[16];
  char *text = malloc(2 * k->s + 512), *escaped = malloc(4 * k->s + 1024), *whole = whole_text(k);
  frame_buf = malloc(2 * strlen(whole) + 8 * k->s + 8192);
  sprintf(n, "%d", k->n);
  sprintf(sum, "%d", k->n + 9);
  said['m'] = model;
  said['n'] = n;
  said['s'] = sum;
  said['t'] = escaped;
  said['w'] = whole;
  said['u'] = usage ? "" : 0;
  addf("HTTP/1.1 200 OK\r\nContent-Type: %s\r\nCache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n",
       spoken->type);
  for (int i = 0; i < 2; i++)
    frame(r, spoken->opening[i]);
  for (int i = 0; i < k->n; i++) {
    if (k->f == FAULT_DROPPED && i == FAULTY_CHUNK)
      continue;
    render_content(r, i, text, escaped);
    if (k->f == FAULT_MERGED && i == FAULTY_CHUNK)
      i++;
    if (k->x && i + 1 == k->x)
      goto cut;
  }
  render_end(r);
cut:
  free(text);
  free(escaped);
  free(whole);
  free(frame_buf);
}

static resp *new_resp(knobs k) {
  resp *r = calloc(1, sizeof *r);
  r->k = k;
  r->end = malloc((k.n + 8) * sizeof *r->end);
  r->ts = calloc(k.n + 8, sizeof *r->ts);
  B = 0;
  BL = BC = 0;
  return r;
}

static resp *close_resp(resp *r) {
  r->buf = B;
  r->len = BL;
  return r;
}

// Whole replies are only rendered for the first of the protocols.
static resp *render(const stream *protocol, const char *model, int streamed, int usage) {
  char key[512];
  spoken = protocol;
  streamed |= spoken != streams;
  snprintf(key, sizeof key, "%s|%s|%d|%d", model, spoken->path, streamed, usage);
  for (resp *r = cache; r; r = r->next)
    if (!strcmp(r->key, key))
      return r;
  resp *r = new_resp(parse_knobs(model));
  r->key = strdup(key);
  r->next = cache;
  cache = r;
  if (r->k.e)
    render_error(r);
  else if (streamed)
    render_stream(r, model, usage);
  else
    render_reply(r, model);
  return close_resp(r);
}

// Never cached; asked for by one client, one question at a time.
static resp *render_stats(const char *body, size_t n) {
  static resp *r;
  if (r) {
    free(r->buf);
    free(r->end);
    free(r->ts);
    free(r);
  }
  r = new_resp((knobs){0});
  render_json(r, 200, body, n);
  return close_resp(r);
}

#endif

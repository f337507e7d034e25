// What the fake upstream says: a response is rendered once for each model name, and then only copied to
// sockets.
#ifndef RENDER_H
#define RENDER_H
#include "common.h"

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

static char *line; // where one SSE event is put together
static const char *line_model;

// One SSE event: the members that every chunk has, then the rest.
static void sse(const char *format, ...) {
  int n =
      sprintf(line,
              "data: {\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,"
              "\"model\":\"%s\",\"system_fingerprint\":\"fp_bench\",",
              line_model);
  va_list a;
  va_start(a, format);
  n += vsprintf(line + n, format, a);
  va_end(a);
  n += sprintf(line + n, "}\n\n");
  httpchunk(line, n);
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
  l = esc(text, l, escaped);
  if (k->f == FAULT_ERROR_EVENT && faulty) {
    static const char boom[] = "data: {\"error\":{\"message\":\"boom\"}}\n\n";
    httpchunk(boom, sizeof boom - 1);
    mark(r);
  }
  size_t from = BL;
  sse("\"choices\":[{\"index\":0,\"delta\":{\"content\":\"%.*s\"},\"logprobs\":null,\"finish_reason\":null}]",
      l, escaped);
  r->ts[r->nev] = (char *)memmem(B + from, BL - from, "\"content\":\"@", 12) - B + 12;
  mark(r);
}

static void render_stream(resp *r, const char *model, int usage) {
  static const char done[] = "data: [DONE]\n\n";
  const knobs *k = &r->k;
  char *text = malloc(2 * k->s + 512), *escaped = malloc(4 * k->s + 1024);
  line = malloc(4 * k->s + 2048);
  line_model = model;
  addf("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nCache-Control: no-cache\r\n"
       "Transfer-Encoding: chunked\r\n\r\n");
  sse("\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\",\"refusal\":null},"
      "\"logprobs\":null,\"finish_reason\":null}]");
  mark(r);
  for (int i = 0; i < k->n; i++) {
    if (k->f == FAULT_DROPPED && i == FAULTY_CHUNK)
      continue;
    render_content(r, i, text, escaped);
    if (k->f == FAULT_MERGED && i == FAULTY_CHUNK)
      i++;
    if (k->x && i + 1 == k->x)
      goto cut;
  }
  if (k->f != FAULT_NO_FINISH) {
    sse("\"choices\":[{\"index\":0,\"delta\":{},\"logprobs\":null,\"finish_reason\":\"stop\"}]");
    mark(r);
  }
  if (usage) {
    sse("\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":%d,\"total_tokens\":%d}", k->n,
        k->n + 9);
    mark(r);
  }
  if (k->f != FAULT_NO_DONE)
    httpchunk(done, sizeof done - 1);
  if (k->f == FAULT_TWO_DONES)
    httpchunk(done, sizeof done - 1);
  add("0\r\n\r\n", 5);
  mark(r);
cut:
  free(text);
  free(escaped);
  free(line);
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

static resp *render(const char *model, int stream, int usage) {
  char key[512];
  snprintf(key, sizeof key, "%s|%d|%d", model, stream, usage);
  for (resp *r = cache; r; r = r->next)
    if (!strcmp(r->key, key))
      return r;
  resp *r = new_resp(parse_knobs(model));
  r->key = strdup(key);
  r->next = cache;
  cache = r;
  if (r->k.e)
    render_error(r);
  else if (stream)
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

// Bodies to frames, in each framing.
#ifndef FRAMES_H
#define FRAMES_H
#include "eventstream.h"
#include "formats.h"

static void keep(conn *k, const char *p, size_t n) {
  if (k->ll + n + 1 > k->lc)
    k->ln = realloc(k->ln, k->lc = (k->ll + n) * 2 + 512);
  memcpy(k->ln + k->ll, p, n);
  k->ll += n;
}

static void frame(conn *k, const char *p, const char *e, int inw) {
  int ends = k->term;
  fmt->judge(k, p, e, inw);
  if (ends && k->term == ends)
    k->bad = AFTER_END;
}

// -- server-sent events, judged at their one line of data

static void data(conn *k, const char *p, const char *e, int inw) {
  if (k->block) // without a blank line between them a client reads one event
    k->bad = WRONG_FORM;
  k->block = 1;
  if (fmt->named) {
    char type[64];
    sprintf(type, "\"type\":\"%s\"", k->event);
    if (!has(p, e, type))
      k->bad = WRONG_FORM;
  }
  frame(k, p, e, inw);
}

static void sse_line(conn *k, const char *p, const char *e, int inw) {
  if (p == e) {
    k->block = 0;
    k->event[0] = 0;
  } else if (starts(p, e, fmt->bare ? "data: " : "data:")) {
    p += 5;
    data(k, p + (p < e && *p == ' '), e, inw);
  } else if (starts(p, e, "event: ") && !fmt->bare)
    snprintf(k->event, sizeof k->event, "%.*s", (int)(e - p - 7), p + 7);
  else if (fmt->bare || !(*p == ':' || starts(p, e, "id:")))
    k->bad = WRONG_FORM;
}

static void line(conn *k, const char *p, size_t n, int inw) {
  if (n && p[n - 1] == '\r')
    n--;
  if (fmt->framing == SSE)
    sse_line(k, p, p + n, inw);
  else if (n > 1 && p[0] == '{' && p[n - 1] == '}')
    frame(k, p, p + n, inw);
  else
    k->bad = WRONG_FORM;
}

static void lines(conn *k, const char *p, size_t n, int inw) {
  while (n) {
    const char *nl = memchr(p, '\n', n);
    size_t m = nl ? (size_t)(nl - p) + 1 : n;
    if (nl && !k->ll)
      line(k, p, m - 1, inw);
    else {
      keep(k, p, m);
      if (nl) {
        size_t l = k->ll - 1;
        k->ll = 0;
        line(k, k->ln, l, inw);
      }
    }
    p += m;
    n -= m;
  }
}

// -- binary messages

// Is there a header with this name and value?
static int header(const char *p, const char *e, const char *name, const char *value) {
  char whole[128];
  int n = sprintf(whole, "%c%s%c%c%c%s", (int)strlen(name), name, 7, 0, (int)strlen(value), value);
  return memmem(p, e - p, whole, n) != 0;
}

// The object that the payload {"bytes":"<base64>"} holds.
static void payload(conn *k, const char *p, const char *e, int inw) {
  const char *from = after(p, e, "\"bytes\""), *to = from ? memchr(from, '"', e - from) : 0;
  char json[e - p];
  ssize_t n = to ? base64_decode(from, to - from, json) : -1;
  if (n < 2 || json[0] != '{' || json[n - 1] != '}')
    k->bad = WRONG_FORM;
  else
    frame(k, json, json + n, inw);
}

static void message(conn *k, const char *p, size_t total, int inw) {
  size_t size = u32_at(p + 4);
  const char *headers = p + PRELUDE, *e = p + total - 4;
  if (size > total - AROUND || u32_at(e) != crc32_of(p, total - 4))
    k->bad = WRONG_FORM;
  else if (!header(headers, headers + size, ":message-type", "event"))
    k->errev++;
  else if (header(headers, headers + size, ":event-type", "chunk"))
    payload(k, headers + size, e, inw);
}

// How much of the n bytes at p whole messages are; each is judged.
static size_t whole_messages(conn *k, const char *p, size_t n, int inw) {
  size_t at = 0;
  while (n - at >= PRELUDE && !k->bad) {
    size_t total = u32_at(p + at);
    if (u32_at(p + at + 8) != crc32_of(p + at, 8) || total < AROUND)
      k->bad = WRONG_FORM;
    else if (total > n - at)
      break;
    else
      message(k, p + at, total, inw);
    at += total;
  }
  return at;
}

static void messages(conn *k, const char *p, size_t n, int inw) {
  if (k->bad)
    return;
  if (!k->ll) {
    size_t used = whole_messages(k, p, n, inw);
    if (used < n)
      keep(k, p + used, n - used);
    return;
  }
  keep(k, p, n);
  size_t used = whole_messages(k, k->ln, k->ll, inw);
  if (!k->bad)
    memmove(k->ln, k->ln + used, k->ll -= used);
}

static void body(conn *k, const char *p, size_t n, int inw) {
  if (k->status != 200 || want != 200)
    return;
  switch (fmt->framing) {
  case SSE:
  case LINES:    lines(k, p, n, inw); break;
  case MESSAGES: messages(k, p, n, inw); break;
  case WHOLE:    keep(k, p, n); break;
  case UNREAD:   break;
  }
}

#endif

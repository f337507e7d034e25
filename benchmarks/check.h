// Is this stream exactly what the upstream said?  Text is compared byte by byte as it arrives, in each
// client's format.
#ifndef CHECK_H
#define CHECK_H
#include "measure.h"

enum { OPENAI, ANTHROPIC, OLLAMA, JSON, RAW };

typedef struct conn {
  int fd;

  enum { CLOSED, CONNECTING, READING, IDLE } st;

  int reused;                        // a kept connection, which the server may just have closed
  int hs, status, chunked, closehdr; // HTTP: head seen, its status and framing
  long clen, cleft;                  // content length; what is left of it, or of the chunk
  int cst, skip;                     // place within the chunked framing
  char hdr[4096];
  int hl;
  char *ln; // the line (or the whole JSON body) so far
  size_t ll, lc;
  size_t xp;                    // how much of the expected text has come
  int chunks, term, fin, errev; // content chunks, terminators, finish reasons, error events
  int bad;                      // 1 wrong text, 2 not the format, 3 something after the terminator
  u64 t0, tfirst, tlast;
} conn;

// what is expected
static int fmt, n_exp = 100, s_exp = 32, want = 200;
static char *exp_txt;
static size_t exp_len;

// how the load is made
static int aborts, closeeach, port = 9101, ep, stopping, infl;
static char *req;
static size_t reqlen;
static u64 T, w0, w1, t_end; // now, and the window that is measured

// what was seen: histograms and *_w within the window, the rest over the whole run
static hist h_ttft, h_gap, h_lat, h_tot;
static u64 chunks_w, streams_w, bytes_w, reads_w, ok, unfinished, aborted_n;
static u64 e_conn, e_status, e_close, e_text, e_count, e_term, e_parse;
static char sample[600]; // the first stream that was wrong

static void err(u64 *c, conn *k, const char *w) {
  (*c)++;
  if (!*sample) {
    snprintf(sample, sizeof sample, "%s: status=%d chunks=%d term=%d pos=%zu line=%.200s", w, k->status,
             k->chunks, k->term, k->xp, k->ln && k->ll ? k->ln : k->hdr);
    for (char *p = sample; *p; p++)
      if (*p == '"' || *p == '\\' || (unsigned char)*p < 32)
        *p = '\'';
  }
}

static int hexv(const char *p) {
  int v = 0;
  for (int i = 0; i < 4; i++) {
    int c = p[i];
    c = c <= '9' ? c - '0' : (c | 32) - 'a' + 10;
    v = v * 16 + c;
  }
  return v;
}

// compare the JSON string at p with the expected text at k->xp
static void take(conn *k, const char *p, const char *e, int inw) {
  size_t x = k->xp;
  const char *X = exp_txt;
  u64 ts = 0;
  int empty = p < e && *p == '"';
  if (empty)
    return;
  while (p < e && *p != '"') {
    unsigned char b[4];
    int bl = 1;
    if (*p == '\\') {
      p++;
      switch (*p) {
      case 'n': b[0] = '\n'; break;
      case 't': b[0] = '\t'; break;
      case 'r': b[0] = '\r'; break;
      case 'b': b[0] = 8; break;
      case 'f': b[0] = 12; break;
      case 'u': {
        unsigned c = hexv(p + 1);
        p += 4;
        if (c >= 0xd800 && c < 0xdc00 && p[1] == '\\') {
          c = 0x10000 + ((c - 0xd800) << 10) + (hexv(p + 3) - 0xdc00);
          p += 6;
        }
        if (c < 128)
          b[0] = c;
        else if (c < 0x800) {
          b[0] = 0xc0 | c >> 6;
          b[1] = 0x80 | (c & 63);
          bl = 2;
        } else if (c < 0x10000) {
          b[0] = 0xe0 | c >> 12;
          b[1] = 0x80 | (c >> 6 & 63);
          b[2] = 0x80 | (c & 63);
          bl = 3;
        } else {
          b[0] = 0xf0 | c >> 18;
          b[1] = 0x80 | (c >> 12 & 63);
          b[2] = 0x80 | (c >> 6 & 63);
          b[3] = 0x80 | (c & 63);
          bl = 4;
        }
        break;
      }
      default: b[0] = *p;
      }
      p++;
    } else
      b[0] = *p++;
    if (x + bl > exp_len || memcmp(X + x, b, bl)) {
      k->bad = 1;
      return;
    }
    x += bl;
    if (b[0] == '@') {
      const char *q = p;
      ts = 0;
      if (e - p < TS_DIGITS) {
        k->bad = 1;
        return;
      }
      while (q < p + TS_DIGITS)
        ts = ts * 10 + (*q++ - '0');
      p = q;
      x += TS_DIGITS;
    }
  }
  k->xp = x;
  k->chunks++;
  if (!k->tfirst) {
    k->tfirst = T;
    if (inw)
      hist_add(&h_ttft, T - k->t0);
  } else if (inw)
    hist_add(&h_gap, T - k->tlast);
  k->tlast = T;
  if (inw) {
    chunks_w++;
    if (ts && T > ts)
      hist_add(&h_lat, T - ts);
  }
}

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

static void line(conn *k, const char *p, size_t n, int inw) {
  if (n && p[n - 1] == '\r')
    n--;
  if (!n)
    return;
  const char *e = p + n, *q;
  if (fmt == OLLAMA) {
    if (*p != '{') {
      k->bad = 2;
      return;
    }
    if (memmem(p, n, "\"error\"", 7))
      k->errev++;
    if ((q = after(p, e, "\"content\"")))
      take(k, q, e, inw);
    if (memmem(p, n, "\"done\":true", 11) || memmem(p, n, "\"done\": true", 12))
      k->term++;
    return;
  }
  if (n > 6 && !memcmp(p, "event:", 6)) {
    return;
  }
  if (n < 5 || memcmp(p, "data:", 5)) {
    if (*p != ':' && memcmp(p, "id:", 3))
      k->bad = 2;
    return;
  }
  p += 5;
  while (p < e && *p == ' ')
    p++;
  n = e - p;
  if (fmt == OPENAI) {
    if (n == 6 && !memcmp(p, "[DONE]", 6)) {
      k->term++;
      return;
    }
    if (k->term)
      k->bad = 3;
    if (!memcmp(p, "{\"error\"", 8))
      k->errev++;
    if ((q = after(p, e, "\"content\"")))
      take(k, q, e, inw);
    if (after(p, e, "\"finish_reason\""))
      k->fin++;
  } else {
    if (memmem(p, n, "text_delta", 10)) {
      if ((q = after(p, e, "\"text\"")))
        take(k, q, e, inw);
    } else if (memmem(p, n, "\"message_stop\"", 14))
      k->term++;
    else if (memmem(p, n, "\"stop_reason\":\"", 15) || memmem(p, n, "\"stop_reason\": \"", 16))
      k->fin++;
    else if (memmem(p, n, "\"error\"", 7))
      k->errev++;
  }
}

static void body(conn *k, const char *p, size_t n, int inw) {
  if (k->status != 200 || want != 200) {
    return;
  }
  if (fmt == RAW) {
    k->chunks += 0;
    return;
  }
  if (fmt == JSON) {
    if (k->ll + n + 1 > k->lc)
      k->ln = realloc(k->ln, k->lc = (k->ll + n) * 2 + 512);
    memcpy(k->ln + k->ll, p, n);
    k->ll += n;
    return;
  }
  while (n) {
    const char *nl = memchr(p, '\n', n);
    if (!nl || k->ll) {
      size_t m = nl ? (size_t)(nl - p) + 1 : n;
      if (k->ll + m > k->lc)
        k->ln = realloc(k->ln, k->lc = (k->ll + m) * 2 + 512);
      memcpy(k->ln + k->ll, p, m);
      k->ll += m;
      p += m;
      n -= m;
      if (nl) {
        size_t l = k->ll - 1;
        k->ll = 0;
        line(k, k->ln, l, inw);
      }
      continue;
    }
    line(k, p, nl - p, inw);
    n -= nl + 1 - p;
    p = nl + 1;
  }
}

#endif

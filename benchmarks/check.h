// Is this stream exactly what the upstream said?  Text is compared byte by byte as it arrives.
#ifndef CHECK_H
#define CHECK_H
#include "measure.h"

typedef struct conn {
  int fd;

  enum { CLOSED, CONNECTING, READING, IDLE } st;

  int reused;                        // a kept connection, which the server may just have closed
  int hs, status, chunked, closehdr; // HTTP: head seen, its status and framing
  long clen, cleft;                  // content length; what is left of it, or of the chunk
  int cst, skip;                     // place within the chunked framing
  char hdr[4096];
  int hl;
  char *ln; // the line, message or whole body so far
  size_t ll, lc;
  int block;                    // a server-sent event has begun and its blank line has not come
  char event[48];               // the name of that event
  size_t xp;                    // how much of the expected text has come
  int chunks, term, fin, errev; // content chunks, terminators, finish reasons, error events
  int bad;                      // what is wrong, if anything: see below
  u64 t0, tfirst, tlast;
} conn;

enum { WRONG_TEXT = 1, WRONG_FORM, AFTER_END };

// what is expected
static int n_exp = 100, s_exp = 32, want = 200;
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
    int kept = k->ll < 200 ? k->ll : 200;
    snprintf(sample, sizeof sample, "%s: status=%d chunks=%d term=%d pos=%zu line=%.*s", w, k->status,
             k->chunks, k->term, k->xp, kept ? kept : 200, kept ? k->ln : k->hdr);
    for (unsigned char *p = (void *)sample; *p; p++)
      if (*p == '"' || *p == '\\' || *p < 32 || *p > 126)
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

// The bytes that the escape after a backslash at *p says, of which there are up to 4; *p is then behind it.
static int unescape(const char **at, unsigned char b[4]) {
  const char *p = *at;
  int n = 1;
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
      n = 2;
    } else if (c < 0x10000) {
      b[0] = 0xe0 | c >> 12;
      b[1] = 0x80 | (c >> 6 & 63);
      b[2] = 0x80 | (c & 63);
      n = 3;
    } else {
      b[0] = 0xf0 | c >> 18;
      b[1] = 0x80 | (c >> 12 & 63);
      b[2] = 0x80 | (c >> 6 & 63);
      b[3] = 0x80 | (c & 63);
      n = 4;
    }
    break;
  }
  default: b[0] = *p;
  }
  *at = p + 1;
  return n;
}

// Does the JSON string at p go on with the expected text from *x?  Then *x is behind it, and *ts the last
// time in it.
static int same_text(const char *p, const char *e, size_t *x, u64 *ts) {
  size_t at = *x;
  while (p < e && *p != '"') {
    unsigned char b[4];
    int n = 1;
    if (*p == '\\') {
      p++;
      n = unescape(&p, b);
    } else
      b[0] = *p++;
    if (at + n > exp_len || memcmp(exp_txt + at, b, n))
      return 0;
    at += n;
    if (b[0] == '@') {
      const char *q = p;
      *ts = 0;
      if (e - p < TS_DIGITS)
        return 0;
      while (q < p + TS_DIGITS)
        *ts = *ts * 10 + (*q++ - '0');
      p = q;
      at += TS_DIGITS;
    }
  }
  *x = at;
  return p < e;
}

// A content chunk: the JSON string at p.  An empty one is none.
static void take(conn *k, const char *p, const char *e, int inw) {
  u64 ts = 0;
  if (p < e && *p == '"')
    return;
  if (!same_text(p, e, &k->xp, &ts)) {
    k->bad = WRONG_TEXT;
    return;
  }
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

// All of the text once more: the JSON string at p.
static void repeated(conn *k, const char *p, const char *e) {
  size_t x = 0;
  u64 ts = 0;
  if (!p || !same_text(p, e, &x, &ts) || x != exp_len)
    k->bad = WRONG_TEXT;
}

#endif

// shared by upstream.c and loadgen.c: the text of content chunk k, and small helpers
#ifndef COMMON_H
#define COMMON_H
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
typedef uint64_t u64;

static inline u64 now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (u64)t.tv_sec * 1000000000ull + t.tv_nsec;
}

// Every chunk: '@' + 16 digits (monotonic ns at the upstream's send; zeros at interval 0) + '#' + index + ' '
// + filler. The digits are skipped when text is compared, and give one-way latency. Every 8th chunk has
// characters JSON must escape and multi-byte UTF-8, so that a gateway that mangles text is caught.
#define TS_DIGITS 16

static int gen_chunk(int k, int s, char *out) {
  static const char pool[] =
      "the quick brown fox jumps over a lazy dog and then it sleeps well until the sun comes up ";
  static const char nasty[] = "\"q\" \\ /\n\t\xc3\xa9\xe2\x9c\x93\xf0\x9f\x98\x80 ";
  int n = sprintf(out, "@0000000000000000#%05d ", k);
  if (k % 8 == 7)
    n += sprintf(out + n, "%s", nasty);
  int pl = sizeof pool - 1, p = (k * 7) % pl;
  while (n < s) {
    out[n++] = pool[p];
    if (++p == pl)
      p = 0;
  }
  return n;
}

// A template with each $x replaced by values['x']; the length of what is in `out`.
static inline size_t expand(char *out, const char *template, const char *const values[128]) {
  char *o = out;
  for (const char *p = template; *p; p++)
    if (*p == '$')
      o = stpcpy(o, values[(unsigned char)*++p]);
    else
      *o++ = *p;
  *o = 0;
  return o - out;
}

#endif

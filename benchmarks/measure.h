// How the load generator measures: a histogram with 128 steps per power of two, and the CPU time and memory
// of others.
#ifndef MEASURE_H
#define MEASURE_H
#include "common.h"
#include <dirent.h>

typedef struct {
  u64 b[64 * 128];
  u64 n, max;
} hist;

static inline void hist_add(hist *h, u64 v) {
  h->n++;
  if (v > h->max)
    h->max = v;
  int e = v < 128 ? 0 : 57 - __builtin_clzll(v);
  h->b[e * 128 + ((v >> e) & 127)]++;
}

static double hist_quantile(hist *h, double q) {
  if (!h->n)
    return 0;
  u64 t = q * (h->n - 1), c = 0;
  for (int i = 0; i < 64 * 128; i++) {
    c += h->b[i];
    if (h->b[i] && c > t) {
      int e = i / 128;
      u64 m = i % 128;
      return (double)(m << e) + (e ? (1ull << e) / 2 : 0);
    }
  }
  return h->max;
}

// the processes that are measured
static int npid, pids[256];

// Seconds of CPU that all their threads have used.
static double cpu_s(void) {
  double s = 0;
  for (int i = 0; i < npid; i++) {
    char p[64];
    snprintf(p, sizeof p, "/proc/%d/task", pids[i]);
    DIR *d = opendir(p);
    if (!d)
      continue;
    struct dirent *e;
    while ((e = readdir(d)))
      if (e->d_name[0] != '.') {
        char q[128];
        snprintf(q, sizeof q, "/proc/%d/task/%.20s/schedstat", pids[i], e->d_name);
        FILE *f = fopen(q, "r");
        if (f) {
          unsigned long r;
          if (fscanf(f, "%lu", &r) == 1)
            s += r / 1e9;
          fclose(f);
        }
      }
    closedir(d);
  }
  return s;
}

// KiB of memory that they hold.
static long rss_kb(void) {
  long t = 0;
  for (int i = 0; i < npid; i++) {
    char p[64], l[256];
    snprintf(p, sizeof p, "/proc/%d/status", pids[i]);
    FILE *f = fopen(p, "r");
    if (!f)
      continue;
    while (fgets(l, sizeof l, f))
      if (!strncmp(l, "VmRSS:", 6))
        t += atol(l + 6);
    fclose(f);
  }
  return t;
}

#endif

// A fake OpenAI-compatible upstream: one thread, epoll, each response rendered once per distinct model name.
// At the paths of other protocols it streams in those, for the test of the load generator: see streams.h.
//
//   upstream PORT        serves on loopback until SIGTERM;  GET /stats tells what it has sent so far
//
// The knobs ride in the model name, so that they pass through any gateway: bench-n200-i50-t0-s32-c0
//   n  content chunks                          s  bytes of text in each
//   i  interval in ms, u in microseconds       t  ms before the first byte
//      (0: as fast as the socket takes)        c  1: coalesce into big writes, 0: one write per event
//   e  HTTP status to answer with              x  close the connection after that many content chunks
//   f  a fault, to test the checker: see enum fault in render.h
// Where a protocol has the model in the path, or none, the name may stand there: /generate_stream?bench-n20
#include "render.h"

typedef struct conn {
  int fd;
  char *in; // what was received and not yet used: inl of inc bytes
  size_t inl, inc;
  resp *r; // the response being sent; ev events and pos bytes of it are out
  int ev;
  size_t pos;
  u64 due;    // when the next content event may go
  int hpos;   // place in the timer heap, -1 outside
  char *pend; // an event that the socket took only partly: po of pl bytes are out
  size_t pl, po;
  int active, blocked, dead;
} conn;

static int ep;
static conn **heap;
static int hn, hc;
static conn **act;
static int an, ac;
static u64 st_req, st_ev, st_chunk,
    st_cut;         // requests, events, content chunks when paced, streams cut by the client
static int st_open; // responses that are being sent

// -- the timer heap (who may send next, and when) and the list of those who can send now

static void hset(int i, conn *c) {
  heap[i] = c;
  c->hpos = i;
}

static void hup(int i) {
  conn *c = heap[i];
  while (i && heap[(i - 1) / 2]->due > c->due) {
    hset(i, heap[(i - 1) / 2]);
    i = (i - 1) / 2;
  }
  hset(i, c);
}

static void hdown(int i) {
  conn *c = heap[i];
  for (;;) {
    int j = 2 * i + 1;
    if (j >= hn)
      break;
    if (j + 1 < hn && heap[j + 1]->due < heap[j]->due)
      j++;
    if (heap[j]->due >= c->due)
      break;
    hset(i, heap[j]);
    i = j;
  }
  hset(i, c);
}

static void hpush(conn *c) {
  if (hn == hc)
    heap = realloc(heap, (hc = hc ? hc * 2 : 1024) * sizeof *heap);
  heap[hn] = c;
  c->hpos = hn;
  hup(hn++);
}

static void hdel(conn *c) {
  int i = c->hpos;
  if (i < 0)
    return;
  c->hpos = -1;
  conn *l = heap[--hn];
  if (l != c) {
    hset(i, l);
    hup(i);
    hdown(l->hpos);
  }
}

static void activate(conn *c) {
  if (c->active || c->dead)
    return;
  if (an == ac)
    act = realloc(act, (ac = ac ? ac * 2 : 1024) * sizeof *act);
  act[an++] = c;
  c->active = 1;
}

// -- connections

// Not inlined: the compiler cannot see that what is active is freed by send_rounds alone.
__attribute__((noinline)) static void kill_conn(conn *c) {
  if (c->dead)
    return;
  c->dead = 1;
  if (c->r) {
    st_open--;
    st_cut++;
  }
  hdel(c);
  close(c->fd);
  free(c->pend);
  c->pend = 0;
  if (!c->active) {
    free(c->in);
    free(c);
  }
}

static int feed(conn *c);

static int finish(conn *c) {
  resp *r = c->r;
  c->r = 0;
  st_open--;
  if (r->k.x) {
    kill_conn(c);
    return 0;
  }
  return c->inl ? feed(c) : 1;
}

static void failed_send(conn *c) {
  if (errno == EAGAIN)
    c->blocked = 1;
  else
    kill_conn(c);
}

static int event_sent(conn *c) { // 1: there is more
  if (c->ev < c->r->nev)
    return 1;
  finish(c);
  return 0;
}

static int step_pending(conn *c) {
  ssize_t w = send(c->fd, c->pend + c->po, c->pl - c->po, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (w < 0) {
    failed_send(c);
    return 0;
  }
  c->po += w;
  if (c->po < c->pl)
    return 1;
  free(c->pend);
  c->pend = 0;
  c->pos = c->r->end[c->ev++];
  return event_sent(c);
}

static int step_paced(conn *c) {
  resp *r = c->r;
  u64 t = now_ns();
  if (t < c->due) {
    if (c->hpos < 0)
      hpush(c);
    return 0;
  }
  size_t n = r->end[c->ev] - c->pos;
  char event[n + 1];
  memcpy(event, r->buf + c->pos, n);
  char *digits = event + (r->ts[c->ev] - c->pos);
  for (int i = TS_DIGITS - 1; i >= 0; i--) {
    digits[i] = '0' + t % 10;
    t /= 10;
  }
  ssize_t w = send(c->fd, event, n, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (w < 0) {
    if (errno != EAGAIN) {
      kill_conn(c);
      return 0;
    }
    w = 0;
  }
  st_ev++;
  st_chunk++;
  c->due += r->k.iv;
  if ((size_t)w < n) {
    c->pend = malloc(n);
    memcpy(c->pend, event, n);
    c->pl = n;
    c->po = w;
    return 1;
  }
  c->pos = r->end[c->ev++];
  return event_sent(c);
}

static int step_fast(conn *c) {
  resp *r = c->r;
  size_t end = r->end[c->ev];
  if (r->k.c && !r->k.iv)
    end = r->len - c->pos > 65536 ? c->pos + 65536 : r->len;
  ssize_t w = send(c->fd, r->buf + c->pos, end - c->pos, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (w < 0) {
    failed_send(c);
    return 0;
  }
  c->pos += w;
  while (c->ev < r->nev && r->end[c->ev] <= c->pos) {
    c->ev++;
    st_ev++;
  }
  return event_sent(c);
}

// Send one unit; 1: go on, 0: blocked, waiting for the clock, or done.
static int step(conn *c) {
  if (!c->r || c->dead)
    return 0;
  if (c->pend)
    return step_pending(c);
  if (c->r->k.iv && c->r->ts[c->ev])
    return step_paced(c);
  return step_fast(c);
}

static int truthy(const char *b, const char *e, const char *name) {
  size_t l = strlen(name);
  for (const char *p = b; (p = memmem(p, e - p, name, l)); p += l) {
    const char *q = p + l;
    while (q < e && (*q == ' ' || *q == ':'))
      q++;
    if (e - q >= 4 && !memcmp(q, "true", 4))
      return 1;
  }
  return 0;
}

static void scan_model(const char *b, const char *e, char *model, size_t size) {
  const char *m = memmem(b, e - b, "\"model\"", 7);
  if (!m)
    return;
  m += 7;
  while (m < e && *m != '"')
    m++;
  const char *q = ++m;
  while (q < e && *q != '"')
    q++;
  if ((size_t)(q - m) < size) {
    memcpy(model, m, q - m);
    model[q - m] = 0;
  }
}

// The model that the request's path names, if it does; it ends where the name can not go on.
static void path_model(const char *path, char *model, size_t size) {
  const char *p = strstr(path, "bench");
  size_t n = p ? strspn(p, "abcdefghijklmnopqrstuvwxyz0123456789-") : 0;
  if (n && n < size) {
    memcpy(model, p, n);
    model[n] = 0;
  }
}

static const stream *stream_at(const char *path) {
  int i = sizeof streams / sizeof *streams;
  while (!strstr(path, streams[--i].path))
    ;
  return streams + i;
}

static resp *stats(void) {
  char body[256];
  int n = sprintf(body, "{\"requests\":%lu,\"events\":%lu,\"chunks\":%lu,\"cut\":%lu,\"open\":%d}", st_req,
                  st_ev, st_chunk, st_cut, st_open);
  return render_stats(body, n);
}

// Parse one request if it is complete; 0: the connection is gone.
static int feed(conn *c) {
  if (c->r)
    return 1;
  c->in[c->inl] = 0;
  char *h = memmem(c->in, c->inl, "\r\n\r\n", 4);
  if (!h)
    return 1;
  size_t hl = h - c->in + 4, cl = 0;
  int chunked = 0;
  h[2] = 0;
  for (char *p = strstr(c->in, "\r\n"); p; p = strstr(p, "\r\n")) {
    p += 2;
    if (!strncasecmp(p, "content-length:", 15))
      cl = atol(p + 15);
    else if (!strncasecmp(p, "transfer-encoding:", 18))
      chunked = 1;
    else if (!strncasecmp(p, "expect:", 7) && c->inl == hl)
      send(c->fd, "HTTP/1.1 100 Continue\r\n\r\n", 25, MSG_NOSIGNAL);
  }
  h[2] = '\r';
  if (chunked) {
    char *z = c->inl > hl ? memmem(c->in + hl - 2, c->inl - hl + 2, "\r\n0\r\n\r\n", 7) : 0;
    if (!z)
      return 1;
    cl = z + 7 - (c->in + hl);
  } else if (c->inl < hl + cl)
    return 1;
  char model[256] = "bench", path[512] = "";
  char *b = c->in + hl, *e = b + cl;
  int streamed = 0, usage = 0;
  sscanf(c->in, "%*s %511s", path);
  if (!strncmp(c->in, "POST", 4)) {
    scan_model(b, e, model, sizeof model);
    path_model(path, model, sizeof model);
    streamed = truthy(b, e, "\"stream\"");
    usage = truthy(b, e, "\"include_usage\"");
  }
  if (!strncmp(c->in, "GET /stats ", 11))
    c->r = stats();
  else {
    st_req++;
    c->r = render(stream_at(path), model, streamed, usage);
  }
  st_open++;
  c->ev = 0;
  c->pos = 0;
  c->blocked = 0;
  c->due = now_ns() + c->r->k.ttft;
  memmove(c->in, c->in + hl + cl, c->inl - hl - cl);
  c->inl -= hl + cl;
  if (c->r->k.ttft)
    hpush(c);
  else
    activate(c);
  return 1;
}

static void on_read(conn *c) {
  for (;;) {
    if (c->inc - c->inl < 4097)
      c->in = realloc(c->in, c->inc = c->inc * 2 + 8192);
    ssize_t n = recv(c->fd, c->in + c->inl, c->inc - c->inl - 1, MSG_DONTWAIT);
    if (n == 0) {
      kill_conn(c);
      return;
    }
    if (n < 0) {
      if (errno != EAGAIN)
        kill_conn(c);
      return;
    }
    c->inl += n;
    if (!feed(c) || c->dead)
      return;
  }
}

static volatile int stop;

static void onsig(int s) {
  (void)s;
  stop = 1;
}

static int listen_on(int port) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), one = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  struct sockaddr_in a = {
      .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  if (bind(fd, (void *)&a, sizeof a) || listen(fd, 4096)) {
    perror("bind");
    exit(1);
  }
  return fd;
}

static void accept_all(int listener) {
  int one = 1, fd;
  while ((fd = accept4(listener, 0, 0, SOCK_NONBLOCK)) >= 0) {
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    conn *c = calloc(1, sizeof *c);
    c->fd = fd;
    c->hpos = -1;
    c->in = malloc(c->inc = 8192);
    struct epoll_event ev = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = c};
    epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev);
  }
}

static void wait_for_events(int listener) {
  struct epoll_event evs[512];
  struct timespec ts = {1, 0};
  if (an)
    ts.tv_sec = 0;
  else if (hn) {
    u64 t = now_ns(), d = heap[0]->due > t ? heap[0]->due - t : 0;
    if (d < 1000000000ull) {
      ts.tv_sec = 0;
      ts.tv_nsec = d;
    }
  }
  int n = epoll_pwait2(ep, evs, 512, &ts, 0);
  for (int i = 0; i < n; i++) {
    conn *c = evs[i].data.ptr;
    if (!c) {
      accept_all(listener);
      continue;
    }
    if (c->dead)
      continue;
    if ((evs[i].events & EPOLLOUT) && c->blocked) {
      c->blocked = 0;
      activate(c);
    }
    if (evs[i].events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
      on_read(c);
  }
}

static void activate_due(void) {
  u64 t = now_ns();
  while (hn && heap[0]->due <= t) {
    conn *c = heap[0];
    hdel(c);
    activate(c);
  }
}

// Everyone who can send sends a unit, several rounds of it, before the sockets are looked at again.
static void send_rounds(void) {
  int rounds = an ? 64 / an + 1 : 0;
  while (rounds-- && an)
    for (int i = 0; i < an;) {
      conn *c = act[i];
      int more = step(c);
      if (more || (c->r && !c->dead && !c->blocked && c->hpos < 0 && !c->pend && !c->r->k.iv)) {
        i++;
        continue;
      }
      c->active = 0;
      act[i] = act[--an];
      if (c->dead) {
        free(c->in);
        free(c);
      }
    }
}

int main(int argc, char **argv) {
  signal(SIGPIPE, SIG_IGN);
  signal(SIGTERM, onsig);
  signal(SIGINT, onsig);
  int listener = listen_on(argc > 1 ? atoi(argv[1]) : 9101);
  ep = epoll_create1(0);
  crc_init();
  struct epoll_event ev = {.events = EPOLLIN, .data.ptr = 0};
  epoll_ctl(ep, EPOLL_CTL_ADD, listener, &ev);
  while (!stop) {
    wait_for_events(listener);
    activate_due();
    send_rounds();
  }
  fprintf(stderr, "upstream: %lu requests, %lu events\n", st_req, st_ev);
  return 0;
}

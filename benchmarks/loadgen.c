// Load generator and checker: one thread, epoll.  Holds so many streams open, restarts each as it ends,
// checks every byte, and prints one line of JSON.  It fails (exit 1) when any stream was not exactly what the
// upstream had said.
//
//   loadgen key=value...
//   port path model fmt: see formats.h                         n s: as the model's knobs say
//   conns warm dur grace (seconds)  ramp (ms over which streams start)
//   pids=1,2,3: whose CPU and memory to measure                h="Name: value": a header, repeatable
//   want=STATUS  close=1: a new connection per request         usage=1: ask for usage
//   slow=BYTES_PER_SEC: a slow reader                          abort=K: hang up after K chunks
#include "frames.h"

static void start(conn *k);

static void drop(conn *k) {
  if (k->fd >= 0)
    close(k->fd);
  k->fd = -1;
  k->st = CLOSED;
}

static void succeed(conn *k, int inw) {
  ok++;
  if (inw) {
    streams_w++;
    hist_add(&h_tot, T - k->t0);
  }
}

static void judge_whole(conn *k, int inw) {
  const char *e = k->ln + k->ll, *q = k->ll ? after(k->ln, e, "\"content\"") : 0;
  if (k->ll && !q)
    q = after(k->ln, e, "\"text\"");
  if (q)
    take(k, q, e, inw);
  if (k->xp != exp_len)
    err(&e_text, k, "text");
  else
    succeed(k, inw);
}

static void judge_stream(conn *k, int inw) {
  if (k->bad == WRONG_TEXT)
    err(&e_text, k, "text");
  else if (k->bad || k->ll || k->block)
    err(&e_parse, k, k->bad ? "parse" : "cut frame");
  else if (k->errev)
    err(&e_parse, k, "error event");
  else if (k->chunks != n_exp)
    err(&e_count, k, "count");
  else if (k->xp != exp_len)
    err(&e_text, k, "text");
  else if (k->term != 1 || k->fin != 1)
    err(&e_term, k, "terminator");
  else
    succeed(k, inw);
}

static void done(conn *k, int clean) { // response over (clean: by framing)
  int inw = T >= w0 && T < w1;
  infl--;
  if (k->status != want)
    err(&e_status, k, "status");
  else if (!clean)
    err(&e_close, k, "cut");
  else if (want != 200 || fmt->framing == UNREAD)
    succeed(k, inw);
  else if (fmt->framing == WHOLE)
    judge_whole(k, inw);
  else
    judge_stream(k, inw);
  if (!clean || closeeach || k->closehdr)
    drop(k);
  else
    k->st = IDLE;
  if (!stopping)
    start(k);
}

static void sendreq(conn *k) {
  k->hs = 0;
  k->status = 0;
  k->chunked = 0;
  k->closehdr = 0;
  k->clen = -1;
  k->cst = 0;
  k->hl = 0;
  k->ll = 0;
  k->xp = 0;
  k->chunks = k->term = k->fin = k->bad = k->errev = k->block = 0;
  k->event[0] = 0;
  k->tfirst = 0;
  k->st = READING;
  k->t0 = now_ns();
  ssize_t w = send(k->fd, req, reqlen, MSG_NOSIGNAL);
  if (w != (ssize_t)reqlen) {
    k->status = -1;
  }
}

static void start(conn *k) {
  infl++;
  if (k->st == IDLE) {
    k->reused = 1;
    sendreq(k);
    return;
  }
  k->reused = 0;
  k->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  int one = 1;
  setsockopt(k->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  struct sockaddr_in a = {
      .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  struct epoll_event ev = {.events = EPOLLIN | EPOLLOUT, .data.ptr = k};
  if (connect(k->fd, (void *)&a, sizeof a) && errno != EINPROGRESS) {
    e_conn++;
    close(k->fd);
    k->fd = -1;
    k->st = CLOSED;
    infl--;
    return;
  }
  k->st = CONNECTING;
  epoll_ctl(ep, EPOLL_CTL_ADD, k->fd, &ev);
}

static void input(conn *k, const char *p, size_t n) {
  int inw = T >= w0 && T < w1;
  const char *e = p + n;
  while (p < e) {
    if (!k->hs) {
      size_t m = e - p;
      if (m > sizeof k->hdr - 1 - k->hl)
        m = sizeof k->hdr - 1 - k->hl;
      int old = k->hl;
      memcpy(k->hdr + k->hl, p, m);
      k->hl += m;
      k->hdr[k->hl] = 0;
      int from = old > 3 ? old - 3 : 0;
      char *h = strstr(k->hdr + from, "\r\n\r\n");
      if (!h) {
        if (k->hl >= (int)sizeof k->hdr - 1) {
          done(k, 0);
        }
        return;
      }
      p += h + 4 - k->hdr - old;
      h[2] = 0;
      k->status = atoi(k->hdr + 9);
      for (char *q = strstr(k->hdr, "\r\n"); q; q = strstr(q, "\r\n")) {
        q += 2;
        if (!strncasecmp(q, "content-length:", 15))
          k->clen = atol(q + 15);
        else if (!strncasecmp(q, "transfer-encoding:", 18))
          k->chunked = 1;
        else if (!strncasecmp(q, "connection: close", 17))
          k->closehdr = 1;
      }
      if (k->status == 100) {
        k->hl = 0;
        k->status = 0;
        continue;
      }
      k->hs = 1;
      k->cst = 0;
      k->cleft = k->clen;
      if (!k->chunked && k->clen == 0) {
        done(k, 1);
        return;
      }
      continue;
    }
    if (!k->chunked) {
      size_t m = e - p;
      if (k->clen >= 0 && (long)m > k->cleft)
        m = k->cleft;
      body(k, p, m, inw);
      p += m;
      if (k->clen >= 0 && (k->cleft -= m) == 0) {
        done(k, 1);
        return;
      }
      continue;
    }
    switch (k->cst) { // 0 size, 1 skip to \n, 2 data, 3 after-data crlf, 4 trailer
    case 0: {
      int c = *p++;
      if (c == '\n') {
        k->cst = k->cleft ? 2 : 4;
        k->skip = 0;
      } else if (c == '\r' || c == ';' || c == ' ')
        k->cst = 1;
      else {
        c = c <= '9' ? c - '0' : (c | 32) - 'a' + 10;
        k->cleft = (k->cleft < 0 ? 0 : k->cleft) * 16 + c;
      }
      break;
    }
    case 1:
      if (*p++ == '\n') {
        k->cst = k->cleft > 0 ? 2 : 4;
        k->skip = 0;
      }
      break;
    case 2: {
      size_t m = e - p;
      if ((long)m > k->cleft)
        m = k->cleft;
      k->cleft -= m;
      body(k, p, m, inw);
      p += m;
      if (!k->cleft)
        k->cst = 3;
      break;
    }
    case 3:
      if (*p++ == '\n') {
        k->cst = 0;
        k->cleft = -1;
      }
      break;
    case 4: {
      int c = *p++;
      if (c == '\n') {
        if (!k->skip) {
          done(k, 1);
          return;
        }
        k->skip = 0;
      } else if (c != '\r')
        k->skip = 1;
      break;
    }
    }
    if (aborts && k->chunks >= aborts) {
      aborted_n++;
      infl--;
      drop(k);
      if (!stopping)
        start(k);
      return;
    }
  }
}

// -- the command line

static char *model = "bench", *path = "/v1/chat/completions", *prompt = "Hello", hdrs[4096];
static int conns = 1, ramp, usage, slow;
static double warm = 1, dur = 5, grace = 5;

static const struct {
  const char *name;
  int *number;
  double *seconds;
  char **text;
} options[] = {
    {"port", &port, 0, 0},   {"conns", &conns, 0, 0}, {"ramp", &ramp, 0, 0},    {"n", &n_exp, 0, 0},
    {"s", &s_exp, 0, 0},     {"want", &want, 0, 0},   {"abort", &aborts, 0, 0}, {"close", &closeeach, 0, 0},
    {"usage", &usage, 0, 0}, {"slow", &slow, 0, 0},   {"warm", 0, &warm, 0},    {"dur", 0, &dur, 0},
    {"grace", 0, &grace, 0}, {"path", 0, 0, &path},   {"model", 0, 0, &model},  {"prompt", 0, 0, &prompt},
};

static int set_special(const char *key, char *value) {
  if (!strcmp(key, "h")) {
    if (strlen(hdrs) + strlen(value) + 3 > sizeof hdrs)
      return 0;
    strcat(strcat(hdrs, value), "\r\n");
    return 1;
  }
  if (!strcmp(key, "pids")) {
    for (char *p = strtok(value, ","); p && npid < 256; p = strtok(0, ","))
      pids[npid++] = atoi(p);
    return 1;
  }
  if (!strcmp(key, "fmt"))
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
      if (!strcmp(value, formats[i].name)) {
        fmt = formats + i;
        return 1;
      }
  return 0;
}

static int set_option(const char *key, char *value) {
  for (size_t i = 0; i < sizeof options / sizeof *options; i++)
    if (!strcmp(key, options[i].name)) {
      if (options[i].number)
        *options[i].number = atoi(value);
      else if (options[i].seconds)
        *options[i].seconds = atof(value);
      else
        *options[i].text = value;
      return 1;
    }
  return set_special(key, value);
}

static void parse_options(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    char *value = strchr(argv[i], '=');
    if (value)
      *value++ = 0;
    if (!value || !set_option(argv[i], value)) {
      fprintf(stderr, "loadgen: cannot use %s\n", argv[i]);
      exit(2);
    }
  }
}

static void expect_text(void) {
  char *t = malloc(s_exp + 256);
  exp_txt = malloc((size_t)n_exp * (s_exp + 256));
  for (int i = 0; i < n_exp; i++) {
    int l = gen_chunk(i, s_exp, t);
    memcpy(exp_txt + exp_len, t, l);
    exp_len += l;
  }
  free(t);
}

static void build_request(void) {
  const char *values[128] = {
      ['m'] = model, ['p'] = prompt, ['u'] = usage ? "\"stream_options\":{\"include_usage\":true}," : ""};
  char *b = malloc(strlen(prompt) + strlen(model) + 2048);
  int bl = expand(b, fmt->ask, values);
  req = malloc(bl + 8192);
  reqlen = sprintf(req,
                   "POST %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\n"
                   "Accept: */*\r\n%s%sContent-Length: %d\r\n\r\n%s",
                   path, port, hdrs, closeeach ? "Connection: close\r\n" : "", bl, b);
  free(b);
}

// -- the run: warm up, measure for a while, let the streams that run come to their end

static conn *cs;
static int launched;
static u64 t_start;
static double cpu0, cpu1, self0, self1;
static long rss0, rss_peak;

static double own_cpu_s(void) {
  struct timespec ts;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
  return ts.tv_sec + ts.tv_nsec / 1e9;
}

static void sample_rss(void) {
  long r = rss_kb();
  if (r > rss_peak)
    rss_peak = r;
}

static void open_window(void) {
  cpu0 = cpu_s();
  self0 = own_cpu_s();
  w0 = T = now_ns();
  w1 = w0 + dur * 1e9;
  t_end = w1 + grace * 1e9;
}

static void close_window(void) {
  stopping = 1;
  cpu1 = cpu_s();
  self1 = own_cpu_s();
  sample_rss();
  w1 = now_ns();
}

static u64 launch_time(int i) {
  return t_start + (u64)i * ramp * 1000000ull / conns;
}

static void connected(conn *k) {
  int failure = 0;
  socklen_t l = sizeof failure;
  getsockopt(k->fd, SOL_SOCKET, SO_ERROR, &failure, &l);
  if (failure) {
    e_conn++;
    drop(k);
    infl--;
    return;
  }
  struct epoll_event ev = {.events = EPOLLIN, .data.ptr = k};
  epoll_ctl(ep, EPOLL_CTL_MOD, k->fd, &ev);
  sendreq(k);
}

static void closed_by_peer(conn *k) {
  if (k->st == IDLE) {
    drop(k);
    return;
  }
  if (k->reused && !k->hs && k->hl == 0) { // it was closing while we asked: ask again
    infl--;
    drop(k);
    if (!stopping)
      start(k);
    return;
  }
  int clean = k->hs && !k->chunked && k->clen < 0;
  k->closehdr = 1;
  done(k, clean);
}

static void readable(conn *k) {
  static char buf[1 << 18];
  ssize_t r = recv(k->fd, buf, slow ? (size_t)slow / 50 + 1 : sizeof buf, MSG_DONTWAIT);
  T = now_ns();
  if (r < 0 && errno == EAGAIN)
    return;
  if (r <= 0) {
    closed_by_peer(k);
    return;
  }
  if (T >= w0 && T < w1) {
    bytes_w += r;
    reads_w++;
  }
  if (k->st == READING)
    input(k, buf, r);
  else {
    drop(k);
    if (!stopping)
      start(k);
  }
  if (slow)
    usleep(20000 / conns);
}

static void wait_for_events(void) {
  struct epoll_event evs[512];
  u64 wait = 20000000;
  if (launched < conns) {
    u64 d = launch_time(launched);
    d = d > T ? d - T : 0;
    if (d < wait)
      wait = d;
  }
  struct timespec ts = {0, wait};
  int n = epoll_pwait2(ep, evs, 512, &ts, 0);
  for (int i = 0; i < n; i++) {
    conn *k = evs[i].data.ptr;
    if (k->fd < 0)
      continue;
    if (k->st == CONNECTING)
      connected(k);
    else
      readable(k);
  }
}

static void run(void) {
  int measuring = 0;
  u64 next_sample = 0, next_retry = 0;
  t_start = now_ns();
  w0 = t_start + warm * 1e9;
  w1 = w0 + dur * 1e9;
  t_end = w1 + grace * 1e9;
  rss0 = rss_peak = rss_kb();
  for (;;) {
    T = now_ns();
    while (launched < conns && !stopping && (!ramp || T >= launch_time(launched)))
      start(&cs[launched++]);
    if (!measuring && T >= w0) {
      measuring = 1;
      open_window();
    }
    if (measuring && !stopping && T >= w1)
      close_window();
    if (T > next_sample) {
      next_sample = T + 250000000ull;
      sample_rss();
    }
    if (stopping && (infl <= 0 || T >= t_end))
      return;
    if (!stopping && T > next_retry) {
      next_retry = T + 50000000ull;
      for (int i = 0; i < launched; i++)
        if (cs[i].st == CLOSED)
          start(&cs[i]);
    }
    wait_for_events();
  }
}

// -- the report

static double us(hist *h, double q) {
  return hist_quantile(h, q) / 1000;
}

static u64 errors(void) {
  return e_conn + e_status + e_close + e_text + e_count + e_term + e_parse;
}

static void report(void) {
  double d = (w1 - w0) / 1e9, cpu = cpu1 - cpu0;
  for (int i = 0; i < conns; i++)
    unfinished += cs[i].st == READING;
  printf("{\"conns\":%d,\"dur\":%.3f,\"chunks\":%lu,\"chunks_s\":%.0f,\"streams_s\":%.1f,", conns, d,
         chunks_w, chunks_w / d, streams_w / d);
  printf("\"ok\":%lu,\"errors\":%lu,\"unfinished\":%lu,\"aborted\":%lu,", ok, errors(), unfinished,
         aborted_n);
  printf("\"err\":{\"conn\":%lu,\"status\":%lu,\"cut\":%lu,\"text\":%lu,\"count\":%lu,\"term\":%lu,\"parse\":"
         "%lu},",
         e_conn, e_status, e_close, e_text, e_count, e_term, e_parse);
  printf("\"ttft_us\":{\"p50\":%.0f,\"p99\":%.0f,\"max\":%.0f},", us(&h_ttft, .5), us(&h_ttft, .99),
         h_ttft.max / 1e3);
  printf("\"gap_us\":{\"p50\":%.0f,\"p99\":%.0f,\"max\":%.0f},", us(&h_gap, .5), us(&h_gap, .99),
         h_gap.max / 1e3);
  printf("\"lat_us\":{\"p50\":%.0f,\"p99\":%.0f,\"p999\":%.0f,\"max\":%.0f},", us(&h_lat, .5),
         us(&h_lat, .99), us(&h_lat, .999), h_lat.max / 1e3);
  printf("\"total_us\":{\"p50\":%.0f,\"p99\":%.0f},\"bytes_s\":%.0f,\"reads_s\":%.0f,", us(&h_tot, .5),
         us(&h_tot, .99), bytes_w / d, reads_w / d);
  printf("\"gw_cpu_s\":%.3f,\"gw_cpu_pct\":%.1f,\"gw_us_per_chunk\":%.3f,\"gw_us_per_stream\":%.1f,", cpu,
         100 * cpu / d, chunks_w ? cpu * 1e6 / chunks_w : 0, streams_w ? cpu * 1e6 / streams_w : 0);
  printf(
      "\"rss0_kb\":%ld,\"rss_peak_kb\":%ld,\"kb_per_stream\":%.2f,\"self_cpu_pct\":%.1f,\"sample\":\"%s\"}\n",
      rss0, rss_peak, (double)(rss_peak - rss0) / conns, 100 * (self1 - self0) / d, sample);
}

int main(int argc, char **argv) {
  signal(SIGPIPE, SIG_IGN);
  crc_init();
  parse_options(argc, argv);
  expect_text();
  build_request();
  ep = epoll_create1(0);
  cs = calloc(conns, sizeof *cs);
  for (int i = 0; i < conns; i++)
    cs[i].fd = -1;
  run();
  report();
  return errors() ? 1 : 0;
}

import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";
import { Api, CHATS_PAGE } from "../src/api.ts";
import { message } from "../src/bodies.ts";
import { ApiError } from "../src/requests.ts";

interface Seen {
  readonly url: string;
  readonly init: RequestInit;
}

const real = globalThis.fetch;
let seen: Seen[] = [];
let answer: (seen: Seen) => Response | Promise<Response>;

beforeEach(() => {
  seen = [];
  answer = () => Response.json({});
  globalThis.fetch = async (url, init = {}) => {
    const call = { url: url instanceof Request ? url.url : url.toString(), init };
    seen.push(call);
    init.signal?.throwIfAborted();
    return await answer(call);
  };
});
afterEach(() => {
  globalThis.fetch = real;
});

/** Never answers; the signal alone ends it, as it does a real fetch. */
function silent({ init }: Seen): Promise<Response> {
  return new Promise((_, reject) => {
    init.signal?.addEventListener("abort", () => reject(new DOMException("aborted", "AbortError")));
  });
}

async function first<T>(items: AsyncGenerator<T>): Promise<T | undefined> {
  for await (const item of items) return item;
  return undefined;
}

const SIGNALLED: Readonly<Record<string, (api: Api, signal: AbortSignal) => Promise<unknown>>> = {
  search: (api, signal) => api.search("x", signal),
  chat: (api, signal) => api.chat(1, signal),
  submit: (api, signal) => api.submit(1, { content: "x" }, "key", signal),
  follow: (api, signal) => first(api.follow(1, "1-2", signal)),
  pull: (api, signal) => first(api.pull("m", signal)),
};

for (const [name, call] of Object.entries(SIGNALLED)) {
  test(`${name} forwards its signal: an abort ends the request, and is no failure of the network`, async () => {
    answer = silent;
    const abort = new AbortController();
    const asked = call(new Api("http://host/"), abort.signal);
    abort.abort();
    await assert.rejects(asked, (error: Error) => error.name === "AbortError" && !(error instanceof ApiError));
    assert.equal(seen.length, 1);
    assert.equal(seen[0]!.init.signal?.aborted, true);
  });
}

test("a request that is lost is told apart from one that is aborted", async () => {
  answer = () => {
    throw new TypeError("no route");
  };
  await assert.rejects(new Api("http://host/").models(), (error) => error instanceof ApiError && error.status === 0);
});

test("a submission leaves its stream at the first frame, and says that this is no stop", async () => {
  const body = new TextEncoder().encode('id: 1-0\ndata: {"event":"start","message_id":2,"generation":1}\n\n');
  let left = false;
  answer = () =>
    new Response(
      new ReadableStream({
        start: (out) => out.enqueue(body),
        cancel: () => {
          left = true;
        },
      }),
    );
  const frame = await new Api("http://host/").submit(1, { content: "x" }, "key-1", new AbortController().signal);
  assert.equal(frame.event, "start");
  assert.ok(left);
  assert.deepEqual(JSON.parse(seen[0]!.init.body as string), { content: "x", detach: true });
  assert.equal(new Headers(seen[0]!.init.headers).get("idempotency-key"), "key-1");
});

test("an old token is renewed once for all who wait, and the request made again", async () => {
  let token = "old";
  answer = ({ url, init }) => {
    if (url.endsWith("/refresh")) return Response.json({ access_token: (token = "new") });
    const given = new Headers(init.headers).get("authorization");
    return given === "Bearer new" ? Response.json({ chats: [] }) : Response.json({ error: { type: "authentication" } }, { status: 401 });
  };
  const api = new Api("http://host/");
  const lists = await Promise.all([api.chats(5), api.chats(5), api.chats(5)]);
  assert.equal(lists.length, 3);
  assert.equal(token, "new");
  assert.equal(seen.filter((call) => call.url.endsWith("/refresh")).length, 1);
});

test("a key of the server's goes where a key opens something, and nowhere else", async () => {
  const api = new Api("http://host/");
  api.key = "secret";
  answer = () => new Response('{"status":"success"}\n');
  await first(api.pull("m", new AbortController().signal));
  answer = () => Response.json({ access_token: "a.b.c", user: { id: "1", name: "", guest: true } });
  await api.guest();
  await api.enter("login", "anna", "password");
  answer = () => Response.json({ chats: [] });
  await api.chats(5);
  const keys = seen.map((call) => new Headers(call.init.headers).get("x-api-key"));
  assert.deepEqual(keys, ["secret", "secret", null, null]);
});

test("a pull that is refused tells why, and does not end the session", async () => {
  answer = () => Response.json({ error: "no valid API key was given" }, { status: 401 });
  const api = new Api("http://host/");
  let out = false;
  api.signedOut = () => {
    out = true;
  };
  await assert.rejects(first(api.pull("m", new AbortController().signal)), (error) => error instanceof ApiError && error.status === 401);
  assert.equal(out, false);
  assert.equal(seen.length, 1);
});

test("a body that lacks what it should have is read without a fault", async () => {
  for (const body of [{}, { models: null, offer: null, limits: 7 }, { models: [{ id: "auto" }], offer: { model: "" } }]) {
    answer = () => Response.json(body);
    const models = await new Api("http://host/").models();
    assert.equal(models.offer, null);
    assert.equal(models.limits.contentChars, 32_000);
  }
});

test("more chats than a page holds come in pages, and one that is in two of them is there once", async () => {
  const rows = Array.from({ length: 230 }, (_, n) => ({ id: 230 - n, title: `chat ${230 - n}` }));
  answer = ({ url }) => {
    const query = new URL(url).searchParams;
    const from = Number(query.get("before") ?? 0);
    const limit = Number(query.get("limit"));
    assert.ok(limit <= CHATS_PAGE);
    const page = rows.slice(Math.max(0, from - 1), from + limit); // the last of the page before is in this one again
    return Response.json({ chats: page, next: from + limit < rows.length ? String(from + limit) : null });
  };
  const api = new Api("http://host/");
  const { chats, more } = await api.chats(220);
  assert.deepEqual(chats.map((chat) => chat.id), rows.slice(0, chats.length).map((row) => row.id));
  assert.ok(chats.length >= 220 && more);
  assert.deepEqual(await api.chats(500).then((all) => [all.chats.length, all.more]), [230, false]);
});

test("a sign-up by an old token is made again with a new one", async () => {
  answer = ({ url, init }) => {
    if (url.endsWith("/refresh")) return Response.json({ access_token: "new" });
    const given = new Headers(init.headers).get("authorization");
    if (given !== "Bearer new") return Response.json({ error: { type: "authentication", code: "invalid_token" } }, { status: 401 });
    return Response.json({ access_token: "account", user: { id: "1", name: "anna", guest: false } });
  };
  assert.equal((await new Api("http://host/").enter("signup", "anna", "password")).name, "anna");
});

test("a warning of the server's is known by its part, and not by its sign", () => {
  const row = { id: 2, role: "assistant", content: "⚠️ half", state: "interrupted", interrupted: { type: "network" } };
  assert.equal(message({ ...row, parts: [{ type: "text", text: "⚠️ half" }] }).warned, undefined);
  assert.equal(message({ ...row, parts: [{ type: "text", text: "half" }, { type: "warning", text: "⚠️ cut" }] }).warned, true);
});

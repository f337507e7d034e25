import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { fileName, toJson, toMarkdown } from "../src/export.ts";
import type { Conversation, Message } from "../src/fold.ts";
import { byAge, bytes, money } from "../src/format.ts";
import { Batch, type Timers } from "../src/queue.ts";
import { afterLoss } from "../src/reconnect.ts";
import { hear, type Note } from "../src/relay.ts";
import { fill, LANGUAGES, sentence, whyNot, WORDS } from "../src/strings.ts";
import { followed, path } from "../src/thread.ts";
import { ending, hearing, type Heard } from "../src/voice.ts";

test("a stream that was recycled is taken up after what the server asked for", () => {
  assert.deepEqual(afterLoss({ why: "ended" }, 0, 1000, 1), { do: "wait", ms: 1000 });
  assert.deepEqual(afterLoss({ why: "ended" }, 0, 1000, 0), { do: "wait", ms: 500 });
  assert.deepEqual(afterLoss({ why: "ended" }, 0, undefined, 1), { do: "wait", ms: 0 });
});

test("failures make it rarer, up to a bound", () => {
  const waits = Array.from({ length: 12 }, (_, n) => afterLoss({ why: "network" }, n, undefined, 1));
  const ms = waits.map((next) => (next.do === "wait" ? next.ms : -1));
  assert.deepEqual(ms.slice(0, 4), [400, 800, 1600, 3200]);
  assert.equal(ms.at(-1), 15_000);
});

test("what cannot be followed is not asked for again", () => {
  assert.deepEqual(afterLoss({ why: "status", status: 404 }, 0, undefined, 1), { do: "stop", gone: true });
  assert.deepEqual(afterLoss({ why: "status", status: 204 }, 0, undefined, 1), { do: "stop", gone: false });
  assert.deepEqual(afterLoss({ why: "status", status: 401 }, 0, undefined, 1), { do: "sign-in" });
  assert.deepEqual(afterLoss({ why: "status", status: 401 }, 2, undefined, 1), { do: "stop", gone: false });
  assert.equal(afterLoss({ why: "status", status: 503 }, 1, undefined, 1).do, "wait");
});

const HERE: Conversation = { messages: [], cursor: "3-4", live: null };

test("a tab folds what follows its cursor and asks about a gap", () => {
  const frames = [{ event: "token", token: "x", frameId: "3-5" }];
  const note = (after: string): Note => ({ kind: "frames", after, frames });
  assert.deepEqual(hear(note("3-4"), "3-4", false), { do: "fold", frames });
  assert.deepEqual(hear(note("3-2"), "3-4", false), { do: "fold", frames });
  assert.deepEqual(hear(note("3-5"), "3-4", false), { do: "ask" });
  assert.deepEqual(hear(note("3-4"), "3-4", true), { do: "nothing" });
});

test("the leader alone answers, and the others alone adopt, only what is newer", () => {
  assert.deepEqual(hear({ kind: "ask" }, "3-4", true), { do: "tell" });
  assert.deepEqual(hear({ kind: "ask" }, "3-4", false), { do: "nothing" });
  assert.deepEqual(hear({ kind: "whole", at: HERE }, "3-3", false), { do: "adopt", at: HERE });
  assert.deepEqual(hear({ kind: "whole", at: HERE }, "3-4", false), { do: "nothing" });
  assert.deepEqual(hear({ kind: "whole", at: HERE }, "", true), { do: "nothing" });
});

class FakeTimers implements Timers {
  readonly #waiting = new Set<() => void>();

  frame(run: () => void): () => void {
    this.#waiting.add(run);
    return () => void this.#waiting.delete(run);
  }

  after(_ms: number, run: () => void): () => void {
    return this.frame(run);
  }

  get size(): number {
    return this.#waiting.size;
  }

  fire(): void {
    for (const run of [...this.#waiting]) run();
  }
}

test("what comes between two paintings is flushed once, in order", () => {
  const timers = new FakeTimers();
  const flushed: number[][] = [];
  const batch = new Batch<number>(timers, (items) => flushed.push(items));
  batch.push([1]);
  batch.push([2, 3]);
  assert.deepEqual(flushed, []);
  timers.fire();
  assert.deepEqual(flushed, [[1, 2, 3]]);
  assert.equal(timers.size, 0);
  batch.push([4]);
  batch.flush();
  timers.fire();
  assert.deepEqual(flushed, [[1, 2, 3], [4]]);
});

const say = (id: number, turn: number, role: "user" | "assistant", redoes?: number): Message => ({
  ...{ id, turn, role, text: `m${id}`, state: "done" },
  ...(redoes === undefined ? {} : { redoes }),
});
const FORKED = [
  say(1, 10, "user"),
  say(2, 10, "assistant"),
  say(3, 11, "user"),
  say(4, 11, "assistant"),
  say(5, 12, "user", 10),
  say(6, 12, "assistant", 10),
  say(7, 13, "user"),
  say(8, 13, "assistant"),
];

test("the newest version is shown, with what followed it", () => {
  const shown = path(FORKED, new Map());
  assert.deepEqual(shown.map((entry) => entry.message.id), [5, 6, 7, 8]);
  assert.deepEqual(shown.map((entry) => entry.versions), [[], [10, 12], [], []]);
});

test("an older version is shown with what followed that", () => {
  assert.equal(followed(FORKED, 12), 0);
  assert.deepEqual(path(FORKED, new Map([[0, 10]])).map((entry) => entry.message.id), [1, 2, 3, 4]);
});

test("rows that name no turn are read in order", () => {
  const plain: Message[] = [1, 2, 3, 4].map((id) => ({ id, role: id % 2 ? "user" : "assistant", text: "", state: "done" }));
  assert.deepEqual(path(plain, new Map()).map((entry) => entry.message.id), [1, 2, 3, 4]);
});

test("an export holds every message", () => {
  const text = toMarkdown("Tides", FORKED.slice(0, 2), (m) => m.role);
  assert.equal(text, "# Tides\n\n## user\n\nm1\n\n## assistant\n\nm2\n");
  const kept = JSON.parse(toJson("Tides", FORKED, "now")) as { messages: unknown[] };
  assert.equal(kept.messages.length, 8);
  assert.equal(fileName("Olá, mundo: ../../x?", "md"), "Olá-mundo-x.md");
  assert.equal(fileName("???", "json"), "chat.json");
});

test("numbers as people read them", () => {
  assert.equal(bytes(98_362_432, "en"), "98.4 MB");
  assert.equal(bytes(512, "en"), "512 byte");
  assert.equal(money(0.0021, "USD", "en"), "$0.0021");
  assert.equal(money(0, "USD", "en"), "$0.00");
  assert.equal(money(2, "tokens", "en"), "2.00 tokens");
});

test("chats are grouped by the reader's days", () => {
  const chat = (updatedAt: string) => ({ id: 1, title: "", updatedAt, instructions: "" });
  const now = new Date(2026, 10, 30, 1, 0);
  const when = [new Date(2026, 10, 30, 0, 30), new Date(2026, 10, 29, 23, 30), new Date(2026, 10, 25), new Date(2026, 1, 1)];
  assert.deepEqual(byAge(when.map((at) => chat(at.toISOString())), now).map((group) => group.age), ["today", "yesterday", "week", "older"]);
});

test("every type of failure that the service names has a sentence in every language", () => {
  for (const language of LANGUAGES) {
    for (const type of ["timeout", "network", "http", "unavailable", "not_configured"]) {
      const said = sentence(WORDS[language], { type, message: "raw" });
      assert.ok(said.length > 10 && said !== "raw", `${language} ${type}`);
    }
    assert.equal(sentence(WORDS[language], { type: "new_kind", message: "raw" }), "raw");
    assert.equal(sentence(WORDS[language], { type: "new_kind", message: "" }), WORDS[language].errorOther);
  }
});

test("the languages fill in the same names", () => {
  const names = (value: unknown): string[] =>
    typeof value === "string"
      ? [[...value.matchAll(/\{\w+\}/g)].map((match) => match[0]).sort().join()]
      : Object.values(value as object).flatMap(names);
  for (const language of LANGUAGES) assert.deepEqual(names(WORDS[language]), names(WORDS.en), language);
  assert.equal(fill("{a} of {b} {c}", { a: 1, b: "two" }), "1 of two {c}");
});

/** The words that stand in a source of the server's. */
async function wordsIn(file: string, pattern: RegExp): Promise<string[]> {
  const source = await readFile(new URL(`../../src/rivermouth/${file}`, import.meta.url), "utf8");
  return [...source.matchAll(pattern)].map((found) => found[1] ?? "");
}

test("every kind of error has a sentence in every language", async () => {
  const kinds = await wordsIn("ir/errors.py", /^ {4}[A-Z_]+ = "(\w+)"$/gm);
  assert.ok(kinds.length >= 14);
  for (const language of LANGUAGES) {
    for (const type of kinds) assert.ok(type in WORDS[language].errors, `${language} ${type}`);
  }
});

test("every reason to refuse an account has a sentence in every language", async () => {
  const files = ["accounts/names.py", "accounts/passwords.py", "accounts/service.py", "accounts/tokens.py", "http/api/accounts.py", "http/persons.py"];
  const codes = (await Promise.all(files.map((file) => wordsIn(file, /(?:code=|"(?:name|password)", )"(\w+)"/g)))).flat();
  assert.ok(codes.includes("unfit_name") && codes.includes("name_taken") && codes.includes("signup_closed"));
  for (const language of LANGUAGES) {
    for (const code of codes) assert.ok(code in WORDS[language].refusals, `${language} ${code}`);
  }
});

test("a password's bounds are told in numbers where the server tells them", () => {
  const said = (message: string): string => sentence(WORDS.pt, { type: "invalid_request", code: "unfit_password", message });
  assert.equal(said("a password has at least 12 characters"), "Uma palavra-passe tem pelo menos 12 caracteres.");
  assert.equal(said("a password has at most 1024 characters"), "Uma palavra-passe tem no máximo 1024 caracteres.");
  assert.equal(said("no"), WORDS.pt.refusals.unfit_password);
});

test("why a choice cannot be made is said in every language", async () => {
  const reasons = await wordsIn("chat/choice.py", /"((?:there is no|nothing is) [a-z ]+)"/g);
  assert.equal(reasons.length, 2);
  for (const language of LANGUAGES) {
    for (const reason of [...reasons, "kimi has no key"]) {
      const said = whyNot(WORDS[language], reason, "Kimi");
      assert.ok(said !== reason && !said.includes("{"), `${language} ${reason}`);
    }
    assert.equal(whyNot(WORDS[language], "closed for repairs", "Kimi"), "closed for repairs");
    assert.ok(whyNot(WORDS[language], undefined, "Kimi").includes("Kimi"));
  }
});

const answer = (id: number, rest: Partial<Message> = {}): Message => ({ id, role: "assistant", text: "", state: "done", ...rest });

test("how an answer ended is told by its state, with a text or without", () => {
  const words = WORDS.en;
  assert.equal(ending(words, answer(2, { text: "x" })), words.answerDone);
  assert.equal(ending(words, answer(2, { state: "cancelled" })), words.answerStopped);
  assert.equal(ending(words, answer(2, { text: "x", interrupted: "network" })), words.interrupted.network);
  const failed = answer(2, { state: "error", error: { type: "timeout", message: "slow" } });
  assert.equal(ending(words, failed), `${words.answerFailed} ${words.errors.timeout}`);
});

test("what a reader hears of answers, step by step", () => {
  const words = WORDS.en;
  let heard: Heard | null = null;
  const hear = (messages: Message[], mine: number | null = null, sending = false): string | null => {
    const now = hearing(words, heard, messages, { mine, sending });
    heard = now.heard;
    return now.say;
  };
  assert.equal(hear([]), null);
  assert.equal(hear([answer(1, { text: "history" })]), null);
  const failed = answer(2, { state: "error" });
  assert.equal(hear([answer(1), failed], null, true), null);
  assert.equal(hear([answer(1), failed], 2), ending(words, failed)); // never seen unfinished, and asked for here
  assert.equal(hear([answer(1), failed], 2), null);
  assert.equal(hear([answer(3, { state: "streaming" })]), null);
  assert.equal(hear([answer(3, { state: "streaming", text: "x" })]), words.answerBegins);
  assert.equal(hear([answer(3, { state: "streaming", text: "xy" })]), null);
  const both = [answer(3, { state: "cancelled", text: "xy" }), answer(4, { state: "streaming", text: "z" })];
  assert.equal(hear(both), words.answerStopped);
  assert.equal(hear(both), words.answerBegins);
});

import assert from "node:assert/strict";
import { test } from "node:test";
import { compareIds, EMPTY, fold, foldAll, merge, type Conversation, type Message } from "../src/fold.ts";
import type { Frame } from "../src/sse.ts";

const USER: Message = { id: 1, role: "user", text: "hi", state: "done" };
const ANSWER: Message = { id: 2, role: "assistant", text: "", state: "streaming", generation: 5 };

function at(messages: Message[], cursor: string, live: number | null = null): Conversation {
  return { messages, cursor, live };
}

/** One turn as a log has it. */
const TURN: Frame[] = [
  { event: "start", message_id: 2, generation: 5, frameId: "5-0" },
  { event: "provider", provider: "kimi", frameId: "5-1" },
  { event: "reasoning", reasoning: "think", frameId: "5-2" },
  { event: "reasoning", reasoning: "ing", frameId: "5-3" },
  { event: "tool_call", part: 1, call: "c1", name: "clock", frameId: "5-4" },
  { event: "tool_call", part: 1, call: "c1", arguments: '{"zone":', frameId: "5-5" },
  { event: "token", token: "It ", frameId: "5-6" },
  { event: "tool_call", part: 2, call: "c2", name: "tide", arguments: "{}", frameId: "5-7" },
  { event: "tool_call", part: 1, call: "c1", arguments: '"UTC"}', frameId: "5-8" },
  { event: "token", token: "is ", frameId: "5-9" },
  { event: "token", token: "noon.", frameId: "5-10" },
  { event: "done", message_id: 2, provider: "kimi", frameId: "5-11" },
];
const BEGIN = at([USER, ANSWER], "4-9", 2);
const END = foldAll(BEGIN, TURN).at;

test("a turn folds to its message", () => {
  const message = END.messages[1]!;
  assert.equal(message.text, "It is noon.");
  assert.equal(message.reasoning, "thinking");
  assert.equal(message.provider, "kimi");
  assert.equal(message.state, "done");
  assert.deepEqual(message.tools, [
    { id: "c1", name: "clock", args: '{"zone":"UTC"}' },
    { id: "c2", name: "tide", args: "{}" },
  ]);
  assert.equal(END.live, null);
  assert.equal(END.cursor, "5-11");
});

test("cut after any frame and resumed, nothing is lost and nothing doubled", () => {
  for (let cut = 0; cut <= TURN.length; cut++) {
    const before = foldAll(BEGIN, TURN.slice(0, cut)).at;
    const again = TURN.filter((frame) => compareIds(frame.frameId!, before.cursor) > 0);
    assert.deepEqual(foldAll(before, again).at.messages, END.messages, `cut after ${cut}`);
  }
});

test("frames that come twice, in any overlap, change nothing", () => {
  for (let from = 0; from < TURN.length; from++) {
    const twice = [...TURN.slice(0, from + 1), ...TURN.slice(from), ...TURN];
    assert.deepEqual(foldAll(BEGIN, twice).at.messages, END.messages);
  }
});

test("ids are compared as numbers", () => {
  assert.ok(compareIds("2-10", "2-9") > 0);
  assert.ok(compareIds("10-0", "9-99") > 0);
  assert.ok(compareIds("", "0-0") < 0);
  assert.equal(compareIds("3-4", "3-4"), 0);
});

test("a snapshot replaces, and the tail is added to it", () => {
  const frames: Frame[] = [
    { event: "snapshot", message_id: 2, text: "It is", frameId: "5-4" },
    { event: "token", token: " noon.", frameId: "5-5" },
  ];
  const folded = foldAll(at([USER, { ...ANSWER, text: "It was" }], "5-2", 2), frames);
  assert.equal(folded.at.messages[1]!.text, "It is noon.");
  assert.equal(folded.stale, false);
});

test("only the newest answer changes, and the others keep their objects", () => {
  const old: Message = { ...ANSWER, id: 0, text: "old", state: "done" };
  const now = fold(at([old, USER, ANSWER], "5-1", 2), { event: "token", token: "x", frameId: "5-2" }).at;
  assert.equal(now.messages[0], old);
  assert.equal(now.messages[1], USER);
});

test("what is not known here asks for a reading", () => {
  assert.equal(fold(EMPTY, { event: "start", message_id: 9, generation: 1, frameId: "1-0" }).stale, true);
  assert.equal(fold(EMPTY, { event: "token", token: "x", frameId: "1-1" }).stale, true);
  assert.equal(fold(EMPTY, { event: "snapshot", message_id: 3, text: "x", frameId: "1-1" }).stale, true);
});

test("an event of the future is passed over, and its id counts", () => {
  const folded = fold(at([], "1-0"), { event: "weather", frameId: "1-1" });
  assert.equal(folded.at.cursor, "1-1");
  assert.equal(folded.stale, false);
});

test("an end with a failure, an interruption, a reason", () => {
  const live = at([USER, { ...ANSWER, text: "part" }], "5-2", 2);
  const failed = fold(live, { event: "error", error: { type: "timeout", message: "slow" }, frameId: "5-3" }).at;
  assert.deepEqual(failed.messages[1]!.error, { type: "timeout", message: "slow" });
  const broken = fold(live, { event: "done", message_id: 2, interrupted: { type: "network" }, frameId: "5-3" }).at;
  assert.equal(broken.messages[1]!.interrupted, "network");
  const stopped = fold(live, { event: "cancelled", message_id: 2, reason: "stopped by the user", frameId: "5-3" }).at;
  assert.equal(stopped.messages[1]!.state, "cancelled");
  assert.equal(stopped.messages[1]!.text, "part");
});

test("a reading at the same place or later is taken whole", () => {
  const read = at([USER, { ...ANSWER, text: "It is", state: "streaming" }], "5-4", 2);
  assert.equal(merge(at([USER, ANSWER], "5-3", 2), read), read);
  assert.equal(merge(at([USER, ANSWER], "5-4", 2), read), read);
});

test("a reading that frames overtook never shortens what is being written", () => {
  const here = at([USER, { ...ANSWER, text: "It is noon" }], "5-5", 2);
  const merged = merge(here, at([USER, { ...ANSWER, text: "It" }], "5-2", 2));
  assert.equal(merged.messages[1]!.text, "It is noon");
  assert.equal(merged.cursor, "5-5");
  assert.equal(merged.live, 2);
});

test("a reading that frames overtook brings what only it knows", () => {
  const here = at([{ ...ANSWER, text: "It is" }], "5-4", 2);
  const merged = merge(here, at([USER, { ...ANSWER, text: "" }], "5-0", 2));
  assert.deepEqual(merged.messages.map((m) => [m.id, m.text]), [[1, "hi"], [2, "It is"]]);
});

test("what ended by then is final", () => {
  const here = at([USER, { ...ANSWER, text: "It is noon.", state: "done" }], "6-1", null);
  const merged = merge(here, at([USER, { ...ANSWER, text: "It is noon.", state: "done", tokensOut: 4 }], "5-9", null));
  assert.equal(merged.messages[1]!.tokensOut, 4);
});

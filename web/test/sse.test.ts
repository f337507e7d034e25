import assert from "node:assert/strict";
import { test } from "node:test";
import { SseReader, type Frame } from "../src/sse.ts";

const BYTES = new TextEncoder().encode(
  [
    ": a comment\n\n",
    "retry: 1500\n",
    'data: {"event":"hello"}\n\n',
    'id: 3-0\ndata: {"event":"start","message_id":7,"generation":3}\n\n',
    'id: 3-1\r\ndata: {"event":"reasoning","reasoning":"so"}\r\n\r\n',
    'id: 3-2\rdata: {"event":"token","token":"a\u2028b\u0085c \u{1f30a}"}\r\r',
    'id:3-3\ndata:{"event":"tool_call","part":0,"id":"call_1"}\n\n',
    "data: [DONE]\n\ndata: \n\n",
    'id: 3-4\ndata: {"event":\ndata: "done"}\n\n',
  ].join(""),
);
const WANT: Frame[] = [
  { event: "hello" },
  { event: "start", message_id: 7, generation: 3, frameId: "3-0" },
  { event: "reasoning", reasoning: "so", frameId: "3-1" },
  { event: "token", token: "a\u2028b\u0085c \u{1f30a}", frameId: "3-2" },
  { event: "tool_call", part: 0, id: "call_1", frameId: "3-3" },
  { event: "done", frameId: "3-4" },
];

function read(pieces: Uint8Array[]): { frames: Frame[]; retryMs: number | undefined } {
  const reader = new SseReader();
  const fed = pieces.map((piece) => reader.feed(piece));
  return { frames: fed.flatMap((f) => f.frames), retryMs: fed.findLast((f) => f.retryMs !== undefined)?.retryMs };
}

test("frames are the same however their bytes are split", () => {
  assert.deepEqual(read([BYTES]), { frames: WANT, retryMs: 1500 });
  assert.deepEqual(read(Array.from(BYTES, (byte) => Uint8Array.of(byte))).frames, WANT);
  for (let cut = 1; cut < BYTES.length; cut++) {
    assert.deepEqual(read([BYTES.subarray(0, cut), BYTES.subarray(cut)]).frames, WANT, `split at ${cut}`);
  }
});

test("a frame that the end cuts is never given", () => {
  const whole = new TextEncoder().encode('id: 1-0\ndata: {"event":"token","token":"x"}\n\n');
  for (let cut = 0; cut < whole.length; cut++) assert.deepEqual(read([whole.subarray(0, cut)]).frames, []);
});

test("a line without an end has a bound", () => {
  const reader = new SseReader();
  assert.throws(() => {
    for (let i = 0; i < 40; i++) reader.feedText(`data: ${"x".repeat(1024 * 1024)}`);
  }, /too long/);
});

import assert from "node:assert/strict";
import { test } from "node:test";
import { Blocks, isBomb, Pace, type Block } from "../src/markdown/blocks.ts";

const TEXT = `# Title

A paragraph with **bold** and
a second line.

Setext
======

- one
- two

  with a paragraph
- three

| a | b |
|---|---|
| 1 | 2 |

\`\`\`py
def f():
    return "\`\`"

\`\`\`
After.

> quote
> more

~~~~
~~~
not closed by three
~~~~

1. x
2. y

<b>html</b>

last *line*`;

/** What matters of blocks: their kind and the raw text of their tokens. */
function shape(blocks: readonly Block[]): unknown[] {
  return blocks.map((block) =>
    block.kind === "tokens" ? ["tokens", block.tokens.map((token) => token.raw.trimEnd())] : block,
  );
}

const WHOLE = shape(new Blocks().read(TEXT, true));

test("read character by character, the blocks are those of the whole", () => {
  const reader = new Blocks();
  for (let length = 1; length <= TEXT.length; length++) reader.read(TEXT.slice(0, length), false);
  assert.deepEqual(shape(reader.read(TEXT, true)), WHOLE);
});

test("read in two pieces, split anywhere, likewise", () => {
  for (let cut = 1; cut < TEXT.length; cut++) {
    const reader = new Blocks();
    reader.read(TEXT.slice(0, cut), false);
    assert.deepEqual(shape(reader.read(TEXT, true)), WHOLE, `cut at ${cut}`);
  }
});

test("a settled block keeps its object, so that nothing paints it again", () => {
  const reader = new Blocks();
  const seen: Block[] = [];
  for (let length = 1; length <= TEXT.length; length++) {
    const blocks = reader.read(TEXT.slice(0, length), false);
    const settled = blocks.slice(0, -1);
    settled.forEach((block, index) => {
      if (seen[index] === undefined) seen[index] = block;
      // The last but one may still be settling with the block after it.
      else if (index < settled.length - 1) assert.equal(block, seen[index], `block ${index} at ${length}`);
      seen[index] = block;
    });
  }
  assert.ok(seen.length > 8);
});

test("a text that is another one is read anew", () => {
  const reader = new Blocks();
  reader.read("# one\n\ntwo\n\nthree", false);
  assert.deepEqual(shape(reader.read("# other\n\ntext", true)), shape(new Blocks().read("# other\n\ntext", true)));
});

test("an open fence is code from its first line on", () => {
  const reader = new Blocks();
  assert.deepEqual(reader.read("```js\nlet x", false), [{ kind: "code", language: "js", text: "let x", open: true }]);
  assert.deepEqual(reader.read("```js\nlet x\n``", false).at(-1), { kind: "code", language: "js", text: "let x\n``", open: true });
  assert.deepEqual(reader.read("```js\nlet x\n```\n", false), [{ kind: "code", language: "js", text: "let x", open: false }]);
  assert.deepEqual(new Blocks().read("```\n```", true), [{ kind: "code", language: "", text: "", open: false }]);
});

const item = (n: number) => `${n}. item *number* ${n} ${"and more ".repeat(8)}\n`;
const LIST = Array.from({ length: 300 }, (_, n) => item(n + 1)).join("");

test("a long list is settled item by item while it grows, and is one list in the end", () => {
  const reader = new Blocks();
  let most = 0;
  for (let at = 0; at < LIST.length; at += 40) {
    const last = reader.read(LIST.slice(0, at), false).at(-1);
    if (last?.kind === "tokens") most = Math.max(most, last.tokens[0]!.raw.length);
  }
  assert.ok(most < 4_200, `the last block grew to ${most} characters`);
  const starts = reader.read(LIST, false).flatMap((block) => (block.kind === "tokens" ? [Number(/\d+/.exec(block.tokens[0]!.raw)![0])] : []));
  assert.equal(starts[0], 1);
  assert.ok(starts.length > 3);
  assert.deepEqual(shape(reader.read(LIST, true)), shape(new Blocks().read(LIST, true)));
  assert.equal(new Blocks().read(LIST, true).length, 1);
});

function cost(lines: number): number {
  const source = `\`\`\`js\n${"const a = 1;\n".repeat(lines)}`;
  const reader = new Blocks();
  const begin = performance.now();
  for (let at = 0; at < source.length; at += 13) reader.read(source.slice(0, at + 13), false);
  return performance.now() - begin;
}

test("ten times the listing costs about ten times the time, not a hundred", () => {
  cost(500);
  const small = Math.min(cost(400), cost(400), cost(400));
  const large = Math.min(cost(4_000), cost(4_000));
  assert.ok(large < 40 * small + 20, `${small} ms and ${large} ms`);
});

test("a bomb is plain text, and fast", () => {
  const bombs = [">".repeat(32_000), "[".repeat(32_000), `${"- ".repeat(16_000)}x`, "1. ".repeat(10_000), "![".repeat(16_000)];
  const begin = performance.now();
  for (const bomb of bombs) {
    const blocks = new Blocks().read(bomb, true);
    assert.ok(blocks.length > 0);
  }
  assert.ok(performance.now() - begin < 3_000);
  assert.ok(isBomb(">".repeat(100)));
  assert.ok(!isBomb(TEXT));
  assert.ok(!isBomb("a long line ".repeat(2_000)));
});

test("after a painting that took long the next waits in proportion", () => {
  const pace = new Pace();
  assert.equal(pace.wait(0), 0);
  pace.took(0, 50);
  assert.equal(pace.wait(50), 200);
  assert.equal(pace.wait(250), 0);
  pace.took(250, 252);
  assert.equal(pace.wait(252), 0);
});

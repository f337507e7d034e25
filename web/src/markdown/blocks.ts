/**
 * Markdown that grows, cut into blocks so that only the last is read again.  Pure.
 *
 * A block is settled once the block after it has a whole line: nothing that follows can change it any more.  What is
 * settled keeps its object, so a renderer can skip it by identity.  An open code fence is scanned line by line and never
 * parsed: a long listing costs what its new lines cost.  Of a long list the first items are settled before it ends, and
 * in the end it is read once more as the one list it is.  What remains (one enormous paragraph) is bounded by `Pace`.
 */

import { Lexer, type Links, type Token, type Tokens } from "marked";

export type Block =
  | { readonly kind: "code"; readonly language: string; readonly text: string; readonly open: boolean }
  | { readonly kind: "tokens"; readonly tokens: Token[] }
  | { readonly kind: "plain"; readonly text: string };

const FENCE = /^( {0,3})(`{3,}|~{3,})([^\n]*)\n/;
const OPTIONS = { gfm: true, breaks: true };

/** Beyond these a text is no document but an attack on the parser, and is shown as it is. */
const MAX_NESTING = 24;
const MAX_LINE_MARKS = 1_500;

/** A list that grows beyond this is cut between two of its items. */
const LONG_LIST_CHARS = 4_000;

interface Fence {
  readonly mark: string;
  readonly language: string;
  /** Offsets in the whole text: of the code, and of the first line not yet looked at. */
  readonly from: number;
  scanned: number;
}

export class Blocks {
  #text = "";
  #at = 0;
  #settled: Block[] = [];
  #fence: Fence | null = null;
  /** The blocks of the last tail, by where they begin: one whose text is the same is the same block. */
  #tail = new Map<number, { readonly raw: string; readonly block: Block | null }>();
  #final: readonly Block[] | null = null;
  /** A list was cut, which would be another one if it were read whole. */
  #cut = false;
  readonly #links: Links = {};

  /** The blocks of the text.  A text that continues the last one is read on; any other is read anew. */
  read(text: string, over: boolean): readonly Block[] {
    if (over && this.#final !== null && text === this.#text) return this.#final;
    const goes = over ? text.startsWith(this.#text) : goesOn(text, this.#text);
    // A definition of a link is good for what stands before it too: in the end all is read once with all of them.
    if (!goes || (over && (this.#cut || Object.keys(this.#links).length > 0))) this.#restart();
    const blocks = this.#read(text, over);
    this.#final = over ? blocks : null;
    return blocks;
  }

  #read(text: string, over: boolean): readonly Block[] {
    this.#text = text;
    for (;;) {
      if (this.#fence === null) this.#openFence();
      if (this.#fence !== null) {
        const open = this.#readFence(this.#fence, over);
        if (open !== null) return [...this.#settled, open];
        continue;
      }
      const tail = this.#readTail(over);
      if (tail !== null) return tail.length > 0 ? [...this.#settled, ...tail] : this.#settled;
    }
  }

  #restart(): void {
    this.#text = "";
    this.#at = 0;
    this.#settled = [];
    this.#fence = null;
    this.#tail.clear();
    this.#cut = false;
    for (const name of Object.keys(this.#links)) Reflect.deleteProperty(this.#links, name);
  }

  #openFence(): void {
    const opening = FENCE.exec(this.#text.slice(this.#at, this.#at + 200));
    const [whole, , mark, info] = opening ?? [];
    if (whole === undefined || mark === undefined || info === undefined) return;
    if (mark.startsWith("`") && info.includes("`")) return; // that is inline code
    const from = this.#at + whole.length;
    this.#fence = { mark, language: info.trim().split(/\s/)[0] ?? "", from, scanned: from };
  }

  /** The code so far while the fence is open; null when it was closed, and is settled. */
  #readFence(fence: Fence, over: boolean): Block | null {
    const text = this.#text;
    const closing = new RegExp(`^ {0,3}${fence.mark[0] ?? ""}{${fence.mark.length},}[ \\t]*$`);
    let line = fence.scanned;
    for (;;) {
      const end = text.indexOf("\n", line);
      const last = end < 0;
      // A last line without its end may yet become something else than the closing one.
      if ((!last || over) && closing.test(text.slice(line, last ? undefined : end))) {
        this.#settled.push(code(fence.language, text.slice(fence.from, Math.max(fence.from, line - 1)), false));
        this.#fence = null;
        this.#at = last ? text.length : end + 1;
        return null;
      }
      if (last) break;
      line = end + 1;
    }
    fence.scanned = line;
    return code(fence.language, text.slice(fence.from), !over);
  }

  /** What is not settled; null when something of it was, and the rest must be looked at again. */
  #readTail(over: boolean): readonly Block[] | null {
    const tail = this.#text.slice(this.#at);
    if (tail === "") return [];
    if (isBomb(tail)) return [{ kind: "plain", text: tail }];
    const tokens = this.#lex(tail);
    if (tokens === null) return [{ kind: "plain", text: tail }];
    const blocks = this.#blocks(tokens);
    const solid = over ? 0 : settledBefore(tokens);
    if (solid === 0) {
      if (!over && this.#cutList(tokens)) return null;
      return blocks.filter((block) => block !== null);
    }
    tokens.slice(0, solid).forEach((token, index) => {
      this.#at += token.raw.length;
      const block = blocks[index];
      if (block !== undefined && block !== null) this.#settled.push(block);
    });
    return null;
  }

  /** Settles all but the last items of a list that has become long.  The next one goes on with its number. */
  #cutList(tokens: readonly Token[]): boolean {
    const list = tokens[0];
    if (list?.type !== "list" || list.raw.length < LONG_LIST_CHARS) return false;
    const items = (list as Tokens.List).items;
    const kept = items.slice(0, -2);
    if (kept.length === 0) return false;
    const raw = kept.map((item) => item.raw).join("");
    if (!this.#text.startsWith(raw, this.#at)) return false;
    this.#settled.push({ kind: "tokens", tokens: [{ ...list, raw, items: kept }] });
    this.#at += raw.length;
    this.#cut = true;
    return true;
  }

  #lex(source: string): Token[] | null {
    const lexer = new Lexer(OPTIONS);
    Object.assign(lexer.tokens.links, this.#links);
    try {
      const tokens = lexer.lex(source);
      Object.assign(this.#links, lexer.tokens.links);
      return tokens;
    } catch (error) {
      if (error instanceof RangeError || error instanceof Error) return null; // the stack of the parser is spent
      throw error;
    }
  }

  /** A block for each token; null for those that show nothing. */
  #blocks(tokens: Token[]): (Block | null)[] {
    const before = this.#tail;
    this.#tail = new Map();
    let at = this.#at;
    return tokens.map((token) => {
      const known = before.get(at);
      const entry = known?.raw === token.raw ? known : { raw: token.raw, block: blockOf(token) };
      this.#tail.set(at, entry);
      at += token.raw.length;
      return entry.block;
    });
  }
}

function blockOf(token: Token): Block | null {
  if (token.type === "space" || token.type === "def") return null;
  if (token.type === "code" && token.codeBlockStyle !== "indented") {
    return code(String(token.lang ?? "").split(/\s/)[0] ?? "", String(token.text), false);
  }
  return { kind: "tokens", tokens: [token] };
}

/** How many of the first tokens nothing can change any more: those before the last token that has a whole line. */
function settledBefore(tokens: readonly Token[]): number {
  const last = tokens.findLastIndex((token) => token.type !== "space");
  if (last <= 0 || tokens[last]?.raw.includes("\n")) return Math.max(last, 0);
  return Math.max(tokens.slice(0, last).findLastIndex((token) => token.type !== "space"), 0);
}

const LOOKED_AT = 64;

/** Whether a text continues another, judged by its length and the end of what was there: looking at all of it for every
 * piece would be quadratic.  A text that is over is compared whole. */
export function goesOn(text: string, before: string): boolean {
  const from = Math.max(0, before.length - LOOKED_AT);
  return text.length >= before.length && text.slice(from, before.length) === before.slice(from);
}

function code(language: string, text: string, open: boolean): Block {
  return { kind: "code", language: language.toLowerCase(), text: open ? text : text.replace(/\n+$/, ""), open };
}

/** Nesting that no writer means, and lines with so many brackets that pairing them takes seconds. */
export function isBomb(text: string): boolean {
  for (const line of text.split("\n")) {
    const marks = /^(?:[\s>*+-]|\d{1,9}[.)] )*/.exec(line)?.[0] ?? "";
    if (marks.replace(/[^>*+.)]/g, "").length > MAX_NESTING || marks.length > 400) return true;
    if (line.length > MAX_LINE_MARKS && (line.match(/[[\]!*_`<~]/g)?.length ?? 0) > MAX_LINE_MARKS) return true;
  }
  return false;
}

/**
 * How often a growing text may be rendered: after one that took long, the next waits in proportion, so that rendering
 * never takes more than a fifth of the time, whatever arrives.
 */
export class Pace {
  #freeAt = 0;

  /** Milliseconds until the next rendering may begin. */
  wait(now: number): number {
    return Math.max(0, this.#freeAt - now);
  }

  took(start: number, end: number): void {
    this.#freeAt = end - start < 4 ? 0 : end + 4 * (end - start);
  }
}

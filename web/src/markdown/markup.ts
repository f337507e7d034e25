/**
 * Blocks to elements.  Nothing that a model or a user wrote becomes markup by itself: HTML in Markdown is shown as text,
 * images become links (a picture of another host would tell it who reads this), and what the parser made passes through
 * DOMPurify with a short list of elements before it enters the page.
 */

import DOMPurify from "dompurify";
import { Parser, Renderer, type Token, type Tokens } from "marked";
import { highlight } from "./highlight.ts";
import { goesOn, type Block } from "./blocks.ts";

const ALLOWED = {
  ALLOWED_TAGS: [
    ..."p br strong em del code pre blockquote ul ol li h3 h4 h5 h6 hr table thead tbody tr th td a span".split(" "),
  ],
  ALLOWED_ATTR: ["href", "class", "start", "align", "title", "data-language"],
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:)/i,
  ADD_URI_SAFE_ATTR: ["start", "align", "data-language"], // whatever else is allowed is judged as an address
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_DOM_FRAGMENT: true as const,
};

function escape(text: string): string {
  return text.replace(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`);
}

class PageRenderer extends Renderer {
  override html(token: Tokens.HTML | Tokens.Tag): string {
    return token.block ? `<p>${escape(token.text)}</p>` : escape(token.text);
  }

  override image(token: Tokens.Image): string {
    const name = token.text || token.href;
    return `<a href="${escape(token.href)}">${escape(name)}</a>`;
  }

  /** The page has the first two levels. */
  override heading(token: Tokens.Heading): string {
    const level = Math.min(token.depth + 2, 6);
    return `<h${level}>${this.parser.parseInline(token.tokens)}</h${level}>`;
  }

  override checkbox(token: Tokens.Checkbox): string {
    return token.checked ? "☑ " : "☐ ";
  }

  override code(token: Tokens.Code): string {
    const language = escape((token.lang ?? "").split(/\s/)[0] ?? "");
    return `<pre data-language="${language}"><code>${escape(token.text)}</code></pre>`;
  }
}

const OPTIONS = { renderer: new PageRenderer() };

export interface Words {
  readonly copy: string;
  readonly code: string;
  readonly table: string;
}

/** The elements of one block.  Closed code is highlighted; while it is being written it is not. */
export function elementOf(block: Block, words: Words): Node {
  switch (block.kind) {
    case "code":
      return figure(block.language, block.text, words, !block.open);
    case "plain":
      return plain(block.text);
    case "tokens":
      return fragment(block.tokens, words);
  }
}

function fragment(tokens: Token[], words: Words): Node {
  let markup: string;
  try {
    markup = Parser.parse(tokens, OPTIONS);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error; // nested deeper than the stack
    return plain(tokens.map((token) => token.raw).join(""));
  }
  const clean = DOMPurify.sanitize(markup, ALLOWED);
  for (const link of clean.querySelectorAll("a")) {
    link.target = "_blank";
    link.rel = "noopener noreferrer nofollow";
  }
  for (const pre of clean.querySelectorAll("pre")) {
    pre.replaceWith(figure(pre.dataset.language ?? "", pre.textContent, words, true));
  }
  for (const table of clean.querySelectorAll("table")) {
    const frame = document.createElement("div");
    frame.className = "table";
    frame.tabIndex = 0;
    frame.setAttribute("role", "region");
    frame.setAttribute("aria-label", words.table);
    table.replaceWith(frame);
    frame.append(table);
  }
  return clean;
}

function plain(text: string): Node {
  const pre = document.createElement("div");
  pre.className = "plain";
  pre.textContent = text;
  return pre;
}

function figure(language: string, text: string, words: Words, colours: boolean): HTMLElement {
  const frame = document.createElement("figure");
  frame.className = "code";
  const bar = document.createElement("figcaption");
  const name = document.createElement("span");
  name.textContent = language;
  const copy = document.createElement("button");
  copy.type = "button";
  copy.dataset.copy = "";
  copy.textContent = words.copy;
  bar.append(name, copy);
  const pre = document.createElement("pre");
  pre.tabIndex = 0;
  pre.setAttribute("role", "region");
  pre.setAttribute("aria-label", language === "" ? words.code : `${words.code}: ${language}`);
  const inner = document.createElement("code");
  if (colours) inner.textContent = text;
  else appendCode(inner, text);
  pre.append(inner);
  frame.append(bar, pre);
  if (colours) void highlight(inner, language, text);
  return frame;
}

/** Characters of one piece of an open code block, at least: the lines of a piece are laid out together. */
const PIECE_CHARS = 2_000;

/** More of a code block that is still being written, whose text was `before`: nothing that stands is touched. */
export function growCode(frame: Element, before: string, text: string): boolean {
  const inner = frame.querySelector("pre > code");
  if (inner === null || !goesOn(text, before)) return false;
  appendCode(inner, text.slice(before.length));
  return true;
}

/** In pieces of whole lines, each a block of its own: else every new line would lay out all of them again. */
function appendCode(inner: Element, text: string): void {
  let at = 0;
  while (at < text.length) {
    let piece = inner.lastElementChild;
    if (piece === null || (piece.textContent.length >= PIECE_CHARS && piece.textContent.endsWith("\n"))) {
      piece = document.createElement("span");
      piece.className = "piece";
      piece.append("");
      inner.append(piece);
    }
    const room = Math.max(PIECE_CHARS - piece.textContent.length, 0);
    const line = text.indexOf("\n", at + room);
    const end = line < 0 ? text.length : line + 1;
    (piece.firstChild as Text).appendData(text.slice(at, end));
    at = end;
  }
}

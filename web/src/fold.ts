/**
 * Frames to a conversation.  Pure.
 *
 * A conversation is its messages and the `cursor` that they are folded to, the id of the newest frame they include.  A
 * frame is applied if and only if it is beyond the cursor, so one that comes twice (a reconnect, a second tab, a reload
 * that was already ahead) changes nothing.  Ids are "<generation>-<seq>" and are compared as two numbers.  No
 * two frames of a chat have the same, so the cursor is also where to go on from after a cut.
 */

import type { Frame } from "./sse.ts";

export type MessageState = "queued" | "streaming" | "done" | "cancelled" | "error";

export interface Failure {
  readonly type: string;
  readonly message: string;
  /** What exactly, in a word of the server's. */
  readonly code?: string;
}

export interface ToolCall {
  readonly id: string;
  readonly name: string;
  readonly args: string;
  readonly result?: string;
}

export interface Attachment {
  readonly name: string;
  readonly mediaType: string;
  readonly bytes: number;
  /** base64 */
  readonly data?: string;
}

export interface Message {
  readonly id: number;
  readonly role: "user" | "assistant" | "system";
  readonly text: string;
  readonly state: MessageState;
  readonly reasoning?: string;
  readonly tools?: readonly ToolCall[];
  readonly attachments?: readonly Attachment[];
  readonly turn?: number;
  /** The turn that this one's turn does again. */
  readonly redoes?: number;
  readonly generation?: number;
  readonly provider?: string;
  readonly model?: string;
  readonly error?: Failure;
  /** The answer ended early, with its text so far: the type of the failure. */
  readonly interrupted?: string;
  /** The text ends with words of the server's on that, which are a part of their own. */
  readonly warned?: boolean;
  readonly reason?: string;
  readonly tokensIn?: number;
  readonly tokensOut?: number;
  readonly estimated?: boolean;
  readonly cost?: { readonly amount: number; readonly currency: string };
  /** The conversation was longer than the model takes: it was sent from this message on. */
  readonly sentFrom?: number;
  readonly createdAt?: string;
}

export interface Conversation {
  readonly messages: readonly Message[];
  readonly cursor: string;
  /** The message that tokens go to. */
  readonly live: number | null;
}

/** `stale`: a frame spoke of something that is not known here; the conversation must be read again. */
export interface Folded {
  readonly at: Conversation;
  readonly stale: boolean;
}

export const EMPTY: Conversation = { messages: [], cursor: "", live: null };

/** Negative, zero or positive, as `a` is before, at or after `b`.  "" is before everything. */
export function compareIds(a: string, b: string): number {
  const [ag, an] = pair(a);
  const [bg, bn] = pair(b);
  return ag - bg || an - bn;
}

export function generationOf(id: string): number {
  return pair(id)[0];
}

function pair(id: string): [number, number] {
  const dash = id.indexOf("-");
  if (dash < 0) return [-1, -1];
  return [Number(id.slice(0, dash)), Number(id.slice(dash + 1))];
}

export function isOver(state: MessageState): boolean {
  return state !== "queued" && state !== "streaming";
}

/** The conversation with one frame more. */
export function fold(at: Conversation, frame: Frame): Folded {
  const { frameId } = frame;
  if (frameId !== undefined && compareIds(frameId, at.cursor) <= 0) return { at, stale: false };
  const handler = HANDLERS[frame.event];
  const folded = handler === undefined ? { at, stale: false } : handler(at, frame);
  return frameId === undefined ? folded : { at: { ...folded.at, cursor: frameId }, stale: folded.stale };
}

export function foldAll(at: Conversation, frames: readonly Frame[]): Folded {
  let stale = false;
  for (const frame of frames) {
    const folded = fold(at, frame);
    at = folded.at;
    stale ||= folded.stale;
  }
  return { at, stale };
}

/**
 * What is known here and what was just read, as one.
 *
 * Read at the same place or later: it is the truth.  Read earlier (frames overtook the request): what had ended by then
 * is final and is taken, what was still being written is further here, and messages that only one side knows stay.
 */
export function merge(here: Conversation, read: Conversation): Conversation {
  if (compareIds(read.cursor, here.cursor) >= 0) return read;
  const known = new Map(here.messages.map((message) => [message.id, message]));
  const messages = read.messages.map((message) => {
    const mine = known.get(message.id);
    return mine === undefined || isOver(message.state) ? message : { ...message, ...mine };
  });
  const listed = new Set(read.messages.map((message) => message.id));
  const newest = read.messages.reduce((most, message) => Math.max(most, message.id), 0);
  const later = here.messages.filter((message) => !listed.has(message.id) && message.id > newest);
  const all = [...messages, ...later];
  const live = here.live !== null && all.some((m) => m.id === here.live && !isOver(m.state)) ? here.live : null;
  return { ...here, messages: all, live };
}

type Handler = (at: Conversation, frame: Frame) => Folded;

const HANDLERS: Readonly<Record<string, Handler>> = {
  start: started,
  provider: (at, frame) => change(at, at.live, () => ({ provider: text(frame.provider) })),
  token: (at, frame) => change(at, at.live, (m) => ({ text: m.text + text(frame.token) })),
  reasoning: (at, frame) =>
    change(at, at.live, (m) => ({ reasoning: (m.reasoning ?? "") + text(frame.reasoning) })),
  tool_call: (at, frame) => change(at, at.live, (m) => ({ tools: withTool(m.tools ?? [], frame) })),
  snapshot: replaced,
  done: (at, frame) => ended(at, frame, "done"),
  cancelled: (at, frame) => ended(at, frame, "cancelled"),
  error: (at, frame) => ended(at, frame, "error"),
};

function started(at: Conversation, frame: Frame): Folded {
  const id = Number(frame.message_id);
  const generation = Number(frame.generation);
  if (at.messages.some((message) => message.id === id)) {
    const folded = change(at, id, () => ({ state: "streaming", generation }));
    return { at: { ...folded.at, live: id }, stale: folded.stale };
  }
  const message: Message = { id, role: "assistant", text: "", state: "streaming", generation };
  return { at: { ...at, messages: [...at.messages, message], live: id }, stale: true };
}

function replaced(at: Conversation, frame: Frame): Folded {
  const id = frame.message_id === undefined ? at.live : Number(frame.message_id);
  const known = at.messages.some((message) => message.id === id);
  if (id === null || !known) return { at, stale: true };
  const folded = change(at, id, () => ({ text: text(frame.text), state: "streaming" }));
  return { at: { ...folded.at, live: id }, stale: folded.stale };
}

/** Frames do not tell the server's words from the model's: until the row is read, they are known by their form. */
const WARNING = /(?:^|\n\n)⚠️ [^\n]*$/;

function ended(at: Conversation, frame: Frame, state: MessageState): Folded {
  const id = typeof frame.message_id === "number" ? frame.message_id : at.live;
  const failure = failureOf(frame.error);
  const interrupted = (frame.interrupted as { type?: unknown } | undefined)?.type;
  const folded = change(at, id, (message) => ({
    state,
    ...(failure === undefined ? {} : { error: failure }),
    ...(typeof interrupted === "string" ? { interrupted, warned: WARNING.test(message.text) } : {}),
    ...(typeof frame.reason === "string" ? { reason: frame.reason } : {}),
    ...(typeof frame.provider === "string" ? { provider: frame.provider } : {}),
  }));
  // A turn that was superseded before it began has no answer (and its id is of a row that is gone): read again.
  return { at: { ...folded.at, live: at.live === id ? null : at.live }, stale: folded.stale };
}

function change(at: Conversation, id: number | null, edit: (message: Message) => Partial<Message>): Folded {
  // From the end: it is nearly always the newest that changes, and only the newest is ever live (promise 133).
  for (let index = at.messages.length - 1; index >= 0; index--) {
    const message = at.messages[index];
    if (message?.id !== id) continue;
    const messages = at.messages.slice();
    messages[index] = { ...message, ...edit(message) };
    return { at: { ...at, messages }, stale: false };
  }
  return { at, stale: true };
}

/** The first frame of a call has its name, the following have pieces of its arguments. */
function withTool(tools: readonly ToolCall[], frame: Frame): ToolCall[] {
  const id = text(frame.call);
  const before = tools.find((tool) => tool.id === id);
  const tool: ToolCall = {
    ...before,
    id,
    name: text(frame.name) || (before?.name ?? ""),
    args: (before?.args ?? "") + text(frame.arguments),
  };
  return before === undefined ? [...tools, tool] : tools.map((t) => (t === before ? tool : t));
}

export function failureOf(value: unknown): Failure | undefined {
  if (typeof value === "string") return { type: value, message: value };
  if (typeof value !== "object" || value === null) return undefined;
  const { type, message } = value as { type?: unknown; message?: unknown };
  return { type: text(type) || "unavailable", message: text(message) };
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/**
 * The server, as this page knows it: every route, every body and every answer, here and nowhere else.
 *
 *   GET    /api/chats?limit=&before=     {chats: [chat], next}             newest first; `next` is the `before` of the next
 *                                        page, and a page has 200 at most; with q= those that hold the words
 *   POST   /api/chats                    {chatId, id, chat}
 *   GET    /api/chats/{id}               {chat, messages: [message], cursor}
 *   PUT    /api/chats/{id}               {title?, instructions?}           DELETE: 204
 *   POST   /api/chats/{id}/stream        {content?, redo?, model?, attachments?, detach}   frames; this page reads the
 *                                        first and leaves, which `detach` says is no stop; the rest comes by /events
 *   POST   /api/chats/{id}/cancel        {generation} -> {cancelled}
 *   GET    /api/chats/{id}/events?after= frames with ids
 *   GET    /api/ai/models                {selected, models: [...], offer, limits}  PUT /api/ai/model {model}
 *   POST   /api/auth/{login,signup}      {name, password} -> {access_token, user}; guest, refresh: the same without body
 *   GET    /api/auth/me                  {user}   DELETE: the account and all that is its   POST /api/auth/logout
 *   POST   /api/pull                     {model} -> lines of JSON, as Ollama's clients read them
 *
 * The access token is kept in memory alone; the cookie that renews it is not visible to scripts.  A key of the server's,
 * where it asks for one, is kept in memory too and sent beside the token, in a header of its own.
 */

import { failureOf, type Attachment, type Conversation, type Message, type MessageState, type ToolCall } from "./fold.ts";
import { SseReader, type Fed, type Frame } from "./sse.ts";

export interface User {
  readonly id: string;
  readonly name: string;
  readonly guest: boolean;
}

export interface Chat {
  readonly id: number;
  readonly title: string;
  readonly updatedAt: string;
  readonly instructions: string;
  /** Where the searched words stand. */
  readonly snippet?: string;
}

export interface Choice {
  readonly id: string;
  readonly label: string;
  readonly provider: string;
  readonly configured: boolean;
  /** Why it cannot be chosen. */
  readonly reason?: string;
  readonly images: boolean;
  readonly files: boolean;
  readonly local: boolean;
}

export interface Models {
  readonly selected: string;
  readonly choices: readonly Choice[];
  /** A small model that can be pulled here; null where none may be, or it is here already. */
  readonly offer: { readonly model: string; readonly bytes: number; readonly licence: string } | null;
  readonly limits: Limits;
}

/** Of one message. */
export interface Limits {
  readonly contentChars: number;
  readonly attachments: number;
}

/** Those of the server's defaults until it has said its own. */
export function limitsOf(models: Models | null): Limits {
  return models?.limits ?? { contentChars: 32_000, attachments: 8 };
}

export interface Upload extends Attachment {
  readonly data: string;
}

/** What a message has attached, as it is sent again. */
export function uploads(files: readonly Attachment[] | undefined): readonly Upload[] {
  return (files ?? []).filter((file): file is Upload => file.data !== undefined);
}

/** Most chats that the server gives at once. */
export const CHATS_PAGE = 200;

/**
 * Without `content` the message of the redone turn is asked again.  It may be empty where there are attachments; those
 * of an edited message are sent with it again.
 */
export interface Submission {
  readonly content?: string;
  readonly model?: string;
  /** A message of the turn that this one does again. */
  readonly redo?: number;
  readonly attachments?: readonly Upload[];
}

export interface Progress {
  readonly status: string;
  readonly total?: number;
  readonly completed?: number;
}

/** An answer that is not 2xx, or none at all (`status` 0). */
export class ApiError extends Error {
  readonly status: number;
  readonly type: string;
  /** What exactly, in a word of the server's. */
  readonly code: string;

  constructor(status: number, type: string, message: string, code = "") {
    super(message);
    this.status = status;
    this.type = type;
    this.code = code;
  }
}

type Json = Readonly<Record<string, unknown>>;

/** What a key of the server's opens beyond what an account does.  Chats are a person's, and a key is nobody's. */
const KEYED = /^api\/(?:pull|auth\/(?:guest|signup))$/;

/** Where a 401 is about something else than the token's age. */
const UNRENEWED = /^api\/(?:pull|auth\/(?:login|logout|guest))$/;

interface Call {
  readonly body?: unknown;
  readonly signal?: AbortSignal | undefined;
  readonly headers?: Readonly<Record<string, string>>;
  readonly anonymous?: boolean;
  readonly keepalive?: boolean;
}

export class Api {
  readonly #base: string;
  #token: string | null = null;
  #renewing: Promise<boolean> | null = null;
  /** A key of the server's that the reader gave. */
  key: string | null = null;
  /** Called when the session has ended and cannot be renewed. */
  signedOut: () => void = () => undefined;

  constructor(base: string) {
    this.#base = base;
  }

  // --- accounts

  /** Signs in by the cookie; null when there is none. */
  async resume(): Promise<User | null> {
    return (await this.#renew()) ? this.me() : null;
  }

  async me(): Promise<User> {
    const body = await this.#json("GET", "api/auth/me");
    return user(record(body.user ?? body));
  }

  enter(how: "login" | "signup", name: string, password: string): Promise<User> {
    return this.#enter(how, { name, password });
  }

  /** A server without accounts has one guest, who needs no token. */
  async guest(): Promise<User> {
    try {
      return await this.#enter("guest", {});
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) return { id: "guest", name: "", guest: true };
      throw error;
    }
  }

  async leave(): Promise<void> {
    await this.#json("POST", "api/auth/logout", { body: {} });
    this.#token = null;
  }

  async deleteAccount(): Promise<void> {
    await this.#json("DELETE", "api/auth/me");
    this.#token = null;
  }

  async #enter(how: string, body: Json): Promise<User> {
    // Someone who signs up while a guest says so by the guest's token: the chats stay theirs.
    const answer = await this.#json("POST", `api/auth/${how}`, { body });
    this.#token = text(answer.access_token) || null;
    return answer.user === undefined ? this.me() : user(record(answer.user));
  }

  /** A new access token, once for all who wait; over all tabs one at a time, since each use changes the cookie. */
  #renew(): Promise<boolean> {
    const ask = async (): Promise<boolean> => {
      try {
        const answer = await this.#json("POST", "api/auth/refresh", { body: {}, anonymous: true });
        this.#token = text(answer.access_token) || null;
        return this.#token !== null;
      } catch (error) {
        if (error instanceof ApiError && error.status >= 400 && error.status < 500) return false;
        throw error;
      }
    };
    const locks = (navigator as { locks?: LockManager }).locks;
    this.#renewing ??= (locks === undefined ? ask() : locks.request("rivermouth:refresh", ask)).finally(() => {
      this.#renewing = null;
    });
    return this.#renewing;
  }

  // --- chats

  /** The newest chats, so many, in as many pages as that takes. */
  async chats(wanted: number): Promise<{ chats: Chat[]; more: boolean }> {
    const chats = new Map<number, Chat>(); // one that moves to the front between two pages is in both, or in neither
    let next = "";
    do {
      const limit = Math.min(wanted - chats.size, CHATS_PAGE);
      const before = next === "" ? "" : `&before=${encodeURIComponent(next)}`;
      const body = await this.#json("GET", `api/chats?limit=${limit}${before}`);
      for (const one of list(body.chats).map(chat)) if (!chats.has(one.id)) chats.set(one.id, one);
      next = text(body.next);
    } while (next !== "" && chats.size < wanted);
    return { chats: [...chats.values()], more: next !== "" };
  }

  async search(query: string, signal: AbortSignal): Promise<Chat[]> {
    return list((await this.#json("GET", `api/chats?q=${encodeURIComponent(query)}`, { signal })).chats).map(chat);
  }

  async createChat(): Promise<Chat> {
    const body = await this.#json("POST", "api/chats", { body: {} });
    return chat(record(body.chat));
  }

  async chat(id: number, signal?: AbortSignal): Promise<{ chat: Chat; at: Conversation }> {
    const body = await this.#json("GET", `api/chats/${id}`, { signal });
    const messages = list(body.messages).map(message);
    const cursor = text(body.cursor);
    const live = messages.findLast((m) => m.role === "assistant" && m.state === "streaming")?.id ?? null;
    return { chat: chat(record(body.chat)), at: { messages, cursor, live } };
  }

  async editChat(id: number, change: { title?: string; instructions?: string }): Promise<void> {
    await this.#json("PUT", `api/chats/${id}`, { body: change });
  }

  /** keepalive: the page may be closing. */
  async deleteChat(id: number, keepalive = false): Promise<void> {
    await this.#json("DELETE", `api/chats/${id}`, { keepalive });
  }

  /**
   * Submits a turn and gives its first frame: `start`, or the end if it never began.  The same key twice is one turn.
   * Leaving the stream is no stop: the answer goes on, and is read from `follow`.
   */
  async submit(id: number, what: Submission, key: string, signal: AbortSignal): Promise<Frame> {
    const leave = new AbortController();
    const either = AbortSignal.any([signal, leave.signal]);
    const call = { body: { ...what, detach: true }, signal: either, headers: { "idempotency-key": key } };
    for await (const { frames } of this.#frames(await this.#fetch("POST", `api/chats/${id}/stream`, call))) {
      const first = frames[0];
      if (first === undefined) continue;
      leave.abort();
      return first;
    }
    throw new ApiError(0, "network", "the stream ended before it began");
  }

  async stop(id: number, generation: number | undefined, messageId: number, signal?: AbortSignal): Promise<boolean> {
    const body = generation === undefined ? { message_id: messageId } : { generation };
    return (await this.#json("POST", `api/chats/${id}/cancel`, { body, signal })).cancelled === true;
  }

  /** The frames of a chat after the cursor, as they come, until the connection ends. */
  async *follow(id: number, cursor: string, signal: AbortSignal): AsyncGenerator<Fed> {
    const after = cursor === "" ? "" : `?after=${encodeURIComponent(cursor)}`;
    yield* this.#frames(await this.#fetch("GET", `api/chats/${id}/events${after}`, { signal }));
  }

  // --- models

  async models(): Promise<Models> {
    return models(await this.#json("GET", "api/ai/models"));
  }

  async choose(model: string): Promise<void> {
    await this.#json("PUT", "api/ai/model", { body: { model } });
  }

  /** The lines of a pull.  The last is "success", or the generator throws what went wrong. */
  async *pull(model: string, signal: AbortSignal): AsyncGenerator<Progress> {
    const answer = await this.#fetch("POST", "api/pull", { body: { model }, signal });
    for await (const line of lines(answer)) {
      const step = record(JSON.parse(line));
      if (step.error !== undefined) throw new ApiError(200, "pull", failureOf(step.error)?.message ?? "");
      yield {
        status: text(step.status),
        ...(typeof step.total === "number" ? { total: step.total } : {}),
        ...(typeof step.completed === "number" ? { completed: step.completed } : {}),
      };
    }
  }

  // --- the wire

  async #json(method: string, path: string, call: Call = {}): Promise<Json> {
    const answer = await this.#fetch(method, path, call);
    const body = await answer.text();
    return body === "" ? {} : record(JSON.parse(body));
  }

  async #fetch(method: string, path: string, call: Call = {}): Promise<Response> {
    const answer = await this.#send(method, path, call);
    if (answer.status !== 401 || call.anonymous) return accepted(answer);
    if (UNRENEWED.test(path)) return accepted(answer);
    if (!(await this.#renew())) {
      this.#token = null;
      if (path.startsWith("api/auth/")) return accepted(answer);
      this.signedOut();
      return accepted(answer);
    }
    return accepted(await this.#send(method, path, call));
  }

  async #send(method: string, path: string, call: Call): Promise<Response> {
    const headers: Record<string, string> = { accept: "application/json, text/event-stream", ...call.headers };
    if (call.body !== undefined) headers["content-type"] = "application/json";
    if (this.#token !== null && !call.anonymous) headers.authorization = `Bearer ${this.#token}`;
    if (this.key !== null && KEYED.test(path)) headers["x-api-key"] = this.key;
    try {
      return await fetch(this.#base + path, {
        method,
        headers,
        body: call.body === undefined ? null : JSON.stringify(call.body),
        signal: call.signal ?? null,
        keepalive: call.keepalive ?? false,
        cache: "no-store",
      });
    } catch (error) {
      if (call.signal?.aborted) throw error;
      throw new ApiError(0, "network", error instanceof Error ? error.message : String(error));
    }
  }

  async *#frames(answer: Response): AsyncGenerator<Fed> {
    const reader = new SseReader();
    for await (const bytes of chunks(answer)) yield reader.feed(bytes);
  }
}

async function accepted(answer: Response): Promise<Response> {
  if (answer.ok && answer.status !== 204) return answer;
  if (answer.status === 204 && !answer.url.includes("/events")) return answer;
  let said: unknown;
  try {
    said = JSON.parse(await answer.text());
  } catch {
    said = undefined; // a proxy's own page
  }
  const members = typeof said === "object" && said !== null ? (said as Json) : {};
  const failure = failureOf(members.error) ?? { type: "http", message: text(members.detail) };
  const code = text(record(members.error).code);
  throw new ApiError(answer.status, failure.type, failure.message || `HTTP ${answer.status}`, code);
}

/** The bytes of a body.  A cut is told apart from an end. */
async function* chunks(answer: Response): AsyncGenerator<Uint8Array> {
  const reader = answer.body?.getReader();
  if (reader === undefined) return;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    reader.cancel().catch(() => undefined); // it may be gone already
  }
}

async function* lines(answer: Response): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const bytes of chunks(answer)) {
    const parts = (rest + decoder.decode(bytes, { stream: true })).split("\n");
    rest = parts.pop() ?? "";
    yield* parts.filter((line) => line.trim() !== "");
  }
  if (rest.trim() !== "") yield rest;
}

// --- bodies, read without trust: a member that is not there is not shown

const STATES: Readonly<Record<string, MessageState>> = {
  queued: "queued",
  starting: "streaming",
  streaming: "streaming",
  stopping: "streaming",
  recovering: "streaming",
  completed: "done",
  done: "done",
  interrupted: "done",
  stopped: "cancelled",
  superseded: "cancelled",
  cancelled: "cancelled",
  failed: "error",
  error: "error",
};

function record(value: unknown): Json {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Json) : {};
}

function list(value: unknown): Json[] {
  return Array.isArray(value) ? value.map(record) : [];
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function user(body: Json): User {
  return { id: String(number(body.id) ?? text(body.id)), name: text(body.name), guest: body.guest === true };
}

function chat(body: Json): Chat {
  const snippet = text(body.snippet);
  return {
    id: Number(body.id),
    title: text(body.title),
    updatedAt: text(body.updated_at),
    instructions: text(body.instructions),
    ...(snippet === "" ? {} : { snippet }),
  };
}

export function message(body: Json): Message {
  const role = body.role === "user" || body.role === "system" ? body.role : "assistant";
  const error = failureOf(body.error);
  const said = typeof body.content === "string" ? body.content : joined(list(body.parts), "text");
  const state = role === "assistant" ? (STATES[text(body.state)] ?? "done") : "done";
  return {
    id: Number(body.id),
    role,
    text: said,
    state: state === "done" && error !== undefined && said === "" ? "error" : state,
    ...pieces(body),
    ...optional("error", error),
    ...optional("interrupted", named(record(body.interrupted).type)),
    ...(list(body.parts).some(of("warning")) ? { warned: true } : {}),
    ...optional("turn", number(body.turn)),
    ...optional("redoes", number(body.redoes)),
    ...optional("generation", number(body.generation)),
    ...optional("sentFrom", number(body.context_from)),
    ...optional("createdAt", named(body.created_at)),
    ...facts(body),
  };
}

/** What a message has beside its text. */
function pieces(body: Json): Partial<Message> {
  const parts = list(body.parts);
  const tools = parts.filter(of("tool_call")).map((part) => tool(part, parts));
  const files = parts.filter((part) => part.type === "image" || part.type === "file").map(attachment);
  return {
    ...optional("reasoning", named(body.reasoning) ?? named(joined(parts, "reasoning"))),
    ...(tools.length === 0 ? {} : { tools }),
    ...(files.length === 0 ? {} : { attachments: files }),
  };
}

/** Who answered, how much it was, what it cost. */
function facts(body: Json): Partial<Message> {
  const usage = record(body.usage);
  const cost = record(body.cost);
  return {
    ...optional("provider", named(body.provider)),
    ...optional("model", named(body.model)),
    ...optional("reason", named(body.reason)),
    ...optional("tokensIn", number(usage.input_tokens)),
    ...optional("tokensOut", number(usage.output_tokens)),
    ...(usage.estimated === true ? { estimated: true } : {}),
    ...(typeof cost.amount === "number" ? { cost: { amount: cost.amount, currency: text(cost.currency) || "USD" } } : {}),
  };
}

function joined(parts: readonly Json[], kind: string): string {
  return parts.filter(of(kind)).map((part) => text(part.text)).join("");
}

function named(value: unknown): string | undefined {
  return text(value) || undefined;
}

function of(kind: string): (part: Json) => boolean {
  return (part) => part.type === kind;
}

function tool(part: Json, parts: readonly Json[]): ToolCall {
  const id = text(part.id);
  const result = parts.filter(of("tool_result")).find((other) => other.id === id);
  const args = text(part.arguments);
  return { id, name: text(part.name), args, ...(result === undefined ? {} : { result: joined(list(result.content), "text") }) };
}

function attachment(body: Json): Attachment {
  const mediaType = text(body.media_type);
  const data = text(body.data);
  return {
    name: text(body.name) || mediaType,
    mediaType,
    bytes: Math.floor(data.length * 0.75),
    ...optional("data", named(data)),
  };
}

/** Pictures that a browser shows without running anything in them. */
export function isPicture(mediaType: string): boolean {
  return /^image\/(?:png|jpeg|gif|webp)$/.test(mediaType);
}

function number(value: unknown): number | undefined {
  return typeof value === "number" ? value : undefined;
}

function optional<K extends string, V>(name: K, value: V | undefined): { [P in K]?: V } {
  return value === undefined ? {} : ({ [name]: value } as { [P in K]?: V });
}

function models(body: Json): Models {
  const choices = list(body.models).map((choice): Choice => {
    const id = text(choice.id);
    return {
      id,
      label: text(choice.label) || id,
      provider: text(choice.provider),
      configured: choice.configured !== false,
      images: choice.images === true,
      files: choice.files === true,
      local: choice.local === true,
      ...optional("reason", text(choice.reason) || undefined),
    };
  });
  const offer = record(body.offer);
  const limits = record(body.limits);
  return {
    selected: text(body.selected) || "auto",
    choices: choices.filter((choice, index) => choices.findIndex((other) => other.id === choice.id) === index),
    offer:
      text(offer.model) === ""
        ? null
        : { model: text(offer.model), bytes: number(offer.bytes) ?? 0, licence: text(offer.license) },
    limits: {
      contentChars: number(limits.content_chars) ?? limitsOf(null).contentChars,
      attachments: number(limits.attachments) ?? limitsOf(null).attachments,
    },
  };
}

/**
 * The server, as this page knows it: every route is here and nowhere else.
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
 */

import {
  chat,
  list,
  message,
  models,
  record,
  text,
  user,
  type Chat,
  type Json,
  type Models,
  type Progress,
  type Submission,
  type User,
} from "./bodies.ts";
import { failureOf, type Conversation } from "./fold.ts";
import { ApiError, lines, Requests } from "./requests.ts";
import { type Fed, type Frame } from "./sse.ts";

/** Most chats that the server gives at once. */
export const CHATS_PAGE = 200;

export class Api {
  readonly #requests: Requests;

  constructor(base: string) {
    this.#requests = new Requests(base);
  }

  /** A key of the server's that the reader gave. */
  get key(): string | null {
    return this.#requests.key;
  }

  set key(key: string | null) {
    this.#requests.key = key;
  }

  /** Called when the session has ended and cannot be renewed. */
  set signedOut(called: () => void) {
    this.#requests.signedOut = called;
  }

  // --- accounts

  /** Signs in by the cookie; null when there is none. */
  async resume(): Promise<User | null> {
    return (await this.#requests.renew()) ? this.me() : null;
  }

  async me(): Promise<User> {
    const body = await this.#requests.json("GET", "api/auth/me");
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
    await this.#requests.json("POST", "api/auth/logout", { body: {} });
    this.#requests.token = null;
  }

  async deleteAccount(): Promise<void> {
    await this.#requests.json("DELETE", "api/auth/me");
    this.#requests.token = null;
  }

  async #enter(how: string, body: Json): Promise<User> {
    // Someone who signs up while a guest says so by the guest's token: the chats stay theirs.
    const answer = await this.#requests.json("POST", `api/auth/${how}`, { body });
    this.#requests.token = text(answer.access_token) || null;
    return answer.user === undefined ? this.me() : user(record(answer.user));
  }

  // --- chats

  /** The newest chats, so many, in as many pages as that takes. */
  async chats(wanted: number): Promise<{ chats: Chat[]; more: boolean }> {
    const chats = new Map<number, Chat>(); // one that moves to the front between two pages is in both, or in neither
    let next = "";
    do {
      const limit = Math.min(wanted - chats.size, CHATS_PAGE);
      const before = next === "" ? "" : `&before=${encodeURIComponent(next)}`;
      const body = await this.#requests.json("GET", `api/chats?limit=${limit}${before}`);
      for (const one of list(body.chats).map(chat)) if (!chats.has(one.id)) chats.set(one.id, one);
      next = text(body.next);
    } while (next !== "" && chats.size < wanted);
    return { chats: [...chats.values()], more: next !== "" };
  }

  async search(query: string, signal: AbortSignal): Promise<Chat[]> {
    return list((await this.#requests.json("GET", `api/chats?q=${encodeURIComponent(query)}`, { signal })).chats).map(chat);
  }

  async createChat(): Promise<Chat> {
    const body = await this.#requests.json("POST", "api/chats", { body: {} });
    return chat(record(body.chat));
  }

  async chat(id: number, signal?: AbortSignal): Promise<{ chat: Chat; at: Conversation }> {
    const body = await this.#requests.json("GET", `api/chats/${id}`, { signal });
    const messages = list(body.messages).map(message);
    const cursor = text(body.cursor);
    const live = messages.findLast((m) => m.role === "assistant" && m.state === "streaming")?.id ?? null;
    return { chat: chat(record(body.chat)), at: { messages, cursor, live } };
  }

  async editChat(id: number, change: { title?: string; instructions?: string }): Promise<void> {
    await this.#requests.json("PUT", `api/chats/${id}`, { body: change });
  }

  /** keepalive: the page may be closing. */
  async deleteChat(id: number, keepalive = false): Promise<void> {
    await this.#requests.json("DELETE", `api/chats/${id}`, { keepalive });
  }

  /**
   * Submits a turn and gives its first frame: `start`, or the end if it never began.  The same key twice is one turn.
   * Leaving the stream is no stop: the answer goes on, and is read from `follow`.
   */
  async submit(id: number, what: Submission, key: string, signal: AbortSignal): Promise<Frame> {
    const leave = new AbortController();
    const either = AbortSignal.any([signal, leave.signal]);
    const call = { body: { ...what, detach: true }, signal: either, headers: { "idempotency-key": key } };
    for await (const { frames } of this.#requests.frames(await this.#requests.fetch("POST", `api/chats/${id}/stream`, call))) {
      const first = frames[0];
      if (first === undefined) continue;
      leave.abort();
      return first;
    }
    throw new ApiError(0, "network", "the stream ended before it began");
  }

  async stop(id: number, generation: number | undefined, messageId: number, signal?: AbortSignal): Promise<boolean> {
    const body = generation === undefined ? { message_id: messageId } : { generation };
    return (await this.#requests.json("POST", `api/chats/${id}/cancel`, { body, signal })).cancelled === true;
  }

  /** The frames of a chat after the cursor, as they come, until the connection ends. */
  async *follow(id: number, cursor: string, signal: AbortSignal): AsyncGenerator<Fed> {
    const after = cursor === "" ? "" : `?after=${encodeURIComponent(cursor)}`;
    yield* this.#requests.frames(await this.#requests.fetch("GET", `api/chats/${id}/events${after}`, { signal }));
  }

  // --- models

  async models(): Promise<Models> {
    return models(await this.#requests.json("GET", "api/ai/models"));
  }

  async choose(model: string): Promise<void> {
    await this.#requests.json("PUT", "api/ai/model", { body: { model } });
  }

  /** The lines of a pull.  The last is "success", or the generator throws what went wrong. */
  async *pull(model: string, signal: AbortSignal): AsyncGenerator<Progress> {
    const answer = await this.#requests.fetch("POST", "api/pull", { body: { model }, signal });
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
}

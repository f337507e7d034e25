/**
 * Requests to the server: with the token and the key, the token renewed when it is too old.  What is refused, or not
 * answered at all, is thrown as an `ApiError`.
 *
 * The access token is kept in memory alone; the cookie that renews it is not visible to scripts.  A key of the server's,
 * where it asks for one, is kept in memory too and sent beside the token, in a header of its own.
 */

import { record, text, type Json } from "./bodies.ts";
import { failureOf } from "./fold.ts";
import { SseReader, type Fed } from "./sse.ts";

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

/** What a key of the server's opens beyond what an account does.  Chats are a person's, and a key is nobody's. */
const KEYED = /^api\/(?:pull|auth\/(?:guest|signup))$/;

/** Where a 401 is about something else than the token's age. */
const UNRENEWED = /^api\/(?:pull|auth\/(?:login|logout|guest))$/;

export interface Call {
  readonly body?: unknown;
  readonly signal?: AbortSignal | undefined;
  readonly headers?: Readonly<Record<string, string>>;
  readonly anonymous?: boolean;
  readonly keepalive?: boolean;
}

export class Requests {
  readonly #base: string;
  #renewing: Promise<boolean> | null = null;
  token: string | null = null;
  /** A key of the server's that the reader gave. */
  key: string | null = null;
  /** Called when the session has ended and cannot be renewed. */
  signedOut: () => void = () => undefined;

  constructor(base: string) {
    this.#base = base;
  }

  async json(method: string, path: string, call: Call = {}): Promise<Json> {
    const answer = await this.fetch(method, path, call);
    const body = await answer.text();
    return body === "" ? {} : record(JSON.parse(body));
  }

  async fetch(method: string, path: string, call: Call = {}): Promise<Response> {
    const answer = await this.#send(method, path, call);
    if (answer.status !== 401 || call.anonymous) return accepted(answer);
    if (UNRENEWED.test(path)) return accepted(answer);
    if (!(await this.renew())) {
      this.token = null;
      if (path.startsWith("api/auth/")) return accepted(answer);
      this.signedOut();
      return accepted(answer);
    }
    return accepted(await this.#send(method, path, call));
  }

  async #send(method: string, path: string, call: Call): Promise<Response> {
    const headers: Record<string, string> = { accept: "application/json, text/event-stream", ...call.headers };
    if (call.body !== undefined) headers["content-type"] = "application/json";
    if (this.token !== null && !call.anonymous) headers.authorization = `Bearer ${this.token}`;
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

  async *frames(answer: Response): AsyncGenerator<Fed> {
    const reader = new SseReader();
    for await (const bytes of chunks(answer)) yield reader.feed(bytes);
  }

  /** A new access token, once for all who wait; over all tabs one at a time, since each use changes the cookie. */
  renew(): Promise<boolean> {
    const ask = async (): Promise<boolean> => {
      try {
        const answer = await this.json("POST", "api/auth/refresh", { body: {}, anonymous: true });
        this.token = text(answer.access_token) || null;
        return this.token !== null;
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

export async function* lines(answer: Response): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const bytes of chunks(answer)) {
    const parts = (rest + decoder.decode(bytes, { stream: true })).split("\n");
    rest = parts.pop() ?? "";
    yield* parts.filter((line) => line.trim() !== "");
  }
  if (rest.trim() !== "") yield rest;
}

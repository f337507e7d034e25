/**
 * One open chat: its conversation, kept up to date, and what the reader does to it.
 *
 * What is shown comes from two places only: the chat as it is read (`GET`), and frames after that cursor.  A submission
 * reads its own stream no further than the first frame, so no text ever comes by two ways.  While the tab is hidden it
 * gives up its connection, and it resumes from its cursor when it is seen again.
 */

import type { Api } from "./api.ts";
import type { Chat, Submission } from "./bodies.ts";
import { ApiError } from "./requests.ts";
import { Changes } from "./changes.ts";
import { EMPTY, foldAll, merge, type Conversation, type Failure, type Message } from "./fold.ts";
import { Batch, PAGE_TIMERS } from "./queue.ts";
import { afterLoss, WATCHDOG_MS, type Lost } from "./reconnect.ts";
import { hear, Seat, type Note } from "./relay.ts";
import type { Frame } from "./sse.ts";

export interface Pending {
  readonly what: Submission;
  readonly key: string;
  readonly stopWanted: boolean;
  /** It was not accepted, and is kept to be sent again. */
  readonly failure?: Failure;
}

/** Whom a session tells what is not its own. */
export interface Told {
  readonly listChanged: () => void;
  readonly failed: (error: unknown) => void;
}

export type Link = "connecting" | "up" | "lost";

const ENDS = new Set(["done", "cancelled", "error"]);
const SUBMIT_TRIES = 3;
/** How long a stop waits for a submission to be taken, before it gives that up. */
const STOP_MS = 3_000;

export class Session extends Changes {
  readonly id: number;
  at: Conversation = EMPTY;
  chat: Chat | null = null;
  pending: Pending | null = null;
  link: Link = "connecting";
  /** The chat is not there, or is not this user's. */
  gone = false;
  loaded = false;
  /** The newest answer that this tab asked for. */
  mine: number | null = null;

  readonly #api: Api;
  readonly #told: Told;
  readonly #name: string;
  readonly #batch = new Batch<Frame>(PAGE_TIMERS, (frames) => this.#apply(frames));
  readonly #closing = new AbortController();
  #seat: Seat | null = null;
  #leading = false;
  #reading: Promise<void> | null = null;
  #readAgain = false;
  /** Gives up what is `sending`. */
  #giveUp: AbortController | null = null;

  constructor(api: Api, id: number, userId: string, told: Told) {
    super();
    this.id = id;
    this.#api = api;
    this.#told = told;
    this.#name = `rivermouth:u${userId}:c${id}`;
  }

  open(): void {
    document.addEventListener("visibilitychange", this.#seen);
    this.#seen();
  }

  close(): void {
    document.removeEventListener("visibilitychange", this.#seen);
    this.#closing.abort();
    this.#seat?.leave();
    this.#seat = null;
  }

  /** The answer that is being written. */
  get live(): Message | null {
    return this.at.live === null ? null : (this.at.messages.find((m) => m.id === this.at.live) ?? null);
  }

  get busy(): boolean {
    return this.live !== null || this.sending;
  }

  /** A message is on its way, and was not taken yet. */
  get sending(): boolean {
    return this.pending !== null && this.pending.failure === undefined;
  }

  // --- following

  readonly #seen = (): void => {
    if (document.hidden) {
      this.#seat?.leave();
      this.#seat = null;
      return;
    }
    this.#seat ??= new Seat(this.#name, { lead: (signal) => this.#lead(signal), heard: (note) => this.#heard(note) });
    void this.read().then(() => this.#seat?.post({ kind: "ask" }));
  };

  async #lead(signal: AbortSignal): Promise<void> {
    await this.read();
    this.#leading = true;
    let failures = 0;
    let retryMs: number | undefined;
    while (!signal.aborted && !this.gone) {
      this.#batch.flush();
      const watched = watchdog(signal);
      let lost: Lost = { why: "ended" };
      try {
        for await (const fed of this.#api.follow(this.id, this.at.cursor, watched.signal)) {
          watched.alive();
          failures = 0;
          retryMs = fed.retryMs ?? retryMs;
          this.#linked("up");
          this.#batch.push(fed.frames);
        }
      } catch (error) {
        lost = lossOf(error);
      } finally {
        watched.done();
      }
      if (isAborted(signal)) break;
      const next = afterLoss(lost, failures, retryMs, Math.random());
      failures = lost.why === "ended" ? 0 : failures + 1;
      if (failures > 0) this.#linked("lost");
      if (next.do === "stop") {
        this.gone = next.gone;
        this.changed();
        break;
      }
      if (next.do === "wait") await pause(next.ms, signal);
    }
    this.#leading = false;
  }

  #linked(link: Link): void {
    if (this.link === link) return;
    this.link = link;
    if (this.#leading) this.#seat?.post({ kind: "link", up: link === "up" });
    this.changed();
  }

  #heard(note: Note): void {
    const heard = hear(note, this.at.cursor, this.#leading);
    switch (heard.do) {
      case "fold":
        this.#linked("up");
        this.#apply(heard.frames);
        break;
      case "adopt":
        this.at = heard.at;
        this.#linked("up");
        this.changed();
        break;
      case "ask":
        this.#seat?.post({ kind: "ask" });
        break;
      case "tell":
        this.#batch.flush();
        this.#seat?.post({ kind: "whole", at: this.at });
        break;
      case "refresh":
        void this.read();
        this.#told.listChanged();
        break;
      case "link":
        this.#linked(heard.up ? "up" : "lost");
        break;
      case "nothing":
    }
  }

  #apply(frames: readonly Frame[]): void {
    const after = this.at.cursor;
    const folded = foldAll(this.at, frames);
    this.at = folded.at;
    if (this.#leading) this.#seat?.post({ kind: "frames", after, frames });
    this.changed();
    // The row that ended has more than its frames told: what it cost, the chat's title.
    const ended = frames.some((frame) => ENDS.has(frame.event));
    if (ended || folded.stale) void this.read().then(() => (ended ? this.#told.listChanged() : undefined));
  }

  /** Reads the chat again.  While one reading runs, one more waits: it must begin after whatever asked for it. */
  read(): Promise<void> {
    if (this.#reading !== null) {
      this.#readAgain = true;
      return this.#reading;
    }
    this.#reading = this.#readNow().finally(() => {
      this.#reading = null;
    });
    return this.#reading;
  }

  async #readNow(): Promise<void> {
    do {
      this.#readAgain = false;
      try {
        const got = await this.#api.chat(this.id, this.#closing.signal);
        this.#batch.flush();
        this.at = merge(this.at, got.at);
        this.chat = got.chat;
        this.loaded = true;
      } catch (error) {
        if (this.#closing.signal.aborted) return;
        if (error instanceof ApiError && error.status === 404) this.gone = true;
        else this.#linked("lost");
      }
      this.changed();
    } while (this.#again());
  }

  #again(): boolean {
    return this.#readAgain && !this.#closing.signal.aborted;
  }

  /** Tells the other tabs that something of this chat has changed. */
  tellChanged(): void {
    this.#seat?.post({ kind: "changed" });
  }

  // --- what the reader does

  /**
   * Sends a message; false while another is on its way, which would be lost.  An answer that is being written is stopped
   * first: its own stream was left when it began, it is cancelled, then the new message is sent.
   */
  submit(what: Submission): boolean {
    if (this.sending) return false;
    const live = this.live;
    void this.#replace(live, this.#begin(what, newKey()));
    return true;
  }

  #begin(what: Submission, key: string): AbortController {
    const abort = new AbortController();
    this.#giveUp = abort;
    this.pending = { what, key, stopWanted: false };
    this.changed();
    return abort;
  }

  async #replace(live: Message | null, abort: AbortController): Promise<void> {
    // Submitting supersedes it anyway.
    if (live !== null) await this.#stopMessage(live, abort.signal).catch(() => undefined);
    await this.#send(abort);
  }

  /** Sends what was not accepted again, under its key: if it had arrived after all, it is not there twice. */
  async resend(): Promise<void> {
    if (this.pending?.failure === undefined) return;
    await this.#send(this.#begin(this.pending.what, this.pending.key));
  }

  /** Forgets what was not accepted, and gives it back to be changed. */
  takeBack(): Submission | null {
    const what = this.pending?.what ?? null;
    this.pending = null;
    this.changed();
    return what;
  }

  /**
   * Stops the answer that is being written, and the one to a message that is on its way: that has no number yet, and is
   * stopped as soon as it has.
   */
  async stop(): Promise<void> {
    if (this.pending !== null && this.sending) {
      this.pending = { ...this.pending, stopWanted: true };
      this.changed();
      const giveUp = this.#giveUp;
      setTimeout(() => giveUp?.abort(), STOP_MS);
    }
    const live = this.live;
    if (live !== null) await this.#stopMessage(live).catch(this.#told.failed);
  }

  async #stopMessage(message: Message, signal?: AbortSignal): Promise<void> {
    await this.#api.stop(this.id, message.generation, message.id, signal);
  }

  async #send(abort: AbortController): Promise<void> {
    const mine = this.pending;
    if (mine === null) return;
    try {
      const first = await this.#tries(mine, abort.signal);
      await this.#accepted(first);
    } catch (error) {
      if (this.pending?.key === mine.key) {
        this.pending = { ...mine, failure: abort.signal.aborted ? UNSENT : failure(error) };
        this.changed();
      }
    }
    if (this.#giveUp === abort) this.#giveUp = null;
  }

  async #tries(mine: Pending, signal: AbortSignal): Promise<Frame> {
    for (let tries = 1; ; tries++) {
      try {
        return await this.#api.submit(this.id, mine.what, mine.key, signal);
      } catch (error) {
        const lost = error instanceof ApiError && error.status === 0;
        if (!lost || tries === SUBMIT_TRIES || signal.aborted) throw error;
        await pause(500 * tries, signal);
      }
    }
  }

  async #accepted(first: Frame): Promise<void> {
    if (typeof first.message_id === "number") this.mine = first.message_id;
    await this.read();
    const stopWanted = this.pending?.stopWanted === true;
    this.pending = null;
    this.changed();
    this.#told.listChanged();
    this.tellChanged();
    if (stopWanted && first.event === "start") {
      await this.#api.stop(this.id, Number(first.generation), Number(first.message_id)).catch(this.#told.failed);
    }
  }
}

/** It was given up.  Should it have arrived after all, to send it again attaches to it. */
const UNSENT: Failure = { type: "unsent", message: "" };

function failure(error: unknown): Failure {
  if (error instanceof ApiError) return { type: error.type, message: error.message, code: error.code };
  return { type: "unavailable", message: error instanceof Error ? error.message : String(error) };
}

function lossOf(error: unknown): Lost {
  if (error instanceof ApiError && error.status > 0) return { why: "status", status: error.status };
  return { why: "network" };
}

function isAborted(signal: AbortSignal): boolean {
  return signal.aborted;
}

function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Waits; an abort or the network's return ends it early. */
function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      removeEventListener("online", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", done);
    addEventListener("online", done);
  });
}

/** A signal that also fires when nothing was heard for too long: the server sends a comment each 15 s. */
function watchdog(outer: AbortSignal): { signal: AbortSignal; alive: () => void; done: () => void } {
  const inner = new AbortController();
  const bark = (): void => inner.abort();
  let timer = setTimeout(bark, WATCHDOG_MS);
  return {
    signal: AbortSignal.any([outer, inner.signal]),
    alive: () => {
      clearTimeout(timer);
      timer = setTimeout(bark, WATCHDOG_MS);
    },
    done: () => clearTimeout(timer),
  };
}

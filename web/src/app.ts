/** The page as a whole: who is signed in, which chats there are, which is open, what can answer. */

import { Api } from "./api.ts";
import type { Chat, Models, Progress, Submission, User } from "./bodies.ts";
import { ApiError } from "./requests.ts";
import { Changes } from "./changes.ts";
import type { Failure } from "./fold.ts";
import { Drafts, Settings } from "./settings.ts";
import { Session } from "./session.ts";

export type Phase = "starting" | "sign-in" | "ready" | "unreachable";

export interface Toast {
  readonly text: "deleted" | "copied" | "failed" | "signed-out";
  readonly failure?: Failure;
  readonly undo?: () => void;
}

export interface Pull {
  readonly progress: Progress | null;
  readonly failure?: string;
  /** The server wants one of its keys for it. */
  readonly locked: boolean;
  readonly done: boolean;
}

const UNDO_MS = 6_000;
const PAGE = 50;
/** What a server says that lets guests in only with a key, and that not with this one. */
const CLOSED: ReadonlySet<string> = new Set(["guests_refused", "invalid_api_key", "no_chats_for_key", "scope_missing"]);

export class App extends Changes {
  readonly api: Api;
  readonly settings: Settings;
  readonly drafts: Drafts;
  phase: Phase = "starting";
  user: User | null = null;
  chats: readonly Chat[] = [];
  /** There are older ones than those. */
  more = false;
  query = "";
  found: readonly Chat[] | null = null;
  session: Session | null = null;
  models: Models | null = null;
  toast: Toast | null = null;
  pull: Pull | null = null;
  drawer = false;
  /** Guests are let in only with a key of the server's. */
  closed = false;

  readonly #deleting = new Map<number, () => void>();
  #toastTimer: ReturnType<typeof setTimeout> | undefined;
  #searching: AbortController | null = null;
  #creating = false;
  #wanted = PAGE;
  #listings = 0;

  constructor(base: string, storage: Storage) {
    super();
    this.api = new Api(base);
    this.settings = new Settings(storage);
    this.drafts = new Drafts(storage);
    this.api.signedOut = () => this.#signedOut();
  }

  async start(): Promise<void> {
    addEventListener("hashchange", () => this.#route());
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden && this.phase === "ready") void this.refresh();
    });
    addEventListener("pagehide", () => this.#deleteNow());
    this.settings.watch(() => this.changed());
    // Who was never here has no cookie to be renewed, and to ask would only be refused.
    await this.enter(async () => (this.settings.known ? await this.api.resume() : null) ?? (await this.#guest()));
  }

  /** On loopback, with no account yet, the server lets a guest in by itself. */
  async #guest(): Promise<User | null> {
    try {
      return await this.api.guest();
    } catch (error) {
      if (!(error instanceof ApiError) || error.status < 400 || error.status >= 500) throw error;
      this.closed = CLOSED.has(error.code);
      return null;
    }
  }

  /** Signs in by whatever way; what fails is thrown when it is the user's to correct. */
  async enter(how: () => Promise<User | null>): Promise<void> {
    try {
      this.user = await how();
    } catch (error) {
      if (error instanceof ApiError && error.status >= 400 && error.status < 500) throw error;
      this.phase = "unreachable";
      this.changed();
      return;
    }
    if (this.user === null) {
      this.phase = "sign-in";
      this.changed();
      return;
    }
    this.phase = "ready";
    this.settings.setKnown(true);
    this.#route();
    await Promise.all([this.refresh(), this.loadModels()]);
  }

  async leave(how: "logout" | "delete"): Promise<void> {
    await this.try(() => (how === "delete" ? this.api.deleteAccount() : this.api.leave()));
    this.settings.setKnown(false);
    this.#signedOut();
  }

  #signedOut(): void {
    this.session?.close();
    this.session = null;
    this.user = null;
    this.chats = [];
    this.found = null;
    this.phase = "sign-in";
    this.changed();
  }

  // --- chats

  readonly refresh = async (): Promise<void> => {
    const listing = ++this.#listings;
    await this.try(async () => {
      const { chats, more } = await this.api.chats(this.#wanted);
      if (listing !== this.#listings) return; // it was asked for again, and perhaps for more
      this.chats = chats;
      this.more = more;
    });
    if (this.query !== "") await this.search(this.query);
  };

  /** The chats to list: all, or those found, without what is being deleted. */
  get listed(): readonly Chat[] {
    return (this.found ?? this.chats).filter((chat) => !this.#deleting.has(chat.id));
  }

  async showMore(): Promise<void> {
    this.#wanted += PAGE;
    await this.refresh();
  }

  async search(query: string): Promise<void> {
    this.query = query;
    this.#searching?.abort();
    if (query.trim() === "") {
      this.found = null;
      this.changed();
      return;
    }
    this.changed();
    const asking = (this.#searching = new AbortController());
    await this.try(async () => {
      const found = await this.api.search(query.trim(), asking.signal);
      if (!asking.signal.aborted) this.found = found;
    }, asking.signal);
  }

  show(id: number | null): void {
    this.drawer = false;
    const hash = id === null ? "#/" : `#/c/${id}`;
    if (location.hash !== hash) history.pushState(null, "", hash);
    this.#route();
  }

  #route(): void {
    if (this.phase !== "ready" || this.user === null) return;
    const id = Number(/^#\/c\/(\d+)$/.exec(location.hash)?.[1] ?? 0) || null;
    if (id !== (this.session?.id ?? null)) {
      this.session?.close();
      const told = { listChanged: () => void this.refresh(), failed: (error: unknown) => this.#failed(error) };
      this.session = id === null ? null : new Session(this.api, id, this.user.id, told);
      this.session?.open();
      if (id !== null && !this.chats.some((chat) => chat.id === id)) void this.refresh(); // made by another tab
    }
    this.changed();
  }

  /** Sends a message to the open chat, or to a new one. */
  async send(what: Submission): Promise<boolean> {
    if (this.session !== null) return this.session.submit(what);
    if (this.#creating) return false;
    this.#creating = true;
    try {
      const chat = await this.api.createChat();
      this.chats = [chat, ...this.chats];
      this.show(chat.id);
    } catch (error) {
      this.#failed(error);
      return false;
    } finally {
      this.#creating = false;
    }
    return (this.session as Session | null)?.submit(what) ?? false;
  }

  async rename(id: number, title: string): Promise<void> {
    await this.#edit(id, { title });
  }

  async instruct(id: number, instructions: string): Promise<void> {
    await this.#edit(id, { instructions });
  }

  async #edit(id: number, change: { title?: string; instructions?: string }): Promise<void> {
    const edit = (chat: Chat): Chat => (chat.id === id ? { ...chat, ...change } : chat);
    this.chats = this.chats.map(edit);
    const session = this.session?.id === id ? this.session : null;
    if (session?.chat) session.chat = edit(session.chat);
    session?.changed();
    this.changed();
    await this.try(() => this.api.editChat(id, change));
    await this.refresh();
    session?.tellChanged();
  }

  /** Takes the chat out of sight, and deletes it when there was time to think again. */
  remove(id: number): void {
    const timer = setTimeout(() => finish(false), UNDO_MS);
    const finish = (closing: boolean): void => {
      clearTimeout(timer);
      void this.try(async () => {
        await this.api.deleteChat(id, closing);
        this.chats = this.chats.filter((chat) => chat.id !== id);
      }).then(async () => {
        this.drafts.drop(this.user?.id ?? "", id);
        await this.refresh();
        this.#deleting.delete(id);
        this.changed();
      });
    };
    this.#deleting.set(id, () => finish(true));
    const undo = (): void => {
      clearTimeout(timer);
      this.#deleting.delete(id);
      this.toast = null;
      this.changed();
    };
    this.say({ text: "deleted", undo });
    if (this.session?.id === id) this.show(null);
  }

  #deleteNow(): void {
    for (const finish of this.#deleting.values()) finish();
  }

  // --- models

  async loadModels(): Promise<void> {
    await this.try(async () => {
      this.models = await this.api.models();
    });
  }

  async choose(model: string): Promise<void> {
    if (this.models !== null) this.models = { ...this.models, selected: model };
    this.changed();
    await this.try(() => this.api.choose(model));
  }

  /** False while nothing could answer: no key, no model. */
  get canAnswer(): boolean {
    return this.models?.choices.some((choice) => choice.id !== "auto" && choice.configured) ?? true;
  }

  async pullModel(): Promise<void> {
    const model = this.models?.offer?.model;
    if (model === undefined) return;
    this.pull = { progress: null, done: false, locked: false };
    this.changed();
    try {
      for await (const progress of this.api.pull(model, new AbortController().signal)) {
        this.pull = { progress, done: progress.status === "success", locked: false };
        this.changed();
      }
      if (!this.pull.done) throw new ApiError(0, "network", "");
      await this.loadModels();
      this.pull = null;
    } catch (error) {
      const locked = error instanceof ApiError && (error.status === 401 || error.status === 403);
      const failure = error instanceof Error ? error.message : String(error);
      this.pull = { progress: null, done: false, failure, locked };
    }
    this.changed();
  }

  // --- notices

  say(toast: Toast): void {
    clearTimeout(this.#toastTimer);
    this.toast = toast;
    this.#toastTimer = setTimeout(() => this.hush(), UNDO_MS);
    this.changed();
  }

  hush(): void {
    this.toast = null;
    this.changed();
  }

  setDrawer(open: boolean): void {
    this.drawer = open;
    this.changed();
  }

  /** Runs a request; one that fails is told to the reader, one that was given up is not. */
  async try(run: () => Promise<void>, signal?: AbortSignal): Promise<void> {
    try {
      await run();
    } catch (error) {
      if (!signal?.aborted) this.#failed(error);
    }
    this.changed();
  }

  #failed(error: unknown): void {
    if (this.user === null) return; // who was signed out is told so
    this.say({ text: "failed", ...(error instanceof ApiError && error.status > 0 ? { failure: error } : {}) });
  }
}

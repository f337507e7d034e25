/**
 * One connection for all tabs of a browser that show the same conversation.
 *
 * HTTP/1.1 allows six connections to a server, over all tabs.  So the tabs elect a leader (a lock of the browser, which
 * it takes back when the tab closes or crashes); the leader follows the server and passes frames on; the others apply
 * them by the same rule.  Every frame is passed with the cursor it follows: a tab that came later sees the gap, asks,
 * and gets the whole conversation as the leader has it.
 */

import { compareIds, type Conversation } from "./fold.ts";
import type { Frame } from "./sse.ts";

export type Note =
  | { readonly kind: "frames"; readonly after: string; readonly frames: readonly Frame[] }
  | { readonly kind: "whole"; readonly at: Conversation }
  | { readonly kind: "ask" }
  | { readonly kind: "changed" } // the list of chats, or this one's title
  | { readonly kind: "link"; readonly up: boolean };

export type Heard =
  | { readonly do: "fold"; readonly frames: readonly Frame[] }
  | { readonly do: "adopt"; readonly at: Conversation }
  | { readonly do: "ask" }
  | { readonly do: "tell" }
  | { readonly do: "refresh" }
  | { readonly do: "link"; readonly up: boolean }
  | { readonly do: "nothing" };

/** What a tab at `cursor` does about a note of another tab. */
export function hear(note: Note, cursor: string, leading: boolean): Heard {
  switch (note.kind) {
    case "frames":
      if (leading) return { do: "nothing" };
      return compareIds(note.after, cursor) > 0 ? { do: "ask" } : { do: "fold", frames: note.frames };
    case "whole":
      return !leading && compareIds(note.at.cursor, cursor) > 0 ? { do: "adopt", at: note.at } : { do: "nothing" };
    case "ask":
      return leading ? { do: "tell" } : { do: "nothing" };
    case "changed":
      return { do: "refresh" };
    case "link":
      return leading ? { do: "nothing" } : { do: "link", up: note.up };
  }
}

export interface Handlers {
  lead(signal: AbortSignal): Promise<void>;
  heard(note: Note): void;
}

/** A seat among the tabs of one conversation: `post` speaks to the others, `leave` gives up the seat. */
export class Seat {
  readonly #channel: BroadcastChannel | null;
  readonly #leaving = new AbortController();

  constructor(name: string, handlers: Handlers) {
    this.#channel = typeof BroadcastChannel === "undefined" ? null : new BroadcastChannel(name);
    if (this.#channel !== null) {
      this.#channel.onmessage = (message: MessageEvent<Note>) => handlers.heard(message.data);
    }
    const signal = this.#leaving.signal;
    const lead = () => handlers.lead(signal);
    // Without locks (a page that came over plain http from another machine) every tab follows for itself.
    const locks = (navigator as { locks?: LockManager }).locks;
    const term = locks === undefined || this.#channel === null ? lead() : locks.request(name, { signal }, lead);
    term.catch((error: unknown) => {
      if (!signal.aborted) throw error;
    });
  }

  post(note: Note): void {
    if (!this.#leaving.signal.aborted) this.#channel?.postMessage(note);
  }

  leave(): void {
    this.#leaving.abort();
    this.#channel?.close();
  }
}

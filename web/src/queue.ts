/**
 * Frames that wait for the next painting.  A model may give 200 tokens in a second and a screen shows 60 pictures: what
 * comes between two of them is folded and rendered once.  Pure but for the two timers it is given.
 */

export interface Timers {
  /** Before the next painting.  Never comes while the tab is hidden. */
  frame(run: () => void): () => void;
  /** After some milliseconds, hidden or not. */
  after(ms: number, run: () => void): () => void;
}

/** A hidden tab paints nothing, but its title and its saved state must not stand still, and its queue must not grow. */
const HIDDEN_MS = 250;

export class Batch<T> {
  #waiting: T[] = [];
  #cancel: (() => void)[] = [];
  readonly #timers: Timers;
  readonly #flushed: (items: T[]) => void;

  constructor(timers: Timers, flushed: (items: T[]) => void) {
    this.#timers = timers;
    this.#flushed = flushed;
  }

  get size(): number {
    return this.#waiting.length;
  }

  /** In order; `flushed` gets all that wait, once. */
  push(items: readonly T[]): void {
    if (items.length === 0) return;
    const first = this.#waiting.length === 0;
    this.#waiting.push(...items);
    if (first) this.#cancel = [this.#timers.frame(() => this.flush()), this.#timers.after(HIDDEN_MS, () => this.flush())];
  }

  flush(): void {
    for (const cancel of this.#cancel) cancel();
    this.#cancel = [];
    const items = this.#waiting;
    this.#waiting = [];
    if (items.length > 0) this.#flushed(items);
  }
}

export const PAGE_TIMERS: Timers = {
  frame(run) {
    const id = requestAnimationFrame(run);
    return () => cancelAnimationFrame(id);
  },
  after(ms, run) {
    const id = setTimeout(run, ms);
    return () => clearTimeout(id);
  },
};

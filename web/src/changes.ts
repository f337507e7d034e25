/** Something that can be watched: each change calls those who watch, once. */

export class Changes {
  readonly #watchers = new Set<() => void>();

  watch(run: () => void): () => void {
    this.#watchers.add(run);
    return () => void this.#watchers.delete(run);
  }

  changed(): void {
    for (const run of this.#watchers) run();
  }
}

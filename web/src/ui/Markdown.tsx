/** A text that may still grow, as elements.  Of a growing text only its last block is made anew. */

import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { Blocks, Pace, type Block } from "../markdown/blocks.ts";
import { elementOf, growCode, type Words } from "../markdown/markup.ts";

interface Props {
  readonly text: string;
  readonly over: boolean;
  readonly words: Words;
  /** Called with the text of each block that will not change any more, while the answer is being written. */
  readonly settled?: ((text: string) => void) | undefined;
  readonly painted?: (() => void) | undefined;
}

/** The elements of one text, kept in step with its blocks by identity. */
class Painter {
  readonly #reader = new Blocks();
  readonly #pace = new Pace();
  #shown: readonly Block[] = [];
  #told: number | null = null;

  /** Milliseconds to wait before the next painting; 0 when this one was done. */
  paint(root: HTMLElement, props: Props): number {
    const start = performance.now();
    const wait = props.over ? 0 : this.#pace.wait(start);
    if (wait > 0) return wait;
    const blocks = this.#reader.read(props.text, props.over);
    blocks.forEach((block, index) => this.#place(root, block, index, props.words));
    while (root.childElementCount > blocks.length) root.lastElementChild?.remove();
    this.#shown = blocks;
    this.#pace.took(start, performance.now());
    this.#tell(root, blocks.length, props);
    props.painted?.();
    return 0;
  }

  #place(root: HTMLElement, block: Block, index: number, words: Words): void {
    const before = this.#shown[index];
    const element = root.children[index];
    if (before === block && element !== undefined) return;
    if (element === undefined) {
      const fresh = document.createElement("div");
      fresh.className = "block";
      fresh.append(elementOf(block, words));
      root.append(fresh);
      return;
    }
    const grows = before?.kind === "code" && block.kind === "code" && before.open && block.open;
    if (grows && before.language === block.language && growCode(element, before.text, block.text)) return;
    element.replaceChildren(elementOf(block, words));
  }

  /** A text that was over when it was first shown is history, and is not told. */
  #tell(root: HTMLElement, count: number, props: Props): void {
    if (props.settled === undefined) return;
    const whole = props.over ? count : count - 1;
    this.#told ??= props.over ? count : 0;
    for (; this.#told < whole; this.#told++) props.settled(root.children[this.#told]?.textContent ?? "");
  }
}

export function Markdown(props: Props): JSX.Element {
  const root = useRef<HTMLDivElement>(null);
  const painter = useRef<Painter | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);

  const paint = (): void => {
    timer.current = undefined;
    if (root.current === null) return;
    painter.current ??= new Painter();
    const wait = painter.current.paint(root.current, latest.current);
    if (wait > 0) timer.current = setTimeout(paint, wait);
  };
  useLayoutEffect(() => {
    if (props.over) clearTimeout(timer.current);
    if (props.over || timer.current === undefined) paint();
  }, [props.text, props.over, props.words, props.settled]);
  useEffect(() => () => clearTimeout(timer.current), []);
  return <div class="prose" ref={root} />;
}

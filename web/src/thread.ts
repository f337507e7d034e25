/**
 * The turns of a chat as a tree, and the one path through it that is shown.  Pure.
 *
 * A turn is a message of the user's and its answer.  An edited message, or a second answer, is a new turn that does an
 * old one again (`redoes`): both follow the same turn, and what came after the old one stays with it.  Shown is the
 * newest at each fork unless the reader chose another to look at.
 */

import type { Message } from "./fold.ts";

export interface Shown {
  readonly message: Message;
  /** The turns at this place in order of age, this one among them; told with the last message of a turn that has several. */
  readonly versions: readonly number[];
}

/** The turn before the fork (0: the beginning) to the chosen turn after it. */
export type Choices = ReadonlyMap<number, number>;

interface Turn {
  readonly id: number;
  readonly messages: Message[];
  readonly follows: number;
}

const ROOT = 0;

export function path(messages: readonly Message[], choices: Choices): Shown[] {
  const after = new Map<number, Turn[]>();
  for (const turn of turnsOf(messages)) {
    const list = after.get(turn.follows);
    if (list === undefined) after.set(turn.follows, [turn]);
    else list.push(turn);
  }
  const shown: Shown[] = [];
  for (let at = ROOT; ; ) {
    const list: Turn[] = after.get(at) ?? [];
    const turn = list.find((candidate) => candidate.id === choices.get(at)) ?? list.at(-1);
    if (turn === undefined) return shown;
    const versions = list.map((candidate) => candidate.id);
    for (const message of turn.messages) {
      shown.push({ message, versions: message === turn.messages.at(-1) && versions.length > 1 ? versions : [] });
    }
    after.delete(at);
    at = turn.id;
  }
}

/** The turn that the given one follows; 0 for the first. */
export function followed(messages: readonly Message[], turn: number): number {
  return turnsOf(messages).find((candidate) => candidate.id === turn)?.follows ?? ROOT;
}

/** The turn of a message.  One that names none is a turn with what follows it, up to the user's next message. */
function turnsOf(messages: readonly Message[]): Turn[] {
  const turns = new Map<number, Turn>();
  let before = ROOT;
  for (const message of messages) {
    const id = message.turn ?? (message.role === "user" || before === ROOT ? message.id : before);
    const known = turns.get(id);
    if (known === undefined) {
      const redone = message.redoes === undefined ? undefined : turns.get(message.redoes);
      turns.set(id, { id, messages: [message], follows: redone === undefined ? before : redone.follows });
    } else known.messages.push(message);
    before = id;
  }
  return [...turns.values()];
}

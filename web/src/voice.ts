/** How an answer ended, in a sentence for who hears the page.  Pure. */

import { isOver, type Message } from "./fold.ts";
import { interruption, sentence, type Words } from "./strings.ts";

export function ending(words: Words, { state, error, interrupted }: Message): string {
  if (state === "error") return `${words.answerFailed} ${sentence(words, error ?? { type: "unavailable", message: "" })}`;
  if (state === "cancelled") return words.answerStopped;
  return interrupted === undefined ? words.answerDone : interruption(words, interrupted);
}

/** What was said of an answer so far. */
export interface Heard {
  readonly id: number;
  readonly begun: boolean;
  readonly over: boolean;
}

/**
 * What to say now of the newest answer (null: nothing), and what has then been said of it.
 *
 * An answer is heard to its end before the next one.  One that was over when it was first seen is history and is not
 * told, unless this tab asked for it (`mine`): one that fails at once may never be seen unfinished.  While a message
 * is on its way (`sending`) that is not known yet.
 */
export function hearing(
  words: Words,
  heard: Heard | null,
  messages: readonly Message[],
  { mine, sending }: { readonly mine: number | null; readonly sending: boolean },
): { readonly say: string | null; readonly heard: Heard | null } {
  const unheard = heard?.over === false ? messages.find((message) => message.id === heard.id) : undefined;
  const answer = unheard ?? messages.findLast((message) => message.role === "assistant");
  if (answer === undefined) return { say: null, heard };
  const before = heard?.id === answer.id ? heard : null;
  const now = { id: answer.id, begun: answer.text !== "", over: isOver(answer.state) };
  const told = before !== null || mine === answer.id;
  if (now.over && !told && sending) return { say: null, heard };
  return { say: news(words, before, now, told ? ending(words, answer) : null), heard: now };
}

function news(words: Words, before: Heard | null, now: Heard, end: string | null): string | null {
  if (now.over) return before?.over === true ? null : end;
  return now.begun && before?.begun !== true ? words.answerBegins : null;
}

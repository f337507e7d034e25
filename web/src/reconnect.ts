/**
 * When to connect again, as pure decisions.
 *
 * A stream that was alive is reconnected at once, after what the server asked for (`retry:`), with jitter so that a
 * thousand pages do not return in the same instant.  One that fails again and again is tried ever more rarely.
 */

export type Lost =
  | { readonly why: "ended" } // the server closed it: recycled, or it said `bye`
  | { readonly why: "network" } // refused, cut, or silent for longer than WATCHDOG_MS
  | { readonly why: "status"; readonly status: number };

export type Next =
  | { readonly do: "wait"; readonly ms: number }
  | { readonly do: "sign-in" } // the token is old: refresh it, then connect
  | { readonly do: "stop"; readonly gone: boolean }; // nothing to follow there (404), or nothing more to say (204)

export const WATCHDOG_MS = 45_000;
const FIRST_MS = 400;
const LONGEST_MS = 15_000;

/** What follows a lost stream.  failures: how many in a row gave no frame; chance: 0 up to 1. */
export function afterLoss(lost: Lost, failures: number, retryMs: number | undefined, chance: number): Next {
  if (lost.why === "status") {
    if (lost.status === 401) return failures < 2 ? { do: "sign-in" } : { do: "stop", gone: false };
    if (lost.status === 204) return { do: "stop", gone: false };
    if (lost.status === 404 || lost.status === 410) return { do: "stop", gone: true };
  }
  const base = Math.min(LONGEST_MS, Math.max(retryMs ?? 0, FIRST_MS * 2 ** Math.min(failures, 10)));
  const settled = failures === 0 && lost.why === "ended" ? (retryMs ?? 0) : base;
  return { do: "wait", ms: Math.round(settled * (0.5 + chance / 2)) };
}

/** Numbers and dates as people read them.  Pure: the language and the time are arguments. */

import type { Chat } from "./bodies.ts";

export function bytes(count: number, language: string): string {
  const units = ["byte", "kilobyte", "megabyte", "gigabyte"] as const;
  let value = count;
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit++;
  }
  const name = units[unit] ?? "byte";
  const digits = unit === 0 || value >= 100 ? 0 : 1;
  return new Intl.NumberFormat(language, { style: "unit", unit: name, maximumFractionDigits: digits }).format(value);
}

/** Fractions of a cent are still said: an answer often costs less than one. */
export function money(amount: number, currency: string, language: string): string {
  const digits = amount === 0 || amount >= 1 ? 2 : Math.min(6, 1 - Math.floor(Math.log10(amount)));
  const fractions = { minimumFractionDigits: 2, maximumFractionDigits: Math.max(2, digits) };
  try {
    return new Intl.NumberFormat(language, { style: "currency", currency, ...fractions }).format(amount);
  } catch {
    return `${amount.toFixed(digits)} ${currency}`; // no currency that the browser knows
  }
}

export function count(value: number, language: string): string {
  return new Intl.NumberFormat(language).format(value);
}

export type Age = "today" | "yesterday" | "week" | "older";

export interface Group {
  readonly age: Age;
  readonly chats: Chat[];
}

/** Chats by age, in calendar days of the reader. */
export function byAge(chats: readonly Chat[], now: Date): Group[] {
  const groups: Group[] = [];
  for (const chat of chats) {
    const age = ageOf(new Date(chat.updatedAt), now);
    const last = groups.at(-1);
    if (last?.age === age) last.chats.push(chat);
    else groups.push({ age, chats: [chat] });
  }
  return groups;
}

function ageOf(then: Date, now: Date): Age {
  if (Number.isNaN(then.getTime())) return "today";
  const days = Math.round((midnight(now) - midnight(then)) / 86_400_000);
  if (days <= 0) return "today";
  if (days === 1) return "yesterday";
  return days <= 7 ? "week" : "older";
}

function midnight(at: Date): number {
  return new Date(at.getFullYear(), at.getMonth(), at.getDate()).getTime();
}

/** What this browser remembers: the looks, the language, and what was typed but not sent.  Never a token. */

import { Changes } from "./changes.ts";
import { LANGUAGES, type Language } from "./strings.ts";

export type Theme = "system" | "light" | "dark";
export const THEMES: readonly Theme[] = ["system", "light", "dark"];

const PREFIX = "rivermouth:";

export class Settings extends Changes {
  readonly #storage: Storage;
  theme: Theme;
  language: Language;

  constructor(storage: Storage) {
    super();
    this.#storage = storage;
    this.theme = THEMES.find((theme) => theme === read(storage, "theme")) ?? "system";
    this.language = LANGUAGES.find((language) => language === read(storage, "language")) ?? preferred();
    this.#show();
  }

  /** Somebody has signed in here, so there is a cookie to sign in by. */
  get known(): boolean {
    return read(this.#storage, "known") !== null;
  }

  setKnown(known: boolean): void {
    write(this.#storage, "known", known ? "yes" : null);
  }

  setTheme(theme: Theme): void {
    this.theme = theme;
    write(this.#storage, "theme", theme);
    this.#show();
  }

  setLanguage(language: Language): void {
    this.language = language;
    write(this.#storage, "language", language);
    this.#show();
  }

  #show(): void {
    document.documentElement.lang = this.language;
    document.documentElement.dataset.theme = this.theme;
    this.changed();
  }
}

export class Drafts {
  readonly #storage: Storage;

  constructor(storage: Storage) {
    this.#storage = storage;
  }

  get(user: string, chat: number | null): string {
    return read(this.#storage, `draft:${user}:${chat ?? "new"}`) ?? "";
  }

  set(user: string, chat: number | null, text: string): void {
    const key = `draft:${user}:${chat ?? "new"}`;
    write(this.#storage, key, text === "" ? null : text);
  }

  drop(user: string, chat: number): void {
    this.set(user, chat, "");
  }
}

function preferred(): Language {
  const wanted = navigator.languages.map((tag) => tag.slice(0, 2).toLowerCase());
  return wanted.map((tag) => LANGUAGES.find((language) => language === tag)).find((found) => found !== undefined) ?? "en";
}

function read(storage: Storage, key: string): string | null {
  try {
    return storage.getItem(PREFIX + key);
  } catch {
    return null; // a browser may forbid it
  }
}

function write(storage: Storage, key: string, value: string | null): void {
  try {
    if (value === null) storage.removeItem(PREFIX + key);
    else storage.setItem(PREFIX + key, value);
  } catch {
    // Full, or forbidden: then it is not remembered.
  }
}

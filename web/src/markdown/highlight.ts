/** Colours for code.  The grammars come with the first code block that needs them, not with the page. */

import DOMPurify from "dompurify";

const LONGEST = 60_000;
const CLEAN = { ALLOWED_TAGS: ["span"], ALLOWED_ATTR: ["class"], RETURN_DOM_FRAGMENT: true as const };

let loading: Promise<typeof import("./grammars.ts")> | undefined;

/** Colours the element, unless the language is unknown or the text is too long to be worth it. */
export async function highlight(element: HTMLElement, language: string, text: string): Promise<void> {
  if (language === "" || text === "" || text.length > LONGEST) return;
  loading ??= import("./grammars.ts");
  const { hljs } = await loading;
  if (hljs.getLanguage(language) === undefined || element.textContent !== text) return;
  const markup = hljs.highlight(text, { language, ignoreIllegals: true }).value;
  element.replaceChildren(DOMPurify.sanitize(markup, CLEAN));
}

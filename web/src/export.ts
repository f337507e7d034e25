/** A conversation as a file.  Pure. */

import type { Message } from "./fold.ts";

export function toMarkdown(title: string, messages: readonly Message[], who: (message: Message) => string): string {
  const parts = messages.map((message) => `## ${who(message)}\n\n${message.text.trim()}${aside(message)}\n`);
  return `# ${title}\n\n${parts.join("\n")}`;
}

function aside(message: Message): string {
  const files = (message.attachments ?? []).map((file) => `\n\n[${file.name}]`).join("");
  const tools = (message.tools ?? []).map((tool) => `\n\n\`${tool.name}(${tool.args})\``).join("");
  const failure = message.error === undefined ? "" : `\n\n*${message.error.message}*`;
  return files + tools + failure;
}

export function toJson(title: string, messages: readonly Message[], exportedAt: string): string {
  return `${JSON.stringify({ title, exported_at: exportedAt, messages }, null, 2)}\n`;
}

/** A name for the file, of letters and digits of any script. */
export function fileName(title: string, kind: "md" | "json"): string {
  const words = title.normalize("NFKC").replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-+|-+$/g, "").slice(0, 60);
  return `${words || "chat"}.${kind}`;
}

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { fileName, toJson, toMarkdown } from "../export.ts";
import type { Session } from "../session.ts";
import type { Shown } from "../thread.ts";
import { download } from "./clipboard.ts";
import { Dialog } from "./Dialog.tsx";
import { useApp, useWords } from "./hooks.ts";
import { Icon } from "./icons.tsx";
import { Menu, type Item } from "./Menu.tsx";

type Field = "title" | "instructions";

export function ChatMenu({ session, shown }: { session: Session; shown: readonly Shown[] }): JSX.Element {
  const app = useApp();
  const words = useWords();
  const [field, setField] = useState<Field | null>(null);
  const title = session.chat?.title || words.untitled;
  const messages = shown.map((entry) => entry.message);
  const items: Item[] = [
    { key: "rename", label: words.rename, choose: () => setField("title") },
    { key: "instructions", label: words.instructions, choose: () => setField("instructions") },
    {
      key: "md",
      label: words.exportMarkdown,
      choose: () => {
        const who = (message: { role: string }): string => (message.role === "user" ? words.you : words.assistant);
        download(fileName(title, "md"), "text/markdown", toMarkdown(title, messages, who));
      },
    },
    {
      key: "json",
      label: words.exportJson,
      choose: () => download(fileName(title, "json"), "application/json", toJson(title, session.at.messages, new Date().toISOString())),
    },
    { key: "delete", label: words.remove, danger: true, choose: () => app.remove(session.id) },
  ];
  return (
    <>
      <Menu label={words.chatMenu} items={items} button={<Icon name="dots" />} class="chat-menu" />
      {field !== null && <Change field={field} session={session} onClose={() => setField(null)} />}
    </>
  );
}

function Change({ field, session, onClose }: { field: Field; session: Session; onClose: () => void }): JSX.Element {
  const app = useApp();
  const words = useWords();
  const before = session.chat?.[field] ?? "";
  const save = (form: HTMLFormElement): void => {
    const entry = new FormData(form).get("value");
    const value = typeof entry === "string" ? entry.trim() : "";
    if (field === "instructions") void app.instruct(session.id, value);
    else if (value !== "") void app.rename(session.id, value);
    form.closest("dialog")?.close();
  };
  return (
    <Dialog title={field === "title" ? words.rename : words.instructions} onClose={onClose}>
      <form
        class="form"
        onSubmit={(event) => {
          event.preventDefault();
          save(event.currentTarget);
        }}
      >
        {field === "title" ? (
          <label>
            {words.renameTitle}
            <input name="value" defaultValue={before} maxLength={200} autoFocus />
          </label>
        ) : (
          <label>
            {words.instructionsHint}
            <textarea name="value" rows={6} defaultValue={before} maxLength={8_000} autoFocus />
          </label>
        )}
        <button class="primary">{words.save}</button>
      </form>
    </Dialog>
  );
}

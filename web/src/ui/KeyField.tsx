/** Where a reader gives a key of the server's.  It goes to the memory of the page alone. */

import type { JSX } from "preact";
import { useApp, useWords } from "./hooks.ts";

export function KeyField(): JSX.Element {
  const { api } = useApp();
  const words = useWords();
  return (
    <label>
      {words.serverKey}
      <input
        type="password"
        autoComplete="off"
        required
        defaultValue={api.key ?? ""}
        onInput={(event) => (api.key = event.currentTarget.value || null)}
      />
      <small class="muted">{words.serverKeyHint}</small>
    </label>
  );
}

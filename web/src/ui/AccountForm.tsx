import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { ApiError } from "../requests.ts";
import { refusal, sentence } from "../strings.ts";
import { useApp, useWords } from "./hooks.ts";
import { KeyField } from "./KeyField.tsx";

interface Props {
  readonly how: "login" | "signup";
  readonly onDone?: () => void;
}

function field(form: FormData, name: string): string {
  const value = form.get(name);
  return typeof value === "string" ? value : "";
}

/** Name and password; what the server says about them stands under the fields. */
export function AccountForm({ how, onDone }: Props): JSX.Element {
  const app = useApp();
  const words = useWords();
  const [failure, setFailure] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const [locked, setLocked] = useState(app.closed);

  const submit = async (form: FormData): Promise<void> => {
    setBusy(true);
    setFailure(null);
    try {
      await app.enter(() => app.api.enter(how, field(form, "name"), field(form, "password")));
      onDone?.();
    } catch (error) {
      setFailure(error instanceof ApiError ? said(error) : words.errorOther);
    }
    setBusy(false);
  };
  const said = (error: ApiError): string => {
    if (error.code === "signup_closed") {
      setLocked(true);
      if (app.api.key !== null) return words.serverKeyWrong;
    }
    // The sentence for a request that is not valid speaks of messages.
    return refusal(words, error) ?? (error.type === "invalid_request" ? words.errorOther : sentence(words, error));
  };
  const fresh = how === "signup";
  return (
    <form
      class="form"
      onSubmit={(event) => {
        event.preventDefault();
        void submit(new FormData(event.currentTarget));
      }}
    >
      <label>
        {words.name}
        <input name="name" autoComplete="username" required maxLength={64} autoCapitalize="none" spellcheck={false} />
      </label>
      <label>
        {words.password}
        <input name="password" type="password" required minLength={fresh ? 8 : 1} maxLength={256} autoComplete={fresh ? "new-password" : "current-password"} />
        {fresh && <small class="muted">{words.passwordHint}</small>}
      </label>
      {fresh && locked && <KeyField />}
      <p class="failure" role="alert">
        {failure}
      </p>
      <button class="primary" disabled={busy}>
        {fresh ? words.signUp : words.signIn}
      </button>
    </form>
  );
}

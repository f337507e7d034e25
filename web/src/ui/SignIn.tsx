import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { ApiError } from "../requests.ts";
import { sentence } from "../strings.ts";
import { AccountForm } from "./AccountForm.tsx";
import { useApp, useWords } from "./hooks.ts";
import { Logo } from "./icons.tsx";
import { KeyField } from "./KeyField.tsx";

export function SignIn(): JSX.Element {
  const app = useApp();
  const words = useWords();
  const [how, setHow] = useState<"login" | "signup">("login");
  const sub = app.closed ? words.closedSub : how === "login" ? words.signInSub : words.signUpSub;
  return (
    <main class="center">
      <Logo />
      <h1>{words.welcome}</h1>
      <p class="muted">{sub}</p>
      <AccountForm key={how} how={how} />
      <button type="button" class="plain-button" onClick={() => setHow(how === "login" ? "signup" : "login")}>
        {how === "login" ? words.needAccount : words.haveAccount}
      </button>
      {how === "login" && <AsGuest />}
    </main>
  );
}

/** Where the server is closed, with one of its keys. */
function AsGuest(): JSX.Element {
  const app = useApp();
  const words = useWords();
  const [refused, setRefused] = useState("");
  const why = (error: unknown): string => {
    if (error instanceof ApiError && error.code !== "guests_refused") return sentence(words, error);
    return app.closed ? words.serverKeyWrong : words.errors.permission;
  };
  const enter = (): void => {
    app.enter(() => app.api.guest()).catch((error: unknown) => setRefused(why(error)));
  };
  return (
    <form
      class="form"
      onSubmit={(event) => {
        event.preventDefault();
        enter();
      }}
    >
      {app.closed && <KeyField />}
      <button class="plain-button">{app.closed ? words.asGuestWithKey : words.asGuest}</button>
      <p class="failure" role="alert">
        {refused}
      </p>
    </form>
  );
}

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { AccountForm } from "./AccountForm.tsx";
import { Dialog } from "./Dialog.tsx";
import { useApp, useWords } from "./hooks.ts";

type View = "overview" | "signup" | "login" | "delete";

export function AccountDialog({ onClose }: { onClose: () => void }): JSX.Element {
  const app = useApp();
  const words = useWords();
  const [view, setView] = useState<View>("overview");
  const guest = app.user?.guest !== false;
  if (view === "signup" || view === "login") {
    return (
      <Dialog key={view} title={view === "signup" ? words.signUp : words.signIn} onClose={onClose}>
        {view === "signup" && <p class="muted">{words.guestKeep}</p>}
        <AccountForm how={view} onDone={onClose} />
      </Dialog>
    );
  }
  if (view === "delete") {
    return (
      <Dialog key={view} title={words.deleteAccount} onClose={onClose}>
        <p>{words.deleteAccountSure}</p>
        <div class="row">
          <button type="button" class="plain-button" onClick={() => setView("overview")}>
            {words.cancel}
          </button>
          <button type="button" class="primary danger" onClick={() => void app.leave("delete")}>
            {words.deleteAccountYes}
          </button>
        </div>
      </Dialog>
    );
  }
  return (
    <Dialog key={view} title={words.account} onClose={onClose}>
      <p class="account-name">{guest ? words.guest : app.user?.name}</p>
      {guest && <p class="muted">{words.guestKeep}</p>}
      <div class="stack">
        {guest ? (
          <>
            <button type="button" class="primary" onClick={() => setView("signup")}>
              {words.signUp}
            </button>
            <button type="button" class="plain-button" onClick={() => setView("login")}>
              {words.haveAccount}
            </button>
          </>
        ) : (
          <button type="button" class="plain-button" onClick={() => void app.leave("logout")}>
            {words.signOut}
          </button>
        )}
        <button type="button" class="plain-button danger" onClick={() => setView("delete")}>
          {words.deleteAccount}
        </button>
      </div>
    </Dialog>
  );
}

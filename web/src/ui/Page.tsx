import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import type { App } from "../app.ts";
import { ChatView } from "./ChatView.tsx";
import { AppContext, useApp, useChanges, useNarrow, useWords } from "./hooks.ts";
import { Logo } from "./icons.tsx";
import { Sidebar } from "./Sidebar.tsx";
import { SignIn } from "./SignIn.tsx";
import { Toasts } from "./Toasts.tsx";

export function Page({ app }: { app: App }): JSX.Element {
  useChanges(app);
  return (
    <AppContext.Provider value={app}>
      <Phase />
      <Toasts toast={app.toast} />
    </AppContext.Provider>
  );
}

function Phase(): JSX.Element {
  const app = useApp();
  const words = useWords();
  switch (app.phase) {
    case "starting":
      return (
        <main class="center" aria-busy="true">
          <Logo />
          <p class="sr-only">{words.starting}</p>
        </main>
      );
    case "unreachable":
      return (
        <main class="center">
          <Logo />
          <h1>{words.unreachable}</h1>
          <p class="muted">{words.unreachableSub}</p>
          <button class="primary" type="button" onClick={() => location.reload()}>
            {words.retry}
          </button>
        </main>
      );
    case "sign-in":
      return <SignIn />;
    case "ready":
      return <Ready />;
  }
}

function Ready(): JSX.Element {
  const app = useApp();
  const words = useWords();
  const narrow = useNarrow();
  useShortcuts(app);
  const covered = narrow && app.drawer;
  useEffect(() => {
    const title = app.session?.chat?.title ?? "";
    document.title = title === "" ? words.appName : `${title} · ${words.appName}`;
  });
  return (
    <div class="page" data-drawer={app.drawer ? "open" : "shut"}>
      <a
        class="skip"
        href="#message"
        onClick={(event) => {
          event.preventDefault();
          document.getElementById("message")?.focus();
        }}
      >
        {words.skip}
      </a>
      <Sidebar hidden={narrow && !app.drawer} />
      {covered && <div class="shade" onClick={() => app.setDrawer(false)} />}
      <main class="main" inert={covered}>
        <ChatView key={app.session?.id ?? "new"} session={app.session} />
      </main>
    </div>
  );
}

function useShortcuts(app: App): void {
  useEffect(() => {
    const pressed = (event: KeyboardEvent): void => {
      const command = event.ctrlKey || event.metaKey;
      if (command && event.key.toLowerCase() === "k") {
        event.preventDefault();
        app.setDrawer(true);
        requestAnimationFrame(() => document.getElementById("search")?.focus());
      } else if (command && event.shiftKey && event.key.toLowerCase() === "o") {
        event.preventDefault();
        app.show(null);
      } else if (event.key === "Escape" && !event.defaultPrevented && document.querySelector("dialog[open]") === null) {
        if (app.drawer && matchMedia("(max-width: 820px)").matches) app.setDrawer(false);
        else if (app.session?.busy === true) void app.session.stop();
      }
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, [app]);
}

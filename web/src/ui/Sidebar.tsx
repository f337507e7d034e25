import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { Chat } from "../bodies.ts";
import { byAge, type Age } from "../format.ts";
import { AccountDialog } from "./AccountDialog.tsx";
import { useApp, useWords } from "./hooks.ts";
import { Icon, Logo } from "./icons.tsx";
import { SettingsDialog } from "./SettingsDialog.tsx";

type Open = "settings" | "account" | null;

export function Sidebar({ hidden }: { hidden: boolean }): JSX.Element {
  const app = useApp();
  const words = useWords();
  const [open, setOpen] = useState<Open>(null);
  const name = app.user?.guest === false ? app.user.name : words.guest;
  return (
    <nav class="side" aria-label={words.chats} inert={hidden}>
      <div class="side-head">
        <Logo />
        <span class="brand">{words.appName}</span>
        <button type="button" class="round only-narrow" aria-label={words.closeMenu} onClick={() => app.setDrawer(false)}>
          <Icon name="close" />
        </button>
      </div>
      <button type="button" class="new-chat" onClick={() => app.show(null)}>
        <Icon name="plus" />
        {words.newChat}
      </button>
      <label class="search">
        <Icon name="search" />
        <input
          id="search"
          type="search"
          value={app.query}
          placeholder={words.search}
          aria-label={words.search}
          onInput={(event) => void app.search(event.currentTarget.value)}
        />
      </label>
      <ChatList chats={app.listed} searching={app.found !== null} />
      <div class="side-foot">
        <button type="button" class="who" onClick={() => setOpen("account")}>
          <span class="avatar" aria-hidden="true">
            {name.slice(0, 1).toUpperCase()}
          </span>
          <span class="ellipsis">{name}</span>
          <span class="sr-only">, {words.account}</span>
        </button>
        <button type="button" class="round" aria-label={words.settings} title={words.settings} onClick={() => setOpen("settings")}>
          <Icon name="gear" />
        </button>
      </div>
      {open === "settings" && <SettingsDialog onClose={() => setOpen(null)} />}
      {open === "account" && <AccountDialog onClose={() => setOpen(null)} />}
    </nav>
  );
}

function ChatList({ chats, searching }: { chats: readonly Chat[]; searching: boolean }): JSX.Element {
  const app = useApp();
  const words = useWords();
  if (chats.length === 0) {
    return <p class="chat-list muted none">{searching ? words.searchNothing : words.noChats}</p>;
  }
  const ages: Readonly<Record<Age, string>> = {
    today: words.today,
    yesterday: words.yesterday,
    week: words.week,
    older: words.older,
  };
  return (
    <div class="chat-list" tabIndex={-1}>
      {byAge(chats, new Date()).map((group) => (
        <section key={group.age}>
          <h2>{ages[group.age]}</h2>
          <ul>
            {group.chats.map((chat) => (
              <ChatLine key={chat.id} chat={chat} />
            ))}
          </ul>
        </section>
      ))}
      {!searching && app.more && (
        <button type="button" class="show-more" onClick={() => void app.showMore()}>
          {words.showMore}
        </button>
      )}
    </div>
  );
}

function ChatLine({ chat }: { chat: Chat }): JSX.Element {
  const app = useApp();
  const words = useWords();
  const title = chat.title || words.untitled;
  const current = app.session?.id === chat.id;
  return (
    <li class="chat-line" data-current={current || undefined}>
      <a
        href={`#/c/${chat.id}`}
        aria-current={current ? "page" : undefined}
        onClick={(event) => {
          if (event.ctrlKey || event.metaKey || event.shiftKey) return;
          event.preventDefault();
          app.show(chat.id);
        }}
      >
        <span class="ellipsis">{title}</span>
        {chat.snippet !== undefined && <span class="snippet ellipsis">{chat.snippet}</span>}
      </a>
      <button type="button" class="round small" aria-label={`${words.remove}: ${title}`} title={words.remove} onClick={() => app.remove(chat.id)}>
        <Icon name="trash" />
      </button>
    </li>
  );
}

import type { JSX } from "preact";
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Submission } from "../bodies.ts";
import type { Pending, Session } from "../session.ts";
import { sentence, type Words } from "../strings.ts";
import { followed, path, type Choices, type Shown } from "../thread.ts";
import { hearing, type Heard } from "../voice.ts";
import { ChatMenu } from "./ChatMenu.tsx";
import { copyText } from "./clipboard.ts";
import { Composer, type Filling } from "./Composer.tsx";
import { useApp, useChanges, useWords } from "./hooks.ts";
import { Icon } from "./icons.tsx";
import { MessageView, Said, Waiting, type Actions } from "./MessageView.tsx";
import { Offer } from "./Offer.tsx";

const NEAR_PX = 80;

export function ChatView({ session }: { session: Session | null }): JSX.Element {
  const app = useApp();
  const words = useWords();
  useChanges(session);
  const [choices, setChoices] = useState<Choices>(new Map());
  const [filling, setFilling] = useState<Filling>({ text: "", n: 0 });
  const all = useMemo(() => path(session?.at.messages ?? [], choices), [session?.at.messages, choices]);
  const shown = cutAt(all, session?.pending ?? null);
  const scroll = useStick(session);
  const voice = useVoice(session, words);

  const fill = useCallback<Fill>((text, files) => setFilling(({ n }) => ({ text, ...(files && { files }), n: n + 1 })), []);
  const actions = useActions(session, setChoices, voice.say, scroll.stick);
  // Both are the same for as long as the session is: the composer is not rendered again with every word that comes.
  const stop = useCallback(() => void session?.stop(), [session]);
  const send = useCallback(
    async (what: Submission): Promise<boolean> => {
      scroll.follow();
      setChoices(new Map()); // a new message follows the newest turn, whatever was looked at
      // One that was refused gives way, and comes back to be written anew.
      const refused = session?.pending?.failure === undefined ? null : session.takeBack();
      const sent = await app.send(what);
      if (refused?.content !== undefined) fill(refused.content, refused.attachments ?? []);
      return sent;
    },
    [session],
  );

  return (
    <>
      <Top session={session} all={all} />
      <div class="scroll" ref={scroll.box} onScroll={scroll.scrolled} onClick={copyCode}>
        <Column session={session} shown={shown} actions={actions} fill={fill} />
      </div>
      {session?.gone !== true && (
        <div class="dock">
          {!scroll.stuck && (
            <button type="button" class="jump" aria-label={words.jump} title={words.jump} onClick={scroll.follow}>
              <Icon name="arrow" />
            </button>
          )}
          <Composer
            chat={session?.id ?? null}
            busy={session?.busy ?? false}
            stopping={session?.pending?.stopWanted ?? false}
            onStop={stop}
            onSend={send}
            fill={filling}
          />
        </div>
      )}
      <div class="sr-only" role="log" aria-label={words.assistant} ref={voice.log} />
      <div class="sr-only" role="status">
        <p key={voice.status.n}>{voice.status.text}</p>
      </div>
    </>
  );
}

function Top({ session, all }: { session: Session | null; all: readonly Shown[] }): JSX.Element {
  const app = useApp();
  const words = useWords();
  const lost = session?.link === "lost" && !session.gone;
  return (
    <header class="top">
      <button type="button" class="round only-narrow" aria-label={words.openMenu} onClick={() => app.setDrawer(true)}>
        <Icon name="menu" />
      </button>
      <h1 class="title ellipsis">{session?.chat?.title || words.newChat}</h1>
      <span class="link" role="status">
        {lost ? words.reconnecting : ""}
      </span>
      {session !== null && !session.gone && <ChatMenu session={session} shown={all} />}
    </header>
  );
}

/** Puts a text into the composer, and files in place of those that it holds. */
type Fill = (text: string, files?: NonNullable<Submission["attachments"]>) => void;

interface ColumnProps {
  readonly session: Session | null;
  readonly shown: readonly Shown[];
  readonly actions: Actions;
  readonly fill: Fill;
}

function Column({ session, shown, actions, fill }: ColumnProps): JSX.Element {
  const words = useWords();
  const empty = session === null || (session.loaded && shown.length === 0 && session.pending === null);
  if (session?.gone === true) return <p class="column center muted">{words.chatGone}</p>;
  return (
    <div class="column" data-empty={empty || undefined}>
      {empty ? <Welcome fill={fill} /> : <Messages session={session} shown={shown} actions={actions} fill={fill} />}
    </div>
  );
}

/** While a turn is done again, the old one and what followed it are not shown. */
function cutAt(all: readonly Shown[], pending: Pending | null): readonly Shown[] {
  const redo = pending?.what.redo;
  if (redo === undefined) return all;
  const turn = all.find((entry) => entry.message.id === redo)?.message.turn;
  const from = all.findIndex((entry) => entry.message.id === redo || (turn !== undefined && entry.message.turn === turn));
  return from < 0 ? all : all.slice(0, pending?.what.content === undefined ? from + 1 : from);
}

function Messages({ session, shown, actions, fill }: ColumnProps & { session: Session }): JSX.Element {
  const { settings } = useApp();
  const words = useWords();
  const pending = session.pending;
  const sentFrom = shown.findLast((entry) => entry.message.sentFrom !== undefined)?.message.sentFrom;
  return (
    <>
      {shown.map(({ message, versions }, index) => (
        <MessageView
          key={message.id}
          message={message}
          versions={versions}
          words={words}
          language={settings.language}
          actions={actions}
          last={index === shown.length - 1 && pending === null}
          cut={message.id === sentFrom && index > 0}
        />
      ))}
      {pending !== null && <Waits pending={pending} session={session} fill={fill} />}
    </>
  );
}

function Waits({ pending, session, fill }: { pending: Pending; session: Session; fill: Fill }): JSX.Element {
  const { settings } = useApp();
  const words = useWords();
  const { content, attachments } = pending.what;
  const takeBack = (): void => {
    session.takeBack();
    if (content !== undefined) fill(content, attachments ?? []);
  };
  return (
    <>
      {content !== undefined && (
        <article class="message user" aria-label={words.you}>
          <Said text={content} files={attachments ?? []} language={settings.language} />
        </article>
      )}
      {pending.failure === undefined ? (
        <article class="message assistant" aria-label={words.assistant} aria-busy="true">
          <Waiting text={words.sending} />
        </article>
      ) : (
        <div class="notice" role="alert">
          <Icon name="warn" />
          <div>
            <p>
              {words.notSent} {sentence(words, pending.failure)}
            </p>
            <p class="muted small-text">{pending.failure.message}</p>
          </div>
          <button type="button" class="plain-button" onClick={takeBack}>
            {content === undefined ? words.cancel : words.edit}
          </button>
          <button type="button" class="plain-button" onClick={() => void session.resend()}>
            {words.sendAgain}
          </button>
        </div>
      )}
    </>
  );
}

function Welcome({ fill }: { fill: Fill }): JSX.Element {
  const app = useApp();
  const words = useWords();
  if (!app.canAnswer) return <Offer />;
  return (
    <section class="welcome">
      <h2>{words.greeting}</h2>
      <p class="muted">{words.greetingSub}</p>
      <ul>
        {words.suggestions.map((text) => (
          <li key={text}>
            <button type="button" onClick={() => fill(text)}>
              {text}
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}

function useActions(
  session: Session | null,
  setChoices: (next: (now: Choices) => Choices) => void,
  settled: (text: string) => void,
  painted: () => void,
): Actions {
  return useMemo((): Actions => {
    const redo = (what: Submission): void => {
      setChoices(() => new Map());
      session?.submit(what);
    };
    return {
      regenerate: (id) => redo({ redo: id }),
      edit: (id, content, attachments) => redo({ redo: id, content, attachments }),
      choose: (turn, other) => {
        const fork = followed(session?.at.messages ?? [], turn);
        setChoices((now) => new Map(now).set(fork, other));
      },
      settled,
      painted,
    };
  }, [session]);
}

/** Keeps the newest words in sight, unless the reader has scrolled away from them. */
function useStick(session: Session | null): {
  box: { current: HTMLDivElement | null };
  stuck: boolean;
  scrolled: () => void;
  follow: () => void;
  stick: () => void;
} {
  const box = useRef<HTMLDivElement>(null);
  const [stuck, setStuck] = useState(true);
  const wanted = useRef(true);
  const last = useRef(0);
  const stick = useCallback((): void => {
    const element = box.current;
    if (element === null || !wanted.current) return;
    element.scrollTop = element.scrollHeight;
    last.current = element.scrollTop;
  }, []);
  const scrolled = (): void => {
    const element = box.current;
    if (element === null) return;
    const near = element.scrollHeight - element.scrollTop - element.clientHeight < NEAR_PX;
    // Only a movement upwards is the reader's: content that grows moves nothing, and ours go down.
    if (near) wanted.current = true;
    else if (element.scrollTop < last.current - 2) wanted.current = false;
    last.current = element.scrollTop;
    setStuck(near || wanted.current);
  };
  const follow = useCallback((): void => {
    wanted.current = true;
    setStuck(true);
    stick();
  }, []);
  useLayoutEffect(stick, [session?.at, session?.pending]);
  useEffect(() => {
    const watcher = new ResizeObserver(stick);
    if (box.current !== null) watcher.observe(box.current);
    return () => watcher.disconnect();
  }, []);
  return { box, stuck, scrolled, follow, stick };
}

/**
 * What a screen reader hears.  Not tokens: each block once, when it is whole, and how the answer began and ended.  The
 * messages themselves are no live region, so nothing is read twice.
 */
function useVoice(session: Session | null, words: Words): {
  log: { current: HTMLDivElement | null };
  /** n: how many there were; the same words a second time are heard again. */
  status: { readonly text: string; readonly n: number };
  say: (text: string) => void;
} {
  const log = useRef<HTMLDivElement>(null);
  const [status, setStatus] = useState({ text: "", n: 0 });
  const told = useRef<Heard | null>(null);
  useEffect(() => {
    if (session === null) return;
    const { say, heard } = hearing(words, told.current, session.at.messages, session);
    told.current = heard;
    if (say !== null) setStatus(({ n }) => ({ text: say, n: n + 1 }));
  });
  const heard = useRef<number | null>(null);
  const say = useCallback((text: string): void => {
    const id = session?.live?.id ?? heard.current;
    if (id !== heard.current) log.current?.replaceChildren(); // what was said of an earlier answer
    heard.current = id;
    const line = document.createElement("p");
    line.textContent = text;
    log.current?.append(line);
  }, [session]);
  return { log, status, say };
}

/** The copy buttons of code blocks are made with the text, so one listener serves them all. */
function copyCode(event: MouseEvent): void {
  const button = (event.target as Element).closest<HTMLButtonElement>("button[data-copy]");
  const code = button?.closest("figure")?.querySelector("code");
  if (button === null || code === null || code === undefined) return;
  void copyText(code.textContent).then((done) => {
    if (!done) return;
    button.dataset.copy = "done";
    setTimeout(() => (button.dataset.copy = ""), 2_000);
  });
}

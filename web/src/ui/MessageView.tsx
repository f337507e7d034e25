import { Component, type JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { isPicture, limitsOf, uploads, type Upload } from "../bodies.ts";
import { isOver, type Attachment, type Message, type ToolCall } from "../fold.ts";
import { bytes, count, money } from "../format.ts";
import { fill, interruption, sentence, type Language, type Words } from "../strings.ts";
import { copyText } from "./clipboard.ts";
import { useApp } from "./hooks.ts";
import { Icon, type IconName } from "./icons.tsx";
import { Markdown } from "./Markdown.tsx";
import { Uploads } from "./Uploads.tsx";

export interface Actions {
  readonly regenerate: (id: number) => void;
  readonly edit: (id: number, content: string, files: readonly Upload[]) => void;
  readonly choose: (turn: number, other: number) => void;
  readonly settled: (text: string) => void;
  readonly painted: () => void;
}

export interface MessageProps {
  readonly message: Message;
  readonly versions: readonly number[];
  readonly words: Words;
  readonly language: Language;
  readonly actions: Actions;
  readonly last: boolean;
  /** It was sent without what stands above. */
  readonly cut: boolean;
}

/** A message is rendered again only when it changed: of a long chat that is the newest, and no other. */
export class MessageView extends Component<MessageProps> {
  override shouldComponentUpdate(next: MessageProps): boolean {
    const now = this.props;
    return (
      now.message !== next.message ||
      now.words !== next.words ||
      now.last !== next.last ||
      now.cut !== next.cut ||
      now.versions.join() !== next.versions.join()
    );
  }

  override render(props: MessageProps): JSX.Element {
    return (
      <>
        {props.cut && <p class="cut">{props.words.sentFromHere}</p>}
        {props.message.role === "user" ? <UserMessage {...props} /> : <Answer {...props} />}
      </>
    );
  }
}

function UserMessage(props: MessageProps): JSX.Element {
  const { message, words, actions } = props;
  const [editing, setEditing] = useState(false);
  if (editing) {
    const done = (text: string | null, files: readonly Upload[]): void => {
      setEditing(false);
      if (text !== null && (text.trim() !== "" || files.length > 0)) actions.edit(message.id, text, files);
    };
    return <Editor message={message} words={words} done={done} />;
  }
  return (
    <article class="message user" aria-label={words.you} data-id={message.id}>
      <Said text={message.text} files={message.attachments ?? []} language={props.language} />
      <footer class="actions">
        <Versions {...props} />
        {message.text !== "" && <CopyButton text={message.text} words={words} />}
        <Act icon="edit" label={words.edit} run={() => setEditing(true)} />
      </footer>
    </article>
  );
}

/** What a user's message holds. */
export function Said({ text, files, language }: { text: string; files: readonly Attachment[]; language: Language }): JSX.Element {
  return (
    <>
      <Files files={files} language={language} />
      {text !== "" && <div class="bubble">{text}</div>}
    </>
  );
}

interface EditorProps {
  readonly message: Message;
  readonly words: Words;
  /** Without a text the message stays as it was. */
  readonly done: (text: string | null, files: readonly Upload[]) => void;
}

function Editor({ message: { text, attachments }, words, done }: EditorProps): JSX.Element {
  const area = useRef<HTMLTextAreaElement>(null);
  const [files, setFiles] = useState(() => uploads(attachments));
  const limits = limitsOf(useApp().models);
  const send = (): void => done(area.current?.value ?? null, files);
  return (
    <form
      class="message editor"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
      onKeyDown={(event) => {
        if (event.key === "Escape") {
          event.preventDefault();
          done(null, files);
        } else if (event.key === "Enter" && !event.shiftKey && !event.isComposing && event.target === area.current) {
          event.preventDefault();
          send();
        }
      }}
    >
      <Uploads files={files} words={words} onRemove={(file) => setFiles(files.filter((other) => other !== file))} />
      <textarea
        ref={(element) => {
          if (element !== null && area.current === null) {
            element.focus();
            element.setSelectionRange(text.length, text.length);
          }
          area.current = element;
        }}
        aria-label={words.editMessage}
        defaultValue={text}
        maxLength={limits.contentChars}
        rows={Math.min(10, text.split("\n").length + 1)}
      />
      <div class="row">
        <button type="button" class="plain-button" onClick={() => done(null, files)}>
          {words.cancel}
        </button>
        <button class="primary">{words.saveAndSend}</button>
      </div>
    </form>
  );
}

function Answer(props: MessageProps): JSX.Element {
  const { message, words, actions, last } = props;
  const over = isOver(message.state);
  const retry = last ? () => actions.regenerate(message.id) : undefined;
  return (
    <article class="message assistant" aria-label={words.assistant} aria-busy={!over} data-state={message.state} data-id={message.id}>
      {message.reasoning !== undefined && (
        <Reasoning text={message.reasoning} now={!over && message.text === ""} words={words} />
      )}
      {message.tools?.map((tool) => <Tool key={tool.id} tool={tool} words={words} />)}
      {isSilent(message) && <Waiting text={message.state === "queued" ? words.queued : words.thinking} />}
      {message.text !== "" && (
        <Markdown
          text={message.text}
          over={over}
          words={words}
          settled={last ? actions.settled : undefined}
          painted={last ? actions.painted : undefined}
        />
      )}
      <End message={message} words={words} retry={retry} />
      <Foot {...props} over={over} />
    </article>
  );
}

function isSilent(message: Message): boolean {
  const { state, text, tools, reasoning } = message;
  return !isOver(state) && text === "" && tools === undefined && reasoning === undefined;
}

function Foot(props: MessageProps & { over: boolean }): JSX.Element | null {
  const { message, words, actions } = props;
  if (!props.over) {
    return message.provider === undefined ? null : (
      <footer class="actions now">
        <Badge message={message} />
      </footer>
    );
  }
  return (
    <footer class="actions">
      <Facts message={message} words={words} language={props.language} />
      <Versions {...props} />
      {message.text !== "" && <CopyButton text={message.text} words={words} />}
      <Act icon="again" label={words.regenerate} run={() => actions.regenerate(message.id)} />
    </footer>
  );
}

export function Waiting({ text }: { text: string }): JSX.Element {
  return (
    <p class="waiting">
      <span class="dots" aria-hidden="true">
        <i />
        <i />
        <i />
      </span>
      <span class="sr-only">{text}</span>
    </p>
  );
}

function Reasoning({ text, now, words }: { text: string; now: boolean; words: Words }): JSX.Element {
  return (
    <details class="fold">
      <summary>
        <Icon name="right" />
        {now ? words.reasoningNow : words.reasoning}
      </summary>
      <div class="fold-text">{text}</div>
    </details>
  );
}

function Tool({ tool, words }: { tool: ToolCall; words: Words }): JSX.Element {
  return (
    <details class="fold tool">
      <summary>
        <Icon name="tool" />
        {fill(words.toolCall, { name: tool.name })}
      </summary>
      <div class="fold-text">
        <strong>{words.toolArguments}</strong>
        <pre tabIndex={0}>{pretty(tool.args)}</pre>
        {tool.result !== undefined && (
          <>
            <strong>{words.toolResult}</strong>
            <pre tabIndex={0}>{pretty(tool.result)}</pre>
          </>
        )}
      </div>
    </details>
  );
}

function pretty(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text; // it is being written, or is no JSON
  }
}

/** How the answer ended, when it did not simply end. */
function End({ message, words, retry }: { message: Message; words: Words; retry: (() => void) | undefined }): JSX.Element | null {
  if (message.state === "error") {
    const failure = message.error ?? { type: "unavailable", message: "" };
    return <Notice text={sentence(words, failure)} detail={failure.message} retry={retry} words={words} />;
  }
  if (message.interrupted !== undefined && message.warned === true) {
    // The answer says so itself, in the words of the server.
    return retry === undefined ? null : (
      <p class="ended">
        <button type="button" class="plain-button" onClick={retry}>
          {words.retry}
        </button>
      </p>
    );
  }
  if (message.interrupted !== undefined) {
    return <Notice text={interruption(words, message.interrupted)} detail="" retry={retry} words={words} />;
  }
  if (message.state === "cancelled") {
    const newer = message.reason?.startsWith("superseded") ?? false;
    return <p class="ended">{newer ? words.superseded : words.stopped}</p>;
  }
  return null;
}

interface NoticeProps {
  readonly text: string;
  readonly detail: string;
  readonly retry: (() => void) | undefined;
  readonly words: Words;
}

function Notice({ text, detail, retry, words }: NoticeProps): JSX.Element {
  return (
    <div class="notice" role="group">
      <Icon name="warn" />
      <div>
        <p>{text}</p>
        {detail !== "" && detail !== text && <p class="muted small-text">{detail}</p>}
      </div>
      {retry !== undefined && (
        <button type="button" class="plain-button" onClick={retry}>
          {words.retry}
        </button>
      )}
    </div>
  );
}

function Badge({ message }: { message: Message }): JSX.Element | null {
  if (message.provider === undefined) return null;
  const model = message.model !== undefined && message.model !== message.provider ? message.model : null;
  return (
    <span class="badge">
      {message.provider}
      {model !== null && <span class="badge-model">{model.replace(`${message.provider}/`, "")}</span>}
    </span>
  );
}

function Facts({ message, words, language }: { message: Message; words: Words; language: Language }): JSX.Element {
  const about = message.estimated === true ? words.about : "";
  const out = message.tokensOut;
  const tokens =
    out === undefined
      ? null
      : message.tokensIn === undefined
        ? fill(words.tokensOut, { out: about + count(out, language) })
        : fill(words.tokens, { in: about + count(message.tokensIn, language), out: count(out, language) });
  return (
    <span class="facts">
      <Badge message={message} />
      {tokens !== null && <span>{tokens}</span>}
      {message.cost !== undefined && <span>{money(message.cost.amount, message.cost.currency, language)}</span>}
    </span>
  );
}

function Versions({ message, versions, words, actions }: MessageProps): JSX.Element | null {
  const turn = message.turn ?? message.id;
  const at = versions.indexOf(turn);
  if (versions.length < 2) return null;
  const go = (step: number) => () => {
    const other = versions[at + step];
    if (other !== undefined) actions.choose(turn, other);
  };
  return (
    <span class="versions">
      <Act icon="left" label={words.previousVersion} run={go(-1)} disabled={at === 0} />
      <span>{fill(words.version, { n: at + 1, count: versions.length })}</span>
      <Act icon="right" label={words.nextVersion} run={go(1)} disabled={at === versions.length - 1} />
    </span>
  );
}

function Files({ files, language }: { files: readonly Attachment[]; language: Language }): JSX.Element | null {
  if (files.length === 0) return null;
  return (
    <div class="files">
      {files.map((file, index) =>
        file.data !== undefined && isPicture(file.mediaType) ? (
          <img key={index} src={`data:${file.mediaType};base64,${file.data}`} alt={file.name} />
        ) : (
          <span key={index} class="file">
            <Icon name="file" />
            <span class="ellipsis">{file.name}</span>
            <span class="muted">{bytes(file.bytes, language)}</span>
          </span>
        ),
      )}
    </div>
  );
}

interface ActProps {
  readonly icon: IconName;
  readonly label: string;
  readonly run: () => void;
  readonly disabled?: boolean;
}

function Act({ icon, label, run, disabled }: ActProps): JSX.Element {
  return (
    <button type="button" class="round small" aria-label={label} title={label} disabled={disabled ?? false} onClick={run}>
      <Icon name={icon} />
    </button>
  );
}

function CopyButton({ text, words }: { text: string; words: Words }): JSX.Element {
  const [copied, setCopied] = useState(false);
  const run = async (): Promise<void> => {
    if (!(await copyText(text))) return;
    setCopied(true);
    setTimeout(() => setCopied(false), 2_000);
  };
  return <Act icon={copied ? "check" : "copy"} label={copied ? words.copied : words.copy} run={() => void run()} />;
}

import type { JSX } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { limitsOf, type Models, type Submission, type Upload } from "../bodies.ts";
import { bytes, count } from "../format.ts";
import { fill, type Language, type Words } from "../strings.ts";
import { readFile, tooMany, type Refused, type Taken } from "./attachments.ts";
import { memo, useApp, useChanges, useWords } from "./hooks.ts";
import { Icon } from "./icons.tsx";
import { ModelPicker } from "./ModelPicker.tsx";
import { Uploads } from "./Uploads.tsx";

/** As the server counts them: characters beyond the first plane are one. */
function characters(text: string): number {
  return text.length - (text.match(/[\uD800-\uDBFF][\uDC00-\uDFFF]/g)?.length ?? 0);
}

/** What is put into the composer; without `files`, those that it holds stay.  n: how often that was done. */
export interface Filling {
  readonly text: string;
  readonly files?: readonly Upload[];
  readonly n: number;
}

interface Props {
  readonly chat: number | null;
  readonly busy: boolean;
  readonly stopping: boolean;
  readonly onStop: () => void;
  readonly onSend: (what: Submission) => Promise<boolean>;
  readonly fill: Filling;
}

export const Composer = memo(function Composer(props: Props): JSX.Element {
  const app = useApp();
  const words = useWords();
  useChanges(app);
  const language = app.settings.language;
  const user = app.user?.id ?? "";
  const [text, setText] = useState(() => app.drafts.get(user, props.chat));
  const [files, setFiles] = useState<readonly Upload[]>([]);
  const [refused, setRefused] = useState<Refused | null>(null);
  const [dragging, setDragging] = useState(false);
  const area = useRef<HTMLTextAreaElement>(null);
  const picker = useRef<HTMLInputElement>(null);

  const write = (value: string): void => {
    setText(value);
    app.drafts.set(user, props.chat, value);
  };
  useLayoutEffect(() => {
    const element = area.current;
    if (element === null) return;
    element.style.height = "auto";
    element.style.height = `${Math.min(element.scrollHeight, innerHeight * 0.4)}px`;
  }, [text]);
  useLayoutEffect(() => {
    if (matchMedia("(hover: hover)").matches) area.current?.focus();
  }, []);
  useLayoutEffect(() => {
    if (props.fill.n === 0) return;
    write(props.fill.text);
    if (props.fill.files !== undefined) setFiles(props.fill.files);
    area.current?.focus();
  }, [props.fill.n]);

  const taken = takenBy(app.models);
  const length = characters(text);
  const limits = limitsOf(app.models);
  const ready = (text.trim() !== "" || files.length > 0) && length <= limits.contentChars;

  const send = async (): Promise<void> => {
    if (!ready) return;
    const sent = text;
    const attached = files;
    write("");
    setFiles([]);
    setRefused(null);
    const uploads = attached.length === 0 ? {} : { attachments: attached };
    if (!(await props.onSend({ content: sent, ...uploads }))) {
      write(sent);
      setFiles(attached);
    }
  };
  const add = async (list: Iterable<File>): Promise<void> => {
    let room = limits.attachments - files.length;
    for (const file of list) {
      const read = room > 0 ? await readFile(file, taken) : tooMany(file, limits.attachments);
      if ("why" in read) setRefused(read);
      else {
        room--;
        setRefused(null);
        setFiles((before) => [...before, read]);
      }
    }
  };
  const why = (no: Refused): string => {
    const says = { pictures: words.noImages, kind: words.fileKind, large: words.fileTooLarge, many: words.tooManyFiles };
    const limit = no.why === "large" ? bytes(no.limit, language) : count(no.limit, language);
    return fill(says[no.why], { name: no.name, limit });
  };

  return (
    <form
      class="composer"
      data-dragging={dragging || undefined}
      onSubmit={(event) => {
        event.preventDefault();
        void send();
      }}
      onDragOver={(event) => {
        event.preventDefault();
        setDragging(true);
      }}
      onDragLeave={() => setDragging(false)}
      onDrop={(event) => {
        event.preventDefault();
        setDragging(false);
        void add(event.dataTransfer?.files ?? []);
      }}
    >
      {dragging && <p class="drop">{words.dropHere}</p>}
      <Uploads files={files} words={words} onRemove={(file) => setFiles(files.filter((other) => other !== file))} />
      <textarea
        id="message"
        ref={area}
        rows={1}
        value={text}
        placeholder={words.placeholder}
        aria-label={words.message}
        aria-describedby="keys-hint"
        onInput={(event) => write(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
          event.preventDefault();
          void send();
        }}
        onPaste={(event) => {
          const pasted = [...(event.clipboardData?.files ?? [])];
          if (pasted.length === 0) return;
          event.preventDefault();
          void add(pasted);
        }}
      />
      <span id="keys-hint" class="sr-only">
        {words.keysHint}
      </span>
      <div class="composer-bar">
        <input
          ref={picker}
          type="file"
          multiple
          hidden
          aria-label={words.attach}
          onChange={(event) => {
            void add([...(event.currentTarget.files ?? [])]);
            event.currentTarget.value = "";
          }}
        />
        {(taken.images || taken.files) && (
          <button type="button" class="round" aria-label={words.attach} title={words.attach} onClick={() => picker.current?.click()}>
            <Icon name="clip" />
          </button>
        )}
        <ModelPicker />
        <span class="grow" />
        <Count length={length} limit={limits.contentChars} words={words} language={language} />
        <SendButton busy={props.busy && !ready} stopping={props.stopping} ready={ready} words={words} onStop={props.onStop} />
      </div>
      <p class="failure" role="alert">
        {refused === null ? "" : why(refused)}
      </p>
    </form>
  );
});

/** `auto` takes what the provider takes that it would ask first. */
function takenBy(models: Models | null): Taken {
  const chosen = models?.choices.find((choice) => choice.id === models.selected);
  const asked = chosen?.id === "auto" ? models?.choices.find((choice) => choice.id !== "auto" && choice.configured) : chosen;
  return { images: asked?.images ?? false, files: asked?.files ?? false };
}

interface CountProps {
  readonly length: number;
  readonly limit: number;
  readonly words: Words;
  readonly language: Language;
}

/** Said when the limit is near. */
function Count({ length, limit, words, language }: CountProps): JSX.Element | null {
  if (length <= limit * 0.9) return null;
  return (
    <span class="count" data-over={length > limit || undefined} role="status">
      {fill(words.tooLong, { count: count(length, language), limit: count(limit, language) })}
    </span>
  );
}

interface SendProps {
  readonly busy: boolean;
  readonly stopping: boolean;
  readonly ready: boolean;
  readonly words: Words;
  readonly onStop: () => void;
}

/** Stops while an answer is being written, unless there is a new message to send. */
function SendButton({ busy, stopping, ready, words, onStop }: SendProps): JSX.Element {
  if (busy) {
    return (
      <button type="button" class="send stop" aria-label={stopping ? words.stopping : words.stop} title={words.stop} disabled={stopping} onClick={onStop}>
        <span class="square" aria-hidden="true" />
      </button>
    );
  }
  return (
    <button class="send" aria-label={words.send} title={words.send} disabled={!ready}>
      <Icon name="send" />
    </button>
  );
}

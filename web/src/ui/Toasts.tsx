import type { JSX } from "preact";
import type { Toast } from "../app.ts";
import { sentence, type Words } from "../strings.ts";
import { useApp, useWords } from "./hooks.ts";

const TEXT: Readonly<Record<Toast["text"], (words: Words) => string>> = {
  deleted: (words) => words.deleted,
  copied: (words) => words.copied,
  failed: (words) => words.failed,
  "signed-out": (words) => words.signedOut,
};

export function Toasts({ toast }: { toast: Toast | null }): JSX.Element {
  const app = useApp();
  const words = useWords();
  return (
    <div class="toasts" role="status">
      {toast !== null && (
        <div class="toast">
          <span>
            {TEXT[toast.text](words)} {toast.failure !== undefined && sentence(words, toast.failure)}
          </span>
          {toast.undo !== undefined && (
            <button type="button" onClick={toast.undo}>
              {words.undo}
            </button>
          )}
          <button type="button" class="quiet" onClick={() => app.hush()}>
            {words.close}
          </button>
        </div>
      )}
    </div>
  );
}

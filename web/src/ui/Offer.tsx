/** The first run: nothing can answer yet, and one click changes that. */

import type { JSX } from "preact";
import type { Models } from "../bodies.ts";
import type { Pull } from "../app.ts";
import { bytes } from "../format.ts";
import { fill } from "../strings.ts";
import { useApp, useWords } from "./hooks.ts";
import { Icon } from "./icons.tsx";
import { KeyField } from "./KeyField.tsx";

type Offered = NonNullable<Models["offer"]>;

export function Offer(): JSX.Element {
  const app = useApp();
  const words = useWords();
  const offer = app.models?.offer ?? null;
  return (
    <section class="offer" aria-labelledby="offer-title">
      <span class="offer-icon">
        <Icon name="chip" />
      </span>
      <h2 id="offer-title">{offer === null ? words.noModelTitle : words.offerTitle}</h2>
      {offer === null ? <p>{words.noModelText}</p> : <Model offer={offer} />}
    </section>
  );
}

function Model({ offer }: { offer: Offered }): JSX.Element {
  const app = useApp();
  const words = useWords();
  const language = app.settings.language;
  const { pull } = app;
  const running = pull !== null && pull.failure === undefined;
  return (
    <>
      <p>{fill(words.offerText, { model: offer.model, size: bytes(offer.bytes, language) })}</p>
      {running ? <Bar pull={pull} model={offer.model} /> : <Begin pull={pull} model={offer.model} />}
      <p class="failure" role="alert">
        {pull?.failure === undefined ? "" : pull.locked ? words.pullLocked : fill(words.pullFailed, { detail: pull.failure })}
      </p>
      <p class="muted small-text">{fill(words.offerLicence, { licence: offer.licence })}</p>
    </>
  );
}

function Begin({ pull, model }: { pull: Pull | null; model: string }): JSX.Element {
  const app = useApp();
  const words = useWords();
  return (
    <form
      class="form"
      onSubmit={(event) => {
        event.preventDefault();
        void app.pullModel();
      }}
    >
      {pull?.locked === true && <KeyField />}
      <button class="primary">{pull === null ? fill(words.offerButton, { model }) : words.pullAgain}</button>
    </form>
  );
}

function Bar({ pull, model }: { pull: Pull; model: string }): JSX.Element {
  const words = useWords();
  const language = useApp().settings.language;
  const total = pull.progress?.total;
  const done = pull.progress?.completed ?? 0;
  const label = fill(words.pulling, { model });
  const checking = pull.progress?.status.startsWith("verifying") ?? false;
  const said =
    total === undefined
      ? checking
        ? words.pullChecking
        : words.pullStarting
      : fill(words.pullOf, { done: bytes(done, language), total: bytes(total, language) });
  return (
    <div class="pull">
      <progress aria-label={label} {...(total === undefined ? {} : { value: done, max: total })} />
      <p class="muted small-text">
        {label} · {said}
      </p>
    </div>
  );
}

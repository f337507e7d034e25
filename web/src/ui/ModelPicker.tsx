import type { JSX } from "preact";
import type { Choice } from "../bodies.ts";
import { whyNot, type Words } from "../strings.ts";
import { memo, useApp, useChanges, useWords } from "./hooks.ts";
import { Icon } from "./icons.tsx";
import { Menu, type Item } from "./Menu.tsx";

export const ModelPicker = memo(function ModelPicker(): JSX.Element | null {
  const app = useApp();
  const words = useWords();
  useChanges(app);
  const models = app.models;
  if (models === null) return null;
  const selected = models.choices.find((choice) => choice.id === models.selected);
  const name = selected === undefined ? models.selected : labelOf(selected, words);
  const rank = (choice: Choice): number => (choice.configured ? (choice.local ? 1 : 0) : 2);
  const choices = [...models.choices].sort((a, b) => rank(a) - rank(b));
  const items = choices.map((choice): Item => {
    const note = noteOf(choice, words);
    const group = groupOf(choice, words);
    return {
      key: choice.id,
      label: labelOf(choice, words),
      checked: choice.id === models.selected,
      disabled: !choice.configured,
      choose: () => void app.choose(choice.id),
      ...(note === null ? {} : { note }),
      ...(group === null ? {} : { group }),
    };
  });
  return (
    <Menu
      class="picker"
      label={`${words.model}: ${name}`}
      place="above"
      align="start"
      items={items}
      button={
        <>
          <span class="ellipsis">{name}</span>
          <Icon name="down" />
        </>
      }
    />
  );
});

function labelOf(choice: Choice, words: Words): string {
  return choice.id === "auto" ? words.modelAuto : choice.label;
}

function noteOf(choice: Choice, words: Words): string | null {
  if (!choice.configured) return whyNot(words, choice.reason, choice.label);
  return choice.id === "auto" ? words.modelAutoHint : null;
}

function groupOf(choice: Choice, words: Words): string | null {
  if (!choice.configured) return words.modelUnset;
  return choice.local ? words.modelLocal : null;
}

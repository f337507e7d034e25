/** A button with a menu, by the pattern of the ARIA guide: arrows move, Escape closes and gives the focus back. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

export interface Item {
  readonly key: string;
  readonly label: ComponentChildren;
  readonly note?: ComponentChildren;
  readonly checked?: boolean;
  readonly disabled?: boolean;
  readonly danger?: boolean;
  readonly group?: string;
  readonly choose: () => void;
}

interface Props {
  readonly label: string;
  readonly button: ComponentChildren;
  readonly items: readonly Item[];
  readonly class?: string;
  readonly place?: "above" | "below";
  readonly align?: "start" | "end";
}

export function Menu(props: Props): JSX.Element {
  const [open, setOpen] = useState(false);
  const root = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);

  const shut = (focus: boolean): void => {
    setOpen(false);
    if (focus) button.current?.focus();
  };
  useLayoutEffect(() => {
    if (!open) return;
    const list = root.current?.querySelector<HTMLElement>("[role=menu]");
    (list?.querySelector<HTMLElement>("[aria-checked=true]") ?? list?.querySelector<HTMLElement>("button"))?.focus();
  }, [open]);
  useEffect(() => {
    if (!open) return;
    const outside = (event: Event): void => {
      if (!root.current?.contains(event.target as Node)) setOpen(false);
    };
    addEventListener("pointerdown", outside);
    return () => removeEventListener("pointerdown", outside);
  }, [open]);

  const pressed = (event: KeyboardEvent): void => {
    const buttons = [...(root.current?.querySelectorAll<HTMLElement>("[role=menu] button") ?? [])];
    const at = buttons.indexOf(document.activeElement as HTMLElement);
    const next = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: buttons.length - 1 }[event.key];
    if (next !== undefined) {
      event.preventDefault();
      buttons.at(next % buttons.length)?.focus();
    } else if (event.key === "Escape") {
      event.preventDefault();
      shut(true);
    } else if (event.key === "Tab") setOpen(false);
  };

  return (
    <div class={`menu ${props.class ?? ""}`} ref={root} onKeyDown={open ? pressed : undefined}>
      <button
        type="button"
        ref={button}
        class="menu-button"
        aria-haspopup="menu"
        aria-expanded={open}
        aria-label={props.label}
        title={props.label}
        onClick={() => setOpen(!open)}
      >
        {props.button}
      </button>
      {open && (
        <div class="menu-list" role="menu" aria-label={props.label} data-place={props.place ?? "below"} data-align={props.align ?? "end"}>
          {props.items.map((item, index) => (
            <MenuItem key={item.key} item={item} heading={item.group !== props.items[index - 1]?.group} shut={shut} />
          ))}
        </div>
      )}
    </div>
  );
}

function MenuItem({ item, heading, shut }: { item: Item; heading: boolean; shut: (focus: boolean) => void }): JSX.Element {
  return (
    <>
      {heading && item.group !== undefined && (
        <div class="menu-group" role="presentation">
          {item.group}
        </div>
      )}
      <button
        type="button"
        role={item.checked === undefined ? "menuitem" : "menuitemradio"}
        aria-checked={item.checked}
        aria-disabled={item.disabled}
        tabIndex={-1}
        class={item.danger ? "danger" : undefined}
        onClick={() => {
          if (item.disabled) return;
          shut(true);
          item.choose();
        }}
      >
        <span class="menu-label">{item.label}</span>
        {item.note !== undefined && <span class="menu-note">{item.note}</span>}
      </button>
    </>
  );
}

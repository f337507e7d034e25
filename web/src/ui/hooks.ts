import { Component, createContext, h, type ComponentClass, type ComponentChildren, type FunctionComponent } from "preact";
import { useContext, useEffect, useLayoutEffect, useReducer } from "preact/hooks";
import type { App } from "../app.ts";
import type { Changes } from "../changes.ts";
import { WORDS, type Words } from "../strings.ts";

export const AppContext = createContext<App | null>(null);

export function useApp(): App {
  const app = useContext(AppContext);
  if (app === null) throw new Error("outside of the page");
  return app;
}

export function useWords(): Words {
  return WORDS[useApp().settings.language];
}

/**
 * The component, rendered again only when one of its props is another, or something that it watches changes.  What it
 * takes from the app it has to watch.
 */
export function memo<P extends object>(inner: FunctionComponent<P>): ComponentClass<P> {
  return class extends Component<P> {
    override shouldComponentUpdate(next: Readonly<P>): boolean {
      const now: Readonly<P> = this.props;
      return (Object.keys(next) as (keyof P)[]).some((name) => now[name] !== next[name]);
    }

    override render(props: P): ComponentChildren {
      return h(inner, props);
    }
  };
}

/** Renders again whenever what is watched changes. */
export function useChanges(watched: Changes | null): void {
  const [, again] = useReducer<number, undefined>((n) => n + 1, 0);
  // Before anything else can run: what changed between the rendering and the watching would be missed.
  useLayoutEffect(() => watched?.watch(() => again(undefined)), [watched]);
}

export const NARROW = "(max-width: 820px)";

export function useNarrow(): boolean {
  const media = matchMedia(NARROW);
  const [, again] = useReducer<number, undefined>((n) => n + 1, 0);
  useEffect(() => {
    const changed = (): void => again(undefined);
    media.addEventListener("change", changed);
    return () => media.removeEventListener("change", changed);
  }, []);
  return media.matches;
}

import type { JSX } from "preact";
import { THEMES, type Theme } from "../settings.ts";
import { LANGUAGES, WORDS } from "../strings.ts";
import { Dialog } from "./Dialog.tsx";
import { useApp, useWords } from "./hooks.ts";

export function SettingsDialog({ onClose }: { onClose: () => void }): JSX.Element {
  const { settings } = useApp();
  const words = useWords();
  const themes: Readonly<Record<Theme, string>> = {
    system: words.themeSystem,
    light: words.themeLight,
    dark: words.themeDark,
  };
  return (
    <Dialog title={words.settings} onClose={onClose}>
      <fieldset class="segments">
        <legend>{words.theme}</legend>
        {THEMES.map((theme) => (
          <label key={theme}>
            <input type="radio" name="theme" checked={settings.theme === theme} onChange={() => settings.setTheme(theme)} />
            <span>{themes[theme]}</span>
          </label>
        ))}
      </fieldset>
      <fieldset class="segments">
        <legend>{words.language}</legend>
        {LANGUAGES.map((language) => (
          <label key={language} lang={language}>
            <input
              type="radio"
              name="language"
              checked={settings.language === language}
              onChange={() => settings.setLanguage(language)}
            />
            <span>{WORDS[language].languageName}</span>
          </label>
        ))}
      </fieldset>
    </Dialog>
  );
}

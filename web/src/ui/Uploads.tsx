import type { JSX } from "preact";
import { isPicture, type Upload } from "../bodies.ts";
import { fill, type Words } from "../strings.ts";
import { Icon } from "./icons.tsx";

interface Props {
  readonly files: readonly Upload[];
  readonly words: Words;
  readonly onRemove: (file: Upload) => void;
}

/** What a message will have attached; each can be taken away. */
export function Uploads({ files, words, onRemove }: Props): JSX.Element | null {
  if (files.length === 0) return null;
  return (
    <ul class="uploads">
      {files.map((file, index) => (
        <li key={`${file.name}${index}`}>
          {isPicture(file.mediaType) ? <img src={`data:${file.mediaType};base64,${file.data}`} alt="" /> : <Icon name="file" />}
          <span class="ellipsis">{file.name}</span>
          <button type="button" class="round small" aria-label={fill(words.removeFile, { name: file.name })} onClick={() => onRemove(file)}>
            <Icon name="close" />
          </button>
        </li>
      ))}
    </ul>
  );
}

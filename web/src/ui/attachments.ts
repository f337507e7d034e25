/** Files of the reader's, made ready to be sent. */

import { isPicture, type Upload } from "../bodies.ts";

export const PICTURE_BYTES = 5_000_000;
export const TEXT_BYTES = 256_000;
const TEXT_TYPES = /^(?:text\/|application\/(?:json|xml|x-yaml|yaml|javascript|sql|toml))/;
const TEXT_NAMES = /\.(?:txt|md|csv|json|ya?ml|toml|py|ts|tsx|js|jsx|go|rs|c|h|cpp|java|sh|sql|html|css|log|ini|cfg)$/i;

/** What the chosen model takes. */
export interface Taken {
  readonly images: boolean;
  readonly files: boolean;
}

export type Refused = { readonly why: "large" | "kind" | "pictures" | "many"; readonly name: string; readonly limit: number };

/** The file as it is sent, or why it is not. */
export async function readFile(file: File, taken: Taken): Promise<Upload | Refused> {
  const picture = isPicture(file.type);
  const text = TEXT_TYPES.test(file.type) || TEXT_NAMES.test(file.name);
  if (!picture && (!text || !taken.files)) return { why: "kind", name: file.name, limit: 0 };
  if (picture && !taken.images) return { why: "pictures", name: file.name, limit: 0 };
  const limit = picture ? PICTURE_BYTES : TEXT_BYTES;
  if (file.size > limit) return { why: "large", name: file.name, limit };
  const data = base64(new Uint8Array(await file.arrayBuffer()));
  return { name: file.name, mediaType: picture ? file.type : "text/plain", bytes: file.size, data };
}

export function tooMany(file: File, limit: number): Refused {
  return { why: "many", name: file.name, limit };
}

function base64(bytes: Uint8Array): string {
  let binary = "";
  for (let at = 0; at < bytes.length; at += 32_768) binary += String.fromCharCode(...bytes.subarray(at, at + 32_768));
  return btoa(binary);
}

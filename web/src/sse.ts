/**
 * Bytes of a stream to frames: data-only server-sent events, one JSON object each, an `id:` line where it can be
 * resumed.  Pure.  Lines end at CR, LF or CRLF and nowhere else: U+2028 and U+0085 are legal inside JSON text.
 */

/** `frameId`: the wire's id. */
export interface Frame {
  readonly event: string;
  readonly frameId?: string;
  readonly [member: string]: unknown;
}

/** What the stream said beside frames: `retry` in milliseconds. */
export interface Fed {
  readonly frames: Frame[];
  readonly retryMs?: number;
}

const MAX_EVENT_CHARS = 16 * 1024 * 1024;

export class SseReader {
  #line = "";
  #afterCr = false;
  #data: string[] = [];
  #chars = 0;
  #id: string | undefined;
  #decoder = new TextDecoder();

  /** Every frame that these bytes complete.  A frame cut by the end of the stream is never given. */
  feed(bytes: Uint8Array): Fed {
    return this.feedText(this.#decoder.decode(bytes, { stream: true }));
  }

  feedText(text: string): Fed {
    const frames: Frame[] = [];
    let retryMs: number | undefined;
    let from = 0;
    if (this.#afterCr && text.length > 0) {
      this.#afterCr = false;
      if (text.startsWith("\n")) from = 1;
    }
    for (let at = from; at < text.length; at++) {
      const code = text.charCodeAt(at);
      if (code !== 10 && code !== 13) continue;
      const line = this.#line + text.slice(from, at);
      this.#line = "";
      if (code === 13) {
        if (at + 1 === text.length) this.#afterCr = true;
        else if (text.charCodeAt(at + 1) === 10) at++;
      }
      from = at + 1;
      const told = this.#take(line, frames);
      if (told !== undefined) retryMs = told;
    }
    this.#line += text.slice(from);
    if (this.#line.length + this.#chars > MAX_EVENT_CHARS) throw new Error("an event of the stream is too long");
    return retryMs === undefined ? { frames } : { frames, retryMs };
  }

  #take(line: string, frames: Frame[]): number | undefined {
    if (line === "") {
      this.#dispatch(frames);
      return undefined;
    }
    const colon = line.indexOf(":");
    if (colon === 0) return undefined; // a comment keeps the connection alive
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line.charCodeAt(colon + 1) === 32 ? colon + 2 : colon + 1);
    if (field === "data") {
      this.#data.push(value);
      this.#chars += value.length;
    } else if (field === "id") this.#id = value;
    else if (field === "retry" && /^\d+$/.test(value)) return Number(value);
    return undefined;
  }

  #dispatch(frames: Frame[]): void {
    const text = this.#data.join("\n");
    const id = this.#id;
    this.#data = [];
    this.#chars = 0;
    this.#id = undefined;
    if (text === "" || text === "[DONE]") return;
    const value: unknown = JSON.parse(text);
    if (typeof value !== "object" || value === null || typeof (value as Frame).event !== "string") return;
    frames.push(id === undefined ? (value as Frame) : { ...(value as Frame), frameId: id });
  }
}

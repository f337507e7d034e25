/**
 * What the server's answers say, as this page has it.  They are read without trust: a member that is not there, or is
 * something else, is not shown.  Pure.
 */

import { failureOf, type Attachment, type Message, type MessageState, type ToolCall } from "./fold.ts";

export type Json = Readonly<Record<string, unknown>>;

export interface User {
  readonly id: string;
  readonly name: string;
  readonly guest: boolean;
}

export interface Chat {
  readonly id: number;
  readonly title: string;
  readonly updatedAt: string;
  readonly instructions: string;
  /** Where the searched words stand. */
  readonly snippet?: string;
}

export interface Choice {
  readonly id: string;
  readonly label: string;
  readonly provider: string;
  readonly configured: boolean;
  /** Why it cannot be chosen. */
  readonly reason?: string;
  readonly images: boolean;
  readonly files: boolean;
  readonly local: boolean;
}

export interface Models {
  readonly selected: string;
  readonly choices: readonly Choice[];
  /** A small model that can be pulled here; null where none may be, or it is here already. */
  readonly offer: { readonly model: string; readonly bytes: number; readonly licence: string } | null;
  readonly limits: Limits;
}

/** Of one message. */
export interface Limits {
  readonly contentChars: number;
  readonly attachments: number;
}

/** Those of the server's defaults until it has said its own. */
export function limitsOf(models: Models | null): Limits {
  return models?.limits ?? { contentChars: 32_000, attachments: 8 };
}

export interface Upload extends Attachment {
  readonly data: string;
}

/** What a message has attached, as it is sent again. */
export function uploads(files: readonly Attachment[] | undefined): readonly Upload[] {
  return (files ?? []).filter((file): file is Upload => file.data !== undefined);
}

/**
 * Without `content` the message of the redone turn is asked again.  It may be empty where there are attachments; those
 * of an edited message are sent with it again.
 */
export interface Submission {
  readonly content?: string;
  readonly model?: string;
  /** A message of the turn that this one does again. */
  readonly redo?: number;
  readonly attachments?: readonly Upload[];
}

export interface Progress {
  readonly status: string;
  readonly total?: number;
  readonly completed?: number;
}

const STATES: Readonly<Record<string, MessageState>> = {
  queued: "queued",
  starting: "streaming",
  streaming: "streaming",
  stopping: "streaming",
  recovering: "streaming",
  completed: "done",
  done: "done",
  interrupted: "done",
  stopped: "cancelled",
  superseded: "cancelled",
  cancelled: "cancelled",
  failed: "error",
  error: "error",
};

export function record(value: unknown): Json {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Json) : {};
}

export function list(value: unknown): Json[] {
  return Array.isArray(value) ? value.map(record) : [];
}

export function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

export function user(body: Json): User {
  return { id: String(number(body.id) ?? text(body.id)), name: text(body.name), guest: body.guest === true };
}

export function chat(body: Json): Chat {
  const snippet = text(body.snippet);
  return {
    id: Number(body.id),
    title: text(body.title),
    updatedAt: text(body.updated_at),
    instructions: text(body.instructions),
    ...(snippet === "" ? {} : { snippet }),
  };
}

export function message(body: Json): Message {
  const role = body.role === "user" || body.role === "system" ? body.role : "assistant";
  const error = failureOf(body.error);
  const said = typeof body.content === "string" ? body.content : joined(list(body.parts), "text");
  const state = role === "assistant" ? (STATES[text(body.state)] ?? "done") : "done";
  return {
    id: Number(body.id),
    role,
    text: said,
    state: state === "done" && error !== undefined && said === "" ? "error" : state,
    ...pieces(body),
    ...optional("error", error),
    ...optional("interrupted", named(record(body.interrupted).type)),
    ...(list(body.parts).some(of("warning")) ? { warned: true } : {}),
    ...optional("turn", number(body.turn)),
    ...optional("redoes", number(body.redoes)),
    ...optional("generation", number(body.generation)),
    ...optional("sentFrom", number(body.context_from)),
    ...optional("createdAt", named(body.created_at)),
    ...facts(body),
  };
}

/** What a message has beside its text. */
function pieces(body: Json): Partial<Message> {
  const parts = list(body.parts);
  const tools = parts.filter(of("tool_call")).map((part) => tool(part, parts));
  const files = parts.filter((part) => part.type === "image" || part.type === "file").map(attachment);
  return {
    ...optional("reasoning", named(body.reasoning) ?? named(joined(parts, "reasoning"))),
    ...(tools.length === 0 ? {} : { tools }),
    ...(files.length === 0 ? {} : { attachments: files }),
  };
}

/** Who answered, how much it was, what it cost. */
function facts(body: Json): Partial<Message> {
  const usage = record(body.usage);
  const cost = record(body.cost);
  return {
    ...optional("provider", named(body.provider)),
    ...optional("model", named(body.model)),
    ...optional("reason", named(body.reason)),
    ...optional("tokensIn", number(usage.input_tokens)),
    ...optional("tokensOut", number(usage.output_tokens)),
    ...(usage.estimated === true ? { estimated: true } : {}),
    ...(typeof cost.amount === "number" ? { cost: { amount: cost.amount, currency: text(cost.currency) || "USD" } } : {}),
  };
}

function joined(parts: readonly Json[], kind: string): string {
  return parts.filter(of(kind)).map((part) => text(part.text)).join("");
}

function named(value: unknown): string | undefined {
  return text(value) || undefined;
}

function of(kind: string): (part: Json) => boolean {
  return (part) => part.type === kind;
}

function tool(part: Json, parts: readonly Json[]): ToolCall {
  const id = text(part.id);
  const result = parts.filter(of("tool_result")).find((other) => other.id === id);
  const args = text(part.arguments);
  return { id, name: text(part.name), args, ...(result === undefined ? {} : { result: joined(list(result.content), "text") }) };
}

function attachment(body: Json): Attachment {
  const mediaType = text(body.media_type);
  const data = text(body.data);
  return {
    name: text(body.name) || mediaType,
    mediaType,
    bytes: Math.floor(data.length * 0.75),
    ...optional("data", named(data)),
  };
}

/** Pictures that a browser shows without running anything in them. */
export function isPicture(mediaType: string): boolean {
  return /^image\/(?:png|jpeg|gif|webp)$/.test(mediaType);
}

function number(value: unknown): number | undefined {
  return typeof value === "number" ? value : undefined;
}

function optional<K extends string, V>(name: K, value: V | undefined): { [P in K]?: V } {
  return value === undefined ? {} : ({ [name]: value } as { [P in K]?: V });
}

export function models(body: Json): Models {
  const choices = list(body.models).map((choice): Choice => {
    const id = text(choice.id);
    return {
      id,
      label: text(choice.label) || id,
      provider: text(choice.provider),
      configured: choice.configured !== false,
      images: choice.images === true,
      files: choice.files === true,
      local: choice.local === true,
      ...optional("reason", text(choice.reason) || undefined),
    };
  });
  const offer = record(body.offer);
  const limits = record(body.limits);
  return {
    selected: text(body.selected) || "auto",
    choices: choices.filter((choice, index) => choices.findIndex((other) => other.id === choice.id) === index),
    offer:
      text(offer.model) === ""
        ? null
        : { model: text(offer.model), bytes: number(offer.bytes) ?? 0, licence: text(offer.license) },
    limits: {
      contentChars: number(limits.content_chars) ?? limitsOf(null).contentChars,
      attachments: number(limits.attachments) ?? limitsOf(null).attachments,
    },
  };
}

// One task with the AI SDK: streamText with a shell as its tool.  Prints {"type": "text" | "error", "text"} per line.
//
//   node aisdk.mjs openai-compatible|anthropic BASE_URL MODEL PROMPT

import { execFileSync } from 'node:child_process';
import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { isStepCount, streamText, tool } from 'ai';
import { z } from 'zod';

const [client, baseURL, name, prompt] = process.argv.slice(2);
const apiKey = 'any-key-will-do';
const model =
  client === 'anthropic'
    ? createAnthropic({ baseURL, apiKey })(name)
    : createOpenAICompatible({ name: 'rivermouth', baseURL, apiKey, includeUsage: true })(name);

const bash = tool({
  description: 'Runs a command in a shell and gives what it printed.',
  inputSchema: z.object({ command: z.string(), description: z.string().optional() }),
  execute: ({ command }) => execFileSync('sh', ['-c', command], { encoding: 'utf8' }) || '(no output)',
});

const say = (type, text) => process.stdout.write(`${JSON.stringify({ type, text })}\n`);
const asText = (error) => (error instanceof Error ? error.message : JSON.stringify(error));

let failed = false;
const answer = streamText({ model, prompt, tools: { bash }, stopWhen: isStepCount(5), onError: () => {} });
const texts = new Map();
for await (const part of answer.fullStream) {
  if (part.type === 'text-delta') texts.set(part.id, (texts.get(part.id) ?? '') + part.text);
  if (part.type === 'text-end') {
    say('text', texts.get(part.id));
    texts.delete(part.id);
  }
  if (part.type === 'error') {
    failed = true;
    say('error', asText(part.error));
  }
}
for (const text of texts.values()) say('text', text);
process.exitCode = failed ? 1 : 0;

// Streams, broken ones, tools and the accumulator, through the `openai` package.
import OpenAI from 'openai'
import { cut, each, failure, TOOLS } from './seen.mjs'

const messages = [{ role: 'user', content: 'Hi' }]
const textOf = (chunk) => chunk.choices[0]?.delta.content

function of(url) {
  return new OpenAI({ baseURL: `${url}/v1`, apiKey: 'any', maxRetries: 0 })
}

// url: a whole server.  cases: one that answers each model's name with a stream of its own; names: of those models.
export async function look({ url, cases, names }) {
  const client = of(url)
  const seen = {}

  const usage = { stream_options: { include_usage: true } }
  const stream = await client.chat.completions.create({ model: 'scripted', messages, stream: true, ...usage })
  seen.text = ''
  for await (const chunk of stream) {
    seen.text += textOf(chunk) ?? ''
    seen.finish = chunk.choices[0]?.finish_reason ?? seen.finish
    seen.usage = chunk.usage ?? seen.usage
  }

  const long = await client.chat.completions.create({ model: 'scripted-slow', messages, stream: true })
  seen.aborted = await cut(long, textOf, 2, () => long.controller.abort())

  const torn = await client.chat.completions.create({ model: 'scripted-error', messages, stream: true })
  seen.broken = await cut(torn, textOf, 0, () => {})
  seen.unknown = await failure(client.chat.completions.create({ model: 'nobody', messages }))
  seen.ran = await ran(client)
  seen.cases = await each(names, (name) => accumulated(of(cases), name))
  seen.again = await failure(again(of(cases)))
  return seen
}

// The accumulator's message and why it ended, or the error.
async function accumulated(client, model) {
  const stream = client.chat.completions.stream({ model, messages, ...(model === 'schema' ? SCHEMA : {}) })
  const { message, finish_reason } = (await stream.finalChatCompletion()).choices[0]
  return { message, finish: finish_reason }
}

const SCHEMA = {
  response_format: { type: 'json_schema', json_schema: { name: 'answer', strict: true, schema: { type: 'object' } } },
}

// What was said goes back as it is.
async function again(client) {
  const stream = client.chat.completions.stream({ model: 'signed', messages })
  const { message } = (await stream.finalChatCompletion()).choices[0]
  const results = message.tool_calls.map((call) => ({ role: 'tool', tool_call_id: call.id, content: 'done' }))
  await client.chat.completions.create({ model: 'text', messages: [...messages, message, ...results] })
}

// The SDK calls the functions and answers for them, until there is nothing left to call.
async function ran(client) {
  const called = []
  const tools = TOOLS.map(({ name, description, parameters }) => ({
    type: 'function',
    function: { name, description, parameters, parse: JSON.parse, function: (given) => called.push(given) && 'rain' },
  }))
  const question = [{ role: 'user', content: 'Try both tools.' }]
  const runner = client.chat.completions.runTools({ model: 'scripted', messages: question, tools, stream: true })
  return { text: await runner.finalContent(), called }
}

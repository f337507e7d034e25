// Streams, broken ones, tools and the accumulator, through the `@anthropic-ai/sdk` package.
import Anthropic from '@anthropic-ai/sdk'
import { betaTool } from '@anthropic-ai/sdk/helpers/beta/json-schema'
import { cut, each, failure, TOOLS } from './seen.mjs'

const messages = [{ role: 'user', content: 'Hi' }]
const asked = { max_tokens: 1000, messages }
const textOf = (event) => (event.type === 'content_block_delta' ? event.delta.text : '')

function of(baseURL) {
  return new Anthropic({ baseURL, apiKey: 'any', maxRetries: 0 })
}

// url: a whole server.  cases: one that answers each model's name with a stream of its own; names: of those models.
export async function look({ url, cases, names }) {
  const client = of(url)
  const seen = {}

  const stream = client.messages.stream({ model: 'scripted', ...asked })
  const whole = await stream.finalMessage()
  seen.text = whole.content.map((block) => block.text).join('')
  seen.finish = whole.stop_reason
  seen.usage = whole.usage

  const long = await client.messages.create({ model: 'scripted-slow', ...asked, stream: true })
  seen.aborted = await cut(long, textOf, 2, () => long.controller.abort())

  const torn = await client.messages.create({ model: 'scripted-error', ...asked, stream: true })
  seen.broken = await cut(torn, textOf, 0, () => {})
  seen.unknown = await failure(client.messages.create({ model: 'nobody', ...asked }))
  seen.ran = await ran(client)
  seen.cases = await each(names, (name) => accumulated(of(cases), name))
  seen.again = await failure(again(of(cases)))
  return seen
}

// The accumulator's blocks and why they ended, or the error.
async function accumulated(client, model) {
  const { content, stop_reason } = await client.messages.stream({ model, ...asked }).finalMessage()
  return { content, finish: stop_reason }
}

// What was said goes back as it is.
async function again(client) {
  const { content } = await client.messages.stream({ model: 'signed', ...asked }).finalMessage()
  const calls = content.filter((block) => block.type === 'tool_use')
  const results = calls.map((call) => ({ type: 'tool_result', tool_use_id: call.id, content: 'done' }))
  const talk = [...messages, { role: 'assistant', content }, { role: 'user', content: results }]
  await client.messages.create({ model: 'text', ...asked, messages: talk })
}

// The SDK calls the functions and answers for them, until there is nothing left to call.
async function ran(client) {
  const called = []
  const tools = TOOLS.map(({ name, description, parameters }) =>
    betaTool({ name, description, inputSchema: parameters, run: (given) => called.push(given) && 'rain' }),
  )
  const question = { max_tokens: 1000, messages: [{ role: 'user', content: 'Try both tools.' }] }
  const last = await client.beta.messages.toolRunner({ model: 'scripted', ...question, tools })
  return { text: last.content.map((block) => block.text).join(''), called }
}

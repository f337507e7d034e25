// Streams over a wire that is cut again and again, with the fetch of clients/js: node resuming.mjs WIRE SERVER
import Anthropic from '@anthropic-ai/sdk'
import OpenAI from 'openai'
import { resuming } from '../../../clients/js/resuming.mjs'
import { cut, failure, write } from './seen.mjs'

const [wire, server] = process.argv.slice(2)
const messages = [{ role: 'user', content: 'Where the river meets the sea 🌊' }]
const tools = [{ type: 'function', function: { name: 'weather', parameters: { type: 'object', properties: {} } } }]
const none = { apiKey: 'any', maxRetries: 0 }
const seen = {}
// Before its head is here an answer cannot be resumed: that is what the SDKs' own retries are for.
const resumed = (options) => ({ fetch: resuming(options), maxRetries: 20 })

async function openai(url, options) {
  const client = new OpenAI({ baseURL: `${url}/v1`, ...none, ...options })
  const stream = client.chat.completions.stream({ model: 'scripted/scripted', messages, tools, stream_options: { include_usage: true } })
  const { choices, usage } = await stream.finalChatCompletion()
  return { choices, usage }
}

async function anthropic(baseURL, options) {
  const client = new Anthropic({ baseURL, ...none, ...options })
  const stream = client.messages.stream({ model: 'scripted/scripted-think', messages, max_tokens: 4000 })
  const { content, usage, stop_reason } = await stream.finalMessage()
  return { content, usage, stop_reason }
}

seen.openai = [await openai(server), await openai(wire, resumed())]
seen.anthropic = [await anthropic(server), await anthropic(wire, resumed())]

// Whoever leaves early has the call cancelled, by aborting it or by not reading on.
const slow = { model: 'scripted/scripted-slow', messages, stream: true }
const textOf = (chunk) => chunk.choices[0]?.delta.content
const leaving = new OpenAI({ baseURL: `${server}/v1`, ...none, fetch: resuming({ cancels: true }) })
const aborted = await leaving.chat.completions.create(slow)
seen.aborted = await cut(aborted, textOf, 2, () => aborted.controller.abort())
const post = { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(slow) }
const left = await resuming({ cancels: true })(`${server}/v1/chat/completions`, post)
seen.left = left.headers.get('x-request-id')
const reader = left.body.getReader()
await reader.read()
await reader.cancel()

// A rest that is not there is the error that it was.
const gone = async (input, init) => (init.method === 'POST' ? fetch(input, init) : new Response('', { status: 410 }))
seen.gone = await failure(openai(wire, resumed({ fetch: gone })))
const dead = async (input, init) => (init.method === 'POST' ? fetch(input, init) : Promise.reject(new TypeError('no')))
seen.dead = await failure(openai(wire, resumed({ fetch: dead, tries: 2 })))

write(seen)

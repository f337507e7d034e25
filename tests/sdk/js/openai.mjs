// A stream, and one that is aborted, through the `openai` package: node openai.mjs URL
import OpenAI from 'openai'
import { cut, failure, write } from './seen.mjs'

const [url] = process.argv.slice(2)
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'any', maxRetries: 0 })
const messages = [{ role: 'user', content: 'Hi' }]
const textOf = (chunk) => chunk.choices[0]?.delta.content
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

write(seen)

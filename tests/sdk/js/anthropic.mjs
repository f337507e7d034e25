// A stream, and one that is aborted, through the `@anthropic-ai/sdk` package: node anthropic.mjs URL
import Anthropic from '@anthropic-ai/sdk'
import { cut, failure, write } from './seen.mjs'

const [baseURL] = process.argv.slice(2)
const client = new Anthropic({ baseURL, apiKey: 'any', maxRetries: 0 })
const messages = [{ role: 'user', content: 'Hi' }]
const asked = { max_tokens: 1000, messages }
const textOf = (event) => (event.type === 'content_block_delta' ? event.delta.text : '')
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

write(seen)

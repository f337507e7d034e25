// Responses that the server keeps, through the `openai` package: node kept.mjs URL
import OpenAI from 'openai'
import { failure, write } from './seen.mjs'

const [url] = process.argv.slice(2)
const { responses } = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'any', maxRetries: 0 })
const seen = {}

const model = 'scripted'
seen.made = await responses.create({ model, input: 'Hi' })
seen.again = await responses.retrieve(seen.made.id)
const then = await responses.create({ model, input: 'more', previous_response_id: seen.made.id })
seen.said = []
for await (const item of responses.inputItems.list(then.id, { limit: 2 })) seen.said.push(item.content[0].text)

seen.background = await responses.create({ model, input: 'Hi', background: true })
seen.events = []
for await (const event of await responses.retrieve(seen.background.id, { stream: true })) seen.events.push(event)
seen.rest = []
const rest = await responses.retrieve(seen.background.id, { stream: true, starting_after: 4 })
for await (const event of rest) seen.rest.push(event)
seen.final = (await responses.stream({ response_id: seen.background.id }).finalResponse()).output_text

const slow = await responses.create({ model: 'scripted-slow', input: 'Hi', background: true })
seen.cancelled = (await responses.cancel(slow.id)).status

await responses.delete(seen.made.id)
seen.gone = await failure(responses.retrieve(seen.made.id))

write(seen)

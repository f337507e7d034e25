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

// The other protocol of the same package: its accumulator assembles what was streamed.
const parameters = { type: 'object', properties: { zone: { type: 'string', enum: ['UTC'] } }, required: ['zone'] }
const tools = [
  { type: 'function', name: 'time', parameters, strict: false },
  { type: 'namespace', name: 'mcp__clock', description: 'A clock.', tools: [{ type: 'function', name: 'now', parameters }] },
  { type: 'web_search' },
]
const reasoning = { effort: 'low', summary: 'auto' }
const whole = await client.responses.create({ model: 'scripted', input: 'Hi' })
const said = (response) => ({ id: response.id, status: response.status, text: response.output_text })
seen.responses = { whole: said(whole) }

const numbers = []
const spoken = client.responses.stream({ model: 'scripted', input: 'Hi', reasoning })
for await (const event of spoken) numbers.push(event.sequence_number)
const final = await spoken.finalResponse()
seen.responses.streamed = { ...said(final), numbers, kinds: final.output.map((item) => item.type), usage: final.usage }

const called = await client.responses.stream({ model: 'scripted', input: 'Try both tools.', tools }).finalResponse()
const spaced = await client.responses.stream({ model: 'scripted', input: 'Hi', tools: tools.slice(1) }).finalResponse()
const callOf = ({ type, name, namespace, arguments: text }) => ({ type, name, namespace, text })
seen.responses.calls = [...called.output, ...spaced.output].map(callOf)
const outputs = called.output.map(({ call_id }) => ({ type: 'function_call_output', call_id, output: 'noon' }))
const talk = [{ role: 'user', content: 'Try both tools.' }, ...called.output, ...outputs]
seen.responses.answered = said(await client.responses.create({ model: 'scripted', input: talk, tools }))

const cutOff = client.responses.stream({ model: 'scripted', input: 'Hi', max_output_tokens: 3 })
seen.responses.cutOff = said(await cutOff.finalResponse())
const spokenText = (event) => (event.type === 'response.output_text.delta' ? event.delta : undefined)
const slow = await client.responses.create({ model: 'scripted-slow', input: 'Hi', stream: true })
seen.responses.aborted = await cut(slow, spokenText, 2, () => slow.controller.abort())
const ends = []
const failing = await client.responses.create({ model: 'scripted-error', input: 'Hi', stream: true })
for await (const event of failing) ends.push(event.type)
seen.responses.failed = ends.at(-1)
seen.responses.unknown = await failure(client.responses.create({ model: 'nobody', input: 'Hi' }))
seen.responses.previous = await failure(
  client.responses.create({ model: 'scripted', input: 'Hi', previous_response_id: 'resp_1' }),
)

write(seen)

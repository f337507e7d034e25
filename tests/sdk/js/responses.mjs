// The newer protocol of the `openai` package: its accumulator assembles what was streamed.
import OpenAI from 'openai'
import { cut, failure } from './seen.mjs'

const parameters = { type: 'object', properties: { zone: { type: 'string', enum: ['UTC'] } }, required: ['zone'] }
const tools = [
  { type: 'function', name: 'time', parameters, strict: false },
  { type: 'namespace', name: 'mcp__clock', description: 'A clock.', tools: [{ type: 'function', name: 'now', parameters }] },
  { type: 'web_search' },
]
const reasoning = { effort: 'low', summary: 'auto' }

// url: a whole server.
export async function look({ url }) {
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'any', maxRetries: 0 })
  const whole = await client.responses.create({ model: 'scripted', input: 'Hi' })
  const said = (response) => ({ id: response.id, status: response.status, text: response.output_text })
  const seen = { whole: said(whole) }

  const numbers = []
  const spoken = client.responses.stream({ model: 'scripted', input: 'Hi', reasoning })
  for await (const event of spoken) numbers.push(event.sequence_number)
  const final = await spoken.finalResponse()
  seen.streamed = { ...said(final), numbers, kinds: final.output.map((item) => item.type), usage: final.usage }

  const called = await client.responses.stream({ model: 'scripted', input: 'Try both tools.', tools }).finalResponse()
  const spaced = await client.responses.stream({ model: 'scripted', input: 'Hi', tools: tools.slice(1) }).finalResponse()
  const callOf = ({ type, name, namespace, arguments: text }) => ({ type, name, namespace, text })
  seen.calls = [...called.output, ...spaced.output].map(callOf)
  const outputs = called.output.map(({ call_id }) => ({ type: 'function_call_output', call_id, output: 'noon' }))
  const talk = [{ role: 'user', content: 'Try both tools.' }, ...called.output, ...outputs]
  seen.answered = said(await client.responses.create({ model: 'scripted', input: talk, tools }))

  const cutOff = client.responses.stream({ model: 'scripted', input: 'Hi', max_output_tokens: 3 })
  seen.cutOff = said(await cutOff.finalResponse())
  const spokenText = (event) => (event.type === 'response.output_text.delta' ? event.delta : undefined)
  const slow = await client.responses.create({ model: 'scripted-slow', input: 'Hi', stream: true })
  seen.aborted = await cut(slow, spokenText, 2, () => slow.controller.abort())
  const ends = []
  const failing = await client.responses.create({ model: 'scripted-error', input: 'Hi', stream: true })
  for await (const event of failing) ends.push(event.type)
  seen.failed = ends.at(-1)
  seen.unknown = await failure(client.responses.create({ model: 'nobody', input: 'Hi' }))
  seen.previous = await failure(
    client.responses.create({ model: 'scripted', input: 'Hi', previous_response_id: 'resp_1' }),
  )
  return seen
}

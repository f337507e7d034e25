// Text, streams and tools of the second version, and a stream of the first, through the `cohere-ai` package.
import { CohereClient, CohereClientV2 } from 'cohere-ai'
import { cut, failure, TOOLS } from './seen.mjs'

const messages = [{ role: 'user', content: 'Hi' }]
const both = [{ role: 'user', content: 'Try both tools.' }]
const textOf = (event) => (event.type === 'content-delta' ? event.delta?.message?.content?.text : '')

async function all(stream) {
  const events = []
  for await (const event of await stream) events.push(event)
  return events
}

// url: a whole server.
export async function look({ url }) {
  const at = { environment: `${url}/cohere`, token: 'any' }
  const client = new CohereClientV2(at)
  const seen = {}

  const whole = await client.chat({ model: 'scripted', messages })
  seen.whole = whole.message.content.map((block) => block.text).join('')
  seen.finish = whole.finishReason
  seen.usage = whole.usage

  const events = await all(client.chatStream({ model: 'scripted-think', messages }))
  seen.text = events.map((event) => textOf(event) ?? '').join('')
  seen.thought = events
    .map((event) => (event.type === 'content-delta' ? (event.delta?.message?.content?.thinking ?? '') : ''))
    .join('')
  seen.ended = events.at(-1).delta.finishReason

  const tools = TOOLS.map(({ name, description, parameters }) => ({
    type: 'function',
    function: { name, description, parameters },
  }))
  const called = await client.chat({ model: 'scripted', messages: both, tools })
  seen.called = called.message.toolCalls
  const results = seen.called.map(({ id }) => ({ role: 'tool', toolCallId: id, content: 'rain' }))
  const answered = await client.chat({ model: 'scripted', messages: [...both, called.message, ...results], tools })
  seen.answered = answered.message.content.map((block) => block.text).join('')
  seen.streamed = calls(await all(client.chatStream({ model: 'scripted', messages: both, tools })))

  const torn = await client.chatStream({ model: 'scripted-error', messages })
  seen.broken = await cut(torn, textOf, 0, () => {})
  seen.unknown = await failure(client.chat({ model: 'nobody', messages }, { maxRetries: 0 }))

  const first = await all(new CohereClient(at).chatStream({ model: 'scripted', message: 'Hi' }))
  const texts = first.filter((event) => event.eventType === 'text-generation').map((event) => event.text)
  seen.first = { text: texts.join(''), ended: first.at(-1).finishReason, whole: first.at(-1).response.text }
  return seen
}

// The calls of a stream, put together.
function calls(events) {
  const made = []
  for (const event of events) {
    const call = event.delta?.message?.toolCalls
    if (event.type === 'tool-call-start') made.push({ id: call.id, name: call.function.name, arguments: '' })
    if (event.type === 'tool-call-delta') made.at(-1).arguments += call.function.arguments
  }
  return made
}

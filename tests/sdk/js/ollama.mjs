// A model's whole life, and tools, through the `ollama` package.
import { Ollama } from 'ollama'
import { cut, failure, TOOLS } from './seen.mjs'

const messages = [{ role: 'user', content: 'Hi' }]
const options = { temperature: 0 }

async function all(stream) {
  const parts = []
  for await (const part of await stream) parts.push(part)
  return parts
}

// url: a whole server.  model: one that it can pull.  encoder: one that it has.
export async function look({ url, model, encoder }) {
  const ollama = new Ollama({ host: url })
  const seen = {}
  const names = async () => (await ollama.list()).models.map((one) => one.name)

  seen.before = await names()
  seen.pull = await all(ollama.pull({ model, stream: true }))
  seen.pullAgain = await ollama.pull({ model })
  seen.unknown = await failure(ollama.pull({ model: 'nobody' }))
  seen.list = (await ollama.list()).models
  seen.show = await ollama.show({ model })
  seen.chat = await ollama.chat({ model, messages, options })
  seen.stream = await all(ollama.chat({ model, messages, options, stream: true }))
  seen.generate = await all(ollama.generate({ model, prompt: 'Hi', options, stream: true }))
  seen.running = (await ollama.ps()).models.map((one) => one.name)

  const long = await ollama.chat({ model: 'scripted-slow', messages, stream: true })
  seen.aborted = await cut(long, (part) => part.message.content, 2, () => long.abort())

  seen.embed = await ollama.embed({ model: encoder, input: ['the river', 'sea'] })
  seen.broken = await failure(all(ollama.chat({ model: 'scripted-error', messages, stream: true })))
  seen.copy = await ollama.copy({ source: model, destination: 'second' })
  seen.copied = await names()
  seen.delete = await ollama.delete({ model })
  seen.after = await names()
  seen.gone = await failure(ollama.delete({ model }))
  seen.askedWhenGone = await failure(ollama.chat({ model, messages }))
  seen.ran = await ran(ollama)
  return seen
}

// Two calls in a stream, their results, and what is said then.
async function ran(ollama) {
  const tools = TOOLS.map((one) => ({ type: 'function', function: one }))
  const both = [{ role: 'user', content: 'Try both tools.' }]
  const parts = await all(ollama.chat({ model: 'scripted', messages: both, tools, stream: true }))
  const tool_calls = parts.flatMap((part) => part.message.tool_calls ?? [])
  const results = tool_calls.map((call) => ({ role: 'tool', tool_name: call.function.name, content: 'rain' }))
  const talk = [...both, { role: 'assistant', content: '', tool_calls }, ...results]
  const last = await ollama.chat({ model: 'scripted', messages: talk, tools })
  return { text: last.message.content, called: tool_calls.map((call) => call.function.arguments) }
}

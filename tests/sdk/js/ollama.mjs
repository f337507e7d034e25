// A model's whole life through the `ollama` package: node ollama.mjs URL MODEL ENCODER
import { Ollama } from 'ollama'
import { cut, failure, write } from './seen.mjs'

const [host, model, encoder] = process.argv.slice(2)
const ollama = new Ollama({ host })
const messages = [{ role: 'user', content: 'Hi' }]
const options = { temperature: 0 }
const seen = {}

async function all(stream) {
  const parts = []
  for await (const part of await stream) parts.push(part)
  return parts
}

async function names() {
  return (await ollama.list()).models.map((one) => one.name)
}

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

write(seen)

// Text, streams, tools and a chat, through the `@google/genai` package.
import { GoogleGenAI } from '@google/genai'
import { cut, failure, TOOLS } from './seen.mjs'

const contents = 'Hi'
const both = 'Try both tools.'

function of(url) {
  return new GoogleGenAI({ apiKey: 'any', httpOptions: { baseUrl: `${url}/gemini` } })
}

// url: a whole server.  cases: one that answers each model's name with a stream of its own.
export async function look({ url, cases }) {
  const { models, chats } = of(url)
  const seen = {}

  const whole = await models.generateContent({ model: 'scripted', contents })
  seen.whole = whole.text
  seen.usage = whole.usageMetadata

  const pieces = []
  const stream = await models.generateContentStream({ model: 'scripted-think', contents })
  for await (const piece of stream) pieces.push(piece)
  const parts = pieces.flatMap((piece) => piece.candidates?.[0]?.content?.parts ?? [])
  seen.text = parts.filter((part) => !part.thought).map((part) => part.text ?? '').join('')
  seen.thought = parts.filter((part) => part.thought).map((part) => part.text ?? '').join('')
  seen.finish = pieces.map((piece) => piece.candidates?.[0]?.finishReason).filter(Boolean)

  const functionDeclarations = TOOLS.map(({ name, description, parameters }) => ({
    name,
    description,
    parametersJsonSchema: parameters,
  }))
  const chat = chats.create({ model: 'scripted', config: { tools: [{ functionDeclarations }] } })
  const called = []
  for await (const piece of await chat.sendMessageStream({ message: both })) called.push(...(piece.functionCalls ?? []))
  seen.called = called
  const results = called.map(({ id, name }) => ({ functionResponse: { id, name, response: { output: 'rain' } } }))
  seen.answered = (await chat.sendMessage({ message: results })).text

  const torn = await models.generateContentStream({ model: 'scripted-error', contents })
  seen.broken = await cut(torn, (piece) => piece.text, 0, () => {})
  seen.unknown = await failure(models.generateContent({ model: 'nobody', contents }))
  seen.count = (await models.countTokens({ model: 'scripted', contents: 'one two three' })).totalTokens
  seen.again = await failure(again(of(cases)))
  return seen
}

// What was said goes back as the chat keeps it.
async function again({ chats }) {
  const chat = chats.create({ model: 'signed' })
  const calls = []
  for await (const piece of await chat.sendMessageStream({ message: contents })) calls.push(...(piece.functionCalls ?? []))
  const results = calls.map(({ id, name }) => ({ functionResponse: { id, name, response: { output: 'done' } } }))
  await chat.sendMessage({ message: results })
}

// What the scripts here have in common: how a failure and an aborted stream are written down.

// The error that a promise ends with, in words; null where it ends well.
export async function failure(promise) {
  try {
    await promise
    return null
  } catch (error) {
    return { name: error.name, type: error.constructor.name, status: error.status_code ?? error.statusCode ?? error.status ?? null }
  }
}

// Takes pieces until `most` have text, then calls `leave`.  What came until then, and how it ended.
export async function cut(stream, textOf, most, leave) {
  const pieces = []
  const ended = await failure(
    (async () => {
      for await (const piece of stream) {
        const text = textOf(piece)
        if (text) pieces.push(text)
        if (pieces.length === most) leave()
      }
    })(),
  )
  return { pieces, ended }
}

// What each of the names gives, or the error that it ends with.
export async function each(names, give) {
  const seen = {}
  for (const name of names) {
    let given = null
    const failed = await failure(give(name).then((value) => (given = value)))
    seen[name] = failed ?? given
  }
  return seen
}

// The tools that are offered: as every vendor's protocol has them, but for what it calls these members.
export const TOOLS = [
  {
    name: 'weather',
    description: 'Today',
    parameters: {
      type: 'object',
      properties: { city: { type: 'string', enum: ['Köln', 'Düsseldorf'] }, days: { type: 'integer', enum: [3] } },
      required: ['city', 'days'],
      additionalProperties: false,
    },
  },
]

export function write(seen) {
  process.stdout.write(JSON.stringify(seen))
}

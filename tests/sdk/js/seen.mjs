// What the scripts here have in common: how a failure and an aborted stream are written down.

// The error that a promise ends with, in words; null where it ends well.
export async function failure(promise) {
  try {
    await promise
    return null
  } catch (error) {
    return { name: error.name, type: error.constructor.name, status: error.status_code ?? error.status ?? null }
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

export function write(seen) {
  process.stdout.write(JSON.stringify(seen))
}

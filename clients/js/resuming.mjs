// A `fetch` whose answers go on where a lost connection was: whoever reads does not notice.
//
//   import { resuming } from './resuming.mjs'
//   const client = new OpenAI({ baseURL: 'http://127.0.0.1:8080/v1', apiKey, fetch: resuming() })
//
// Each POST asks for a resumable call. Where the answer says at which address it can be resumed, its body is counted;
// when it breaks, the rest is asked for there with the same headers. For Node, Deno, Bun and browsers; one file, which
// needs nothing and may be copied.

const ASKED = 'x-rivermouth-resumable'
const ADDRESS = 'x-rivermouth-resume'
const PASSING = new Set([429, 500, 502, 503, 504]) // worth another try, where it is not the answer's own status
const OF_THE_BODY = ['content-length', 'content-type', 'content-encoding', ASKED]
const LONGEST_WAIT_MS = 5000

// graceS: how long the server goes on without us. tries: without a byte between them. cancels: who stops reading before
// the end has the call cancelled at once, by one more request; else the grace ends it.
export function resuming({ fetch = globalThis.fetch, graceS = 30, tries = 8, cancels = false } = {}) {
  return async (input, init = {}) => {
    const asked = input instanceof Request ? input : undefined
    const headers = new Headers(init.headers ?? asked?.headers)
    if ((init.method ?? asked?.method) !== 'POST' || headers.has(ASKED)) return fetch(input, init)
    headers.set(ASKED, `1; grace=${graceS}`)
    const response = await fetch(input, { ...init, headers })
    const address = response.headers.get(ADDRESS)
    if (!address || !response.body) return response
    const course = { fetch, response, address, headers, tries, cancels, signal: init.signal ?? asked?.signal }
    course.url = new URL(asked?.url ?? input, globalThis.location?.href)
    const made = new Response(body(course), response)
    Object.defineProperty(made, 'url', { value: response.url })
    return made
  }
}

function body(course) {
  let reader = course.response.body.getReader()
  let received = 0
  let failed = 0
  const pull = async (controller) => {
    for (;;) {
      try {
        const { done, value } = await reader.read()
        if (done) return controller.close()
        received += value.byteLength
        failed = 0
        return controller.enqueue(value)
      } catch (error) {
        for (let rest; !rest; failed++) {
          if (course.signal?.aborted) await cancel(course)
          if (course.signal?.aborted || failed >= course.tries) throw error
          if (failed) await wait(Math.min(100 * 2 ** (failed - 1), LONGEST_WAIT_MS), course.signal)
          rest = await restOf(course, received, error)
          if (rest) reader = rest.getReader()
        }
      }
    }
  }
  const stop = async (reason) => {
    await reader.cancel(reason).catch(() => undefined) // aborted, it says so
    await cancel(course)
  }
  return new ReadableStream({ pull, cancel: stop }, { highWaterMark: 0 })
}

// The rest of the body, or undefined where it may come later.
async function restOf(course, received, error) {
  const url = new URL(course.address, course.url)
  url.search = course.url.search // a key may stand there
  url.searchParams.set('after', received)
  let answer
  try {
    answer = await course.fetch(url.href, { headers: ofTheRest(course), signal: course.signal })
  } catch {
    return undefined
  }
  if (answer.headers.get(ADDRESS) === course.address && answer.status === course.response.status) {
    return answer.body ?? new Blob([]).stream()
  }
  await answer.body?.cancel()
  if (PASSING.has(answer.status)) return undefined
  throw error
}

async function cancel(course) {
  if (!course.cancels) return
  course.cancels = false
  const [base, id] = course.address.split('/resume/')
  const url = new URL(`${base}/platform/v1/calls/${id}/cancel`, course.url)
  await course.fetch(url.href, { method: 'POST', headers: ofTheRest(course) }).then(
    (answer) => answer.body?.cancel(),
    () => undefined,
  )
}

function ofTheRest(course) {
  const headers = new Headers(course.headers)
  for (const name of OF_THE_BODY) headers.delete(name)
  return headers
}

function wait(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms)
    signal?.addEventListener('abort', () => (clearTimeout(timer), resolve()), { once: true })
  })
}

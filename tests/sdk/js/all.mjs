// What each SDK sees, in one process: node all.mjs '{"openai": {...}, ...}'
// Each name is a script of this folder; it exports `look(where)`, and what that returns is written under its name.
import { write } from './seen.mjs'

const asked = JSON.parse(process.argv[2])
const seen = {}
for (const [name, where] of Object.entries(asked)) {
  const { look } = await import(`./${name}.mjs`)
  seen[name] = await look(where)
}
write(seen)

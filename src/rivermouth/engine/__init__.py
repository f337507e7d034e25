"""One call from its parsed request to its record, whoever asks and whoever answers.

call                    a call, and what the engine needs from both sides of it
asked                   its request, and what is counted of that
gate, reservation       who lets it in, and what is kept for it
engine                  plan, attempts, exactly one end
pump                    one attempt's stream, from the upstream's reads to the client's sends
output                  its events as the client's bytes
deadlines, interrupt    the clocks of an attempt, and whatever else ends a call from without
tally, ledger           what an attempt has produced, and what has happened in the call so far
record, transcript      what is written down of it, and what of its words
logged                  calls that outlive their connections
traced                  the same engine, told where each call stands in its trace
"""

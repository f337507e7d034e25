"""The neutral model: requests, events, replies, errors.  Dialects translate to and from this, and to nothing else.

request, events, reply, errors    the four kinds of values; `events` is where a reader starts
grammar, fold                     their legal order, as a table; events to a message, the one accumulator
turns, sides, call_ids            a talk as wires accept it: calls answered, sides alternating, ids that are there
lanes                             parts that overlap, for a wire with one place for all of them
opaque, names, media              what travels unread; which words become names; media where there is only text
tokens, allowance                 an estimate of tokens; what a caller has left of its limits
"""

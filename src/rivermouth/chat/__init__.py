"""The chat application: turns of a talk, one active stream for each chat, nothing lost and nothing doubled.

machine     the states of a turn and every move between them, as one table
moves       those moves as transactions on the store
service     what a front asks for: submit, stop, follow, and the documents of a chat (documents)
worker      claims queued turns, beats, recovers what died (reaper)
owner       runs one turn: one engine call, one log, one end

    choice, prompt, inside             who answers, what it is asked, and what comes of the engine on the way
    draft, frames, entries, failures   the answer while it grows: its row, its log, and why it failed
    feed, reader                       what the followers of a chat share, and what each of them does
    follow_turn, follow_chat, wire     the readers behind `/stream` and `/events`, and the frames that clients get
    identity, slots                    who asks; what this process alone knows of a chat
    ports, settings, clock             what all this stands on
"""

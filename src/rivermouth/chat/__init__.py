"""The chat application: turns of a talk, one active stream for each chat, nothing lost and nothing doubled.

machine     the states of a turn and every move between them, as one table
moves       those moves as transactions on the store
service     what a front asks for: submit, stop, follow, and the documents of a chat
worker      claims queued turns, beats, recovers what died
owner       runs one turn: one engine call, one log, one end
"""

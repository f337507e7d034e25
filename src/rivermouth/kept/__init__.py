"""Answers that clients may ask for again: kept by their ids, gone on from, made in the background.

terms decides for how long, chain what is put before a request, call watches over one while it runs, service is all of
them.  What an answer looks like is its dialect's business (`Keeps`), where it lies the store's.
"""

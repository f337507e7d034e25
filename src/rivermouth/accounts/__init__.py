"""Who somebody is.

names, passwords   what an account is known by: a name in one form whatever it was typed on, a password as argon2id
keyring, tokens    what a signed-in client shows: for minutes a signed token, and a secret that gets the next one
renewal            what a shown secret means: the next one, a repeat, or somebody else's
limits             how often anybody may try
service            all of it together: sign up, sign in, renew, leave, delete

A *session* is one browser or program of a user.  It has one secret at a time.  Whoever shows it gets an access token,
and the secret that takes its place; so of two who have the same secret, one is found out: the session ends for both.
An access token names its session and is good only while that exists, so an end is an end at once.

A guest who signs up keeps the id and becomes an account (`AccountTx.name_guest`): nothing that is theirs has to move.
"""

"""The HTTP/1.1 client of the hot path: `client.Client` on asyncio.Protocol and httptools, without a proxy.

A general client pays for every HTTP chunk with several Python calls and for every request with hundreds; here a chunk
is one callback, and `read` hands out all that has arrived.  It keeps connections, pauses the socket above a bound, and
reports a cut only after what came before it was delivered.

    client       requests, kept connections, the answer as its reader takes it
    connection   one socket, and the parser of what arrives on it
    inflate      compressed bodies, a bounded piece at a time
"""

from rivermouth.providers.lean.client import LeanClient

__all__ = ["LeanClient"]

"""The server's face: HTTP to calls, and nothing that decides about a call.

app                                the front switch; `wiring` makes it of the services, `server` runs it
dataplane, exchange, sink          one call from the socket to the engine and back, with no framework in the way
routes, keys, headers, envelope    which dialect a path is; who calls; what every answer says, errors too
body, disconnect, protocol         bounds: of bodies, of connections, of how long a client that left costs anything
resume, kept                       calls that outlive a connection, and answers that are asked for again
chats, persons, rules              the chat's streams, whose a request of it is, and how people sign in
origins, proxies, visitors         which hosts and pages may ask, behind which proxies, and from where
models, page, api                  what is no call: local models, the page for browsers, the JSON APIs (Litestar)
listening, lifecycle, certificate, later
                                   starting, draining, stopping; renewed certificates; what is made when asked for
"""

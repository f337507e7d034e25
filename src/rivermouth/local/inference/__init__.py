"""An engine process, from the server's side and from within.

    spec                                what it is started with: which program, and the first line that it is told
    process, generation, watch          from the server's side: the process, a request to it, whether it still moves

    child, stdio, running, commands     the same process from within
    loading, converted                  files to a pipeline, and what is kept of that
    batching, stateful                  the two kinds of pipeline, with one face
    detokenize                          tokens to text

Of what is within, the server imports only `converted` (for `doctor`) and `stdio`.
"""

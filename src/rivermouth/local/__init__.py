"""The engine on this machine: models in a folder, pulled and verified, each run in a process of its own.

    names, catalog, registry            what a model is called, where it may come from, what is here
    references, licenses, welcome       who may pull what, what has to be accepted first, what is offered to a beginner
    gguf, support                       is this file whole, and will the engine take it (no native code asked)
    openvino_ir, safetensors            the same for folders
    pull, sources, partials, pip        from a source to the registry, with progress; what goes on another time
    blocks, stages                      files copied and hashed in threads that stop at once; built out of sight
    provider                            the port that the rest of the program sees
    plan, prompt, sampling, offer       a neutral request in the engine's words; what becomes of its tools
    schema, pattern                     which of a client's grammars may reach the engine
    devices, router, placing            what is here, which of it a call gets, and what becomes of that
    places, pool                        slots and queues, and which processes run for them
    starter, spec, memory, history      how one is started, and whether that is wise
    process, generation, watch          an engine process and a request to it, from the server's side
    protocol                            what both sides say to each other
    child, stdio, running, commands     the same process from within
    loading, converted                  files to a pipeline, and what is kept of that
    batching, stateful                  the two kinds of pipeline, with one face
    detokenize, stops                   tokens to text, up to a stop string
    answer, families, written           text to thoughts and calls, as the model's family writes them
    embedding                           the same for encoders of texts

Only `child` imports the native engine, and `devices` to look at the machine, each in a process of its own: a crash in
it costs the calls that it was serving and nothing else.
"""

"""The engine on this machine: models in a folder, pulled and verified, each run in a process of its own.

    names, catalog, registry     what a model is called, where it may come from, what is here
    references, licenses         who may pull what, and what has to be accepted first
    gguf, support                is this file whole, and will the engine take it (no native code asked)
    openvino_ir, safetensors     the same for folders
    pull, sources, partials      from a source to the registry, with progress; what goes on another time
    prompt, sampling, schema     a neutral request in the engine's words
    protocol, child, process     the engine process, from both sides of its pipes
    devices, router, placing     what is here, which of it a call gets, and what becomes of that
    places, pool, provider       which processes run, and the port that the rest of the program sees

Only `child` imports the native engine, and `devices` to look at the machine, each in a process of its own: a crash in
it costs the calls that it was serving and nothing else.
"""

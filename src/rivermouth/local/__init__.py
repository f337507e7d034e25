"""The engine on this machine: models in a folder, pulled and verified, each run in a process of its own.

    names, catalog, registry     what a model is called, where it may come from, what is here
    gguf, support                is this file whole, and will the engine take it (no native code asked)
    pull, sources                from the catalogue to the registry, with progress
    prompt, sampling, schema     a neutral request in the engine's words
    protocol, child, process     the engine process, from both sides of its pipes
    pool, provider               which processes run, and the port that the rest of the program sees

Only `child` imports the native engine, so a crash in it costs the calls it was serving and nothing else.
"""

"""The engine on this machine: models in a folder, pulled and verified, each run in a process of its own.

    provider     the port that the rest of the program sees
    machine      where a call runs: on which device, in which process, and whether it is wise to start one
    embedding    vectors for texts, and an engine process of another kind for them
    inference    an engine process, from the server's side and from within
    words        what is said to such a process, and what its answers mean
    sources      how a model comes here
    models       what models are called, which are here, and whether the engine will take them

Each imports only from those below it, and of `words` and `sources` neither from the other.

Only the modules `child`, in `inference` and in `embedding`, import the native engine, and `machine.devices` to look at
the machine, each in a process of its own: a crash in it costs the calls that it was serving and nothing else.
"""

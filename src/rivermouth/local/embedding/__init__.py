"""Vectors for texts, made on this machine by an encoder of the BERT family.

    weights, bert        the published weights as a network that the engine can run (once, by the engine process)
    store                the network on disk, built once for each set of files
    tokens               a text as the numbers that the network reads, no more of them than it can
    batches              which texts go into the next step
    encoder, child       the engine process: the loaded model and what it is working on
    work                 one call, from the server's side

What is imported by the server (`work`) knows neither numpy nor any native package.
"""

"""What is said to an engine process, and what its answers mean.  Pure: no process is here, and no clock.

protocol                            what both sides say to each other, one JSON object on each line
plan, prompt, sampling, offer       a neutral request in these words; what becomes of its tools
schema, pattern                     which of a client's grammars may reach the engine
families                            how a model writes calls and thoughts, read off its template
answer, written, stops              text to thoughts and calls, up to a stop string
"""

"""Where a call runs: on which device of this machine, in which process, and whether there is memory for one.

devices, router, placing       what is here, which of it a call gets, and what becomes of that
places, pool                   slots and queues, and which processes run for them
starter, memory, history       how a process is started, whether that is wise, and how it went the last times
"""

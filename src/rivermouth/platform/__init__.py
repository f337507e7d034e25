"""Who may call, how much, and who changed that: keys, limits, budgets, and the log of changes.

service    what the API and the command line call: keys are made, changed, rotated, revoked; what stands is told
changes    the changes themselves, as functions of values                                                  (pure)
keyring    the valid keys in memory, by the digest of their secret: what a request asks
gate       the engine's `Gate`: lets a call in, or says why not, and settles with it when it has ended
windows    how much of what may be asked for in a minute is taken                                          (pure)
budgets    how much of what may be spent is spent or reserved                                              (pure)
periods    days and months of a time zone                                                                  (pure)
estimate   what a request may come to, before anybody has answered it                                      (pure)
"""

"""The neutral model: requests, events, replies, errors.  Dialects translate to and from this, and to nothing else."""

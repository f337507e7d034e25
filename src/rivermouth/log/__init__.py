"""The live log of a chat's turns: what is being said now, for whoever follows.  It may vanish; the store may not."""

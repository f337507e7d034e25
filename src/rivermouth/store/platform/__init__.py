"""Platform keys and the log of changes: the port, and its adapter over SQLite."""

"""People and their sessions: who owns chats, and by what they are known.  The port, and SQLite."""

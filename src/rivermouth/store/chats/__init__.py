"""Chats, their turns and messages: the only truth about them.  The port, and SQLite."""

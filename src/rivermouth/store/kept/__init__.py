"""Answers that clients may ask for again: port, tables, adapter."""

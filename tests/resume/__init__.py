"""Calls that outlive their connections."""

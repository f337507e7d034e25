"""Framing and JSON: bytes to frames and back, with no I/O and no idea of what the frames mean."""

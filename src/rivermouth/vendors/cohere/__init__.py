"""Cohere: two chat protocols (v1, v2) with the same errors, token counts, sampling fields, documents and vectors."""

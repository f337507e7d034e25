"""Tests of the API under /platform/v1, over real sockets."""

"""What several protocols of one vendor say in the same way, below the dialects, which never meet."""

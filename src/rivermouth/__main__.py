"""`python -m rivermouth`."""

from rivermouth.cli import main

main()

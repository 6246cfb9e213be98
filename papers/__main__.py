"""Runs `python -m papers`."""

from papers.command_line import main

main()

"""The command line."""

from sfumato.cli.entry_point import main, program

__all__ = ["main", "program"]

"""The command line."""

from sfumato.cli.program import main, program

__all__ = ["main", "program"]

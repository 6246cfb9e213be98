"""The command line."""

from sfumato.cli.app import main
from sfumato.cli.program import program

__all__ = ["main", "program"]

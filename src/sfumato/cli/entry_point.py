"""The command as a program of its own, which may decide what its process loads; in a library nobody may."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType

FRAME_COMMANDS = ("export",)
"""Commands for which pyarrow must know pandas from the first."""


class PandasBlocker(MetaPathFinder):
    """Says that there is no pandas.

    pyarrow loads it at its first conversion wherever it is installed, which takes a quarter of a second. No command
    but `export` makes a frame, and so does Spark: where it is loaded, pandas is there again.
    """

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        """Refuse pandas until somebody comes who needs it; leave everything else to others."""
        if name == "pyspark" and self in sys.meta_path:
            sys.meta_path.remove(self)
        elif name == "pandas":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def program() -> None:
    """Run the command that the process was started with."""
    if sys.argv[1:] == ["--version"]:  # which needs nothing of what commands need
        from importlib.metadata import version  # noqa: PLC0415

        sys.stdout.write(f"sfumato {version('sfumato')}\n")
        return
    if signal.getsignal(signal.SIGINT) == signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # while modules are loaded there is nothing to clean up, or to say
    if not set(FRAME_COMMANDS) & set(sys.argv[1:]):
        sys.meta_path.insert(0, PandasBlocker())
    main()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command, which is loaded only then."""
    from sfumato.cli import app  # noqa: PLC0415

    app.main(arguments)

"""Starts the program, and keeps pandas from loading. Only the program may do this, not the library."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType

FRAME_COMMANDS = ("export",)
"""Commands for which pyarrow must find pandas from the start."""


class PandasBlocker(MetaPathFinder):
    """Pretends that pandas is not installed.

    pyarrow loads an installed pandas at its first conversion, which takes a quarter of a second. Only the command
    `export` and Spark make data frames. When Spark is loaded, pandas is available again.
    """

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        """Refuses to find pandas until Spark is loaded. Other finders find all other modules."""
        if name == "pyspark" and self in sys.meta_path:
            sys.meta_path.remove(self)
        elif name == "pandas":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def program() -> None:
    """Runs the command of this process."""
    if sys.argv[1:] == ["--version"]:  # needs no imports of commands
        from importlib.metadata import version  # noqa: PLC0415

        sys.stdout.write(f"sfumato {version('sfumato')}\n")
        return
    if signal.getsignal(signal.SIGINT) == signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # nothing to clean up or report while modules load
    if not set(FRAME_COMMANDS) & set(sys.argv[1:]):
        sys.meta_path.insert(0, PandasBlocker())
    main()


def main(arguments: Sequence[str] | None = None) -> None:
    """Loads the commands and runs one."""
    from sfumato.cli import app  # noqa: PLC0415

    app.main(arguments)

"""How long it takes until something can be done: processor time of `import sfumato` and of `sfumato --help`.

    python bench/startup.py [--repeats 15]

The reference imports, in a process of its own, the libraries that nothing here can do without: numpy, pyarrow, typer,
rich and cryptography. `everything` also uses every public name, as a program would that publishes and asks. Ratios
within one run: processor time of the user and the system, the least of the repeats, interleaved.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

PROGRAM = "import sys; from sfumato.cli import program; sys.argv[1:] = {}; program()"
STATEMENTS = {
    "an empty program": "pass",
    "the libraries it needs": "import numpy, pyarrow, pyarrow.parquet, typer, rich, cryptography",
    "import sfumato": "import sfumato",
    "everything": "import sfumato; [getattr(sfumato, name) for name in sfumato.__all__]",
    "sfumato --help": PROGRAM.format(["--help"]),
    "sfumato publish --help": PROGRAM.format(["publish", "--help"]),
}


def processor_time(statement: str) -> float:
    """The seconds of processor time of a fresh interpreter that runs a statement."""
    before = os.times()
    subprocess.run([sys.executable, "-c", statement], check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def main() -> None:
    """Time every statement, round after round."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=15)
    repeats = parser.parse_args().repeats
    times: dict[str, list[float]] = {name: [] for name in STATEMENTS}
    for _ in range(repeats):
        for name, statement in STATEMENTS.items():
            times[name].append(processor_time(statement))
    reference = min(times["the libraries it needs"])
    for name, found in times.items():
        print(f"{name:>24}: {min(found):.3f} s, {min(found) / reference:.2f} times the libraries")


if __name__ == "__main__":
    main()

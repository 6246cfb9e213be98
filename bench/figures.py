"""Write every figure with example numbers as pages to look at, and say how large each is and how long it takes.

    python bench/figures.py FOLDER

The folder gets `light-760.html`, `light-360.html`, `dark-760.html`, `dark-360.html`, and each figure as an SVG file.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from pathlib import Path

from sfumato._figures import STYLE

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
EXAMPLES = importlib.import_module("figure_examples").EXAMPLES
REPEATS = 20


def page(scheme: str, width: int) -> str:
    """All figures under each other, as a reader by day or by night sees them."""
    own = f":root{{color-scheme:{scheme}}}body{{margin:8px;width:{width}px}}"
    figures = "\n".join(draw(width).to_html() for draw in EXAMPLES.values())
    return f"<!doctype html><meta charset=utf-8><title>Figures</title><style>{own}{STYLE}</style>\n{figures}\n"


def main() -> None:
    """Write the pages and the files, and print a line for each figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for scheme in ("light", "dark"):
        for width in (760, 360):
            (folder / f"{scheme}-{width}.html").write_text(page(scheme, width), encoding="utf-8")
    for name, draw in EXAMPLES.items():
        times = []
        for _ in range(REPEATS):
            started = time.perf_counter()
            figure = draw(760)
            times.append(time.perf_counter() - started)
        (folder / f"{name}.svg").write_text(figure.to_standalone_svg(), encoding="utf-8")
        print(f"{name:<24} {len(figure.svg.encode()) / 1000:5.1f} kB {1000 * min(times):6.2f} ms  {figure.reading}")


if __name__ == "__main__":
    main()

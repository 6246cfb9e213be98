"""The stylesheet of all figures, for screens and paper, with calm colours that colour-blind readers can distinguish."""

from __future__ import annotations

from collections.abc import Callable

COLOURS = {
    "ground": ("#ffffff", "#16191d"),
    "ink": ("#1f2933", "#e8ebee"),
    "quiet": ("#5b6672", "#a7b0ba"),
    "grid": ("#e3e7eb", "#2d333a"),
    "zone": ("#eef2f6", "#22282f"),
    "grey": ("#6b7280", "#a3acb8"),
    "stop": ("#a11212", "#ff9c8f"),
    "caution": ("#8a5300", "#f0b64f"),
    "s0": ("#0068a8", "#5eb3f0"),
    "s1": ("#c8500a", "#ff9d5c"),
    "s2": ("#007f5f", "#3ccfa2"),
    "s3": ("#7c60db", "#896feb"),
    "s4": ("#a73189", "#dd4d6f"),
    "s5": ("#404000", "#a4831b"),
    "s6": ("#1b3b71", "#14938d"),
    "s7": ("#7f463d", "#b6f56c"),
    "s8": ("#642da4", "#fdcbf8"),
    "s9": ("#681053", "#ca8fc4"),
}
"""The light and dark colours.

Lines have s0, s1, ... in turn. Grey is for comparison, and stop and caution are for advice.

Colour-blind readers can distinguish any two of these ten colours, and each is readable as text on the background. After
the first three, a search among calm colours chose the colours that differ most.
"""

SERIES = 10
DASHES = ("none", "7 3", "2 3", "10 3 2 3", "4 2", "1 4", "12 4", "8 2 1 2 1 2", "5 5", "14 2 5 2")
"""There are as many dash patterns as colours, because lines in grey prints are distinguished by dashes, marks and
names.
"""


def _write_variables(format_pair: Callable[[str, str], str]) -> str:
    return ";".join(f"--{name}:{format_pair(*pair)}" for name, pair in COLOURS.items())


STYLE = "".join(
    [
        f".sfumato{{{_write_variables(lambda light, dark: light)};font:12px/1.4 system-ui,'DejaVu Sans',sans-serif;",
        "color:var(--ink);background:var(--ground)}",
        # Browsers that support it switch between light and dark by the page's `color-scheme`.
        "@supports (color:light-dark(#000,#fff)){",
        f".sfumato{{{_write_variables(lambda light, dark: f'light-dark({light},{dark})')}}}}}",
        "@media print{.sfumato{color-scheme:light}}",
        "svg.sfumato{max-width:100%;height:auto}figure.sfumato{margin:0 0 1.5em;overflow-x:auto}",
        ".sfumato svg{display:block}.sfumato figcaption{max-width:48em;overflow-wrap:anywhere;margin:.4em 0}",
        ".sfumato summary{color:var(--quiet);cursor:pointer}.sfumato table{border-collapse:collapse;margin:.5em 0}",
        ".sfumato th,.sfumato td{padding:.15em .8em .15em 0;text-align:right;border-bottom:1px solid var(--grid)}",
        ".sfumato th:first-child,.sfumato td:first-child{text-align:left}",
        ".sfumato text{fill:var(--ink)}.sfumato .heading{font-size:14px;font-weight:600}",
        ".sfumato .quiet{fill:var(--quiet)}.sfumato .strong{font-weight:600}",
        ".sfumato .halo{paint-order:stroke;stroke:var(--ground);stroke-width:4px;stroke-linejoin:round}",
        ".sfumato .middle{text-anchor:middle}.sfumato .end{text-anchor:end}",
        ".sfumato .ground{fill:var(--ground)}.sfumato .zone{fill:var(--zone)}",
        ".sfumato .grid{stroke:var(--grid);fill:none}.sfumato .axis{stroke:var(--quiet);fill:none}",
        ".sfumato .rule{stroke:var(--quiet);fill:none;stroke-dasharray:3 3}",
        ".sfumato .line{fill:none;stroke:var(--c);stroke-width:2;stroke-linejoin:round}",
        ".sfumato .lead{fill:none;stroke:var(--c);stroke-opacity:.6;stroke-dasharray:1 3}",
        ".sfumato .thin{fill:none;stroke:var(--c)}.sfumato .broad{fill:none;stroke:var(--c);stroke-width:3}",
        ".sfumato .dot{fill:var(--c);stroke:var(--ground)}.sfumato text.dot{stroke:none}",
        ".sfumato .hollow{fill:var(--ground);stroke:var(--c);stroke-width:1.5}",
        ".sfumato .fill{fill:var(--c)}.sfumato .soft{fill:var(--c);fill-opacity:.16}",
        ".sfumato .specks{fill:none;stroke:var(--c);stroke-width:3;stroke-linecap:round;stroke-opacity:.55}",
        ".sfumato .grey{--c:var(--grey)}",
        *(f".sfumato .s{number}{{--c:var(--s{number})}}" for number in range(SERIES)),
        *(f".sfumato .d{number}{{stroke-dasharray:{dash}}}" for number, dash in enumerate(DASHES)),
    ]
)
"""The style that a page needs once for all its figures; `Figure.to_standalone_svg` includes it."""

_NIGHT = ":is([data-jp-theme-light=false],.vscode-dark,.vscode-high-contrast,[theme=dark]) .sfumato{color-scheme:dark}"
_DAY = ":is([data-jp-theme-light=true],.vscode-light,[theme=light]) .sfumato{color-scheme:light}"

ALERT_STYLE = "".join(
    [
        ".alert{border-left:4px solid var(--quiet);padding:.1em .9em;margin:.5em 0}.alert p{margin:.2em 0}",
        ".alert>p>strong{color:var(--ground);background:var(--quiet);font-size:.72em;letter-spacing:.05em;",
        "padding:.1em .5em;margin-right:.3em;vertical-align:.08em}",
        ".alert.stop{border-color:var(--stop);background:var(--zone)}.alert.stop>p>strong{background:var(--stop)}",
        ".alert.warning{border-color:var(--caution)}.alert.warning>p>strong{background:var(--caution)}",
        ".alert.note{border-color:var(--grid)}",
    ]
)
"""Stops, warnings and notes differ in colour, in weight, and in their first word."""

NOTEBOOK_STYLE = "".join(
    [
        STYLE,
        ALERT_STYLE,
        _NIGHT,  # Jupyter, Visual Studio Code and Colab mark dark mode by these attributes
        _DAY,
        ".sfumato.cell{padding:.6em .8em;font-size:13px;max-width:100%}.sfumato.cell p{margin:.3em 0;max-width:60em}",
        ".sfumato.cell p.quiet{color:var(--quiet);font-size:12px}.sfumato.cell .scroll{overflow-x:auto}",
        ".sfumato.cell p.ribbon{color:var(--ground);background:var(--s1);font-weight:600;padding:.1em .6em;",
        "max-width:none}",
        ".sfumato.cell p.promise{border-left:3px solid var(--s0);padding-left:.8em}",
        # Notebooks have table rules that override those of figures.
        ".sfumato.cell table.numbers{margin:.3em 0;font-size:13px;font-variant-numeric:tabular-nums;width:auto}",
        ".sfumato.cell table.numbers tbody tr{background:none;color:inherit}",
        ".sfumato.cell table.numbers :is(th,td){text-align:left;padding:.15em 1.2em .15em 0;color:inherit;",
        "border:0;border-bottom:1px solid var(--grid);max-width:24em;white-space:normal;overflow-wrap:break-word}",
        ".sfumato.cell table.numbers thead th{border-bottom-color:var(--quiet);font-weight:600}",
        ".sfumato.cell table.numbers td.number{text-align:right;white-space:nowrap;padding-right:.6em}",
        ".sfumato.cell table.numbers .interval{white-space:nowrap;color:var(--quiet)}",
        ".sfumato.cell table.numbers span.interval{display:block}",
        ".sfumato.cell figure.sfumato{margin:.8em 0 0}",
    ]
)
"""The style of a notebook cell, which follows the light or dark mode of the notebook."""

"""Pages made of sections with headings, each in one self-contained file that makes no network requests.

The page's policy forbids external links, pictures and scripts, even if a name in a table contains one. All text passes
through `render_text`, which escapes it and truncates long words.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sfumato._figures import Figure, FigureTable
from sfumato._figures.figure_style import COLOURS, STYLE
from sfumato._figures.svg import ELLIPSIS, element, escape_controls, escape_markup
from sfumato._release.staging import check_outside, place_file
from sfumato.errors import TargetError

# The stylesheet of all pages: for phones, light and dark screens, and paper.

_WARNING = ("#a11212", "#ff9c8f")


def _write_variables(by_night: bool) -> str:
    pairs = {**COLOURS, "warning": _WARNING}
    declarations = (
        f"--{name}:{f'light-dark({day},{night})' if by_night else day}" for name, (day, night) in pairs.items()
    )
    return ";".join(declarations)


_SCREEN = f"""
:root{{color-scheme:light dark;{_write_variables(by_night=False)}}}
@supports (color:light-dark(#000,#fff)){{:root{{{_write_variables(by_night=True)}}}}}
*{{box-sizing:border-box}}
html{{-webkit-text-size-adjust:100%}}
body{{margin:0;color:var(--ink);background:var(--ground);font:15px/1.5 system-ui,'DejaVu Sans',sans-serif}}
main,body>header,body>footer{{max-width:792px;margin:0 auto;padding:0 16px;overflow-wrap:anywhere}}
body>header{{padding-top:24px}}body>footer{{padding-top:12px;padding-bottom:32px;color:var(--quiet);font-size:13px}}
h1{{font-size:1.6em;line-height:1.2;margin:0 0 .3em}}
h2{{font-size:1.15em;line-height:1.3;margin:1.6em 0 .5em;padding-top:.5em;border-top:2px solid var(--ink)}}
h3{{font-size:1em;margin:1.2em 0 .3em}}
p{{margin:.4em 0 .7em;max-width:46em}}ul{{margin:.4em 0 .7em;padding-left:1.2em;max-width:46em}}li{{margin:.2em 0}}
.subtitle{{color:var(--quiet);font-size:1.05em}}.quiet{{color:var(--quiet)}}
.promise{{background:var(--zone);border-left:4px solid var(--s0);padding:.7em 1em;margin:.8em 0}}
.promise p:last-child{{margin-bottom:0}}
.decision{{border:1px solid var(--quiet);padding:.7em 1em;margin:1em 0;break-inside:avoid}}
.decision p{{margin:.2em 0}}
.blank{{display:grid;grid-template-columns:repeat(auto-fit,minmax(130px,1fr));gap:6px 14px;margin:.8em 0 .2em}}
.blank div{{display:flex;flex-direction:column;justify-content:flex-end}}
.blank strong{{font-weight:500;min-height:1.3em}}
.blank span{{border-top:1px solid var(--quiet);color:var(--quiet);font-size:12px;padding-top:2px}}
.tiles{{display:grid;grid-template-columns:repeat(auto-fit,minmax(210px,1fr));gap:10px;margin:.8em 0}}
.tiles>div{{background:var(--zone);border-top:3px solid var(--s0);padding:.55em .8em .6em;break-inside:avoid}}
.tiles strong{{display:block;font-size:1.5em;line-height:1.25;font-variant-numeric:tabular-nums}}
.tiles p{{margin:.15em 0;line-height:1.4}}.tiles .quiet{{font-size:13px}}
.noticed{{color:var(--warning);font-weight:600}}
.scroll{{overflow-x:auto;margin:.5em 0 1em}}
.scroll:focus-visible{{outline:2px solid var(--s0)}}
table.data{{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}}
.data caption{{text-align:left;color:var(--quiet);font-size:13px;padding-bottom:.3em}}
.data th,.data td{{text-align:left;vertical-align:top;padding:.22em .9em .22em 0;border-bottom:1px solid var(--grid)}}
.data thead th{{border-bottom-color:var(--quiet);font-size:13px}}.data tbody th{{font-weight:600}}
.data .number{{text-align:right;white-space:nowrap}}.data th.number{{white-space:normal}}
table.facts th{{overflow-wrap:break-word}}.data.facts th{{width:24%;font-weight:400;color:var(--quiet)}}
.scroll .data{{overflow-wrap:break-word}}
.data .more{{color:var(--quiet)}}
.figure{{margin:.8em 0 1.2em;break-inside:avoid}}.figure figure.sfumato{{margin:0;overflow:visible}}
.figure .sfumato figcaption{{font-size:14px;line-height:1.45}}.figure .narrow{{display:none}}
.figure .scroll table{{font-size:12px}}
.columns{{display:grid;grid-template-columns:1fr 1fr;gap:0 28px}}.columns>*{{min-width:0}}
.ribbon{{position:sticky;top:0;z-index:1;background:var(--warning);color:var(--ground);text-align:center;font-weight:700;
font-size:13px;letter-spacing:.04em;padding:3px 12px}}
.tag{{display:inline-block;border:1px solid var(--warning);color:var(--warning);font-size:11px;font-weight:700;
letter-spacing:.06em;padding:0 5px;margin-left:.6em;vertical-align:.15em}}
code{{font:.92em/1.4 ui-monospace,'DejaVu Sans Mono',monospace}}
@media (max-width:719px){{.figure .wide{{display:none}}.figure .narrow{{display:block}}
.columns{{grid-template-columns:1fr}}body{{font-size:16px}}}}
"""

_PAPER = """
@page{size:A4;margin:MARGIN;
@bottom-left{content:FOOTER;font:8pt system-ui,'DejaVu Sans',sans-serif;color:#5b6672}
@bottom-right{content:counter(page) " of " counter(pages);font:8pt system-ui,'DejaVu Sans',sans-serif;color:#5b6672}}
@media print{
:root{color-scheme:light}
body{font-size:9.6pt;line-height:1.38;print-color-adjust:exact;-webkit-print-color-adjust:exact}
main,body>header,body>footer{max-width:none;padding:0}
body>header{padding-top:0}body>footer{padding:6px 0 0;font-size:8pt}
h1{font-size:16pt}h2{font-size:11.5pt;margin:1em 0 .35em}h1,h2,h3{break-after:avoid}
p,ul{max-width:none}p,li{orphans:2;widows:2}
section.apart{break-before:page}section.apart>h2{margin-top:0}
.figure .wide{display:block}.figure .narrow,.figure details{display:none}
.figure svg{width:112mm;height:auto}.wider svg{width:150mm}
.columns{grid-template-columns:1fr 1fr}
.tiles{grid-template-columns:repeat(5,1fr);gap:2mm}.tiles>div{padding:1.5mm 2mm}
.tiles p{font-size:8.4pt;line-height:1.3}.tiles .quiet{font-size:7.6pt}.tiles strong{font-size:12pt}
.sheet .promise p,.sheet li,.sheet .data{font-size:8.8pt;line-height:1.32}
.blank{grid-template-columns:repeat(auto-fit,minmax(28mm,1fr))}
.figure .sfumato figcaption{font-size:9pt;line-height:1.35}
.data th,.data td{padding-top:.12em;padding-bottom:.12em}
.scroll{overflow:visible}.data thead{display:table-header-group}.data tr{break-inside:avoid}
.data caption,.data thead th{font-size:8.2pt}
.private main,.private>header,.private>footer{padding-left:9mm}
.ribbon{position:fixed;top:0;bottom:0;left:0;width:5.5mm;writing-mode:vertical-rl;transform:rotate(180deg);
padding:0;line-height:5.5mm;font-size:8pt}
.one body{font-size:7.5pt;line-height:1.25}
.one h1{font-size:14pt}.one h2{font-size:9pt;margin:.5em 0 .15em;padding-top:.2em;border-top-width:1px}
.one h3{margin:.4em 0 .1em}
.one p,.one ul{margin:.1em 0 .25em}.one li{margin:0}.one .promise{padding:.35em .7em;margin:.2em 0}
.one .data th,.one .data td{padding:.05em .6em .05em 0}.one .scroll{margin:.1em 0 .2em}
.one .data caption,.one .data thead th{font-size:7pt}.one .data.facts th{width:24%}.one .columns{gap:0 6mm}
.one .figure{margin:.1em 0}.one .figure svg{width:66mm}
.one .figure .sfumato figcaption{font-size:7.2pt;margin:.1em 0}
.one .decision{margin:.4em 0 0;padding:.25em .6em}.one .blank{margin:1.2em 0 0}.one .blank span{font-size:6.6pt}
.one .subtitle{font-size:8.6pt;margin:0}.one body>footer{font-size:7pt;padding-top:2px}
}
"""


def write_stylesheet(footer: str, margin: str = "13mm 15mm 15mm") -> str:
    """The whole stylesheet, with the footer of printed pages (our own text) and the paper margin."""
    paper = _PAPER.replace("FOOTER", f'"{footer}"').replace("MARGIN", margin)
    return STYLE + "".join((_SCREEN + paper).splitlines())


# ---------------------------------------------------------------------------------------------------------------------

WIDE, NARROW = 520, 320
"""The widths of a figure: on screens and paper, and on phones; letters keep their size."""
MOST_ROWS = 50
"""The most rows of a table on a page."""
LONGEST_WORD, LONGEST_TEXT = 60, 3000
PRIVATE = "PRIVATE: for the data steward only; do not pass it on"
SUFFIXES = (".html", ".htm")
NOTHING, BLANK = "\u2013", "\u00a0"
ONE_SHEET = "10mm 14mm 13mm"
"""The paper margin of pages that fit on one sheet."""


def shorten_text(text: str, max_length: int = LONGEST_TEXT) -> str:
    """Truncates overlong words, and an overlong text."""
    cut_text = re.sub(
        rf"\S{{{LONGEST_WORD + 1},}}", lambda word: word[0][: LONGEST_WORD - 1] + ELLIPSIS, escape_controls(text)
    )
    return cut_text if len(cut_text) <= max_length else cut_text[: max_length - 1] + ELLIPSIS


def render_text(text: str, max_length: int = LONGEST_TEXT) -> str:
    """Truncates and escapes a text as markup."""
    return escape_markup(shorten_text(text, max_length))


def shorten_name(name: str) -> str:
    """Truncates a name or value from a table; the result is plain text, to be escaped later."""
    return shorten_text(name, LONGEST_WORD)


def render_paragraph(text: str, class_: str | None = None) -> str:
    """Renders a paragraph."""
    return element("p", render_text(text), class_=class_)


def render_list(items: Iterable[str]) -> str:
    """Renders a list of sentences."""
    lines = [element("li", render_text(item)) for item in items]
    return element("ul", *lines) if lines else ""


def render_table(  # noqa: PLR0913 - everything but its content has a default
    caption: str,
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    numbers: Sequence[int] = (),
    total: int | None = None,
    max_rows: int = MOST_ROWS,
) -> str:
    """Renders a table with row names in the first column and right-aligned numbers; omitted rows are counted.

    A table wider than the screen scrolls. The result is empty if there are no rows.
    """
    table_rows = list(rows)
    if not table_rows:
        return ""
    omitted_count = (len(table_rows) if total is None else total) - max_rows
    head = element(
        "tr",
        *(
            element("th", render_text(heading), scope="col", class_=_find_alignment(at, numbers))
            for at, heading in enumerate(headings)
        ),
    )
    lines = [element("tr", *_render_cells(row, numbers)) for row in table_rows[:max_rows]]
    if omitted_count > 0:
        rest = element("td", f"{omitted_count:,} more; the JSON output has all", colspan=str(len(headings)))
        lines.append(element("tr", rest, class_="more"))
    parts = [element("caption", render_text(caption)), element("thead", head), element("tbody", *lines)]
    body = element("table", *parts, class_="data")
    return element("div", body, class_="scroll", role="region", aria_label=shorten_text(caption), tabindex="0")


def render_facts(caption: str, pairs: Iterable[tuple[str, str]]) -> str:
    """Renders a table of two columns: name and value."""
    lines = [element("tr", *_render_cells(pair, ())) for pair in pairs]
    return element("table", element("caption", render_text(caption)), element("tbody", *lines), class_="data facts")


def render_tiles(numbers: Iterable[tuple[str, str, str]]) -> str:
    """Renders the key numbers: value, meaning, and caveat."""
    tiles = (
        element(
            "div",
            element("strong", render_text(number_text)),
            element("p", render_text(what)),
            element("p", render_text(caveat), class_="quiet"),
        )
        for number_text, what, caveat in numbers
    )
    return element("div", *tiles, class_="tiles")


def _find_alignment(at: int, numbers: Sequence[int]) -> str | None:
    return "number" if at in numbers else None


def _render_cells(row: Sequence[str], numbers: Sequence[int]) -> list[str]:
    first, *others = (render_text(cell) or NOTHING for cell in row)
    cells = (element("td", cell, class_=_find_alignment(at, numbers)) for at, cell in enumerate(others, start=1))
    return [element("th", first, scope="row"), *cells]


def render_figure(draw: Callable[[float], Figure], widest: int = WIDE) -> str:
    """Renders a figure for all widths, with its reading and its numbers."""
    wide, narrow = draw(widest), draw(NARROW)
    numbers = FigureTable(wide.table.columns, wide.table.rows[:MOST_ROWS])
    rows, headings = numbers.formatted_rows, [column.heading or "of" for column in numbers.columns]
    body = render_table("Data of this figure", headings, rows, total=len(wide.table.rows))
    figure = element(
        "figure",
        *([element("div", wide.svg, class_="wide")] if widest > NARROW else []),
        element("div", narrow.svg, class_="narrow" if widest > NARROW else None),
        element("figcaption", render_text(wide.reading)),
        element("details", element("summary", "Data"), body) if body else "",
        class_="sfumato",
    )
    return element("div", figure, class_="figure wider" if widest > WIDE else "figure")


def render_decision(
    is_met: bool, decider: str, reasons: Sequence[str] = (), statements: Sequence[tuple[str, str]] | None = None
) -> str:
    """Renders the decision box: whether the request is met, reasons if not, and who decides. It gives no verdict.

    The statements of a person fill the blank lines.
    """
    outcome = "The request is met." if is_met else "The request is not met."
    pairs = [(blank_label, "") for blank_label in BLANKS] if statements is None else statements
    lines = (
        element("div", element("strong", render_text(content) or BLANK), element("span", render_text(label)))
        for label, content in pairs
    )
    blank = element("div", *lines, class_="blank")
    sentence = f"{outcome} Whether this is enough is up to {decider}."
    return element("div", render_paragraph(sentence), *map(render_paragraph, reasons), blank, class_="decision")


BLANKS = ("decision", "name and role", "date", "review by")
DEFAULT_DECIDER = "the data steward"


@dataclass(frozen=True)
class Section:
    """A part of a page with its own heading; its body is markup."""

    heading: str
    body: str
    has_page_break: bool = False
    """Whether it starts a new printed page."""
    is_sheet: bool = False
    """Whether it fits on one printed sheet."""

    def to_html(self, *, is_private: bool) -> str:
        """Renders it as markup."""
        tag = element("span", "PRIVATE", class_="tag") if is_private else ""
        heading = element("h2", escape_markup(self.heading), tag)
        return element(
            "section", heading, self.body, class_="apart" if self.has_page_break else "sheet" if self.is_sheet else None
        )


@dataclass(frozen=True)
class SideBySide:
    """Sections side by side if the screen is wide enough."""

    left: tuple[Section, ...]
    right: tuple[Section, ...]

    def to_html(self, *, is_private: bool) -> str:
        """Renders it as markup."""
        both = (
            element("div", *(section.to_html(is_private=is_private) for section in side))
            for side in (self.left, self.right)
        )
        return element("div", *both, class_="columns")


@dataclass(frozen=True)
class Page:
    """A page: title, sections and ending, in one file."""

    title: str
    subtitle: str
    sections: tuple[Section | SideBySide, ...]
    ending: str = ""
    is_private: bool = False
    is_one_page: bool = False
    """Whether it fits on one printed sheet."""

    def to_html(self) -> str:
        """Renders the whole file."""
        mark = "PRIVATE: " if self.is_private else ""
        footer = f"{mark}{self.title}, by sfumato"
        style = write_stylesheet(footer, ONE_SHEET) if self.is_one_page else write_stylesheet(footer)
        ribbon = element("div", PRIVATE, class_="ribbon", role="note") if self.is_private else ""
        body = [
            ribbon,
            element("header", element("h1", escape_markup(self.title)), render_paragraph(self.subtitle, "subtitle")),
            element("main", *(section.to_html(is_private=self.is_private) for section in self.sections)),
            element("footer", render_paragraph(self.ending)) if self.ending else "",
        ]
        kinds = ("one" if self.is_one_page else None, "private" if self.is_private else None)
        return render_document(mark + self.title, style, body, css_classes=kinds)


def render_document(
    title: str,
    style: str,
    body: Sequence[str],
    *,
    script: str = "",
    css_classes: tuple[str | None, str | None] = (None, None),
) -> str:
    """Renders one file whose policy allows its own style and script, and nothing external.

    The CSS classes are those of the document and of its body.
    """
    allowed_sources = f"style-src '{_digest(style)}'" + (f"; script-src '{_digest(script)}'" if script else "")
    policy = f"default-src 'none'; {allowed_sources}; base-uri 'none'; form-action 'none'"
    meta_tags = {"viewport": "width=device-width, initial-scale=1", "referrer": "no-referrer", "robots": "noindex"}
    head = [
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        *(f'<meta name="{name}" content="{content}">' for name, content in meta_tags.items()),
        element("title", escape_markup(title)),
        f"<style>{style}</style>",
    ]
    ending = [f"<script>{script}</script>"] if script else []
    whole = [element("head", *head), element("body", *body, *ending, class_=css_classes[1])]
    return f"<!doctype html>\n{element('html', *whole, lang='en', class_=css_classes[0])}\n"


def _digest(text: str) -> str:
    """The digest by which a policy allows a script or style."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


# --------------------------------------------------------------------------------------------------------- as a file


def check_place(target: Path, *, force: bool) -> None:
    """Refuses a file that exists, that a browser would not open, or that lies inside a release."""
    if target.suffix.lower() not in SUFFIXES:
        raise TargetError(f"a page opens in a browser: name a file that ends in .html, not {str(target)!r}.")
    if not target.parent.is_dir():
        raise TargetError(f"the directory {str(target.parent)!r} does not exist; create it first.")
    check_outside(target, "the page")
    if target.is_dir() or (os.path.lexists(target) and not force):
        advice = "choose another name" if target.is_dir() else "choose another name, or replace it with `force=True`"
        raise TargetError(f"{str(target)!r} exists; {advice}.")


class SavablePage(Protocol):
    """Anything that can be saved as a page."""

    @property
    def is_private(self) -> bool: ...
    def to_html(self) -> str: ...


def save(page: SavablePage, target: Path, *, force: bool) -> None:
    """Writes a page, whole or not at all; a private page is readable only by its owner."""
    check_place(target, force=force)
    place_file(page.to_html(), target, "the page", force=force, mode=0o600 if page.is_private else 0o666)

"""The stylesheet of all pages, for phones, for light and dark screens, and for paper."""

from __future__ import annotations

import re

from sfumato._figures.figure_style import ALERT_STYLE, COLOURS, STYLE


def _write_variables(by_night: bool) -> str:
    declarations = (
        f"--{name}:{f'light-dark({day},{night})' if by_night else day}" for name, (day, night) in COLOURS.items()
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
.answer{{font-size:1.3em;font-weight:650;margin:.2em 0 .6em}}
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
.ribbon{{position:sticky;top:0;z-index:1;background:var(--stop);color:var(--ground);text-align:center;font-weight:700;
font-size:13px;letter-spacing:.04em;padding:3px 12px}}
.tag{{display:inline-block;border:1px solid var(--stop);color:var(--stop);font-size:11px;font-weight:700;
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
.one body{font-size:7pt;line-height:1.16}
.one h1{font-size:14pt}.one h2{font-size:9pt;margin:.4em 0 .1em;padding-top:.2em;border-top-width:1px}
.one h3{margin:.4em 0 .1em}
.one p,.one ul{margin:.1em 0 .25em}.one li{margin:0}.one .promise{padding:.35em .7em;margin:.2em 0}
.one .data th,.one .data td{padding:.03em .6em .03em 0}.one .scroll{margin:.1em 0 .2em}
.one .data caption,.one .data thead th{font-size:7pt}.one .data.facts th{width:24%}.one .columns{gap:0 6mm}
.one .figure{margin:.1em 0}.one .figure svg{width:42mm}
.one .figure .sfumato figcaption{font-size:6.8pt;line-height:1.15;margin:.1em 0}
.one .decision{margin:.4em 0 0;padding:.25em .6em}.one .blank{margin:1em 0 0}.one .blank span{font-size:6.6pt}
.one .subtitle{font-size:8.6pt;margin:0}.one body>footer{font-size:7pt;padding-top:2px}
}
"""


def write_stylesheet(footer: str, margin: str = "13mm 15mm 15mm") -> str:
    """The whole stylesheet, with the footer of printed pages (our own text) and the paper margin."""
    safe_footer = re.sub(r"[^\w .,:()-]", " ", footer)  # a style sheet has rules of its own
    paper = _PAPER.replace("FOOTER", f'"{safe_footer}"').replace("MARGIN", margin)
    return STYLE + ALERT_STYLE + "".join((_SCREEN + paper).splitlines())

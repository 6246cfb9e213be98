"""Adds styles for the question, the answer and its plot to the stylesheet of all pages."""

from __future__ import annotations

_SCREEN = """
main:has(#desk),body:has(#desk)>header,body:has(#desk)>footer{max-width:1160px}
#desk{display:grid;grid-template-columns:minmax(250px,320px) minmax(0,1fr);gap:0 36px;align-items:start;margin-top:18px}
#desk[hidden]{display:none}
#asking>summary{display:none;cursor:pointer;color:var(--s0);font-weight:600;border:1px solid var(--s0);
border-radius:4px;padding:.5em .9em;list-style:none;text-align:center}
#asking>summary::-webkit-details-marker,#question .fold{display:none}
.unseen{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
#status{margin:.3em 0;color:var(--quiet);min-height:1.5em}#status:empty{display:none}
.alarm{color:var(--stop);font-weight:600}
#question fieldset{border:0;border-top:2px solid var(--ink);margin:0 0 1.1em;padding:.55em 0 0;min-width:0}
#question legend{float:left;width:100%;padding:0;margin:0 0 .35em;font-weight:700;font-size:1.02em}
#question legend+*{clear:both}
#question details{border-bottom:1px solid var(--grid)}
#question summary{cursor:pointer;padding:.42em 0;display:flex;gap:.7em;align-items:baseline;list-style:none}
#question summary::-webkit-details-marker{display:none}
#question summary::after{content:"+";color:var(--quiet);margin-left:auto;font-weight:600;flex:none}
#question details[open]>summary::after{content:"\\2212"}
#question .name{font-weight:600;overflow-wrap:anywhere}
#question .chosen{color:var(--quiet);overflow-wrap:anywhere;font-size:.93em}
#question .is-chosen{color:var(--s0);font-weight:600}
.options{max-height:15.5em;overflow-y:auto;margin:.1em 0 .5em;padding:2px}
.options label,.chips label,.radios label{display:flex;gap:.55em;align-items:baseline;padding:.17em 0;cursor:pointer;
unicode-bidi:isolate;overflow-wrap:anywhere}
.options input,.chips input,.radios input{accent-color:var(--s0);width:1.05em;height:1.05em;margin:0;flex:none;
position:relative;top:.12em}
.ends{display:grid;grid-template-columns:1fr 1fr;gap:10px;padding:.1em 0 .6em}
.ends label,.pick label{display:block;color:var(--quiet);font-size:13px}
input[type=text],input[type=date],input[type=search],select,textarea{width:100%;font:inherit;color:var(--ink);
background:var(--ground);border:1px solid var(--quiet);border-radius:4px;padding:.32em .5em;min-width:0}
.pick{display:grid;grid-template-columns:1fr 1fr;gap:10px;margin-top:.5em}
textarea{font:13px/1.5 ui-monospace,'DejaVu Sans Mono',monospace;resize:vertical;white-space:pre-wrap;
background:var(--zone)}
.search{margin:.1em 0 .3em}
.hint{color:var(--quiet);font-size:13px;margin:.1em 0 .4em}
button{font:inherit;color:var(--s0);background:var(--ground);border:1px solid var(--s0);border-radius:4px;
padding:.36em .9em;cursor:pointer}
button:hover{background:var(--zone)}button.quiet{border-color:var(--quiet);color:var(--ink)}
:is(button,input,select,textarea,summary,.scroll):focus-visible{outline:2px solid var(--s0);outline-offset:2px}
#answer{min-width:0}
#answer h2{border:0;padding:0;margin:0 0 .2em;font-size:1.3em;text-wrap:balance}
#answer .hint{margin-bottom:.9em}
#question fieldset>.hint{margin:-.25em 0 .3em}
.headline{font-size:2.5em;font-weight:700;line-height:1.15;margin:.2em 0 .05em;font-variant-numeric:tabular-nums}
.headline small{font-size:.5em;font-weight:400;color:var(--quiet)}
.between{font-size:1.1em;margin:0 0 .5em}
table.answers{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
.answers caption{text-align:left;color:var(--quiet);font-size:13px;padding-bottom:.4em}
.answers :is(th,td){text-align:left;vertical-align:middle;padding:.18em 14px .18em 0;
border-bottom:1px solid var(--grid)}
.answers thead th{vertical-align:bottom;font-size:13px;border-bottom-color:var(--quiet)}
.answers tbody th{font-weight:600;unicode-bidi:isolate;overflow-wrap:break-word;max-width:22em}
.answers .number{text-align:right;white-space:nowrap}.answers .error{color:var(--quiet);white-space:nowrap}
.answers .interval{white-space:nowrap;color:var(--quiet)}
.answers .plot{padding:0;width:1%;height:1px}.answers svg{display:block}
.answers td.plot div{height:100%;min-height:28px;position:relative}
.answers td.plot svg{position:absolute;inset:0;height:100%}
.answers .note{display:block;font-weight:400;color:var(--quiet);font-size:12px;white-space:normal;max-width:22em}
.answers .both{display:block;white-space:nowrap;text-align:right}.answers small{display:block;color:var(--quiet);
text-align:right;white-space:nowrap}
.plot .grid{stroke:var(--grid)}.plot .zero{stroke:var(--quiet)}.plot .line{stroke:var(--s0);stroke-width:2}
.plot .dot{fill:var(--s0);stroke:var(--ground)}.plot .tick{fill:var(--quiet);font-size:11px}
.plot .bound{stroke:var(--quiet)}.plot .frail{stroke-dasharray:3 3}
.plot .hollow{fill:var(--ground);stroke:var(--s0);stroke-width:1.5}
.notes{color:var(--quiet);font-size:13px}
.words{display:grid;grid-template-columns:repeat(auto-fit,minmax(300px,1fr));gap:0 32px;margin-top:1.4em}
.words .promise{margin-top:.3em}.words h2{margin-top:.6em}
body:has(#desk)>header{padding-top:20px}body:has(#desk)::before{content:"";display:block;height:6px;background:var(--s0)}
body:has(#desk) h1{font-size:1.9em}
.tools{display:flex;flex-wrap:wrap;gap:10px;margin:1em 0}
.elsewhere{margin:1em 0;border-top:1px solid var(--grid)}
.elsewhere summary{cursor:pointer;padding:.5em 0;font-weight:600}
.radios{display:flex;flex-wrap:wrap;gap:0 18px;margin:.1em 0 .5em}
@media (max-width:719px){#desk{grid-template-columns:minmax(0,1fr);gap:18px}#asking>summary{display:block}
#asking[open]>summary{margin-bottom:1em}#question .fold{display:block;width:100%;margin-bottom:10px}
#question button{width:100%}
.headline{font-size:2em}.answers :is(th,td){padding-right:8px}
.options label,.chips label,.radios label{padding:.38em 0}#question summary{padding:.62em 0}
.answers tbody th{font-weight:500;hyphens:auto}.answers :is(td,small){font-size:14px}.answers small{font-size:12px}}
@media print{body:has(#desk)::before{display:none}.words{display:block;columns:2;column-gap:8mm}
.words .promise{break-inside:avoid}.words section:first-child h2{margin-top:0}
#asking,.tools,.elsewhere,#status{display:none}#desk{display:block;margin:0}
.headline{font-size:22pt}.answers :is(th,td){padding-top:.08em;padding-bottom:.08em}.answers tr{break-inside:avoid}
.answers thead{display:table-header-group}}
"""

STYLE = "".join(_SCREEN.splitlines())

"""Experiments one after the other, each written when it is finished, and none run twice.

An experiment leaves four files: the table with all digits (CSV) and for people (Markdown), the figure (SVG), and a
record (JSON) of what was found by which version, seed and tables. The record is written last, so that a run that was
interrupted goes on where it was; a record of other conditions does not count. One page has the sentences of all.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from papers.experiment import Conditions, Experiment
from papers.experiment_outcome import Outcome, Verdict
from papers.experiment_tables import TableSource
from papers.results_page import PAGE, format_summary
from sfumato.errors import TargetError, explain_os_error


@dataclass(frozen=True)
class Reproduction:
    """What is known of an experiment that was run, now or before."""

    name: str
    title: str
    verdict: Verdict
    sentence: str
    seconds: float
    tables: tuple[str, ...] = ()
    """Where the tables came from; none where all follows from the text."""
    is_kept: bool = False
    """Whether it had been run before, under the same conditions."""


def reproduce(  # noqa: PLR0913 - what, where, and under which conditions
    experiments: Sequence[Experiment],
    out: Path,
    *,
    data: Path | None = None,
    seed: int = 1,
    quick: bool = False,
    progress: Callable[[str, int, int], None] = lambda name, done, of: None,
) -> Iterator[Reproduction]:
    """Run what was not run yet, and give what was found, one after the other."""
    conditions = {"version": version("sfumato"), "seed": seed, "quick": quick, "data": TableSource(data).digests}
    _check_writable(out)
    for experiment in experiments:
        finished = _read_finished(experiment, out, conditions)
        if finished is not None:
            yield finished
            continue
        tables, began = TableSource(data), time.monotonic()
        progress(experiment.name, 0, 1)
        outcome = experiment.run(Conditions(tables, seed, quick, partial(progress, experiment.name)))
        seconds = round(time.monotonic() - began, 3)
        _write_outcome(experiment, outcome, out, {**conditions, "tables": tables.origins, "seconds": seconds})
        origins = tuple(tables.origins)
        yield Reproduction(experiment.name, experiment.title, outcome.verdict, outcome.sentence, seconds, origins)


def _check_writable(out: Path) -> None:
    """Make the directory, and try to write there: better now than after minutes."""
    if out.exists() and not out.is_dir():
        raise TargetError(
            f"{str(out)!r} is a file; name a directory for what is found.",
            code="target-is-a-file",
            fields={"file": str(out)},
        )
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise TargetError(
            f"{str(out)!r} cannot be written ({explain_os_error(error)}); name another directory.",
            code="unwritable-file",
            fields={"file": str(out), "reason": explain_os_error(error)},
        ) from error


def _read_finished(experiment: Experiment, out: Path, conditions: dict[str, Any]) -> Reproduction | None:
    record = _get_record_path(experiment, out)
    try:
        entries = json.loads(record.read_text(encoding="utf-8"))
        if any(entries[name] != value for name, value in conditions.items()):
            return None
        verdict, tables = Verdict(entries["verdict"]), tuple(entries["tables"])
        sentence, seconds = entries["sentence"], entries["seconds"]
        return Reproduction(experiment.name, experiment.title, verdict, sentence, seconds, tables, is_kept=True)
    except (OSError, ValueError, KeyError, TypeError):
        return None  # not run yet, or not by us: it is run, and written anew


def _get_record_path(experiment: Experiment, out: Path) -> Path:
    return out / f"{experiment.name}.json"


def _write_outcome(experiment: Experiment, outcome: Outcome, out: Path, conditions: dict[str, Any]) -> None:
    record = _get_record_path(experiment, out)
    record.parent.mkdir(parents=True, exist_ok=True)
    entries = {
        "name": experiment.name,
        "title": experiment.title,
        "verdict": outcome.verdict.value,
        "sentence": outcome.sentence,
        "errata": list(experiment.errata),
        "scan_faults": list(experiment.scan_faults),
        **conditions,
    }
    record.with_suffix(".csv").write_text(outcome.to_csv(), encoding="utf-8", newline="")
    record.with_suffix(".md").write_text(format_page(entries, outcome), encoding="utf-8")
    if outcome.figure is not None:
        record.with_suffix(".svg").write_text(outcome.figure.to_standalone_svg(), encoding="utf-8")
    unfinished = record.with_suffix(".json.part")
    unfinished.write_text(json.dumps(entries, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(unfinished, record)
    (out / PAGE).write_text(format_summary(out), encoding="utf-8")


def format_page(entries: dict[str, Any], outcome: Outcome) -> str:
    """The table with its sentence, and what it was made with."""
    tables = "; ".join(entries["tables"]) or "none, for the numbers follow from the text"
    extent = "a quick run" if entries["quick"] else "a full run"
    name = entries["name"].rpartition("/")[2]
    parts = [f"# {entries['name']}: {entries['title']}", f"**{entries['verdict']}**: {entries['sentence']}"]
    if outcome.figure is not None:
        parts.append(f"![{outcome.figure.reading}]({name}.svg)")
    parts.append(outcome.to_markdown().rstrip("\n"))
    if entries["errata"]:
        parts.append("Known to be wrong in print (see the errata): " + "; ".join(entries["errata"]) + ".")
    if entries["scan_faults"]:
        parts.append("Our scan may be at fault, and not the print: " + "; ".join(entries["scan_faults"]) + ".")
    parts.append(
        f"sfumato {entries['version']}, seed {entries['seed']}, {extent} of {entries['seconds']:.1f} s. Tables: "
        f"{tables}."
    )
    return "\n\n".join(parts) + "\n"

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
from papers.experiment_tables import Tables
from papers.results_page import PAGE, summary
from sfumato.errors import TargetError, explain_os_error


@dataclass(frozen=True)
class Reproduced:
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
) -> Iterator[Reproduced]:
    """Run what was not run yet, and give what was found, one after the other."""
    conditions = {"version": version("sfumato"), "seed": seed, "quick": quick, "data": Tables(data).digests}
    _check_writable(out)
    for experiment in experiments:
        kept = _kept(experiment, out, conditions)
        if kept is not None:
            yield kept
            continue
        tables, began = Tables(data), time.monotonic()
        progress(experiment.name, 0, 1)
        outcome = experiment.run(Conditions(tables, seed, quick, partial(progress, experiment.name)))
        seconds = round(time.monotonic() - began, 3)
        _write(experiment, outcome, out, {**conditions, "tables": tables.used, "seconds": seconds})
        origins = tuple(tables.used)
        yield Reproduced(experiment.name, experiment.title, outcome.verdict, outcome.sentence, seconds, origins)


def _check_writable(out: Path) -> None:
    """Make the directory, and try to write there: better now than after minutes."""
    if out.exists() and not out.is_dir():
        raise TargetError(f"{str(out)!r} is a file; name a directory for what is found.")
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise TargetError(
            f"{str(out)!r} cannot be written ({explain_os_error(error)}); name another directory."
        ) from error


def _kept(experiment: Experiment, out: Path, conditions: dict[str, Any]) -> Reproduced | None:
    record = _record(experiment, out)
    try:
        found = json.loads(record.read_text(encoding="utf-8"))
        if any(found[name] != value for name, value in conditions.items()):
            return None
        verdict, tables = Verdict(found["verdict"]), tuple(found["tables"])
        said, seconds = found["sentence"], found["seconds"]
        return Reproduced(experiment.name, experiment.title, verdict, said, seconds, tables, is_kept=True)
    except (OSError, ValueError, KeyError, TypeError):
        return None  # not run yet, or not by us: it is run, and written anew


def _record(experiment: Experiment, out: Path) -> Path:
    return out / f"{experiment.name}.json"


def _write(experiment: Experiment, outcome: Outcome, out: Path, conditions: dict[str, Any]) -> None:
    record = _record(experiment, out)
    record.parent.mkdir(parents=True, exist_ok=True)
    found = {
        "name": experiment.name,
        "title": experiment.title,
        "verdict": outcome.verdict.value,
        "sentence": outcome.sentence,
        "errata": list(experiment.errata),
        **conditions,
    }
    record.with_suffix(".csv").write_text(outcome.to_csv(), encoding="utf-8", newline="")
    record.with_suffix(".md").write_text(page(found, outcome), encoding="utf-8")
    if outcome.figure is not None:
        record.with_suffix(".svg").write_text(outcome.figure.standalone(), encoding="utf-8")
    unfinished = record.with_suffix(".json.part")
    unfinished.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(unfinished, record)
    (out / PAGE).write_text(summary(out), encoding="utf-8")


def page(found: dict[str, Any], outcome: Outcome) -> str:
    """The table with its sentence, and what it was made with."""
    tables = "; ".join(found["tables"]) or "none, for the numbers follow from the text"
    extent = "a quick run" if found["quick"] else "a full run"
    name = found["name"].rpartition("/")[2]
    parts = [f"# {found['name']}: {found['title']}", f"**{found['verdict']}**: {found['sentence']}"]
    if outcome.figure is not None:
        parts.append(f"![{outcome.figure.reading}]({name}.svg)")
    parts.append(outcome.to_markdown().rstrip("\n"))
    if found["errata"]:
        parts.append("Known to be wrong in print (see the errata): " + "; ".join(found["errata"]) + ".")
    parts.append(
        f"sfumato {found['version']}, seed {found['seed']}, {extent} of {found['seconds']:.1f} s. Tables: {tables}."
    )
    return "\n\n".join(parts) + "\n"

"""Describes, queries, certifies and audits releases, as the commands of these names do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from pathlib import Path

from sfumato._core.cell_values import values_to_json
from sfumato._core.json_types import Json
from sfumato._document.document import DEFAULT_DECIDER
from sfumato._engines.engine import Progress
from sfumato._evidence import Dossier, audit_release
from sfumato._evidence.certificate import Certificate, make_certificate
from sfumato._query.answer import Answer
from sfumato._query.query_limits import DEFAULT_SECONDS
from sfumato._query.release import Release
from sfumato._readers.read_options import DEFAULT_READ_OPTIONS, ReadOptions
from sfumato._readers.reader import AnyTable
from sfumato._release.description import Description
from sfumato._report import QuestionPage, check_place, make_question_page, save
from sfumato._report.question_page.page_file import MAX_MEGABYTES
from sfumato._request.hierarchy import Hierarchy


def info(release: str | Path | Release) -> Json:
    """Describe a release: its columns, values, mechanism, design and guarantee."""
    opened = release if isinstance(release, Release) else Release.open(release)
    manifest = opened.manifest
    return {
        **manifest.description.to_json(),
        **({"columns": dict(manifest.description.columns)} if manifest.description.columns else {}),
        "rows": opened.rows,
        **({"people_in_counts": opened.people_in_counts} if opened.people_in_counts else {}),
        "mechanism": manifest.mechanism_name,
        "guarantee": manifest.mechanism.guarantee,
        "sensitive": manifest.sensitive_name,
        "persons": None if manifest.person_check is None else manifest.person_check.to_json(),
        "counted": manifest.count_unit,
        "population": str(manifest.population),
        "public": list(manifest.public_columns),
        "values": {name: values_to_json(values) for name, values in opened.values.items()},
        "published_at": dict(manifest.published_levels),
        "levels": {name: list(dict.fromkeys(groups)) for name, groups in manifest.upper_levels.items()},
        "fit_to_publish": not manifest.is_test,
        "methods": list(opened.methods),
        "design": manifest.design.to_json(),
        "statement": opened.guarantee.to_json(),
        "coverage": None if opened.known_coverage is None else opened.known_coverage.to_json(),
        "software": manifest.software,
    }


def query(  # noqa: PLR0913 - the options of the command
    release: str | Path | Release,
    sql: str,
    *,
    method: str | None = None,
    attach: Mapping[str, AnyTable] | None = None,
    simultaneous: bool = False,
    consistent: bool = False,
    totals: Sequence[AnyTable] = (),
    timeout: float = DEFAULT_SECONDS,
) -> Answer:
    """Answer a question in SQL. Every number has a standard error and a 95% confidence interval.

    `Release.sql` does the same for a release that is already open, and documents each argument.
    """
    opened = release if isinstance(release, Release) else Release.open(release)
    opened.check_method(method)
    return opened.sql(
        sql,
        method=method,
        attach=attach,
        simultaneous=simultaneous,
        consistent=consistent,
        totals=totals,
        timeout=timeout,
    )


def certificate(  # noqa: PLR0913 - the options of the command
    release: str | Path,
    out: str | Path | None = None,
    *,
    decider: str = DEFAULT_DECIDER,
    describe: Description | str | Path | None = None,
    on: date | None = None,
    force: bool = False,
) -> Certificate:
    """Verify a release, and certify it on one page that may be passed on. With `out`, the page is written.

    `decider` is the person who signs, as a name, or as a name and a role with a comma between them. `describe` adds
    what the release does not say.
    """
    if out is not None:
        check_place(Path(out), force=force)
    certified = make_certificate(release, on or date.today(), decider, describe)
    if out is not None:
        save(certified.document(), Path(out), force=force)
    return certified


def page(  # noqa: PLR0913 - the options of the command
    release: str | Path | Release,
    out: str | Path,
    *,
    title: str | None = None,
    megabytes: float = MAX_MEGABYTES,
    force: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> QuestionPage:
    """Write one HTML file that answers questions about a release, with error bars.

    The page works offline in any browser.
    """
    check_place(Path(out), force=force)
    document = make_question_page(release, title=title, max_megabytes=megabytes, progress=progress)
    save(document, Path(out), force=force)
    return document


def audit(  # noqa: PLR0913 - the options of the command
    release: str | Path,
    original: AnyTable,
    out: str | Path | None = None,
    *,
    plan_file: str | Path | None = None,
    second: tuple[str | Path, str | Path | None] | None = None,
    population: AnyTable = None,
    context: Path | None = None,
    describe: Description | str | Path | None = None,
    questions: Sequence[str] = (),
    seed: int | None = None,
    hierarchies: Mapping[str, Hierarchy | Path] | None = None,
    read: ReadOptions = DEFAULT_READ_OPTIONS,
    on: date | None = None,
    force: bool = False,
    command: str = "",
    progress: Progress = lambda stage, done, total: None,
) -> Dossier:
    """Attack a release, compare its answers with the truth, and make a private report.

    With `out`, the report is written.

    `second` is another release of the same table with its plan file. `population` is a register that an attacker may
    link. `context` is a TOML file with statements of the data steward. `describe` adds what the release does not say.
    `questions` are further SQL queries. The report names the `command` that made it.
    """
    if out is not None:
        check_place(Path(out), force=force)
    dossier = audit_release(
        release,
        original,
        report_date=on or date.today(),
        plan_file=plan_file,
        second=second,
        population=population,
        context=context,
        describe=describe,
        questions=questions,
        seed=seed,
        hierarchies=hierarchies,
        read=read,
        command=command,
        progress=progress,
    )
    if out is not None:
        save(dossier.document(), Path(out), force=force)
    return dossier

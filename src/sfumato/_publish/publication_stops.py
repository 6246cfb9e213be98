"""Lists the decisions that the data steward must make before publishing, with the options for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from string import digits

from sfumato._core.cell_values import format_values
from sfumato._figures.number_format import format_exact_percent, format_upper_factor
from sfumato._planning.predicted_error import ChosenMechanism
from sfumato._profile.recoding_search import Recoding, RecodingProposals
from sfumato._profile.sensitive_column_signs import Sign, find_sensitive_signs
from sfumato._profile.table_scan import TableScan
from sfumato._publish.request import Request
from sfumato._request.accepted_risks import PLACEHOLDER
from sfumato._request.belief_bounds import propose_bound
from sfumato._request.guarantee import Guarantee
from sfumato._request.histogram import Histogram
from sfumato._request.named_columns import ANY_CHARACTERS, find_matches
from sfumato._request.schema import Role, Schema
from sfumato._request.warnings import Notice
from sfumato._risk.attackers.attack_result import Attack
from sfumato._risk.attackers.attack_target import Target
from sfumato._risk.attackers.predictive_columns import (
    ColumnPrediction,
    count_disclosed_records,
    list_disclosing_columns,
)
from sfumato._risk.attackers.publication_gates import find_breach_stop, find_exposure_stop, measure_breaches

MOST_NAMED = 10
"""The most columns that the sentence of a stop names. Programs can read all columns."""
NEARLY_CERTAIN = 0.9
"""A value with a larger share of a group is nearly certain for each of its people."""
NOTABLE_DISCLOSED_SHARE = 0.001
"""A smaller share of disclosed records may occur by chance."""
ALL_NAMES = "All names: `json=True`."
DECIDE_IN_DRAFT = "Decide in a request file: `sfumato init` writes one, with a line for each column."
DROP_IN_DRAFT = "Name them in `drop=`, or move them in the request file that `sfumato init` writes."
FEWEST_IN_PATTERN = 3
"""At least this many numbered columns, such as DX2 to DX20, are written as one name with `*`."""
MOST_PROPOSALS = 3
"""The most recodings among the ways out. The plan has a table of all recodings."""


def list_undecided_stops(request: Request, names: Sequence[str]) -> list[Notice]:
    """Lists the stop for columns without a role, from the names of the columns alone."""
    undecided = request.schema.list_undecided(names)
    if not undecided:
        return []
    has = "column has" if len(undecided) == 1 else "columns have"
    sentence = f"{len(undecided)} {has} no role yet: {_list_names(undecided)}. Nothing is published unless you say so."
    ways_out: tuple[str, ...] = (
        f"Publish unchanged: `public={list(undecided)!r}`.",
        f"Drop: `drop={list(undecided)!r}`.",
    )
    if len(undecided) > MOST_NAMED:
        ways_out = (
            DECIDE_IN_DRAFT,
            "Or name the columns to publish (`public=['COL']`), and leave out all others: `drop=['*']`.",
            ALL_NAMES,
        )
    return [Notice("columns-undecided", sentence, None, {"columns": len(undecided)}, undecided, ways_out)]


def list_table_stops(
    request: Request,
    table_scan: TableScan,
    targets: Sequence[Target],
    column_predictions: Sequence[ColumnPrediction],
    recodings: RecodingProposals | None = None,
) -> list[Notice]:
    """Lists the risks of the table that the data steward has not accepted. The risks exist under every mechanism."""
    risks = request.accepted_risks
    stops = [
        *list_undecided_stops(request, [column.name for column in table_scan.columns]),
        *_list_sensitive_looks(request, table_scan),
        *_list_disclosing(request, table_scan, column_predictions),
        *_list_disclosed_groups(request, table_scan, targets, column_predictions),
    ]
    if has_unique_records(request, table_scan):
        stops.append(_make_unique_stop(request, table_scan, recodings))
    if not risks.uncovered_values:
        stops += _list_uncovered(request, table_scan)
    return stops


def list_mechanism_stops(
    request: Request, table_scan: TableScan, chosen: ChosenMechanism, exposures: Sequence[Attack]
) -> list[Notice]:
    """Lists the risks of the chosen mechanism that the data steward has not accepted."""
    risks, stops = request.accepted_risks, []
    if not risks.exposure:
        stops.append(find_exposure_stop(exposures, chosen.mechanism))
    if chosen.mechanism.guarantee is Guarantee.MARGINAL_PRIOR and not risks.marginal_prior:
        stops.append(find_breach_stop(measure_breaches(chosen, table_scan.sample), request.breach_limit))
    return [stop for stop in stops if stop is not None]


def _list_sensitive_looks(request: Request, table_scan: TableScan) -> Iterator[Notice]:
    schema, risks = request.schema, request.accepted_risks
    signs = find_sensitive_signs(table_scan.columns, table_scan.sensitive.parts, schema.ranges)
    for sign in Sign:
        names = tuple(name for name, found in signs.items() if found is sign and not risks.accepts_column(name))
        if names:
            has = "have" if len(names) > 1 else "has"
            sentence = f"{_list_names(names)} {has} {sign.value}, and would be published without protection."
            ways_out = _list_column_ways_out(names, request, table_scan)
            yield Notice("looks-sensitive", sentence, names[0], {"columns": len(names)}, names, ways_out)


def _list_disclosing(
    request: Request, table_scan: TableScan, column_predictions: Sequence[ColumnPrediction]
) -> Iterator[Notice]:
    risks = request.accepted_risks
    open_predictions = [
        prediction for prediction in column_predictions if not risks.accepts_column(prediction.columns[0])
    ]
    if disclosing := list_disclosing_columns(open_predictions):
        worst, names = disclosing
        yield Notice(
            "column-discloses",
            f"{worst.sentence}. Protecting {worst.protected_column!r} does not prevent this disclosure.",
            names[0],
            {"guessed": worst.success, "blindly": worst.blind_success},
            tuple(names),
            _list_column_ways_out(names, request, table_scan),
        )


def _list_disclosed_groups(
    request: Request,
    table_scan: TableScan,
    targets: Sequence[Target],
    column_predictions: Sequence[ColumnPrediction],
) -> Iterator[Notice]:
    """Columns that disclose the values of some people nearly with certainty, such as a test for one disease."""
    sample, risks = table_scan.sample, request.accepted_risks
    bound = request.spec.bound or propose_bound()  # other guarantees have no prior that says what is rare
    _, named = list_disclosing_columns(column_predictions) or (None, [])
    share_in_group = max(NEARLY_CERTAIN, float(bound.posterior))
    for target in targets:
        for name, codes in sample.columns.items():
            if name in named or risks.accepts_column(name):
                continue
            count = count_disclosed_records(codes, target.true_codes, target.size, float(bound.prior), share_in_group)
            share = count / sample.records
            if share >= NOTABLE_DISCLOSED_SHARE:
                yield Notice(
                    "column-discloses",
                    f"{name!r} discloses the {target.name!r} of {share:.1%} of records nearly with certainty. Over "
                    f"{share_in_group:.0%} of the records with the same {name!r} have one value, although the value "
                    "has a "
                    f"share of at most {bound.prior} in the table. Protecting {target.name!r} does not hide that.",
                    name,
                    {"records": count, "share": share},
                    (name,),
                    _list_column_ways_out((name,), request, table_scan),
                )


def _list_names(names: Sequence[str]) -> str:
    """Lists the first few names."""
    return format_values(names, MOST_NAMED)


def _list_column_ways_out(names: Sequence[str], request: Request, table_scan: TableScan) -> tuple[str, ...]:
    published = [column.name for column in table_scan.columns]
    others = [name for name in published if name not in (*names, *request.schema.sensitive_columns)]
    shortened = shorten_names(names, others)
    dropped = shortened if all(_is_public_by_default(name, request.schema) for name in names) else list(names)
    if len(shortened) > MOST_NAMED:
        return (
            DROP_IN_DRAFT,
            "Or accept the disclosure of each, with your reason: `accept_disclosing={'COL': 'REASON'}`.",
            ALL_NAMES,
        )
    return (
        f"Leave out: `drop={dropped!r}`.",
        f"Or accept the disclosure, with your reason: `accept_disclosing={dict.fromkeys(shortened, PLACEHOLDER)!r}`.",
    )


def _is_public_by_default(name: str, schema: Schema) -> bool:
    """Whether another name with `*` may give the column a role. The column must be undecided, or public only by `*`."""
    patterns = [pattern for pattern, role in schema.patterns if role is Role.PUBLIC and find_matches(pattern, [name])]
    return schema.get_role(name) is Role.UNDECIDED or patterns == [ANY_CHARACTERS]


def shorten_names(names: Sequence[str], others: Sequence[str]) -> list[str]:
    """Names of columns. Several numbered columns become one name with `*`, if that name matches no other column."""
    stems = {name: name.rstrip(digits) for name in names}
    counts = Counter(stems.values())
    patterns = {
        stem: stem + ANY_CHARACTERS
        for stem, count in counts.items()
        if count >= FEWEST_IN_PATTERN and stem and not find_matches(stem + ANY_CHARACTERS, others)
    }
    return list(dict.fromkeys(patterns.get(stems[name], name) for name in names))


def has_unique_records(request: Request, table_scan: TableScan) -> bool:
    """Whether too many records are unique on the public columns (see `unique_limit`), and nobody accepted this risk."""
    share = table_scan.uniqueness.after_bins.unique_share
    return share > request.unique_limit and not request.accepted_risks.unique_records


def _propose_changes(recodings: RecodingProposals | None, limit: float) -> list[str]:
    """The fewest changes that suffice, or all proposed changes. Empty if the single changes include them already."""
    if recodings is None or not (steps := recodings.combined or recodings.single[:1]):
        return ["Drop columns (`drop=`), or publish them in wider ranges (`ranges=`)."]
    needed = next((i for i, step in enumerate(steps, 1) if step.unique_share_after <= limit), len(steps))
    if needed == 1 and steps[0] in recodings.single[:MOST_PROPOSALS]:
        return []
    settings = _join_settings(steps[:needed])
    share = format_exact_percent(steps[needed - 1].unique_share_after)
    changes = "this change" if needed == 1 else "these changes together"
    return [f"Or make {changes}; {share} of records are then still unique: {settings}."]


def _join_settings(steps: Sequence[Recoding]) -> str:
    """The settings for several changes. They are one list of dropped columns, and one mapping of ranges."""
    dropped = [step.column for step in steps if step.edges is None]
    ranges = {step.column: ",".join(step.edges) for step in steps if step.edges is not None}
    settings = ([f"`drop={dropped!r}`"] if dropped else []) + ([f"`ranges={ranges!r}`"] if ranges else [])
    return " ".join(settings)


def _list_single_changes(recodings: RecodingProposals | None) -> list[str]:
    """The changes of one column that help most, each with its effect."""
    return [
        f"{recoding.description[:1].upper()}{recoding.description[1:]} (unique records fall to "
        f"{format_exact_percent(recoding.unique_share_after)}): {recoding.setting}."
        for recoding in (() if recodings is None else recodings.single[:MOST_PROPOSALS])
    ]


def _make_unique_stop(request: Request, table_scan: TableScan, recodings: RecodingProposals | None) -> Notice:
    share = table_scan.uniqueness.after_bins.unique_share
    limit = float(request.unique_limit)
    changes = _propose_changes(recodings, limit)
    return Notice(
        "records-unique",
        f"{format_exact_percent(share)} of records are unique on the public columns (limit: "
        f"{format_exact_percent(limit)}). Anyone who knows these columns of a person finds the record.",
        None,
        {"share": share, "limit": str(request.unique_limit)},
        (),
        (
            *_list_single_changes(recodings),
            *changes,
            f"Or accept it, with your reason: `accept_unique={PLACEHOLDER!r}`.",
        ),
    )


def covers_somebody(histogram: Histogram, prior: Fraction) -> bool:
    """Whether a value that people have is at most as frequent as the prior. A missing value needs no protection."""
    limit = prior * histogram.total
    pairs = zip(histogram.values, histogram.counts, strict=True)
    return any(0 < count <= limit for value, count in pairs if value is not None)


def _list_uncovered(request: Request, table_scan: TableScan) -> Iterator[Notice]:
    bound, histogram = request.spec.bound, table_scan.histogram
    if bound is None or covers_somebody(histogram, bound.prior):
        return
    proposed, example = propose_bound(histogram.domain_size), ""
    if covers_somebody(histogram, proposed.prior):
        example = f", such as `prior='{proposed.prior}'` with `posterior='{proposed.posterior}'`"
    yield Notice(
        "values-uncovered",
        f"the limit on an attacker's confidence covers nobody. Every value of {request.schema.sensitive_name!r} that "
        f"occurs is more frequent than the prior {bound.prior}. There is no fixed limit on the confidence in "
        "these values; only the factor by which the odds can rise is limited "
        f"({format_upper_factor(bound.person_amplification)}).",
        request.schema.sensitive_name,
        {"prior": str(bound.prior), "covered_share": 0.0},
        (),
        (
            f"Choose a prior above the share of the values that need protection{example}.",
            f"Or accept it, with your reason: `accept_uncovered={PLACEHOLDER!r}`.",
        ),
    )

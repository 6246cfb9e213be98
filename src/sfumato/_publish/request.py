"""The request of a data steward: a table, the roles of its columns, a bound, and the accepted risks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from sfumato._core.cell_values import to_json
from sfumato._core.digests import compute_json_digest
from sfumato._core.option_fields import dump_options
from sfumato._planning.mechanism_choice import AUTO, NO_OPTIONS, add_shared_options
from sfumato._planning.plan_file import RequestRecord, find_usual_guarantee
from sfumato._readers.read_options import DEFAULT_READ_OPTIONS, POINT, ReadOptions
from sfumato._request.accepted_risks import (
    BREACH_LIMIT,
    UNIQUE_LIMIT,
    AcceptedRisks,
    read_column_reasons,
    read_reason,
)
from sfumato._request.belief_bounds import PrivacySpec
from sfumato._request.schema import Role, Schema
from sfumato.errors import (
    SchemaError,
    SpecError,
)
from sfumato.mechanisms import REGISTRY


@dataclass(frozen=True)
class Request:
    """The request of a data steward: a table with the roles of its columns, a bound, and a mechanism."""

    table: Any = field(repr=False)
    """The table, which the repr does not show: a frame holds values, and an address may hold a password."""
    _: KW_ONLY
    schema: Schema
    spec: PrivacySpec
    """The privacy requirement, for a person with as many rows as the schema allows."""
    mechanism: str = AUTO
    guarantee: str | None = None
    """`any-prior`, `marginal-prior` or None.

    None means the guarantee of the named mechanism, or any-prior if no mechanism is named.
    """
    records: bool = False
    """Whether each person gets a protected record.

    If False, people with equal public columns may be published as counts, provided that counts have much less error.
    """
    read: ReadOptions = DEFAULT_READ_OPTIONS
    """The options for reading the table."""
    options: Mapping[str, Any] = field(default_factory=lambda: NO_OPTIONS)
    """The options of mechanisms by name. Shared options apply to every mechanism that may be chosen."""
    breach_limit: Fraction = BREACH_LIMIT
    """The largest share of records for which a public column may break a bound of a marginal prior."""
    accept_marginal_prior: str = ""
    """The reason to accept any share of records for which public columns break the bound."""
    accept_disclosing: Mapping[str, str] = field(default_factory=dict)
    """The reasons to publish public columns although they may be sensitive or disclose the sensitive column."""
    accept_exposure: str = ""
    """The reason to publish although public columns add to what a release discloses."""
    unique_limit: Fraction = UNIQUE_LIMIT
    """The largest share of records that may be unique on the public columns."""
    accept_unique: str = ""
    """The reason to accept any share of records that are unique on the public columns."""
    accept_uncovered: str = ""
    """The reason to publish although every value is more frequent than the prior."""

    def __post_init__(self) -> None:
        if not isinstance(self.schema, Schema):
            raise SchemaError(
                "give the roles of the columns as a Schema, such as Schema.of('diagnosis').", code="not-a-schema"
            )
        if not isinstance(self.spec, PrivacySpec):
            raise SpecError(
                "give the protection as a BreachBound, such as BreachBound('1/10', '1/3').", code="not-a-requirement"
            )
        if self.schema.is_independent and not self.spec.IS_COLUMNWISE:
            raise SchemaError(
                f"name exactly one sensitive column; {len(self.schema.combined_columns)} were named. To protect "
                f"several as one, use `compound={list(self.schema.combined_columns)!r}` instead of `sensitive=`; to "
                "protect each separately, use decoys (`spec=DecoyGroups(...)`).",
                code="several-sensitive-columns",
                fields={"columns": len(self.schema.combined_columns)},
            )
        object.__setattr__(self, "spec", self.spec.share_among_rows(self.schema.person_rows.max_rows))
        options = add_shared_options(self.options, [REGISTRY[name] for name in self.mechanism_names])
        object.__setattr__(self, "options", options)
        self.schema.check_missing(self.read.missing)
        for name, limit in (("breach_limit", self.breach_limit), ("unique_limit", self.unique_limit)):
            if not 0 <= limit <= 1:
                raise SpecError(
                    f"`{name}={str(limit)!r}` must be a share between 0 and 1.",
                    code="share-out-of-range",
                    fields={"argument": name, "given": str(limit)},
                )
        _ = self.accepted_risks  # refuses a risk without a reason

    @classmethod
    def from_file(cls, path: str | Path) -> Request:
        """Reads a request file, such as one that `init` wrote. `plan` and `publish` follow this request."""
        from sfumato._publish.request_file import read_request  # noqa: PLC0415 - it builds requests

        return read_request(Path(path))

    @property
    def accepted_risks(self) -> AcceptedRisks:
        """The risks that the data steward accepts, with the reasons."""
        return AcceptedRisks(
            read_column_reasons("accept_disclosing", self.accept_disclosing),
            read_reason("accept_unique", self.accept_unique),
            read_reason("accept_uncovered", self.accept_uncovered),
            read_reason("accept_exposure", self.accept_exposure),
            read_reason("accept_marginal_prior", self.accept_marginal_prior),
            self.unique_limit,
            self.breach_limit,
            tuple(pattern for pattern, role in self.schema.patterns if role is Role.PUBLIC),
        )

    @property
    def mechanism_names(self) -> list[str]:
        """The mechanisms that may be chosen: the named one, or all that meet the request."""
        if self.mechanism != AUTO:
            return [self.mechanism] if self.mechanism in REGISTRY else []
        own_mechanisms = (mechanism for name, mechanism in REGISTRY.items() if name not in REGISTRY.added_names)
        return [
            mechanism.name
            for mechanism in own_mechanisms
            if isinstance(self.spec, mechanism.accepted_requests) and not (self.records and mechanism.crowd_counts)
        ]

    @property
    def digest(self) -> str:
        """The digest of the request, including the options of every mechanism that could be chosen."""
        record = self.to_record()
        options = {name: dict(values) for name, values in record.options.items()}
        return compute_json_digest({"request": dict(record.request), "options": options})

    def check_single_columns(self) -> None:
        """Refuses a compound if neither the requirement nor a mechanism covers its single columns."""
        covers_columns = any(REGISTRY[name].covers_predicates for name in self.mechanism_names)
        if self.schema.compound and not covers_columns:
            self.spec.find_part_limit(Fraction(0))

    def to_record(self) -> RequestRecord:
        """The record of the request in a plan file. A later run compares its own request with this record."""
        hierarchies = self.schema.hierarchies
        schema = {
            "roles": {name: role.value for name, role in sorted(self.schema.roles.items())},
            "domains": {name: [to_json(value) for value in values] for name, values in self.schema.domains.items()},
            "bins": {name: list(bins.edges) for name, bins in self.schema.ranges.items()},
            "nulls": self.schema.nulls.value,
            "text": sorted(self.read.text),
            "encoding": self.read.encoding,
            **(
                {"hierarchies": {name: hierarchy.to_json() for name, hierarchy in hierarchies.items()}}
                if hierarchies
                else {}
            ),
            **({"publish_at": dict(self.schema.publish_at)} if self.schema.publish_at else {}),
            **({"missing": sorted(self.read.missing)} if self.read.missing else {}),
            **({} if self.read.decimal == POINT else {"decimal": self.read.decimal}),
            **({"compound": list(self.schema.compound)} if self.schema.compound else {}),
            **({} if self.schema.person_rows.is_default else {"person_rows": self.schema.person_rows.to_json()}),
            **(
                {"patterns": [[name, role.value] for name, role in self.schema.patterns]}
                if self.schema.patterns
                else {}
            ),
            **({"records": True} if self.records else {}),
            **({"each_row_is_a_person": True} if self.schema.each_row_is_a_person else {}),
            **({"accept_telling": sorted(self.accept_disclosing)} if self.accept_disclosing else {}),
            **({"accept_exposure": True} if self.accept_exposure else {}),
        }
        return RequestRecord(
            {
                "mechanism": self.mechanism,
                "guarantee": None if self.guarantee == find_usual_guarantee(self.mechanism) else self.guarantee,
                **self.spec.to_json(),
                "schema": compute_json_digest(schema),
            },
            {name: dump_options(self.options.get(name) or REGISTRY[name].options()) for name in self.mechanism_names},
        )

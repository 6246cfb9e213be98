"""The settings that each work prints: how its tables are published, and how its releases are asked.

A release that is published so is an ordinary release: sfumato opens, verifies and answers it. What makes it differ from
one of sfumato's own are options and estimators that nobody should choose for a table of their own, so that no command
of sfumato offers them. docs/errata.md says what is wrong with each.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from inspect import Parameter
from typing import Any

import typer

from sfumato._core.option_fields import list_flags
from sfumato._planning.mechanism_choice import AUTO
from sfumato._query.release import Release
from sfumato.cli.option_group import make_command_parameter
from sfumato.cli.options import GUARANTEE_PANEL, GuaranteeOptions
from sfumato.cli.query_command import QueryOptions
from sfumato.errors import QueryError, SpecError
from sfumato.mechanisms import REGISTRY
from sfumato.mechanisms._bucketization.buckets import Sizes
from sfumato.mechanisms._bucketization.buckets.record_assignment import DealingMethod
from sfumato.mechanisms._decoys.leak_matrix import GroupCreation
from sfumato.mechanisms._randomized_response.fine_grain import Direction, Objective
from sfumato.mechanisms._randomized_response.small_domain import Merge


@dataclass(frozen=True)
class PrintedSettings:
    """How a work publishes its tables, and the estimator that it counts with."""

    mechanism: str
    method: str
    options: Mapping[str, Any] = field(default_factory=dict)
    """By the names of the fields of the mechanism's options; all others are as usual."""


def _make_bucket_settings(sizes: Sizes) -> PrintedSettings:
    options = {"sizes": sizes, "min_bucket": 1, "dealing": DealingMethod.ROUND_ROBIN}
    return PrintedSettings("buckets", "uniform", options)


SETTINGS: Mapping[str, PrintedSettings] = {
    "small-domain": PrintedSettings("small-domain", "closed", {"merge": Merge.PAPER}),
    "fine-grain": PrintedSettings(
        "fine-grain", "closed", {"direction": Direction.UPWARD, "objective": Objective.RECORD}
    ),
    "fine-grain-iterated": PrintedSettings(
        "fine-grain", "em", {"direction": Direction.UPWARD, "objective": Objective.RECORD}
    ),
    "buckets": _make_bucket_settings(Sizes.MULTI),
    "two-size-buckets": _make_bucket_settings(Sizes.TWO),
    "one-size-buckets": _make_bucket_settings(Sizes.ONE),
    "anatomy": PrintedSettings("anatomy", "uniform", {"dealing": DealingMethod.ROUND_ROBIN}),
    "splu": PrintedSettings("decoys", "paper", {"groups": GroupCreation.ANATOMY_RANDOM}),
    "splu-ties-by-order": PrintedSettings("decoys", "paper", {"groups": GroupCreation.ANATOMY}),
}
"""By the names of the works and, where a work prints several ways, of the way."""

PARAMETER_NAME = "as_published"
AS_PUBLISHED = typer.Option(
    "--as-published",
    metavar="WORK",
    help=f"Whose settings to take: {', '.join(SETTINGS)}.",
    rich_help_panel=GUARANTEE_PANEL,
    autocompletion=lambda: list(SETTINGS),
)


def find_settings(name: str) -> PrintedSettings:
    """Returns the settings of a name."""
    if name not in SETTINGS:
        near = difflib.get_close_matches(name, SETTINGS, 1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise SpecError(
            f"no settings are printed under the name {name!r}; {hint}There are {', '.join(SETTINGS)}.",
            code="unknown-settings",
            fields={"settings": name},
        )
    return SETTINGS[name]


class PrintedGuaranteeOptions(GuaranteeOptions):
    """The options of a request, with those of the mechanism as a work prints them; what is given by a flag wins."""

    @classmethod
    def list_parameters(cls) -> Iterator[Parameter]:
        """Whose settings to take, and every option of a request and of a mechanism."""
        yield make_command_parameter(PARAMETER_NAME, str, AS_PUBLISHED, Parameter.empty)
        yield from super().list_parameters()

    @cached_property
    def settings(self) -> PrintedSettings:
        """The settings that were asked for, unless another mechanism was."""
        printed_settings = find_settings(self.given[PARAMETER_NAME])
        if self.given["mechanism"] not in (AUTO, printed_settings.mechanism):
            raise SpecError(
                f"{self.given[PARAMETER_NAME]!r} is published by the mechanism {printed_settings.mechanism!r}, and "
                f"--mechanism {self.given['mechanism']} asks for another; leave it out.",
                code="another-mechanism-printed",
                fields={"settings": self.given[PARAMETER_NAME], "mechanism": printed_settings.mechanism},
            )
        return printed_settings

    @property
    def mechanism(self) -> str:
        """The mechanism of the work."""
        return self.settings.mechanism

    @cached_property
    def options(self) -> dict[str, Any]:
        """The options that were given, and for the work's mechanism those that it prints."""
        given_options, name = super().options, self.mechanism
        kind = REGISTRY[name].options
        flags = {field: flag.name for field, flag in list_flags(kind)}
        printed_values = {
            field: value
            for field, value in self.settings.options.items()
            if field not in flags or self.given[flags[field]] is None
        }
        return {**given_options, name: replace(given_options.get(name, kind()), **printed_values)}


def ask_as_published(query_options: QueryOptions, work: str) -> QueryOptions:
    """Returns the options of a question with the estimator that a work prints, unless another one is named."""
    return replace(query_options, method=query_options.method or find_settings(work).method)


def check_release(release: Release, work: str) -> None:
    """Refuses a release that was not made by the mechanism of the work."""
    mechanism = find_settings(work).mechanism
    if release.manifest.mechanism_name != mechanism:
        raise QueryError(
            f"the release was made by {release.manifest.mechanism_name!r}, and {work!r} asks releases of "
            f"{mechanism!r}.",
            code="release-of-another-mechanism",
            fields={"mechanism": release.manifest.mechanism_name, "expected": mechanism},
        )

"""The options that say where the work runs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

import sfumato
from sfumato._core.object_store import is_spark_name
from sfumato._readers.reader import AnyTable
from sfumato.cli.option_group import OptionGroup
from sfumato.errors import SpecError

if TYPE_CHECKING:
    from sfumato._engines.engine import Engine, Progress


class EngineName(StrEnum):
    """The engines that there are."""

    LOCAL = "local"
    SPARK = "spark"


@dataclass(frozen=True)
class EngineOptions(OptionGroup):
    """Who does the work."""

    PANEL: ClassVar = "Where it runs"

    engine: Annotated[
        EngineName | None,
        typer.Option(
            "--engine",
            help="This machine, or the workers of Spark: the release has the same bytes.",
            show_default="spark for a table spark:..., else local",
        ),
    ] = None
    spark_master: Annotated[
        str | None,
        typer.Option(
            "--spark-master",
            metavar="URL",
            help="Where Spark is: local[4], sc://host:15002, spark://host:7077.",
            show_default="as the environment says",
        ),
    ] = None

    def make_engine(self, table: AnyTable, progress: Progress) -> Engine:
        """The engine for a table."""
        from sfumato._readers.spark_frames import get_session  # noqa: PLC0415 - takes long to load

        if self.spark_master is not None and self.engine is EngineName.LOCAL:
            raise SpecError("--spark-master says where Spark is, and --engine local does not use it; give one of them.")
        if (
            self.engine is EngineName.SPARK
            or self.spark_master is not None
            or (self.engine is None and is_spark_name(table))
        ):
            return sfumato.SparkEngine(get_session(self.spark_master), progress=progress)
        return sfumato.LocalEngine(progress=progress)

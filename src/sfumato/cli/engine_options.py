"""The options that choose the engine."""

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
    """The names of the engines."""

    LOCAL = "local"
    SPARK = "spark"


@dataclass(frozen=True)
class EngineOptions(OptionGroup):
    """The choice of an engine."""

    PANEL: ClassVar = "Where it runs"

    engine: Annotated[
        EngineName | None,
        typer.Option(
            "--engine",
            help="This machine or a Spark cluster. Both make the same bytes.",
            show_default="spark for a table spark:..., otherwise local",
        ),
    ] = None
    spark_master: Annotated[
        str | None,
        typer.Option(
            "--spark-master",
            metavar="URL",
            help="Address of Spark: local[4], sc://host:15002, spark://host:7077.",
            show_default="from the environment",
        ),
    ] = None

    def make_engine(self, table: AnyTable, progress: Progress) -> Engine:
        """Makes the engine for a table."""
        from sfumato._readers.spark_frames import get_session  # noqa: PLC0415 - takes long to load

        if self.spark_master is not None and self.engine is EngineName.LOCAL:
            raise SpecError(
                "`engine='local'` does not use Spark, so `spark_master=` has no effect; give one of the two.",
                code="engine-without-spark",
            )
        if (
            self.engine is EngineName.SPARK
            or self.spark_master is not None
            or (self.engine is None and is_spark_name(table))
        ):
            return sfumato.SparkEngine(get_session(self.spark_master), progress=progress)
        return sfumato.LocalEngine(progress=progress)

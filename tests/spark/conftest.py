"""A session of Spark. These tests run in environments of their own, which `make test` makes and names.

`pyspark` and `pyspark-client` are both installed as `pyspark`, so each has one: Sail, which needs no Java and runs in
the process of the test, and Spark itself. Where there is neither, nothing of this folder runs.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

HAS_SAIL, HAS_JAVA = (find_spec(name) is not None for name in ("pysail", "py4j"))
collect_ignore_glob = [*([] if HAS_SAIL else ["test_sail_*.py"]), *([] if HAS_JAVA else ["test_java_*.py"])]

CONNECT = "SFUMATO_TEST_CONNECT"
"""Where it is set, sessions of Spark itself go through Spark Connect."""


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    """Where a server listens that speaks Spark's protocol."""
    from pysail.spark import SparkConnectServer  # noqa: PLC0415 - not in every environment

    server = SparkConnectServer("127.0.0.1", 0)
    server.start(background=True)
    host, port = server.listening_address
    yield f"sc://{host}:{port}"
    server.stop()


@pytest.fixture(scope="session")
def sail(address: str) -> Iterator[Any]:
    """A session of Sail."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - not in every environment

    session = SparkSession.builder.remote(address).getOrCreate()
    yield session
    session.stop()


LOGGING = """
rootLogger.level = info
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d %p %c: %m%n%ex
"""


@pytest.fixture(scope="session")
def spark_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What Spark itself writes down."""
    return tmp_path_factory.mktemp("log") / "spark.log"


@pytest.fixture(scope="session")
def java(tmp_path_factory: pytest.TempPathFactory, spark_log: Path) -> Iterator[Any]:
    """A session of Spark with two workers, in which a task is tried three times."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - not in every environment

    # Workers are processes of their own, which know what this one knows.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = str(Path(__file__).parents[1])
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    (logging := spark_log.with_name("log4j2.properties")).write_text(LOGGING.format(spark_log))
    (events := spark_log.with_name("events")).mkdir()
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": events.as_uri(),
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={logging}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
    }
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    builder = builder.remote("local[2]") if os.environ.get(CONNECT) else builder.master("local[2,3]")
    with warnings.catch_warnings(action="ignore"):  # through Connect, what holds from the start cannot be said again
        session = builder.getOrCreate()
    yield session
    session.stop()

"""A Spark session for tests that compare Spark's results with flinkpy's own operators."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest
from requirements import has_java, require
from spark_programs import SHARED_SESSION

#: Plans run once here: compiling them would take longer than running them.
RUNTIME_SETTINGS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.execution.arrow.pyspark.enabled": "false",
}


@pytest.fixture(scope="package")
def session() -> Any:
    """Returns a session with settings of its own in the Spark driver that all tests of a worker share."""
    require("spark", has_java(17) and importlib.util.find_spec("pyspark") is not None, "Java 17 and pyspark")
    session = SHARED_SESSION.started().newSession()
    for key, value in RUNTIME_SETTINGS.items():
        session.conf.set(key, value)
    return session

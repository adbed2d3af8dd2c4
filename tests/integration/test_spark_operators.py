"""Operators in Spark give what they give natively in batch mode."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from clusters import RunningCluster
from job_support import environment
from requirements import has_java, require
from spark_operator_programs import PROGRAMS
from spark_programs import spark_records, spark_session

#: The first job of a session compiles, and Python workers import: on a loaded machine that takes its time.
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    pytest.importorskip("pyspark")
    require("spark", has_java(17), "java 17 or later")
    with spark_session() as session:
        yield session


NATIVE = {
    "execution.runtime-mode": "BATCH",
    "execution.batch.backend": "native",
    # A broadcast gives as many records as it has subtasks.
    "execution.batch.adaptive.auto-parallelism.enabled": "false",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_gives_the_same_in_spark_as_natively(session: Any, shared_cluster: RunningCluster, name: str) -> None:
    build = PROGRAMS[name]
    env = environment(shared_cluster, 2, **NATIVE)
    native = sorted(map(repr, build(env).execute_and_collect()))
    assert native, "a program that gives nothing shows nothing"
    assert sorted(map(repr, spark_records(session, build))) == native

"""Operators in Spark give the same results as in native batch mode."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from clusters import RunningCluster
from job_support import environment
from spark_operator_programs import PROGRAMS
from spark_programs import session, spark_records, translated

#: The time limit of a test. The first job of a session compiles code and imports modules in Python workers.
pytestmark = pytest.mark.timeout(300)

__all__ = ["session"]


NATIVE = {
    "execution.runtime-mode": "BATCH",
    "execution.batch.backend": "native",
    # A broadcast emits each record once per subtask.
    "execution.batch.adaptive.auto-parallelism.enabled": "false",
}


#: The native results of each program as sorted texts. One job runs all programs.
_NATIVE_RESULTS: dict[str, list[str]] = {}


def native_results(cluster: RunningCluster) -> dict[str, list[str]]:
    if not _NATIVE_RESULTS:
        env = environment(cluster, 2, **NATIVE)
        first, *others = (build(env).map(partial(_with_name, name)) for name, build in PROGRAMS.items())
        found: dict[str, list[str]] = {}
        with first.union(*others).execute_and_collect() as results:
            for name, result in results:
                found.setdefault(name, []).append(result)
        _NATIVE_RESULTS.update({name: sorted(texts) for name, texts in found.items()})
    return _NATIVE_RESULTS


def _with_name(name: str, value: Any) -> tuple[str, str]:
    return name, repr(value)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_gives_the_same_in_spark_as_natively(session: Any, shared_cluster: RunningCluster, name: str) -> None:
    native = native_results(shared_cluster)[name]
    assert native, "a program that gives nothing shows nothing"
    assert sorted(map(repr, spark_records(session, PROGRAMS[name]))) == native


def test_sparks_cores_and_not_the_parallelism_of_the_job_decide_on_the_number_of_subtasks(session: Any) -> None:
    build = PROGRAMS["a_reduced_keyed_stream"]
    assert session.sparkContext.defaultParallelism == 2
    for parallelism in (1, 5):
        (output,) = translated(session, build, parallelism).outputs
        assert output.frame.rdd.getNumPartitions() == 2
    fixed = {"execution.batch.adaptive.auto-parallelism.enabled": "false"}
    (output,) = translated(session, build, 5, **fixed).outputs
    assert output.frame.rdd.getNumPartitions() == 5
    assert sorted(spark_records(session, build, 1)) == sorted(spark_records(session, build, 5, **fixed))


def test_the_plan_of_a_keyed_pass_has_one_exchange_and_two_passes_of_workers(session: Any) -> None:
    (output,) = translated(session, PROGRAMS["a_reduced_keyed_stream"]).outputs
    lines = output.frame._jdf.queryExecution().sparkPlan().toString().splitlines()
    operations = [line.strip(" :+-*").split("[")[0].split(" ")[0] for line in lines]
    assert [name for name in operations if name in ("RepartitionByExpression", "Exchange", "Sort", "MapInArrow")] == [
        "MapInArrow",
        "Sort",
        "Exchange",
        "MapInArrow",
    ], lines

"""Operators in Spark give the same results as in native batch mode."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from clusters import RunningCluster
from job_support import environment
from spark_operator_programs import PROGRAMS
from spark_programs import session, spark_records

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

"""The imports of a process decide how long its start takes and if it can be forked."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

_PROGRAM = """
import json, os, sys
import {modules}
print(json.dumps([sorted(sys.modules), len(os.listdir("/proc/self/task"))]))
"""
#: Libraries that are imported on use.
_HEAVY = {"aiokafka", "cryptography", "fastavro", "kazoo", "numba", "pandas", "pyspark", "rocksdict", "sqlalchemy"}
_ARROW = {"numpy", "pyarrow"}


def _loaded(modules: str) -> tuple[set[str], int]:
    program = _PROGRAM.format(modules=modules)
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60)
    names, threads = json.loads(done.stdout.splitlines()[-1])
    return set(names), threads


@pytest.mark.parametrize("service", ["dispatcher", "resourcemanager", "jobmaster"])
def test_a_control_service_loads_no_heavy_library_and_starts_no_thread(service: str) -> None:
    names, threads = _loaded(f"flinkpy.cli.services, flinkpy.{service}.entrypoint")
    assert names & (_HEAVY | _ARROW) == set()
    assert "flinkpy.traces.reporting" not in names, "it is for clusters with reporters of spans"
    assert threads == 1, "a JobMaster is forked from a process that has loaded these: that must have one thread"


def test_a_task_executor_loads_no_heavy_library_but_arrow() -> None:
    names, _ = _loaded("flinkpy.cli.services, flinkpy.taskexecutor.entrypoint")
    assert names & (_HEAVY | {"pyarrow.dataset", "pyarrow.parquet"}) == set()


def test_a_program_loads_no_heavy_library_before_it_has_a_job() -> None:
    names, _ = _loaded("flinkpy.datastream.stream_execution_environment, flinkpy.client.executor")
    assert names & (_HEAVY | _ARROW) == set()


def test_a_program_that_submits_a_job_loads_nothing_of_sql() -> None:
    names, _ = _loaded(
        "flinkpy.datastream.stream_execution_environment, flinkpy.graph.batch_mode, flinkpy.client.executor"
    )
    assert [name for name in names if name.startswith(("flinkpy.sql", "flinkpy.graph.table_specs"))] == []


def test_the_help_of_the_command_line_loads_nothing_that_only_calls_need() -> None:
    names, _ = _loaded("flinkpy.cli.main; flinkpy.cli.main.run(['--help'])")
    assert names & (_HEAVY | _ARROW | {"asyncio", "google.protobuf", "grpc"}) == set()


def test_a_client_of_a_cluster_loads_no_heavy_library() -> None:
    names, _ = _loaded("flinkpy.cli.jobs, flinkpy.cli.checkpoints, flinkpy.cli.cluster, flinkpy.client.cluster_client")
    assert names & (_HEAVY | _ARROW) == set()

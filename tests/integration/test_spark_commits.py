"""Commits of sinks in Spark: a failed or interrupted commit is repeated, and nothing is written or committed twice.

test_batch_commits.py has the same tests for the native engine.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from clusters import RunningCluster, StartCluster
from commit_faults import AFTER, BEFORE, BETWEEN, DIE, RAISE, WAIT, Faults
from kafka_broker.broker import KafkaBroker
from spark_support import java_processes_of, require_spark, spark_environment
from test_batch_commits import (
    KINDS,
    RESTARTS,
    KafkaTopics,
    RowFiles,
    in_all_ways,
    kill_all,
    kill_at_every_step,
    run_job,
    task_executors,
    with_sinks,
)

pytestmark = pytest.mark.timeout(600)


def test_only_failed_commits_are_repeated(engine_cluster: RunningCluster, tmp_path: Path) -> None:
    """One region has two sinks. The commit of each fails once before and once after it takes effect."""
    require_spark()
    faults = Faults(tmp_path / "faults")
    for sink in ("first", "second"):
        faults.arm(sink, BEFORE, RAISE)
        faults.arm(sink, AFTER, RAISE)
    env = spark_environment(engine_cluster, 2, **RESTARTS)
    run_job(env, RowFiles(tmp_path), faults, ["first", "second"], lambda: None)


def test_a_region_does_not_run_again_when_everything_dies_during_its_commits(
    start_cluster: StartCluster, tmp_path: Path
) -> None:
    """The first commit ends with the death of the TaskExecutor, and with it of Spark. In the second one the JobMaster
    dies, too. Spark is not started again.
    """
    require_spark()
    cluster = start_cluster(1, slots=3, restart_services=True)
    faults = Faults(tmp_path / "faults")
    faults.arm("first", AFTER, DIE)
    faults.arm("second", BETWEEN, WAIT)

    def kill() -> None:
        kill_all(cluster.job_master_pids() + task_executors(cluster))

    run_job(spark_environment(cluster, 2, **RESTARTS), RowFiles(tmp_path), faults, ["first", "second"], kill)
    assert java_processes_of(cluster) == []


@pytest.mark.chaos
@with_sinks
@pytest.mark.parametrize("kind", KINDS)
@in_all_ways
def test_kills_at_every_step_of_every_commit(
    start_cluster: StartCluster, tmp_path: Path, kind: str, names: list[str], victims: str
) -> None:
    require_spark()
    cluster = start_cluster(2, slots=2, restart_services=True)
    faults = Faults(tmp_path / "faults")
    env = spark_environment(cluster, 2, **RESTARTS)
    kill_at_every_step(cluster, env, KINDS[kind](tmp_path), faults, names, victims)


@pytest.mark.chaos
@with_sinks
@in_all_ways
def test_kills_at_every_step_of_every_transaction(
    kafka: KafkaBroker, start_cluster: StartCluster, tmp_path: Path, names: list[str], victims: str
) -> None:
    require_spark()
    cluster = start_cluster(2, slots=2, restart_services=True)
    faults = Faults(tmp_path / "faults")
    outputs = KafkaTopics(kafka, f"spark-{victims.replace(' ', '-')}-{len(names)}")
    env = spark_environment(cluster, 2, **RESTARTS)
    kill_at_every_step(cluster, env, outputs, faults, names, victims)


@pytest.mark.chaos
def test_a_driver_that_dies_during_the_commits_is_not_needed(start_cluster: StartCluster, tmp_path: Path) -> None:
    require_spark()
    cluster = start_cluster(1, slots=3)
    faults = Faults(tmp_path / "faults")
    faults.arm_all(["first", "second"], WAIT)

    def kill() -> None:
        kill_all([java.pid for java in java_processes_of(cluster)])

    run_job(spark_environment(cluster, 2, **RESTARTS), RowFiles(tmp_path), faults, ["first", "second"], kill)

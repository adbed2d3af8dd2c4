"""Runs the control plane of a cluster on virtual time. Each run follows from one seed.

FLINKPY_SIMULATION_SEEDS=1000 pytest tests/property/test_control_plane_simulation.py      # many
FLINKPY_SIMULATION_SEED=17 pytest tests/property/test_control_plane_simulation.py         # one again
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from pathlib import Path
from random import Random
from typing import Any

import pytest
from simulated_batch_cluster import BatchCluster
from simulated_cluster import Cluster
from simulated_processes import ProcessLoop
from simulated_runs import seeds_of_runs, simulation

from flinkpy.checkpoint.metadata import load_metadata
from flinkpy.checkpoint.storage.file_systems import FileSystems

SEEDS = seeds_of_runs()
#: The duration of the faults, in virtual time.
FAULTY_S = 12.0


def configuration(random: Random, directory: Path) -> dict[str, str]:
    chosen = {
        "execution.checkpointing.interval": random.choice(["100 ms", "300 ms"]),
        "execution.checkpointing.timeout": "3 s",
        "execution.checkpointing.tolerable-failed-checkpoints": random.choice(["0", "2", "1000"]),
        "execution.checkpointing.max-concurrent-checkpoints": random.choice(["1", "2"]),
        "execution.checkpointing.num-retained": random.choice(["1", "2"]),
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "1000000",
        "restart-strategy.fixed-delay.delay": "50 ms",
        "pekko.ask.timeout": "1 s",
        "heartbeat.interval": "1 s",
        "heartbeat.timeout": "5 s",
        "slot.request.timeout": "20 s",
        "cluster.registration.error-delay": "200 ms",
    }
    if random.random() < 0.8:
        chosen["execution.checkpointing.dir"] = str(directory / "checkpoints")
    return chosen


async def run(loop: ProcessLoop, random: Random, directory: Path) -> Cluster:
    cluster = Cluster(loop, random, directory, configuration(random, directory))
    try:
        await cluster.misbehave(FAULTY_S)
        path = await cluster.heal_and_stop()
        cluster.raise_errors()
        assert cluster.dispatcher.result is not None
        assert cluster.dispatcher.result.status == 8, cluster.dispatcher.result  # FINISHED
        savepoint = load_metadata(FileSystems(), path)[1]
        operators = {operator.operator_id: operator for operator in savepoint.operators}
        sources = operators["source-op"].subtasks
        sent = [int(sources[i].operator[0].file.data.split(b",")[i]) for i in range(cluster.parallelism)]
        assert cluster.committed == [sent, sent], "the committed records differ from the records sent"
        assert not (directory / "recovery" / "completed-checkpoints").exists()
        assert not list((directory / "checkpoints").glob("job/chk-*")), "checkpoints are left behind"
        return cluster
    finally:
        await cluster.close()


async def run_batch(loop: ProcessLoop, random: Random, directory: Path) -> Cluster:
    chosen = {
        "execution.runtime-mode": "BATCH",
        "execution.batch.adaptive.auto-parallelism.enabled": "false",
        "jobmanager.partition.release-during-job-execution": random.choice(["true", "true", "false"]),
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "1000000",
        "restart-strategy.fixed-delay.delay": "50 ms",
        "pekko.ask.timeout": "1 s",
        "heartbeat.interval": "1 s",
        "heartbeat.timeout": "5 s",
        "slot.request.timeout": "60 s",
        "cluster.registration.error-delay": "200 ms",
    }
    cluster = BatchCluster(loop, random, directory, chosen)
    try:
        await cluster.misbehave_until_it_ends(FAULTY_S)
        cluster.raise_errors()
        assert cluster.dispatcher.result is not None
        assert cluster.dispatcher.result.status == 8, cluster.dispatcher.result  # FINISHED
        cluster.check_output()
        return cluster
    finally:
        await cluster.close()


def simulate(seed: int, run: Callable[..., Coroutine[Any, Any, Cluster]] = run) -> Cluster:
    with simulation(seed) as (runner, loop, random, directory):
        return runner.run(run(loop, random, directory))


@pytest.fixture(autouse=True)
def quiet():
    """Disables logging: the log lines of thousands of faults are useless."""
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost_or_repeated_and_the_job_makes_progress_under_any_faults(seed):
    cluster = simulate(seed)
    assert cluster.network.num_faults > 0


@pytest.mark.parametrize("seed", SEEDS)
def test_a_batch_job_ends_with_every_record_exactly_once_under_any_faults(seed):
    simulate(seed, run_batch)


def test_a_seed_determines_the_run():
    """Two runs of a seed have the same faults and checkpoints, so a failing seed can be reproduced."""
    first, second = simulate(3), simulate(3)
    assert first.completed.keys() == second.completed.keys()
    assert first.network.num_faults == second.network.num_faults
    assert first.committed == second.committed

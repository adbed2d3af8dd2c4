"""Runs whole clusters of real services on virtual time under all kinds of faults. Each run follows from one seed.

FLINKPY_SIMULATION_SEEDS=1000 pytest tests/property/test_high_availability_simulation.py      # many
FLINKPY_SIMULATION_SEED=17 pytest tests/property/test_high_availability_simulation.py         # one again
"""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Coroutine
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
from simulated_nemesis import Nemesis
from simulated_runs import seeds_of_runs, simulation
from simulated_services import ServiceCluster

from flinkpy.common.states import JobState

SEEDS = seeds_of_runs()
#: Seeds whose runs once did not end: ZooKeeper was stopped last, or a job restarted while it was being stopped.
SEEDS_TO_REMEMBER = (7269, 7306)
#: The number of seeds in one test. They share imports and setup.
BATCH = 10
#: One of this many runs has a cluster without high availability.
STANDALONE_EVERY = 5
#: One of this many seeds has two more runs: one cancels a job, the other stops it with a savepoint.
END_EVERY = 9
#: The duration of the faults, in virtual time.
FAULTY_S = 15.0
Run = Callable[[ServiceCluster], Coroutine[Any, Any, None]]
JOBS = [f"{number:032x}" for number in range(1, 3)]


async def disturb(cluster: ServiceCluster) -> None:
    """Causes faults and heals them at the end. Otherwise a waiting client would wait for its answer forever."""
    await Nemesis(cluster).disturb(FAULTY_S)
    cluster.heal()


async def run(cluster: ServiceCluster) -> None:
    cluster.start()
    disturbing = asyncio.ensure_future(disturb(cluster))
    try:
        for job_id in JOBS[: cluster.random.randint(1, len(JOBS))]:
            await asyncio.sleep(cluster.random.uniform(0.0, 2.0))
            await cluster.as_client(lambda job_id=job_id: cluster.submit(job_id))
        await disturbing
        await cluster.finish()
    finally:
        disturbing.cancel()
        await asyncio.gather(disturbing, return_exceptions=True)
        await cluster.close()


async def run_and_end(cluster: ServiceCluster, *, is_canceled: bool) -> None:
    """Ends one of the jobs during the faults. Often all processes that know of its end die at once."""
    cluster.start()
    disturbing = asyncio.ensure_future(disturb(cluster))
    try:
        for job_id in JOBS:
            await cluster.as_client(lambda job_id=job_id: cluster.submit(job_id))
        await asyncio.sleep(cluster.random.uniform(0.0, 6.0))
        end = cluster.cancel if is_canceled else cluster.stop_for_good
        await cluster.as_client(lambda: end(JOBS[0]))
        if cluster.random.random() < 0.7:
            for process in cluster.job_masters():
                process.kill()
            for host in cluster.dispatchers:
                cluster.kill(host)
        await disturbing
        await cluster.find_ended(JOBS[0], JobState.CANCELED if is_canceled else JobState.FINISHED)
        await cluster.finish()
    finally:
        disturbing.cancel()
        await asyncio.gather(disturbing, return_exceptions=True)
        await cluster.close()


@cache
def warm_up() -> None:
    """Imports modules that are otherwise imported lazily, so that the first run does not differ from later ones."""
    for num_masters in (1, 2):
        simulate_once(1, num_masters)


def simulate(seed: int, run: Run = run) -> ServiceCluster:
    warm_up()
    return simulate_once(seed, None, run)


def simulate_once(seed: int, num_masters: int | None, run: Run = run) -> ServiceCluster:
    if num_masters is None:
        num_masters = 1 if seed % STANDALONE_EVERY == 0 else 2
    with simulation(seed) as (runner, loop, random, directory):
        loop.set_exception_handler(lambda *_: None)
        cluster = ServiceCluster(loop, random, directory, num_masters=num_masters)
        with cluster.installed():
            runner.run(run(cluster))
        return cluster


@pytest.fixture(autouse=True)
def quiet():
    """Disables logging: the log lines of thousands of faults are useless."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", range(SEEDS.start, SEEDS.stop, BATCH))
def test_no_job_is_lost_and_output_is_exact_under_any_faults(first):
    for seed in range(first, min(first + BATCH, SEEDS.stop)):
        cluster = simulate(seed)
        assert cluster.network.num_faults > 0


@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", range(SEEDS.start, SEEDS.stop, END_EVERY * BATCH))
@pytest.mark.parametrize("is_canceled", [True, False], ids=["canceled", "stopped"])
def test_an_ended_job_stays_ended_and_the_other_runs_on_under_any_faults(first, is_canceled):
    for seed in range(first, min(first + END_EVERY * BATCH, SEEDS.stop), END_EVERY):
        simulate(seed, partial(run_and_end, is_canceled=is_canceled))


@pytest.mark.parametrize("seed", SEEDS_TO_REMEMBER)
def test_seeds_of_former_failures_pass(seed):
    simulate(seed)


def test_a_seed_determines_the_run():
    """Two runs of a seed agree to the last message, so a failing seed can be reproduced."""
    assert simulate(5).network.trace.digest == simulate(5).network.trace.digest
    assert simulate(11).network.trace.digest == simulate(11).network.trace.digest


def test_a_seed_determines_the_run_in_another_process():
    """The run does not depend on the hash seed of strings."""
    script = "import test_high_availability_simulation as it; print(it.simulate(11).network.trace.digest)"
    folders = [str(folder) for folder in (Path(__file__).parent, Path(__file__).parents[1])]
    paths = os.pathsep.join([*folders, os.environ.get("PYTHONPATH", "")])
    digests = set()
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-c", script]
        digests.add(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)
    assert len(digests) == 1

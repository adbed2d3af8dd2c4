"""An adaptive job changes its parallelism while it runs, and commits the same output as one that does not."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from random import Random

from clusters import StartCluster
from test_exactly_once import INCREMENTAL, UNALIGNED
from verifying.harness import UNTIL_HURRY, VerifyingRuns
from verifying.rescales import ADAPTIVE, rescale_at_random, wait_for_parallelism


def test_a_job_grows_and_shrinks_with_its_task_executors_and_as_its_user_says(
    start_cluster: StartCluster, tmp_path: Path
) -> None:
    cluster = start_cluster(1, properties={"heartbeat.interval": "300 ms", "heartbeat.timeout": "2 s"})
    runs = VerifyingRuns(cluster, tmp_path, UNTIL_HURRY)
    with runs.started(2, **ADAPTIVE) as run:
        wait_for_parallelism(run, 1)
        cluster.add_task_executors(1)
        wait_for_parallelism(run, 2)
        assert run.num_restarts == 0, "a change of the parallelism is not a failure"
        told = cluster.flinkpy("rescale", run.job_id, "1")
        assert told.returncode == 0, told.stderr
        wait_for_parallelism(run, 1)
        for pid in cluster.job_master_pids():
            os.kill(pid, signal.SIGKILL)
        run.wait_for_checkpoints()  # of the next JobMaster
        wait_for_parallelism(run, 1)
        refused = cluster.flinkpy("rescale", run.job_id, "200")
        assert refused.returncode == 2 and "exceeds its maximum parallelism 128" in refused.stderr
        assert cluster.flinkpy("rescale", run.job_id, "2").returncode == 0
        wait_for_parallelism(run, 2)
        cluster.kill("taskexecutor-1")
        wait_for_parallelism(run, 1)
        assert run.num_restarts >= 1
        run.hurry()
        run.wait_for_end()
    runs.assert_exactly_once(run)


def test_random_rescales_with_in_flight_data_and_a_kill_cost_nothing_but_time(
    start_cluster: StartCluster, tmp_path: Path
) -> None:
    cluster = start_cluster(3, properties={"heartbeat.interval": "300 ms", "heartbeat.timeout": "2 s"})
    runs = VerifyingRuns(cluster, tmp_path, UNTIL_HURRY)
    with runs.started(2, **ADAPTIVE, **INCREMENTAL, **UNALIGNED) as run:
        rescale_at_random(run, Random(1), 3, most=3, kills_every=3)
        run.hurry()
        run.wait_for_end()
    runs.assert_exactly_once(run)

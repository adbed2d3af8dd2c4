"""An adaptive job changes its parallelism while it runs, and commits the same output as one that does not."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from clusters import StartCluster
from job_support import wait_until
from verifying.harness import UNTIL_HURRY, Run, VerifyingRuns

ADAPTIVE = {
    "jobmanager.scheduler": "Adaptive",
    "jobmanager.adaptive-scheduler.submission.resource-stabilization-timeout": "100 ms",
    "jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling": "100 ms",
    "jobmanager.adaptive-scheduler.executing.resource-stabilization-timeout": "100 ms",
}


def wait_for_parallelism(run: Run, parallelism: int) -> None:
    """Waits until all subtasks run with this highest parallelism, and another checkpoint completes."""

    def has_it() -> bool:
        vertices = run.cluster.client.request_job(run.job_id).vertices
        states = {name for vertex in vertices for name, count in vertex.tasks_per_state.items() if count}
        return max(vertex.parallelism for vertex in vertices) == parallelism and states <= {"RUNNING", "FINISHED"}

    wait_until(has_it, f"the job runs with parallelism {parallelism}")
    run.wait_for_checkpoints()


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

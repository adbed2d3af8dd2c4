"""Rescales the verifying job at random, and kills processes while it is being rescaled."""

from __future__ import annotations

import os
import signal
from random import Random

from job_support import wait_until

from flinkpy._proto import job_pb2
from flinkpy.cli.rescale import wanted_bounds
from verifying.harness import Run

PREFIX = "jobmanager.adaptive-scheduler"
ADAPTIVE = {
    "jobmanager.scheduler": "Adaptive",
    f"{PREFIX}.submission.resource-stabilization-timeout": "100 ms",
    f"{PREFIX}.executing.cooldown-after-rescaling": "100 ms",
    f"{PREFIX}.executing.resource-stabilization-timeout": "100 ms",
    # Tasks read the state of their host from its copies, as large states need it.
    "execution.checkpointing.local-backup.enabled": "true",
    "execution.state-recovery.from-local": "true",
}


def wait_for_parallelism(run: Run, parallelism: int) -> None:
    """Waits until all subtasks run with this highest parallelism, and another checkpoint completes."""

    def has_it() -> bool:
        vertices = run.cluster.client.request_job(run.job_id).vertices
        states = {name for vertex in vertices for name, count in vertex.tasks_per_state.items() if count}
        return max(vertex.parallelism for vertex in vertices) == parallelism and states <= {"RUNNING", "FINISHED"}

    wait_until(has_it, f"the job runs with parallelism {parallelism}")
    run.wait_for_checkpoints()


def rescale(run: Run, parallelism: int) -> None:
    """Sets the parallelism of all vertices. Does not wait."""
    client = run.cluster.client
    client.update_resource_requirements(
        run.job_id, wanted_bounds(client.request_job(run.job_id).vertices, [str(parallelism)])
    )


def rescale_at_random(run: Run, random: Random, count: int, *, most: int, kills_every: int = 0) -> None:
    """Rescales the job `count` times, each time to another parallelism of at most `most`.

    Args:
        kills_every: a TaskExecutor or the JobMaster is killed in each rescale with such a number; 0: in none.
    """
    run.wait_for_first_checkpoint()
    parallelism = 0
    for number in range(1, count + 1):
        parallelism = random.choice([one for one in range(1, most + 1) if one != parallelism])
        if kills_every and number % kills_every == 0:
            run.cluster.add_task_executors(1)
            before = run.cluster.client.request_job(run.job_id)
            rescale(run, parallelism)
            _kill_one(run, random, before)
        else:
            rescale(run, parallelism)
        wait_for_parallelism(run, parallelism)


def _kill_one(run: Run, random: Random, before: job_pb2.JobDetails) -> None:
    """Kills a process when the job waits for its checkpoint, or when its tasks have been stopped, or soon after.

    Args:
        before: the job before the rescale.
    """
    moment = random.choice(["at once", "stopped", "deployed"])
    if moment != "at once":
        status = "RESTARTING" if moment == "stopped" else "RUNNING"
        reached_ms = before.status_timestamps.get(status, 0)

        def has_come() -> bool:
            return run.cluster.client.request_job(run.job_id).status_timestamps.get(status, 0) > reached_ms

        wait_until(has_come, f"the job is {status} again")
    if random.random() < 0.25:
        for pid in run.cluster.job_master_pids():
            os.kill(pid, signal.SIGKILL)
        run.wait_for_checkpoints()  # of the next JobMaster
    else:
        living = [process for process in run.cluster.task_executors if process.popen.poll() is None]
        run.cluster.kill(random.choice(living).spec.name)

"""Output is exactly once while each leader is killed three times, a TaskExecutor after each checkpoint, and 20 tasks
raise.

Source: org.apache.flink.test.recovery.JobManagerHAProcessFailureRecoveryITCase,
org.apache.flink.test.checkpointing.EventTimeWindowCheckpointingITCase. Differs: the output is compared too; Flink
checks only that the job ends.
"""

from __future__ import annotations

from itertools import cycle
from pathlib import Path

import pytest
from ha_cluster import HaCluster
from job_support import wait_until
from test_exactly_once import ALIGNED, HEAP, INCREMENTAL, ROCKSDB, UNALIGNED
from verifying.harness import VerifyingRuns, Workload
from zookeeper_server import ZooKeeperServer

NUM_EXCEPTIONS = 20
#: The source has records until the last fault. A task raises within the first second after a restart.
WORKLOAD = Workload(records_per_key=2_000, rate=250, waits_for_hurry=True)
NTH_RECORD = 20
VARIANTS = [
    pytest.param({**HEAP, **ALIGNED}, id="heap"),
    pytest.param({**HEAP, **UNALIGNED}, id="heap-unaligned"),
    pytest.param({**ROCKSDB, **ALIGNED}, id="rocksdb"),
    pytest.param({**INCREMENTAL, **UNALIGNED}, id="incremental-unaligned"),
]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("variant", VARIANTS)
def test_leaders_that_die_cost_nothing_but_time(
    zookeeper: ZooKeeperServer, tmp_path: Path, variant: dict[str, str]
) -> None:
    with HaCluster(zookeeper, tmp_path, task_executors=3, session_timeout="2 s") as cluster:
        runs = VerifyingRuns(cluster, tmp_path, WORKLOAD)  # type: ignore[arg-type]
        task_executors = cycle(cluster.names("taskexecutor"))
        with runs.started(**variant) as run:
            run.wait_for_first_checkpoint()
            kinds = ("dispatcher", "job-master", "resourcemanager") * 3
            for number, kind in enumerate(kinds, start=1):
                num_exceptions = NUM_EXCEPTIONS * number // len(kinds)
                runs.faults.arm("process", "raise", NTH_RECORD, times=num_exceptions)
                kill_leader(cluster, kind)
                run.wait_for_checkpoints()
                cluster.kill(next(task_executors))
                cluster.heal()
                run.wait_for_checkpoints()
                wait_until(
                    lambda wanted=num_exceptions: runs.faults.fired("process") == wanted,  # type: ignore[misc]
                    "tasks raise",
                )
            run.hurry()
            run.wait_for_end()
            assert run.num_restarts >= 1
        runs.assert_exactly_once(run)


def kill_leader(cluster: HaCluster, kind: str) -> None:
    if kind != "job-master":
        cluster.kill(cluster.leader(kind))
        return
    for job_master in cluster.job_masters():
        job_master.kill()

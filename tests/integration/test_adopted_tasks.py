"""kill -9 of JobMasters of healthy jobs: their tasks go on, and nothing is restored."""

from __future__ import annotations

from pathlib import Path

from clusters import RunningCluster
from test_killed_job_masters import assert_exactly_once, checkpointed_counting, kill_leader, wait_for_more_output


def test_tasks_go_on_when_their_job_masters_are_killed_again_and_again(cluster: RunningCluster, tmp_path: Path) -> None:
    client = checkpointed_counting(cluster, tmp_path)
    job_id = str(client.get_job_id())
    for _ in range(3):
        wait_for_more_output(tmp_path)
        kill_leader(cluster, job_id)
    wait_for_more_output(tmp_path)

    client.get_job_execution_result().result()

    assert_exactly_once(tmp_path)
    assert cluster.client.request_checkpoint_statistics(job_id).num_restored == 0
    assert cluster.log("taskexecutor-1").count("continues the tasks of job") == 3
    assert "is FAILED" not in cluster.log("taskexecutor-1")

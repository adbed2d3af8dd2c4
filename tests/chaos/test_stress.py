"""Output is exactly once with a fault every 2 to 10 checkpoints, and with as many checkpoints as the job can take.

Source: org.apache.flink.test.checkpointing.UnalignedCheckpointStressITCase. Differs: tasks raise exceptions, and in
addition any process of the cluster is killed or suspended.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from clusters import StartCluster
from nemesis import Nemesis
from test_crash_points import SOON
from test_exactly_once import ALIGNED, BACKENDS, FAST_HEARTBEATS, FULL, MODES, REGION
from verifying.harness import VerifyingRuns, Workload

KEYS = 20
#: The records per second that two slow subtasks can process.
RATE = 400
#: The records per second of the source: more than that, so that there is always data in flight. With aligned barriers,
#: which wait behind this data, the source is slower, and data is in flight only after a restart.
OFFERED = 480
OFFERED_ALIGNED = 320
SETTINGS = {
    "execution.checkpointing.interval": "20 ms",
    "execution.checkpointing.num-retained": "2",
    "execution.checkpointing.tolerable-failed-checkpoints": "1000",
    "execution.checkpointing.timeout": "10 s",
    "restart-strategy.fixed-delay.attempts": "100000",
}
#: Small buffers, because aligned barriers wait behind all buffered data.
CLUSTER = {
    **SOON,
    **FAST_HEARTBEATS,
    "taskmanager.memory.segment-size": "4 kb",
    "taskmanager.network.memory.buffers-per-channel": "1",
}
FAILOVER = [pytest.param(REGION, id="region"), pytest.param(FULL, id="full")]


@pytest.mark.timeout(0)
@pytest.mark.parametrize("failover", FAILOVER)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_everything_is_committed_once_under_any_faults(
    start_cluster: StartCluster,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    seed: int,
    seconds: float,
    backend: dict[str, str],
    mode: dict[str, str],
    failover: dict[str, str],
) -> None:
    cluster = start_cluster(3, properties=CLUSTER, restart_services=True)
    records_per_key = max(20, int(RATE * seconds / KEYS))
    offered = OFFERED_ALIGNED if mode == ALIGNED else OFFERED
    workload = Workload(KEYS, records_per_key, offered, waits_for_hurry=True, slow_rate=RATE)
    runs = VerifyingRuns(cluster, tmp_path, workload)
    chooser = random.Random(f"{seed} {request.node.name}")
    with runs.started(**{**SETTINGS, **backend, **mode, **failover}) as run:
        run.wait_for_first_checkpoint()
        with Nemesis(cluster, run, chooser) as nemesis:
            try:
                nemesis.disturb(seconds)
                nemesis.wait_for_checkpoints(2)
            finally:
                print(f"\n{request.node.name}\n{nemesis}")  # noqa: T201 - shown where the test fails
        run.hurry()
        run.wait_for_end()
    runs.assert_exactly_once(run)

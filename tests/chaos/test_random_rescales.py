"""Output is exactly once while a job is rescaled 20 times at random, and processes die in the middle of it.

Source: org.apache.flink.test.scheduling.{RescaleOnCheckpointITCase,UpdateJobResourceRequirementsITCase}. Differs: the
output is compared too, and processes are killed.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from clusters import StartCluster
from test_exactly_once import ALIGNED, FAST_HEARTBEATS, HEAP, INCREMENTAL, ROCKSDB, UNALIGNED
from verifying.harness import VerifyingRuns, Workload
from verifying.rescales import ADAPTIVE, rescale_at_random

NUM_RESCALES = 20
#: The source has records until the last fault.
WORKLOAD = Workload(records_per_key=2_000, rate=250, waits_for_hurry=True)
VARIANTS = [
    pytest.param({**HEAP, **ALIGNED}, id="heap"),
    pytest.param({**HEAP, **UNALIGNED}, id="heap-unaligned"),
    pytest.param({**ROCKSDB, **ALIGNED}, id="rocksdb"),
    pytest.param({**INCREMENTAL, **UNALIGNED}, id="incremental-unaligned"),
]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("variant", VARIANTS)
def test_random_rescales_cost_nothing_but_time(
    start_cluster: StartCluster, tmp_path: Path, seed: int, variant: dict[str, str]
) -> None:
    cluster = start_cluster(3, properties=FAST_HEARTBEATS)
    runs = VerifyingRuns(cluster, tmp_path, WORKLOAD)
    with runs.started(2, **ADAPTIVE, **variant) as run:
        rescale_at_random(run, Random(seed), NUM_RESCALES, most=3, kills_every=3)
        run.hurry()
        run.wait_for_end()
    runs.assert_exactly_once(run)

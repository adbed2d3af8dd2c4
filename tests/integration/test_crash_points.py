"""A crash, a full disk or an error at each step that makes state durable: the output of the verifying job stays exact.

Every failpoint of checkpoints is armed in every process of the cluster. Each fires once, in the first process that
reaches it. test_file_sink_crashes.py covers the failpoints of the file sink.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from clusters import StartCluster
from job_support import wait_until
from verifying.harness import UNTIL_HURRY, VerifyingRuns

from flinkpy.common.failpoints import FAILPOINTS, SPECIFICATION_VARIABLE, TOKENS_VARIABLE

#: JobMasters die in quick succession here, and the next one must be ready at once.
SOON = {
    "flinkpy.dispatcher.standby-jobmasters": "2",
    "flinkpy.dispatcher.jobmaster-recovery.attempts": "100",
    "flinkpy.dispatcher.jobmaster-recovery.max-backoff": "10 ms",
}

#: Incremental checkpoints, to include the files that checkpoints share.
EVERYTHING_IN_FILES = {
    "state.backend.type": "rocksdb",
    "execution.checkpointing.incremental": "true",
    "execution.checkpointing.data-inline-threshold": "0 b",
}

PATIENCE_S = 100.0

#: The prefixes of failpoints that this job, without connectors and batch mode, does not come to.
OTHERS = ("file_sink.", "batch_files.", "kafka_sink.", "jdbc.", "hive_sink.", "table_sink.", "kept_result.", "archive.")
CHECKPOINT_POINTS = [name for name in FAILPOINTS if not name.startswith(OTHERS)]
#: Points at which a service writes its own state. An error there ends the service, which the test of crashes covers.
OWN_STATE = ("durable_file.", "counter.")


class Points:
    """Failpoints in all processes that are started later. Each fires once, after `release`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, directory: Path, names: list[str], action: str) -> None:
        self._names = names
        self._tokens = directory / "tokens"
        self._tokens.mkdir()
        monkeypatch.setenv(SPECIFICATION_VARIABLE, ";".join(f"{name}={action}" for name in names))
        monkeypatch.setenv(TOKENS_VARIABLE, str(self._tokens))

    def release(self) -> None:
        for name in self._names:
            (self._tokens / name).touch()

    def wait_until_all_have_fired(self) -> None:
        left: list[str] = []

        def none_left() -> bool:
            left[:] = sorted(path.name for path in self._tokens.iterdir())
            return not left

        try:
            wait_until(none_left, "every failpoint has fired", PATIENCE_S)
        except AssertionError:
            raise AssertionError(f"never came to {', '.join(left)}") from None


def test_a_crash_at_any_step_costs_nothing_but_time(
    start_cluster: StartCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crash_at_each_step(start_cluster, tmp_path, monkeypatch)


def crash_at_each_step(
    start_cluster: StartCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **settings: str
) -> None:
    points = Points(monkeypatch, tmp_path, CHECKPOINT_POINTS, "crash")
    cluster = start_cluster(2, properties=SOON, restart_services=True)
    runs = VerifyingRuns(cluster, tmp_path, UNTIL_HURRY)
    with runs.started(**{**EVERYTHING_IN_FILES, **settings}) as run:
        run.wait_for_first_checkpoint()
        points.release()
        points.wait_until_all_have_fired()
        run.hurry()
        run.wait_for_end()
    runs.assert_exactly_once(run)


@pytest.mark.chaos
@pytest.mark.parametrize("action", ["full", "error"])
def test_a_failing_disk_fails_checkpoints_and_nothing_else(
    start_cluster: StartCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    names = [name for name in CHECKPOINT_POINTS if not name.startswith(OWN_STATE)]
    points = Points(monkeypatch, tmp_path, names, action)
    cluster = start_cluster(2, restart_services=True)
    runs = VerifyingRuns(cluster, tmp_path, UNTIL_HURRY)
    with runs.started(**{**EVERYTHING_IN_FILES, "execution.checkpointing.tolerable-failed-checkpoints": "100"}) as run:
        run.wait_for_first_checkpoint()
        points.release()
        points.wait_until_all_have_fired()
        assert run.num_restarts == 0
        run.wait_for_checkpoints(1)
        run.hurry()
        run.wait_for_end()
    runs.assert_exactly_once(run)

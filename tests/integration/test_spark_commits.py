"""Commits of sinks in Spark: a failed commit is repeated, and nothing is written or committed twice."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from clusters import RunningCluster
from spark_support import require_spark, spark_environment

from flinkpy.common import Encoder, Types
from flinkpy.connector_api.sink import CommitRequest, Committer, SinkBase, SinkWriter, WriterContext
from flinkpy.datastream.connectors.file_system import FileSink

pytestmark = pytest.mark.timeout(600)

NUM_RECORDS = 1000
RESTARTS = {
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "10",
    "restart-strategy.fixed-delay.delay": "100 ms",
    # By default a failed commit would be retried at once.
    "sink.committer.retries": "0",
}


class FaultyCommits(SinkBase):
    """A FileSink whose committer fails before or after the commit, once for each file in `faults`."""

    def __init__(self, directory: Path, faults: Path) -> None:
        self._sink = FileSink.for_row_format(str(directory), Encoder.simple_string_encoder()).build()
        self._faults = str(faults / directory.name)

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return self._sink.create_writer(context)

    def create_committer(self) -> Committer:
        committer = self._sink.create_committer()
        assert committer is not None
        return FaultyCommitter(committer, self._faults)

    @property
    def committable_serializer(self) -> Any:
        return self._sink.committable_serializer


class FaultyCommitter(Committer):
    def __init__(self, committer: Committer, faults: str) -> None:
        self._committer = committer
        self._faults = faults

    def commit(self, requests: list[CommitRequest]) -> None:
        self._fail("before")
        self._committer.commit(requests)
        self._fail("after")

    def _fail(self, when: str) -> None:
        path = f"{self._faults}-{when}"
        if os.path.exists(path):
            os.unlink(path)
            raise OSError(f"a fault {when} the commit")

    def close(self) -> None:
        self._committer.close()


def test_only_failed_commits_are_repeated(engine_cluster: RunningCluster, tmp_path: Path) -> None:
    """One region has two sinks. The commit of each fails once before and once after it takes effect."""
    require_spark()
    faults = tmp_path / "faults"
    faults.mkdir()
    for point in ("first-before", "first-after", "second-before", "second-after"):
        (faults / point).touch()
    env = spark_environment(engine_cluster, 2, **RESTARTS)
    numbers = env.from_sequence(1, NUM_RECORDS).map(str, Types.STRING())
    for name in ("first", "second"):
        numbers.sink_to(FaultyCommits(tmp_path / name, faults))
    env.execute("two sinks")
    assert list(faults.iterdir()) == [], "every fault has happened"
    for name in ("first", "second"):
        files = [path for path in (tmp_path / name).rglob("*") if path.is_file() and not path.name.startswith(".")]
        lines = [int(line) for path in files for line in path.read_text().split()]
        assert sorted(lines) == list(range(1, NUM_RECORDS + 1)), f"{len(lines)} records in the {name} sink"

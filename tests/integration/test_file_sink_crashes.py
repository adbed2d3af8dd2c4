"""After a crash at each step of a FileSink, every record is in the visible files once."""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path

import pytest
from clusters import StartCluster
from job_support import FIXED_DELAY, environment

from flinkpy.common import Encoder, Types
from flinkpy.common.failpoints import FAILPOINTS, SPECIFICATION_VARIABLE, TOKENS_VARIABLE
from flinkpy.connectors.partition_commit import PartitionCommitSettings
from flinkpy.datastream import MapFunction
from flinkpy.datastream.connectors.file_system import (
    BucketAssigner,
    FileCompactor,
    FileCompactStrategy,
    FileSink,
    RollingPolicy,
)
from flinkpy.formats.bulk_writer import CsvBulkWriterFactory
from flinkpy.formats.csv_format import CsvOptions

SUCCESS_FILE = "file_sink.before_success_file"
POINTS = [name for name in FAILPOINTS if name.startswith("file_sink.") and name != SUCCESS_FILE]
COUNT = 8_000


class UntilAllHaveFired(MapFunction):
    """An identity function that is slow until all crash points have been reached."""

    def __init__(self, tokens: Path) -> None:
        self._tokens = str(tokens)

    def map(self, value: int) -> int:
        if value % 20 == 0 and os.listdir(self._tokens):
            time.sleep(0.05)
        return value


@pytest.mark.timeout(300)
@pytest.mark.parametrize("compacts", [pytest.param(False, marks=pytest.mark.chaos), True], ids=["plain", "compacting"])
def test_a_crash_at_any_step_costs_nothing_but_time(
    start_cluster: StartCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compacts: bool
) -> None:
    tokens = tmp_path / "tokens"
    tokens.mkdir()
    points = [name for name in POINTS if compacts or name != "file_sink.before_compact"]
    monkeypatch.setenv(SPECIFICATION_VARIABLE, ";".join(f"{name}=crash" for name in points))
    monkeypatch.setenv(TOKENS_VARIABLE, str(tokens))
    cluster = start_cluster(2, restart_services=True)
    for name in points:
        (tokens / name).touch()
    settings = {"execution.checkpointing.interval": "100 ms", "restart-strategy.fixed-delay.attempts": "30"}
    env = environment(cluster, **{**FIXED_DELAY, **settings})
    builder = FileSink.for_row_format(str(tmp_path / "out"), Encoder.simple_string_encoder())
    builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
    builder.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
    if compacts:
        strategy = FileCompactStrategy.builder().enable_compaction_on_checkpoint(2).build()
        builder.enable_compact(strategy, FileCompactor.concat_file_compactor())
    numbers = env.from_sequence(0, COUNT - 1).map(UntilAllHaveFired(tokens), Types.LONG())
    numbers.rebalance().map(str, Types.STRING()).sink_to(builder.build())
    env.execute("crashing")
    assert os.listdir(tokens) == []
    files = list((tmp_path / "out").iterdir())
    visible = [file for file in files if not file.name.startswith(".")]
    lines = Counter(int(line) for file in visible for line in file.read_text().splitlines())
    assert lines == Counter(range(COUNT))
    assert len(files) == len(visible)


@pytest.mark.timeout(300)
def test_a_crash_before_a_success_file_costs_a_partition_neither_rows_nor_the_file(
    start_cluster: StartCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = tmp_path / "tokens"
    tokens.mkdir()
    (tokens / SUCCESS_FILE).touch()
    monkeypatch.setenv(SPECIFICATION_VARIABLE, f"{SUCCESS_FILE}=crash")
    monkeypatch.setenv(TOKENS_VARIABLE, str(tokens))
    cluster = start_cluster(2, restart_services=True)
    settings = {"execution.checkpointing.interval": "100 ms", "restart-strategy.fixed-delay.attempts": "30"}
    env = environment(cluster, **{**FIXED_DELAY, **settings})
    row_type = Types.ROW_NAMED(["n", "part"], [Types.LONG(), Types.LONG()])
    builder = FileSink.for_bulk_format(str(tmp_path / "out"), CsvBulkWriterFactory(row_type, CsvOptions()))
    builder.with_bucket_assigner(BucketAssigner.column_bucket_assigner("part"))
    builder.with_partition_commit(PartitionCommitSettings())
    numbers = env.from_sequence(0, COUNT - 1).map(UntilAllHaveFired(tokens), Types.LONG())
    numbers.map(lambda number: (number, number % 4), row_type).sink_to(builder.build())
    env.execute("crashing")
    assert os.listdir(tokens) == []
    for part in range(4):
        folder = tmp_path / "out" / f"part={part}"
        assert (folder / "_SUCCESS").exists()
        files = [file for file in folder.iterdir() if not file.name.startswith(("_", "."))]
        lines = Counter(int(line) for file in files for line in file.read_text().splitlines())
        assert lines == Counter(range(part, COUNT, 4))

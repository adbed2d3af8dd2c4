"""FileSinks of batch jobs replace files and write success files, on both engines and once, whatever dies."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from clusters import RunningCluster, StartCluster
from engines import ENGINES, engine_properties
from job_support import environment
from test_batch_commits import RESTARTS

from flinkpy.common import Encoder, Types, WatermarkStrategy
from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.common.failpoints import FAILPOINTS, SPECIFICATION_VARIABLE, TOKENS_VARIABLE
from flinkpy.datastream import StreamExecutionEnvironment
from flinkpy.datastream.connectors.file_system import BucketAssigner, FileSink, FileSource
from flinkpy.datastream.formats.parquet import ParquetBulkWriters
from flinkpy.expressions.nodes import col

pytestmark = pytest.mark.timeout(600)

POINTS = [name for name in FAILPOINTS if name.startswith("batch_files.")]
#: Two that lie on both sides of the deletions.
SOME_POINTS = ["batch_files.after_plan", "batch_files.before_end_of_commit"]
SUCCESS = ("sink.partition-commit.policy.kind", "success-file")


class Directories:
    """An input of partitions 0 to 3, a directory with older files of partitions 2 to 4, and a plain one."""

    def __init__(self, directory: Path) -> None:
        self.input, self.table, self.lines = (directory / name for name in ("input", "table", "lines"))
        self.input.mkdir()
        numbers = pa.array(range(400), pa.int64())
        pq.write_table(pa.table({"part": pa.array([n % 4 for n in range(400)]), "n": numbers}), self.input / "one")
        for part in (2, 3, 4):
            (self.table / f"part={part}").mkdir(parents=True)
            pq.write_table(pa.table({"n": pa.array([-part], pa.int64())}), self.table / f"part={part}/old.parquet")
            (self.table / f"part={part}/_SUCCESS").touch()
        self.lines.mkdir()
        (self.lines / "old").write_text("old\n")

    def run(self, env: StreamExecutionEnvironment) -> None:
        """Replaces partitions by a pipeline of columns, and all lines by a pipeline with a Python function."""
        source = FileSource.for_parquet(str(self.input))
        records = env.from_source(source, WatermarkStrategy.no_watermarks(), "input").filter_batches(col("n") >= 100)
        table = FileSink.for_bulk_format(str(self.table), ParquetBulkWriters.for_row_type(None))
        table.with_bucket_assigner(BucketAssigner.column_bucket_assigner("part")).set_property(*SUCCESS)
        records.sink_to(table.overwrite_partitions().build())
        lines = FileSink.for_row_format(str(self.lines), Encoder.simple_string_encoder())
        lines.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).overwrite().set_property(*SUCCESS)
        records.map(lambda row: str(row.n), Types.STRING()).sink_to(lines.build())
        env.execute("replace")

    def check(self) -> None:
        """Asserts that each record is there once, that partition 4 is as before, and that nothing else is left."""
        for part in range(4):
            expected = [n for n in range(100, 400) if n % 4 == part]
            found = [n for path in self._visible(f"part={part}") for n in pq.read_table(path)["n"].to_pylist()]
            assert sorted(found) == expected
        assert [path.name for path in self._visible("part=4")] == ["old.parquet"]
        lines = [int(line) for path in self.lines.glob("part-*") for line in path.read_text().split()]
        assert sorted(lines) == list(range(100, 400))
        names = {str(path.relative_to(self.table)) for path in self.table.rglob("*") if path.name == "_SUCCESS"}
        assert names == {"_SUCCESS", *(f"part={part}/_SUCCESS" for part in range(5))}
        assert sorted(path.name[:4] for path in self.lines.iterdir() if not path.name.startswith("part-")) == [
            ".com",  # the name of the commit
            "_SUC",
        ]
        left = [path for path in self.table.rglob(".*") if not path.name.startswith(".committed-")]
        assert left == [], "hidden files of the commit are gone"

    def _visible(self, partition: str) -> list[Path]:
        return sorted(path for path in (self.table / partition).iterdir() if not path.name.startswith(("_", ".")))


@pytest.mark.parametrize("engine", ["native-batch", "spark"])
def test_files_are_replaced_on_both_engines(engine_cluster: RunningCluster, tmp_path: Path, engine: str) -> None:
    directories = Directories(tmp_path)
    directories.run(environment(engine_cluster, 2, **engine_properties(engine)))
    directories.check()


def test_replacing_files_needs_batch_mode(tmp_path: Path) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    with pytest.raises(UnsupportedOperationError, match=r"writes a success file.*execution\.runtime-mode: BATCH"):
        Directories(tmp_path).run(env)


def test_files_that_another_sink_may_still_read_are_not_replaced(tmp_path: Path) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    directories = Directories(tmp_path)
    directories.table = directories.input
    with pytest.raises(UnsupportedOperationError, match=r"replaces files of .*input, which this job reads"):
        directories.run(env)


@pytest.mark.parametrize(
    ("engine", "points"),
    [
        ("native-batch", SOME_POINTS),
        pytest.param("native-batch", POINTS, marks=pytest.mark.chaos),
        pytest.param("spark", POINTS, marks=pytest.mark.chaos),
    ],
    ids=["native-some", "native-all", "spark-all"],
)
def test_files_are_replaced_once_if_the_committer_dies_at_any_step(
    start_cluster: StartCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str, points: list[str]
) -> None:
    engine_properties(engine)
    tokens = tmp_path / "tokens"
    tokens.mkdir()
    monkeypatch.setenv(SPECIFICATION_VARIABLE, ";".join(f"{name}=crash" for name in points))
    monkeypatch.setenv(TOKENS_VARIABLE, str(tokens))
    cluster = start_cluster(2, restart_services=True)
    for name in points:
        (tokens / name).touch()
    directories = Directories(tmp_path)
    directories.run(environment(cluster, 2, **{**ENGINES[engine], **RESTARTS}))
    assert os.listdir(tokens) == [], "every crash has happened"
    directories.check()

"""Spark reads and stages files in a bucket by Hadoop's own s3a, and sinks there are committed once.

The bucket is that of moto's server. The jars of s3a are fetched once.
"""

from __future__ import annotations

import os
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from clusters import RunningCluster, running_cluster
from engines import engine_properties
from job_support import environment
from maven_jars import require_jars
from moto_server import moto_server
from pyarrow import fs
from requirements import require_spark
from test_batch_commits import RESTARTS

from flinkpy.common import Types, WatermarkStrategy
from flinkpy.common.failpoints import FAILPOINTS, SPECIFICATION_VARIABLE, TOKENS_VARIABLE
from flinkpy.datastream.aggregates import sum_
from flinkpy.datastream.connectors.file_system import BucketAssigner, FileSink, FileSource
from flinkpy.datastream.formats.parquet import ParquetBulkWriters
from flinkpy.expressions.nodes import col

pytestmark = [pytest.mark.timeout(900), pytest.mark.differential]

BUCKET = "lake"
POINTS = [name for name in FAILPOINTS if name.startswith("batch_files.")]


class Bucket:
    def __init__(self, endpoint: str) -> None:
        self.files = fs.S3FileSystem(
            access_key="key", secret_key="secret", region="us-east-1", scheme="http", endpoint_override=endpoint[7:]
        )
        #: The options of flinkpy. Spark gets its own from them.
        self.settings = {
            "s3.endpoint": endpoint,
            "s3.access-key": "key",
            "s3.secret-key": "secret",
            "s3.path.style.access": "true",
        }

    def names(self, directory: str) -> list[str]:
        found = self.files.get_file_info(fs.FileSelector(f"{BUCKET}/{directory}", recursive=True, allow_not_found=True))
        return [info.path.removeprefix(f"{BUCKET}/") for info in found if info.type == fs.FileType.File]


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    with moto_server(tmp_path_factory.mktemp("moto")) as endpoint:
        with urllib.request.urlopen(urllib.request.Request(f"{endpoint}/{BUCKET}", method="PUT"), timeout=10):
            pass
        made = Bucket(endpoint)
        for part in range(3):
            records = pa.table({"id": range(part * 100, part * 100 + 100), "k": [n % 5 for n in range(100)]})
            with made.files.open_output_stream(f"{BUCKET}/input/part={part}/records.parquet") as file:
                pq.write_table(records, file)
        yield made


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tokens")


@pytest.fixture(scope="module")
def cluster(tokens: Path, bucket: Bucket, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """A cluster whose committers die at each step of a commit for which there is a token."""
    require_spark()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SPECIFICATION_VARIABLE, ";".join(f"{name}=crash" for name in POINTS))
        patch.setenv(TOKENS_VARIABLE, str(tokens))
        directory = tmp_path_factory.mktemp("cluster")
        with running_cluster(directory, 1, 6, bucket.settings, restart_services=True) as running:
            yield running


def properties(engine: str, bucket: Bucket) -> dict[str, str]:
    found = {**engine_properties(engine), **bucket.settings, **RESTARTS}
    if engine == "spark":
        jars = sorted(require_jars("hadoop_aws").glob("*.jar"))
        found["execution.batch.spark.conf.spark.jars"] = ",".join(map(str, jars))
        found["execution.batch.spark.staging-dir"] = f"s3a://{BUCKET}/staging"
    return found


def test_spark_reads_and_stages_files_in_a_bucket(cluster: RunningCluster, bucket: Bucket) -> None:
    def run(engine: str) -> list[Any]:
        env = environment(cluster, 2, **properties(engine, bucket))
        source = FileSource.for_parquet(f"s3://{BUCKET}/input", partition_columns={"part": Types.INT()})
        records = env.from_source(source, WatermarkStrategy.no_watermarks(), "bucket").filter_batches(col("part") > 0)
        with records.key_by("k").aggregate(sum_("id")).execute_and_collect() as results:
            return sorted(tuple(row) for row in results)

    # Spark needs the settings of the bucket for its own reader, so the program's process needs them for the schema.
    from flinkpy.checkpoint.storage.file_systems import initialize_file_systems

    initialize_file_systems(bucket.settings)
    try:
        known = len(cluster.log("taskexecutor-1"))
        assert (
            run("spark")
            == run("native-batch")
            == [(k, sum(n for n in range(100, 300) if n % 5 == k)) for k in range(5)]
        )
        log = cluster.log("taskexecutor-1")[known:]
        assert "bucket: Catalyst" in log, "Spark reads the files itself"
        assert bucket.names("staging") == ["staging/.flinkpy-cleaned"], "nothing is left in the staging directory"
    finally:
        initialize_file_systems({})


@pytest.mark.parametrize("engine", ["native-batch", "spark"])
def test_a_sink_in_a_bucket_is_replaced_once_if_the_committer_dies_at_any_step(
    cluster: RunningCluster, bucket: Bucket, tokens: Path, engine: str
) -> None:
    for name in POINTS:
        (tokens / name).touch()
    env = environment(cluster, 2, **properties(engine, bucket))
    row = Types.ROW_NAMED(["part", "id"], [Types.INT(), Types.LONG()])
    with bucket.files.open_output_stream(f"{BUCKET}/{engine}/part=1/old") as file:
        file.write(b"old")
    from flinkpy.common import Row

    rows = env.from_sequence(0, 299).map(lambda number: Row(part=number % 3, id=number), row)
    sink = FileSink.for_bulk_format(f"s3://{BUCKET}/{engine}", ParquetBulkWriters.for_row_type(row))
    sink.with_bucket_assigner(BucketAssigner.column_bucket_assigner("part")).overwrite()
    sink.set_property("sink.partition-commit.policy.kind", "success-file")
    rows.sink_to(sink.build())
    env.execute("replace")
    assert os.listdir(tokens) == [], "every crash has happened"
    names = bucket.names(engine)
    found = []
    for name in names:
        if "/part-" in name:
            with bucket.files.open_input_file(f"{BUCKET}/{name}") as file:
                found += pq.read_table(file)["id"].to_pylist()
    assert sorted(found) == list(range(300))
    others = sorted(name.removeprefix(f"{engine}/")[:15] for name in names if "/part-" not in name)
    assert others[1:] == ["_SUCCESS", "part=0/_SUCCESS"[:15], "part=1/_SUCCESS"[:15], "part=2/_SUCCESS"[:15]]
    assert others[0].startswith(".committed-")

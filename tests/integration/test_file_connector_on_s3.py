"""FileSource and FileSink on other file systems: a local S3 server and a file system of fsspec."""

from __future__ import annotations

import gzip
import io
import json
import time
import urllib.request
from collections import Counter

import fastavro
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from moto_server import moto_server
from pyarrow import fs

from flinkpy.checkpoint.storage.file_systems import initialize_file_systems, process_file_systems
from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import (
    InputFormatError,
    InputNotFoundError,
    JobExecutionError,
)
from flinkpy.common.serialization import Encoder
from flinkpy.common.typeinfo import Types
from flinkpy.common.watermark_strategy import WatermarkStrategy
from flinkpy.connectors.file_source import FileSource
from flinkpy.datastream import MapFunction, StreamExecutionEnvironment
from flinkpy.datastream.connectors.file_system import BucketAssigner, FileSink
from flinkpy.datastream.formats.avro import AvroSchema
from flinkpy.datastream.formats.orc import OrcBulkWriters
from flinkpy.datastream.formats.parquet import ParquetBulkWriters
from flinkpy.formats.file_format import StreamFormat

BUCKET = "input"
FIELDS = {"id": Types.LONG(), "name": Types.STRING()}
ROWS = [{"id": i, "name": f"name {i}"} for i in range(200)]
RECORD = AvroSchema.parse_string(
    '{"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": "string"}]}'
)


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    with moto_server(tmp_path_factory.mktemp("s3")) as endpoint:
        with urllib.request.urlopen(urllib.request.Request(f"{endpoint}/{BUCKET}", method="PUT"), timeout=10):
            pass
        yield {
            "s3.endpoint": endpoint,
            "s3.access-key": "key",
            "s3.secret-key": "secret",
            "s3.path.style.access": "true",
        }


@pytest.fixture(autouse=True)
def file_systems(settings):
    initialize_file_systems(settings)
    yield
    initialize_file_systems({})


def put(name, data):
    uri = f"s3://{BUCKET}/{name}"
    file_system = process_file_systems().of(uri)
    with file_system.arrow.open_output_stream(file_system.inner(uri), compression=None) as stream:
        stream.write(data)
    return uri


def contents():
    csv = "id,name\n" + "".join(f"{row['id']},{row['name']}\n" for row in ROWS)
    lines = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
    table = pa.Table.from_pylist(ROWS)
    parquet, orc_file, avro = io.BytesIO(), io.BytesIO(), io.BytesIO()
    pq.write_table(table, parquet, row_group_size=50)
    orc.write_table(table, orc_file)
    fastavro.writer(avro, RECORD.parsed, ROWS, sync_interval=500)
    return {
        "csv": csv.encode(),
        "json": lines,
        "json.gz": gzip.compress(lines),
        "parquet": parquet.getvalue(),
        "orc": orc_file.getvalue(),
        "avro": avro.getvalue(),
    }


SOURCES = {
    "csv": FileSource.for_csv,
    "json": lambda uri: FileSource.for_json(uri, schema=FIELDS),
    "json.gz": lambda uri: FileSource.for_json(uri, schema=FIELDS),
    "parquet": FileSource.for_parquet,
    "orc": FileSource.for_orc,
    "avro": lambda uri: FileSource.for_avro(uri, as_rows=True),
}


def rows_of(env, source):
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "source")
    with stream.execute_and_collect() as results:
        return sorted((row.id, row.name) for row in results)


@pytest.fixture
def env(settings):
    configuration = Configuration()
    for key, value in settings.items():
        configuration.set_string(key, value)
    environment = StreamExecutionEnvironment.get_execution_environment(configuration)
    environment.set_parallelism(2)
    return environment


def test_a_program_reads_every_format_from_a_bucket(env):
    expected = sorted((row["id"], row["name"]) for row in ROWS)
    streams = []
    for name, data in contents().items():
        uri = put(f"formats/{name}/file.{name}", data)
        put(f"formats/{name}/_hidden", b"nothing to be seen")
        source = SOURCES[name](f"s3://{BUCKET}/formats/{name}")
        assert [split.path for split in source.list_splits(1)] == [uri]
        streams.append(env.from_source(source, WatermarkStrategy.no_watermarks(), name))
    with streams[0].union(*streams[1:]).execute_and_collect() as results:
        found = sorted((row.id, row.name) for row in results)
    assert found == sorted(expected * len(SOURCES))


def test_the_settings_of_a_program_apply_while_it_is_built(settings):
    uri = put("made/file.parquet", contents()["parquet"])
    initialize_file_systems({})
    configuration = Configuration()
    for key, value in settings.items():
        configuration.set_string(key, value)
    StreamExecutionEnvironment.get_execution_environment(configuration)
    assert FileSource.for_parquet(uri).produced_type.get_field_names() == ["id", "name"]


def test_the_error_names_a_file_that_is_missing_or_has_another_format():
    for name in ("nowhere", "nowhere/file.csv"):
        with pytest.raises(InputNotFoundError, match=f"s3://{BUCKET}/{name}"):
            FileSource.for_json(f"s3://{BUCKET}/{name}", schema=FIELDS).list_splits(1)
    uri = put("other/file", b"this is no such file")
    for make in (FileSource.for_parquet, FileSource.for_orc, FileSource.for_avro):
        with pytest.raises(InputFormatError, match=uri):
            make(uri)


def test_a_missing_bucket_fails_the_job_with_its_name(env):
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "s3://no-such-bucket/file").build()
    with pytest.raises(JobExecutionError, match="no-such-bucket"):
        rows_of(env, source)


def test_any_fsspec_file_system_can_be_used():
    fsspec = pytest.importorskip("fsspec")
    with fsspec.filesystem("memory").open("/input/a.json", "wb") as file:
        file.write(contents()["json"])
    source = FileSource.for_json("memory://input/a.json", schema=FIELDS)
    [split] = source.list_splits(1)
    reader = source._format.open(split, 1000)
    assert reader.read_batch().num_rows == len(ROWS)
    reader.close()


def visible_lines(uri):
    """Returns the lines of all visible files by file name, and the names of hidden files."""
    file_system = process_file_systems().of(uri)
    selector = fs.FileSelector(file_system.inner(uri), recursive=True)
    files = [info for info in file_system.arrow.get_file_info(selector) if info.type == fs.FileType.File]
    lines = {}
    for info in files:
        if not info.base_name.startswith("."):
            with file_system.arrow.open_input_file(info.path) as file:
                lines[info.path] = file.read().decode().splitlines()
    return lines, [info.base_name for info in files if info.base_name.startswith(".")]


def sink_to(uri, factory=None):
    if factory is None:
        builder = FileSink.for_row_format(uri, Encoder.simple_string_encoder())
    else:
        builder = FileSink.for_bulk_format(uri, factory)
    return builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()


class FailOnce(MapFunction):
    """Fails once at a number, in the first attempt of its task."""

    def open(self, runtime_context):
        self._attempt = runtime_context.get_attempt_number()

    def map(self, value):
        if value % 100 == 0:
            time.sleep(0.01)
        if value == 2500 and self._attempt == 0:
            raise RuntimeError("failing once")
        return value


def test_a_program_writes_to_a_bucket_exactly_once(env):
    configuration = env.get_configuration()
    configuration.set_string("execution.checkpointing.interval", "100 ms")
    configuration.set_string("restart-strategy.type", "fixed-delay")
    configuration.set_string("restart-strategy.fixed-delay.delay", "0 s")
    # The client gives up after three seconds without an answer. Even then no record may be repeated.
    configuration.set_string("restart-strategy.fixed-delay.attempts", "10")
    uri = f"s3://{BUCKET}/program"
    row_type = Types.ROW_NAMED(["number"], [Types.LONG()])
    numbers = env.from_sequence(0, 4999).map(FailOnce(), Types.LONG())
    numbers.map(str, Types.STRING()).sink_to(sink_to(f"{uri}/lines"))
    rows = numbers.map(lambda number: (number,), row_type)
    rows.sink_to(sink_to(f"{uri}/parquet", ParquetBulkWriters.for_row_type(row_type)))
    rows.sink_to(sink_to(f"{uri}/orc", OrcBulkWriters.for_row_type(row_type)))
    env.execute("to a bucket")
    lines, hidden = visible_lines(f"{uri}/lines")
    assert hidden == []
    assert Counter(int(line) for file in lines.values() for line in file) == Counter(range(5000))
    sources = [FileSource.for_parquet(f"{uri}/parquet"), FileSource.for_orc(f"{uri}/orc")]
    streams = [env.from_source(source, WatermarkStrategy.no_watermarks(), "again") for source in sources]
    with streams[0].union(streams[1]).execute_and_collect() as results:
        assert Counter(row.number for row in results) == Counter([*range(5000)] * 2)

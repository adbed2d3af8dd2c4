"""FileSource on file systems that are not this host's: a local S3 server, and one of fsspec's."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
import urllib.request

import fastavro
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from requirements import require

from flinkpy.checkpoint.storage.file_systems import initialize_file_systems, process_file_systems
from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import InputFormatError, InputNotFoundError, JobExecutionError
from flinkpy.common.typeinfo import Types
from flinkpy.common.watermark_strategy import WatermarkStrategy
from flinkpy.connectors.file_source import FileSource
from flinkpy.datastream import StreamExecutionEnvironment
from flinkpy.datastream.formats.avro import AvroSchema
from flinkpy.formats.file_format import StreamFormat

BUCKET = "input"
FIELDS = {"id": Types.LONG(), "name": Types.STRING()}
ROWS = [{"id": i, "name": f"name {i}"} for i in range(200)]
RECORD = AvroSchema.parse_string(
    '{"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": "string"}]}'
)


@pytest.fixture(scope="module")
def settings():
    try:
        import flask  # noqa: F401
        import moto  # noqa: F401
    except ImportError:
        require("S3", False, "a local server: install the package moto[server]")
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    try:
        endpoint = ""
        for line in server.stderr:
            if "Running on http://" in line:
                endpoint = line.split("Running on ")[1].strip()
                break
        assert endpoint, f"the S3 server did not start: {server.poll()}"
        with urllib.request.urlopen(urllib.request.Request(f"{endpoint}/{BUCKET}", method="PUT"), timeout=10):
            pass
        yield {
            "s3.endpoint": endpoint,
            "s3.access-key": "key",
            "s3.secret-key": "secret",
            "s3.path.style.access": "true",
        }
    finally:
        server.kill()
        server.communicate()


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


def test_what_is_missing_or_of_another_format_is_named():
    for name in ("nowhere", "nowhere/file.csv"):
        with pytest.raises(InputNotFoundError, match=f"s3://{BUCKET}/{name}"):
            FileSource.for_json(f"s3://{BUCKET}/{name}", schema=FIELDS).list_splits(1)
    uri = put("other/file", b"this is no such file")
    for make in (FileSource.for_parquet, FileSource.for_orc, FileSource.for_avro):
        with pytest.raises(InputFormatError, match=uri):
            make(uri)


def test_a_missing_bucket_fails_the_job_and_is_named(env):
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "s3://no-such-bucket/file").build()
    with pytest.raises(JobExecutionError, match="no-such-bucket"):
        rows_of(env, source)


def test_other_file_systems_come_with_fsspec():
    fsspec = pytest.importorskip("fsspec")
    with fsspec.filesystem("memory").open("/input/a.json", "wb") as file:
        file.write(contents()["json"])
    source = FileSource.for_json("memory://input/a.json", schema=FIELDS)
    [split] = source.list_splits(1)
    reader = source._format.open(split, 1000)
    assert reader.read_batch().num_rows == len(ROWS)
    reader.close()

"""Programs that read and write each family of file formats, on real processes."""

from __future__ import annotations

import json
import os
from collections import Counter
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest
from job_support import environment
from verifying.sequence_source import SequencePerKeySource

from flinkpy.common import Encoder
from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import JobExecutionError
from flinkpy.common.typeinfo import Types
from flinkpy.common.types import Row
from flinkpy.common.watermark_strategy import WatermarkStrategy
from flinkpy.datastream import MapFunction
from flinkpy.datastream.checkpointed_function import CheckpointListener
from flinkpy.datastream.connectors.file_system import (
    BucketAssigner,
    FileCompactor,
    FileCompactStrategy,
    FileSink,
    FileSource,
    OutputFileConfig,
    RollingPolicy,
    StreamingFileSink,
)
from flinkpy.datastream.formats.avro import AvroBulkWriters, AvroInputFormat, AvroSchema, GenericRecordAvroTypeInfo
from flinkpy.datastream.formats.csv import CsvBulkWriters, CsvReaderFormat, CsvSchema
from flinkpy.datastream.formats.json import JsonBulkWriters, JsonReaderFormat
from flinkpy.datastream.formats.orc import OrcBulkWriters
from flinkpy.datastream.formats.parquet import (
    AvroParquetReaders,
    AvroParquetWriters,
    ParquetBulkWriters,
    ParquetColumnarRowInputFormat,
)
from flinkpy.datastream.output_tag import OutputTag
from flinkpy.formats.bad_records import BAD_RECORD_TYPE

RECORD = AvroSchema.parse_string(
    json.dumps(
        {
            "type": "record",
            "name": "test",
            "fields": [
                {"name": "suit", "type": {"type": "enum", "name": "Suit", "symbols": ["SPADES", "HEARTS"]}},
                {"name": "union", "type": ["int", "double", "null"]},
                {
                    "name": "array",
                    "type": {
                        "type": "array",
                        "items": {"type": "record", "name": "item", "fields": [{"name": "int", "type": "int"}]},
                    },
                },
                {"name": "map", "type": {"type": "map", "values": "long"}},
            ],
        }
    )
)
RECORDS = [
    {"suit": "SPADES", "union": 1, "array": [{"int": 1}, {"int": 2}], "map": {"a": 1, "b": 2}},
    {"suit": "HEARTS", "union": 2.5, "array": [], "map": {}},
    {"suit": "SPADES", "union": None, "array": [{"int": -1}], "map": {"c": 3}},
]
ROW_TYPE = Types.ROW_NAMED(
    ["text", "bytes", "ok", "dec", "int", "big", "double", "day", "at", "list", "map"],
    [
        Types.STRING(),
        Types.PRIMITIVE_ARRAY(Types.BYTE()),
        Types.BOOLEAN(),
        Types.BIG_DEC(),
        Types.INT(),
        Types.LONG(),
        Types.DOUBLE(),
        Types.SQL_DATE(),
        Types.SQL_TIMESTAMP(),
        Types.LIST(Types.INT()),
        Types.MAP(Types.STRING(), Types.LONG()),
    ],
)
ROWS = [
    (
        "a",
        b"\0\xff",
        True,
        Decimal("1.500000000000000000"),
        2**31 - 1,
        -(2**63),
        2e-308,
        date(1970, 1, 1),
        datetime(1970, 1, 2, 3, 4, 5, 600000),
        [1, None, 3],
        {"k": 1},
    ),
    (None,) * 11,
]


@pytest.fixture
def env(shared_cluster):
    return environment(shared_cluster, 1)


def bulk_sink(path, factory):
    builder = FileSink.for_bulk_format(str(path), factory)
    return builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()


def collected(stream):
    with stream.execute_and_collect() as results:
        return list(results)


def source_of(env, source, name="source"):
    return env.from_source(source, WatermarkStrategy.no_watermarks(), name)


def test_avro_records_survive_a_round_trip_through_avro_and_parquet_files(env, tmp_path):
    stream = env.from_collection(RECORDS).map(lambda record: record, output_type=GenericRecordAvroTypeInfo(RECORD))
    stream.sink_to(bulk_sink(tmp_path / "avro", AvroBulkWriters.for_generic_record(RECORD)))
    stream.sink_to(bulk_sink(tmp_path / "parquet", AvroParquetWriters.for_generic_record(RECORD)))
    env.execute("write")
    from_avro = env.create_input(AvroInputFormat(str(tmp_path / "avro"), RECORD)).map(lambda r: ("avro", r))
    reader = AvroParquetReaders.for_generic_record(RECORD)
    parquet = FileSource.for_record_stream_format(reader, str(tmp_path / "parquet")).build()
    from_parquet = source_of(env, parquet).map(lambda r: ("parquet", r))
    found = collected(from_avro.union(from_parquet))
    assert [record for name, record in found if name == "avro"] == RECORDS
    assert [record for name, record in found if name == "parquet"] == RECORDS


def test_rows_survive_a_round_trip_through_parquet_orc_and_json_files(env, tmp_path):
    stream = env.from_collection(ROWS, type_info=ROW_TYPE)
    stream.sink_to(bulk_sink(tmp_path / "parquet", ParquetBulkWriters.for_row_type(ROW_TYPE, utc_timestamp=True)))
    stream.sink_to(bulk_sink(tmp_path / "orc", OrcBulkWriters.for_row_type(ROW_TYPE, {"orc.compress": "ZSTD"})))
    stream.sink_to(bulk_sink(tmp_path / "json", JsonBulkWriters.for_row_type()))
    env.execute("write")
    sources = {
        "parquet": FileSource.for_bulk_file_format(
            ParquetColumnarRowInputFormat(ROW_TYPE, Configuration(), 10, True, False), str(tmp_path / "parquet")
        ).build(),
        "orc": FileSource.for_orc(str(tmp_path / "orc")),
        "json": FileSource.for_record_stream_format(
            JsonReaderFormat.for_row_type(ROW_TYPE), str(tmp_path / "json")
        ).build(),
    }
    streams = [
        source_of(env, source, name).map(lambda row, name=name: (name, tuple(row))) for name, source in sources.items()
    ]
    found = collected(streams[0].union(*streams[1:]))
    for name in sources:
        assert [row for of, row in found if of == name] == ROWS, name


def test_csv_files_are_read_and_written_as_flink_does(env, tmp_path):
    (tmp_path / "in.csv").write_text('# comment\n127|"string"|a;b\n-1|"two words"|\n')
    schema = (
        CsvSchema.builder()
        .add_number_column("number", Types.BYTE())
        .add_string_column("string")
        .add_array_column("list")
        .set_column_separator("|")
        .set_allow_comments()
        .build()
    )
    reader = CsvReaderFormat.for_schema(schema)
    source = FileSource.for_record_stream_format(reader, str(tmp_path / "in.csv")).build()
    source_of(env, source).sink_to(bulk_sink(tmp_path / "out", CsvBulkWriters.for_schema(schema)))
    env.execute("copy")
    [file] = (tmp_path / "out").iterdir()
    assert file.read_text() == '127|"string"|"a;b"\n-1|"two words"|\n'


BAD = OutputTag("bad", BAD_RECORD_TYPE)


@pytest.mark.parametrize("typed", [True, False])
def test_unparsable_lines_go_to_a_side_output(env, tmp_path, typed):
    tag = BAD if typed else OutputTag("bad")
    lines = [f'{{"id": {i}}}' if i % 10 else f"bad {i}" for i in range(1000)]
    (tmp_path / "in.json").write_text("\n".join(lines))
    source = FileSource.for_json(str(tmp_path / "in.json"), schema={"id": Types.LONG()}, on_error=tag)
    stream = source_of(env, source)
    good = stream.map(lambda row: ("good", row.id, ""))
    bad = stream.get_side_output(tag).map(lambda record: ("bad", record[0].decode(), record[1]))
    found = collected(good.union(bad))
    assert sorted(number for kind, number, _ in found if kind == "good") == [i for i in range(1000) if i % 10]
    assert sorted(raw for kind, raw, _ in found if kind == "bad") == sorted(f"bad {i}" for i in range(0, 1000, 10))
    assert all("the text is not JSON" in error for kind, _, error in found if kind == "bad")


def test_an_unparsable_line_fails_the_job_and_the_error_names_it(env, tmp_path):
    (tmp_path / "in.json").write_text('{"id": 1}\n\n{"id": "x"}\n')
    source = FileSource.for_json(str(tmp_path / "in.json"), schema={"id": Types.LONG()})
    with pytest.raises(JobExecutionError, match=r"""in.json, line 3: field 'id': "x" is not an integer"""):
        collected(source_of(env, source))


class FailTwice(MapFunction, CheckpointListener):
    """An identity function. Its first two attempts fail when they are notified of their third checkpoint."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._completed = 0

    def open(self, runtime_context: Any) -> None:
        self._attempt = runtime_context.get_attempt_number()

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._completed += 1
        if self._attempt < 2 and self._completed == 3:
            try:
                os.close(os.open(os.path.join(self._directory, f"failed-{self._attempt}"), os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return
            raise RuntimeError(f"failing in attempt {self._attempt}")

    def map(self, value: Any) -> Any:
        return value


def test_compacted_files_contain_every_record_once_despite_failures(shared_cluster, tmp_path):
    options = {
        "execution.checkpointing.interval": "100 ms",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "10",
        "restart-strategy.fixed-delay.delay": "0 s",
    }
    env = environment(shared_cluster, 2, **options)
    sink = (
        FileSink.for_row_format(str(tmp_path / "out"), Encoder.simple_string_encoder())
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        .enable_compact(
            FileCompactStrategy.builder().enable_compaction_on_checkpoint(3).build(),
            FileCompactor.concat_file_compactor(),
        )
        .build()
    )
    keys, records_per_key = 2, 10_000
    # The job does not end before the second failure.
    source = SequencePerKeySource(keys, records_per_key, 20_000, hurry=tmp_path / "failed-1")
    records = source_of(env, source).map(FailTwice(str(tmp_path)), source.produced_type)
    records.map(lambda record: str(record[0] * records_per_key + record[1]), Types.STRING()).sink_to(sink)
    env.execute("compact")
    assert len(list(tmp_path.glob("failed-*"))) == 2
    files = list((tmp_path / "out").iterdir())
    assert [file.name for file in files if file.name.startswith(".")] == []
    lines = [line for file in files for line in file.read_text().splitlines()]
    assert Counter(map(int, lines)) == Counter(range(keys * records_per_key))


def test_rows_keep_their_types_in_the_stream(env, tmp_path):
    (tmp_path / "in.json").write_text('{"id": 1, "name": "a"}\n')
    row_type = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])
    stream = source_of(env, FileSource.for_json(str(tmp_path / "in.json"), schema=row_type))
    assert stream.get_type() == row_type
    assert collected(stream) == [Row(id=1, name="a")]


def test_the_legacy_file_sink_can_be_added_with_add_sink(env, tmp_path):
    env.set_parallelism(2)
    rows = [("ab", 1), ("bdc", 2), ("cfgs", 3), ("deeefg", 4)]
    stream = env.from_collection(rows, type_info=Types.ROW([Types.STRING(), Types.INT()]))
    stream.map(lambda row: row[0], Types.STRING()).add_sink(
        StreamingFileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder())
        .with_rolling_policy(
            RollingPolicy.default_rolling_policy(
                part_size=1024 * 1024 * 1024, rollover_interval=15 * 60 * 1000, inactivity_interval=5 * 60 * 1000
            )
        )
        .with_output_file_config(
            OutputFileConfig.OutputFileConfigBuilder().with_part_prefix("prefix").with_part_suffix("suffix").build()
        )
        .build()
    )
    env.execute("test_streaming_file_sink")
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert all(file.name.startswith("prefix-") and file.name.endswith("suffix") for file in files)
    assert sorted(line for file in files for line in file.read_text().splitlines()) == ["ab", "bdc", "cfgs", "deeefg"]

"""Programs that read and write each family of file formats, on real processes."""

from __future__ import annotations

import json

import pytest

from flinkpy.common.typeinfo import Types
from flinkpy.common.watermark_strategy import WatermarkStrategy
from flinkpy.datastream import StreamExecutionEnvironment
from flinkpy.datastream.connectors.file_system import BucketAssigner, FileSink, FileSource
from flinkpy.datastream.formats.avro import AvroBulkWriters, AvroInputFormat, AvroSchema, GenericRecordAvroTypeInfo

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


@pytest.fixture
def env():
    environment = StreamExecutionEnvironment.get_execution_environment()
    environment.set_parallelism(1)
    return environment


def bulk_sink(path, factory):
    builder = FileSink.for_bulk_format(str(path), factory)
    return builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()


def collected(stream):
    with stream.execute_and_collect() as results:
        return list(results)


def test_avro_records_are_written_and_read(env, tmp_path):
    stream = env.from_collection(RECORDS).map(lambda record: record, output_type=GenericRecordAvroTypeInfo(RECORD))
    stream.sink_to(bulk_sink(tmp_path, AvroBulkWriters.for_generic_record(RECORD)))
    env.execute("write")
    assert collected(env.create_input(AvroInputFormat(str(tmp_path), RECORD)).map(lambda r: r)) == RECORDS


__all__ = ["FileSource", "Types", "WatermarkStrategy"]

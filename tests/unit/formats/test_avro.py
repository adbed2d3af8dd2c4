"""Avro: files, messages, and records in Parquet files."""

from __future__ import annotations

import datetime
import io
import json
import pickle
from decimal import Decimal

import fastavro
import pyarrow.parquet as pq
import pytest
from connector_fakes import TestingWriterContext, read_splits
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkpy.common.errors import (
    InputFormatError,
    InputNotFoundError,
    TypeMismatchError,
    UnsupportedOperationError,
)
from flinkpy.common.typeinfo import Types
from flinkpy.common.types import Row
from flinkpy.connectors.file_sink import FileSink
from flinkpy.connectors.file_sink_config import BucketAssigner
from flinkpy.connectors.file_source import FileSource
from flinkpy.datastream.formats.avro import (
    AvroBulkWriters,
    AvroInputFormat,
    AvroRowDeserializationSchema,
    AvroRowSerializationSchema,
    AvroSchema,
    GenericRecordAvroTypeInfo,
)
from flinkpy.datastream.formats.parquet import AvroParquetReaders, AvroParquetWriters
from flinkpy.formats.schema import decode_messages, encode_batch
from flinkpy.records.batch import Batch
from flinkpy.records.lanes import to_columns
from flinkpy.streaming.operators.committables import Committables


def record(*fields, **more):
    return AvroSchema.parse_string(
        json.dumps({"type": "record", "name": "test", "fields": [{"name": n, "type": t} for n, t in fields], **more})
    )


FIELDS = ["null", "boolean", "int", "long", "float", "double", "string", "bytes"]
BASIC = (
    record(*zip(FIELDS, FIELDS)),
    [
        dict(zip(FIELDS, [None, True, 0, 1, 2.0, 3.0, "s1", b""])),
        {
            "null": None,
            "boolean": False,
            "int": -4,
            "long": 1 << 60,
            "float": 6.5,
            "double": 7e300,
            "string": "é",
            "bytes": b"\0\xff",
        },
    ],
)
ENUM = (
    record(("suit", {"type": "enum", "name": "Suit", "symbols": ["SPADES", "HEARTS", "DIAMONDS", "CLUBS"]})),
    [{"suit": "SPADES"}, {"suit": "DIAMONDS"}],
)
UNION = (record(("union", ["int", "double", "null"])), [{"union": 1}, {"union": 2.5}, {"union": None}])
ITEM = {
    "type": "record",
    "name": "item",
    "fields": [{"name": "int", "type": "int"}, {"name": "double", "type": "double"}],
}
ARRAY = (
    record(("array", {"type": "array", "items": ITEM})),
    [{"array": [{"int": 1, "double": 2.0}, {"int": 3, "double": 4.0}]}, {"array": []}],
)
MAP = (record(("map", {"type": "map", "values": "long"})), [{"map": {"a": 1, "b": 2}}, {"map": {}}])
LOGICAL = (
    record(
        ("date", {"type": "int", "logicalType": "date"}),
        ("time", {"type": "long", "logicalType": "time-micros"}),
        ("at", ["null", {"type": "long", "logicalType": "timestamp-millis"}]),
        ("dec", {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}),
        ("fixed", {"type": "fixed", "name": "four", "size": 4}),
        ("again", ["null", "four"]),
        ("nested", {"type": "map", "values": {"type": "array", "items": ["null", ITEM, "string"]}}),
    ),
    [
        {
            "date": datetime.date(2020, 2, 29),
            "time": datetime.time(1, 2, 3, 4),
            "at": datetime.datetime(2020, 2, 29, 1, 2, 3, 4000, tzinfo=datetime.UTC),
            "dec": Decimal("-12345678.90"),
            "fixed": b"abcd",
            "again": None,
            "nested": {"k": [None, {"int": 1, "double": 0.5}, "text"], "empty": []},
        },
    ],
)
CASES = {"basic": BASIC, "enum": ENUM, "union": UNION, "array": ARRAY, "map": MAP, "logical": LOGICAL}


def write(path, factory, records, input_type=None):
    builder = FileSink.for_bulk_format(str(path), factory)
    sink = builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()
    writer = pickle.loads(pickle.dumps(sink)).create_writer(TestingWriterContext(input_type=input_type))
    try:
        writer.write(Batch(records))
        writer.flush(True)
        written = Committables()
        written.add(1, writer.prepare_commit())
        written.commit_up_to(1, sink.create_committer(), 0)
    finally:
        writer.close()
    [file] = path.iterdir()
    return file


def read(source):
    source = pickle.loads(pickle.dumps(source))
    return [row for batch in read_splits(source, source.list_splits(1)) for row in batch.values]


@pytest.mark.parametrize("case", CASES)
def test_records_are_written_and_read(tmp_path, case):
    schema, records = CASES[case]
    file = write(tmp_path, AvroBulkWriters.for_generic_record(schema), records)
    with file.open("rb") as content:
        assert list(fastavro.reader(content)) == records
    source = AvroInputFormat(str(file), schema).to_source()
    assert source.produced_type == GenericRecordAvroTypeInfo(schema)
    assert read(source) == records


@pytest.mark.parametrize("case", CASES)
def test_records_survive_a_round_trip_through_parquet(tmp_path, case):
    schema, records = CASES[case]
    file = write(tmp_path, AvroParquetWriters.for_generic_record(schema), records)
    assert pq.ParquetFile(file).metadata.metadata[b"parquet.avro.schema"].decode() == str(schema)
    reader = AvroParquetReaders.for_generic_record(schema)
    assert read(FileSource.for_record_stream_format(reader, str(file)).build()) == records


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz"])
def test_blocks_may_be_compressed(tmp_path, codec):
    schema, records = BASIC
    with (tmp_path / "a.avro").open("wb") as file:
        fastavro.writer(file, schema.parsed, records * 50, codec=codec, sync_interval=100)
    assert read(FileSource.for_avro(str(tmp_path / "a.avro"))) == records * 50


@pytest.mark.parametrize("codec", ["snappy", "zstandard"])
def test_codecs_of_arrow_are_used(tmp_path, codec):
    """Reads files in the form in which other Avro libraries write them."""
    import zlib

    import pyarrow as pa

    schema, records = ENUM
    plain = io.BytesIO()
    fastavro.writer(plain, schema.parsed, records, sync_marker=b"S" * 16)
    header, block, _ = plain.getvalue().split(b"S" * 16)
    count, data = block[:1], block[2:]
    packed = pa.Codec("snappy" if codec == "snappy" else "zstd").compress(data, asbytes=True)
    if codec == "snappy":
        packed += zlib.crc32(data).to_bytes(4, "big")
    name = codec.encode()
    header = header.replace(b"\x08null", bytes([2 * len(name)]) + name)
    (tmp_path / "a.avro").write_bytes(header + b"S" * 16 + count + bytes([2 * len(packed)]) + packed + b"S" * 16)
    assert read(FileSource.for_avro(str(tmp_path / "a.avro"), schema=schema)) == records


def test_older_records_are_read_with_a_newer_schema(tmp_path):
    old = record(("id", "int"), ("gone", "string"))
    new = AvroSchema.parse_string(
        '{"type": "record", "name": "test", "fields": '
        '[{"name": "id", "type": "long"}, {"name": "added", "type": "string", "default": "none"}]}'
    )
    file = write(tmp_path, AvroBulkWriters.for_generic_record(old), [{"id": 1, "gone": "x"}])
    assert read(FileSource.for_avro(str(file), schema=new)) == [{"id": 1, "added": "none"}]
    for other, problem in ((record(("other", "int")), "does not fit"), (record(("id", "string")), "does not fit")):
        with pytest.raises(InputFormatError, match=problem):
            read(FileSource.for_avro(str(file), schema=other))


def test_records_are_returned_as_rows_on_demand(tmp_path):
    schema, records = ARRAY
    file = write(tmp_path, AvroBulkWriters.for_generic_record(schema), records)
    source = FileSource.for_avro(str(file), as_rows=True)
    item = Types.ROW_NAMED(["int", "double"], [Types.INT(), Types.DOUBLE()])
    assert source.produced_type == Types.ROW_NAMED(["array"], [Types.OBJECT_ARRAY(item)])
    assert read(source) == [Row(array=[Row(int=1, double=2.0), Row(int=3, double=4.0)]), Row(array=[])]


def test_rows_are_written_as_records(tmp_path):
    schema, _ = ARRAY
    rows = [Row(array=[Row(int=1, double=2.0)])]
    file = write(tmp_path, AvroBulkWriters.for_generic_record(schema), rows)
    assert read(FileSource.for_avro(str(file))) == [{"array": [{"int": 1, "double": 2.0}]}]


@pytest.mark.parametrize("factory", [AvroBulkWriters.for_generic_record, AvroParquetWriters.for_generic_record])
@pytest.mark.parametrize(
    ("bad", "problem"),
    [({"suit": "STARS"}, "STARS"), ({}, "suit"), ({"suit": None}, "suit")],
)
def test_the_error_names_a_record_that_does_not_match_the_schema(tmp_path, factory, bad, problem):
    with pytest.raises(TypeMismatchError, match=problem) as raised:
        write(tmp_path, factory(ENUM[0]), [{"suit": "HEARTS"}, bad])
    assert repr(bad) in str(raised.value)


DECIMAL = record(("dec", {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}))


@pytest.mark.parametrize("factory", [AvroBulkWriters.for_generic_record, AvroParquetWriters.for_generic_record])
@pytest.mark.parametrize("number", ["1.005", "12345.6", "1234.56"])
def test_the_error_names_a_decimal_that_does_not_fit_the_schema(tmp_path, factory, number):
    """In Flink, Avro's conversion refuses such a decimal, too."""
    with pytest.raises(TypeMismatchError, match=number):
        write(tmp_path, factory(DECIMAL), [{"dec": Decimal(number)}])


@pytest.mark.parametrize("number", ["1.005", "12345.6", "1234.56"])
def test_a_decimal_is_not_rounded_in_a_message(number):
    schema = AvroRowSerializationSchema(avro_schema_string=str(DECIMAL))
    with pytest.raises(
        TypeMismatchError, match=rf"Row\(Decimal\('{number}'\)\).* does not match the Avro schema: .*(decimal|Decimal)"
    ) as raised:
        schema.serialize(Row(Decimal(number)))
    assert "field names" not in str(raised.value)  # the Row is valid, but its number is not
    assert AvroRowDeserializationSchema(avro_schema_string=str(DECIMAL)).deserialize(
        schema.serialize(Row(dec=Decimal("1.5")))
    ) == Row(dec=Decimal("1.50"))


def damaged(tmp_path, change):
    path = tmp_path / "a.avro"
    content = io.BytesIO()
    records = [{"id": i, "name": "n" * 10} for i in range(12)]
    schema = record(("id", "long"), ("name", "string"))
    fastavro.writer(content, schema.parsed, records, sync_interval=40, sync_marker=b"S" * 16)
    path.write_bytes(change(content.getvalue()))
    return str(path), schema, records


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda data: b"PAR1" + data[4:], r"not an Avro file: it begins with b'PAR1'"),
        (lambda data: data[:3], "ends within its header"),
        (lambda data: data[:40], "ends within its header"),
        (lambda data: data.replace(b'"type"', b'"tipe"'), "schema"),
        (lambda data: data.replace(b'{"type"', b'}"type"'), "no readable schema"),
        (lambda data: data[:-5], "damaged or truncated"),
        (lambda data: data[:-27] + b"\x7f" + data[-26:], "cannot be read"),
        (lambda data: data[:-16] + b"T" * 16, "no sync marker"),
        (lambda data: data.replace(b"\x08null", b"\x08lzip"), "'lzip' is unknown"),
    ],
)
def test_the_error_names_a_damaged_file(tmp_path, change, problem):
    path, schema, _ = damaged(tmp_path, change)
    with pytest.raises(InputFormatError, match=problem) as raised:
        read(FileSource.for_avro(path, schema=schema))
    assert raised.value.details["path"] == path
    assert path in str(raised.value)


def test_damaged_blocks_are_skipped_on_demand(tmp_path):
    def spoil_the_second_block(data):
        parts = data.split(b"S" * 16)
        parts[2] = b"\x00\x7f" + parts[2][2:]
        return (b"S" * 16).join(parts)

    path, schema, records = damaged(tmp_path, spoil_the_second_block)
    found = read(FileSource.for_avro(path, schema=schema, on_error="skip"))
    assert found == [row for row in records if row in found]
    assert len(records) - 6 <= len(found) < len(records)
    truncated, schema, records = damaged(tmp_path, lambda data: data[:-5])
    found = read(FileSource.for_avro(truncated, schema=schema, on_error="skip"))
    assert found == records[: len(found)]
    assert found


def test_the_error_names_a_missing_file(tmp_path):
    with pytest.raises(InputNotFoundError, match="nowhere"):
        FileSource.for_avro(str(tmp_path / "nowhere"))


def test_schemas_can_be_compared_and_pickled(tmp_path):
    text = '{ "type": "record", "name": "a.b", "fields": [ {"name": "x", "type": "int"} ] }'
    schema = AvroSchema.parse_string(text)
    (tmp_path / "s.avsc").write_text(text)
    assert schema == AvroSchema.parse_file(str(tmp_path / "s.avsc")) == pickle.loads(pickle.dumps(schema))
    assert str(schema) == '{"type":"record","name":"a.b","fields":[{"name":"x","type":"int"}]}'
    info = GenericRecordAvroTypeInfo(schema)
    assert info == pickle.loads(pickle.dumps(info))
    assert info != GenericRecordAvroTypeInfo(ENUM[0])
    for wrong in ("{", '{"type": "nothing"}', '{"type": "record", "fields": []}'):
        with pytest.raises(ValueError, match="Avro schema"):
            AvroSchema.parse_string(wrong)
    with pytest.raises(UnsupportedOperationError, match="Java"):
        AvroSchema(object())
    with pytest.raises(TypeError, match="AvroSchema"):
        GenericRecordAvroTypeInfo(text)


# -- messages ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
def test_messages_are_converted_to_rows_and_back(case):
    schema, records = CASES[case]
    reading = pickle.loads(pickle.dumps(AvroRowDeserializationSchema(avro_schema_string=str(schema))))
    writing = pickle.loads(pickle.dumps(AvroRowSerializationSchema(avro_schema_string=str(schema))))
    messages = []
    for item in records:
        content = io.BytesIO()
        fastavro.schemaless_writer(content, schema.parsed, item)
        messages.append(content.getvalue())
    rows = [reading.deserialize(message) for message in messages]
    assert all(isinstance(row, Row) for row in rows)
    batch = decode_messages(reading, [None, *messages]).batch
    assert batch.values == rows
    assert encode_batch(writing, batch, reading.get_produced_type()) == messages
    assert encode_batch(writing, Batch([row.as_dict() for row in rows]), None)[:1] == messages[:1]


def test_a_schema_has_a_row_type():
    schema = LOGICAL[0]
    item = Types.PICKLED_BYTE_ARRAY()  # a union of several types
    assert AvroRowDeserializationSchema(avro_schema_string=str(schema)).get_produced_type() == Types.ROW_NAMED(
        ["date", "time", "at", "dec", "fixed", "again", "nested"],
        [
            Types.SQL_DATE(),
            Types.SQL_TIME(),
            Types.SQL_TIMESTAMP(),
            Types.BIG_DEC(),
            Types.PRIMITIVE_ARRAY(Types.BYTE()),
            Types.PRIMITIVE_ARRAY(Types.BYTE()),
            Types.MAP(Types.STRING(), Types.OBJECT_ARRAY(item)),
        ],
    )
    for wrong in ('"string"', '{"type": "array", "items": "int"}'):
        with pytest.raises(ValueError, match="record"):
            AvroRowDeserializationSchema(avro_schema_string=wrong)
    tree = '{"type": "record", "name": "t", "fields": [{"name": "next", "type": ["null", "t"]}]}'
    with pytest.raises(UnsupportedOperationError, match="contains itself"):
        AvroRowDeserializationSchema(avro_schema_string=tree)
    with pytest.raises(UnsupportedOperationError, match="contains itself"):
        AvroParquetReaders.for_generic_record(AvroSchema.parse_string(tree))


def test_the_error_names_a_malformed_message_or_row():
    schema = str(ENUM[0])
    reading = AvroRowDeserializationSchema(avro_schema_string=schema)
    with pytest.raises(InputFormatError, match="offset 1: the message is not a record of the Avro schema"):
        decode_messages(reading, [b"\x00", b"\x7f"], lambda index: f"offset {index}")
    reading.on_error = "skip"
    result = decode_messages(reading, [b"\x00", b"\x7f", b""])
    assert result.positions.tolist() == [0]
    assert [bad.raw for bad in result.bad] == [b"\x7f", b""]
    writing = AvroRowSerializationSchema(avro_schema_string=schema)
    for bad in (Row(suit="STARS"), Row("HEARTS", 2), Row(other="HEARTS")):
        with pytest.raises(TypeMismatchError):
            writing.serialize(bad)


def test_java_classes_cannot_be_used():
    for cls in (AvroRowDeserializationSchema, AvroRowSerializationSchema):
        with pytest.raises(TypeError, match="record_class or avro_schema_string"):
            cls()
        with pytest.raises(UnsupportedOperationError, match="avro_schema_string"):
            cls(record_class="com.example.User")


VALUES = st.fixed_dictionaries(
    {
        "id": st.integers(-(1 << 63), (1 << 63) - 1),
        "name": st.none() | st.text(max_size=8),
        "list": st.lists(st.none() | st.booleans() | st.binary(max_size=4), max_size=3),
        "map": st.dictionaries(st.text(max_size=3), st.floats(allow_nan=False), max_size=3),
    }
)
ANY = record(
    ("id", "long"),
    ("name", ["null", "string"]),
    ("list", {"type": "array", "items": ["null", "boolean", "bytes"]}),
    ("map", {"type": "map", "values": "double"}),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(VALUES, min_size=1, max_size=20))
def test_any_records_survive_a_round_trip(tmp_path_factory, records):
    path = tmp_path_factory.mktemp("avro")
    (path / "a").mkdir()
    (path / "p").mkdir()
    file = write(path / "a", AvroBulkWriters.for_generic_record(ANY), records)
    assert read(FileSource.for_avro(str(file))) == records
    file = write(path / "p", AvroParquetWriters.for_generic_record(ANY), records)
    reader = AvroParquetReaders.for_generic_record(ANY)
    assert read(FileSource.for_record_stream_format(reader, str(file)).build()) == records


def test_rows_of_a_type_without_names_are_written_by_position() -> None:
    schema = AvroRowSerializationSchema(
        avro_schema_string=json.dumps(
            {
                "type": "record",
                "name": "Person",
                "fields": [{"name": "id", "type": "int"}, {"name": "name", "type": "string"}],
            }
        )
    )
    unnamed = Types.ROW([Types.INT(), Types.STRING()])
    (from_columns,) = schema.serialize_batch(to_columns(Batch([Row(1, "ada")]), unnamed), unnamed)

    assert from_columns == schema.serialize(Row(1, "ada")) == schema.serialize(Row(name="ada", id=1))

"""JsonFormat reads and writes files with one object per line."""

from __future__ import annotations

import gzip
import json

import pytest
from connector_fakes import TestingWriterContext, read_splits
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkpy.common.errors import InputFormatError, TypeMismatchError, UnsupportedOperationError
from flinkpy.common.typeinfo import Types
from flinkpy.connectors.file_sink import FileSink
from flinkpy.connectors.file_sink_config import BucketAssigner
from flinkpy.connectors.file_source import FileSource
from flinkpy.datastream.formats.json import JsonBulkWriters, JsonReaderFormat
from flinkpy.formats import line_chunks
from flinkpy.formats.json_format import JsonFormat
from flinkpy.formats.json_values import JsonReadOptions
from flinkpy.records.batch import Batch
from flinkpy.records.lanes import rows_of
from flinkpy.streaming.operators.committables import Committables

FIELDS = Types.ROW_NAMED(["id", "name", "day"], [Types.INT(), Types.STRING(), Types.SQL_DATE()])


def source_of(path, schema=FIELDS, **options):
    return FileSource.for_json(str(path), schema=schema, **options)


def rows(source):
    batches = read_splits(source, source.list_splits(1))
    assert all(batch.is_columnar for batch in batches if batch.num_rows)
    return [tuple(row) for batch in batches for row in rows_of(batch, source.produced_type)]


def write(path, content):
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize(
    "content",
    [
        '{"id": 1}\n{"id": 2, "name": "é"}\n',
        '{"id": 1}\r\n{"id": 2, "name": "é"}',
        '\ufeff{"id": 1}\n{"id": 2, "name": "é"}\n',
        '\n{"id": 1}\n\n   \n{"id": 2, "name": "é"}\n\n\n',
        ' {"id":1 , "other": [1, {"a": 2}]}\n{"name": "\\u00e9", "id": "2"}',
    ],
)
@pytest.mark.parametrize("schema", [FIELDS, Types.ROW_NAMED(["id", "name"], [Types.INT(), Types.STRING()])])
def test_each_line_is_a_row(tmp_path, content, schema):
    path = write(tmp_path / "in.json", content)
    assert [row[:2] for row in rows(source_of(path, schema))] == [(1, None), (2, "é")]


def test_compressed_files_are_read(tmp_path):
    path = write(tmp_path / "in.json.gz", gzip.compress(b'{"id": 1, "day": "2020-02-29"}\n'))
    assert rows(source_of(path))[0][0] == 1
    assert not JsonReaderFormat.for_row_type({"id": Types.INT()}).is_splittable(str(path))


@pytest.mark.parametrize(
    ("line", "reason", "column"),
    [
        ("nonsense", "the text is not JSON", None),
        ('{"id": 1', "the text is not JSON", None),
        ("[1]", "an object is expected", None),
        ('{"id": "x"}', "field 'id': \"x\" is not an integer", "id"),
        ('{"id": 99999999999}', "out of range", "id"),
        ('{"day": "2020-02-30"}', "is not a date", "day"),
        (b'{"name": "\xff"}', "not UTF-8", None),
        ("1234567" * 200, "an object is expected", None),
    ],
)
def test_the_error_names_and_shows_a_malformed_line(tmp_path, line, reason, column):
    bad = line if isinstance(line, bytes) else line.encode()
    path = write(tmp_path / "in.json", b'{"id": 1}\n\n{"id": 2}\n' + bad + b'\n{"id": 3}\n')
    with pytest.raises(InputFormatError) as raised:
        rows(source_of(path))
    assert f"{path}, line 4: " in str(raised.value)
    assert reason in str(raised.value)
    assert raised.value.details["row"] == "4"
    assert raised.value.details.get("column") == column
    assert len(str(raised.value)) < 1500
    assert [row[0] for row in rows(source_of(path, on_error="skip"))] == [1, 2, 3]


def test_a_value_that_does_not_fit_its_column_is_a_bad_record(tmp_path):
    """The number has more digits than BIG_DEC, which is found only when columns are built."""
    path = write(tmp_path / "in.json", '{"d": 1.5}\n{"d": 1e30}\n{"d": "2"}\n')
    schema = {"d": Types.BIG_DEC()}
    with pytest.raises(InputFormatError, match="line 2"):
        rows(source_of(path, schema))
    assert [str(row[0].normalize()) for row in rows(source_of(path, schema, on_error="skip"))] == ["1.5", "2"]


def test_options_of_messages_also_apply_to_lines(tmp_path):
    path = write(tmp_path / "in.json", '{"id": "x", "name": "a"}\nnonsense\n{"id": 2}\n')
    lenient = JsonFormat(FIELDS, JsonReadOptions(ignore_parse_errors=True))
    source = FileSource.for_record_stream_format(lenient, str(path)).build()
    assert rows(source) == [(None, "a", None), (2, None, None)]
    strict = JsonFormat(FIELDS, JsonReadOptions(fail_on_missing_field=True))
    write(path, '{"id": 1, "name": "a"}\n')
    with pytest.raises(InputFormatError, match="field 'day' is missing"):
        rows(FileSource.for_record_stream_format(strict, str(path)).set_on_error("fail").build())


def test_a_line_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(line_chunks, "MAX_RECORD_BYTES", 5000)
    monkeypatch.setattr(line_chunks, "MIN_CHUNK_BYTES", 100)
    monkeypatch.setattr(line_chunks, "MAX_CHUNK_BYTES", 1000)
    monkeypatch.setattr(line_chunks.ChunkSizer, "_FIRST_BYTES", 1000)
    path = write(tmp_path / "in.json", '{"id": 1}\n{"name": "' + "x" * 20_000 + '"}\n')
    for on_error in ("fail", "skip"):
        with pytest.raises(InputFormatError, match="does not end within 5000 bytes"):
            rows(source_of(path, on_error=on_error))


def test_types_that_json_does_not_support_are_refused():
    with pytest.raises(UnsupportedOperationError, match="does not describe rows"):
        FileSource.for_json("/x", schema=Types.STRING())
    with pytest.raises(ValueError, match="on_error"):
        FileSource.for_json("/x", schema=FIELDS, on_error="ignore")


def written(tmp_path, factory, records, input_type=FIELDS):
    builder = FileSink.for_bulk_format(str(tmp_path), factory)
    sink = builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()
    writer = sink.create_writer(TestingWriterContext(input_type=input_type))
    try:
        writer.write(Batch(records))
        writer.flush(True)
        pending = Committables()
        pending.add(1, writer.prepare_commit())
        pending.commit_up_to(1, sink.create_committer(), 0)
    finally:
        writer.close()
    [file] = tmp_path.iterdir()
    return file


def test_streams_without_field_names_cannot_be_written(tmp_path):
    with pytest.raises(TypeMismatchError, match="rows with field names"):
        written(tmp_path, JsonBulkWriters.for_row_type(), ["a"], Types.STRING())


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.none() | st.integers(-(2**31), 2**31 - 1),
            st.none() | st.text(max_size=10),
            st.none() | st.dates(),
        ),
        min_size=1,
        max_size=30,
    )
)
def test_any_rows_survive_a_round_trip(tmp_path_factory, records):
    path = tmp_path_factory.mktemp("json")
    file = written(path, JsonBulkWriters.for_row_type(FIELDS), records)
    assert rows(source_of(file)) == records
    assert [list(json.loads(line)) for line in file.read_text().split("\n")[:-1]] == [["id", "name", "day"]] * len(
        records
    )

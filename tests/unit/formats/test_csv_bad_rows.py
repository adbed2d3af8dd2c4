"""Malformed rows of CSV files, and files that do not match their schema."""

from __future__ import annotations

import pytest
from connector_fakes import TestingReaderContext, read_splits

from flinkpy.common.errors import InputFormatError
from flinkpy.common.typeinfo import Types
from flinkpy.connector_api.source import ReaderStatus
from flinkpy.connectors.file_source import FileSource
from flinkpy.datastream.formats.csv import CsvReaderFormat, CsvSchema
from flinkpy.datastream.output_tag import OutputTag
from flinkpy.records.lanes import rows_of

FIELDS = {"id": Types.LONG(), "name": Types.STRING(), "ok": Types.BOOLEAN()}
BAD = OutputTag("bad")


def read(source):
    """Returns the rows and the records of the side output."""
    context = TestingReaderContext()
    reader = source.create_reader(context)
    reader.add_splits(source.list_splits(1))
    reader.notify_no_more_splits()
    reader.start()
    found = []
    while (polled := reader.poll_batch()) is not ReaderStatus.END_OF_INPUT:
        found += [tuple(row) for row in rows_of(polled, source.produced_type)] if polled.num_rows else []
    reader.close()
    return found, [record for _, records in context.side_outputs for record in records]


@pytest.mark.parametrize(
    ("row", "where", "reason"),
    [
        (b"x,a,true", "column 'id'", "x"),
        (b"1.5,a,true", "column 'id'", "1.5"),
        (b"9223372036854775808,a,true", "column 'id'", "9223372036854775808"),
        (b"1,a,maybe", "column 'ok'", "maybe"),
        (b"1,a", "", "3 columns, got 2"),
        (b"1,a,true,more", "", "3 columns, got 4"),
        (b"1,\xff\xfe,true", "column 'name'", "UTF8"),
    ],
)
@pytest.mark.parametrize("position", [0, 1, 50, 99])
def test_a_bad_row_is_skipped_and_reported_with_its_place(tmp_path, row, where, reason, position):
    rows = [b"%d,name %d,true" % (number, number) for number in range(99)]
    rows.insert(position, row)
    path = tmp_path / "in.csv"
    path.write_bytes(b"id,name,ok\n" + b"\n".join(rows) + b"\n")
    source = FileSource.for_csv(str(path), schema=FIELDS, on_error=BAD)
    good, bad = read(source)
    assert good == [(number, f"name {number}", True) for number in range(99)]
    [(raw, error)] = bad
    assert raw == row
    offset = path.read_bytes().index(row)
    assert error.startswith(f"{path}, byte {offset}")
    assert where in error
    assert reason in error
    with pytest.raises(InputFormatError, match=f"in.csv, row {position + 2}"):
        read(FileSource.for_csv(str(path), schema=FIELDS))


def test_a_row_over_several_lines_is_one_bad_record(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text('id,name,ok\n1,"a\nb",true\nx,"c\n\nd",true\n2,"e",false\n')
    source = FileSource.for_csv(str(path), schema=FIELDS, newlines_in_values=True, on_error=BAD)
    good, bad = read(source)
    assert good == [(1, "a\nb", True), (2, "e", False)]
    assert [raw for raw, _ in bad] == [b'x,"c\n\nd",true']


def test_a_file_with_only_bad_rows_has_no_rows(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text("x,a,true\n" * 2000)
    good, bad = read(FileSource.for_csv(str(path), schema=FIELDS, header=False, on_error=BAD))
    assert good == []
    assert len(bad) == 2000


def test_a_wrong_header_is_an_error_with_any_on_error(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text("other,name\n1,a\n")
    schema = CsvSchema.builder().add_number_column("id").add_string_column("name").set_use_header().set_strict_headers()
    source = FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema.build()), str(path))
    with pytest.raises(InputFormatError, match="row 1: the header is"):
        read_splits(source.set_on_error("skip").build(), source.build().list_splits(1))


def test_bytes_are_base64(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text("AP8=\n%%\n\n")
    source = FileSource.for_csv(
        str(path), schema={"raw": Types.PRIMITIVE_ARRAY(Types.BYTE())}, header=False, on_error=BAD
    )
    good, bad = read(source)
    assert good == [(b"\0\xff",)]
    assert [raw for raw, _ in bad] == [b"%%"]

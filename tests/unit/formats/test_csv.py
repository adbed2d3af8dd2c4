from __future__ import annotations

import datetime
import gzip
import itertools
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkpy.common.errors import InputFormatError
from flinkpy.common.typeinfo import Types
from flinkpy.formats import line_chunks
from flinkpy.formats.csv_format import CsvFormat, CsvOptions, HeaderMode
from flinkpy.formats.csv_reader import infer_row_type
from flinkpy.formats.file_format import FileSourceSplit
from flinkpy.formats.row_types import row_type_of
from flinkpy.records.lanes import arrow_schema

ID_NAME = row_type_of({"id": Types.LONG(), "name": Types.STRING()})


def splits_at(path, *cuts):
    size = path.stat().st_size
    bounds = [0, *cuts, size]
    return [FileSourceSplit(str(i), str(path), a, b - a, size) for i, (a, b) in enumerate(itertools.pairwise(bounds))]


def rows_of(splits, row_type, options, max_batch_rows=1000):
    rows = []
    csv_format = CsvFormat(row_type, options)
    for split in splits:
        reader = csv_format.open(split, max_batch_rows)
        try:
            while (batch := reader.read_batch()) is not None:
                assert 0 < batch.num_rows <= max_batch_rows
                assert batch.values.schema.equals(arrow_schema(row_type))
                rows.extend(tuple(row.values()) for row in batch.values.to_pylist())
        finally:
            reader.close()
    return rows


def read(tmp_path, content, row_type=ID_NAME, cuts=(), max_batch_rows=1000, **options):
    path = tmp_path / "a.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return rows_of(splits_at(path, *cuts), row_type, CsvOptions(**options), max_batch_rows)


@pytest.mark.parametrize(
    "content",
    ["1,a\n22,bb\n333,\n", "1,a\n22,bb\n333,", "\n1,a\n\n\n22,bb\n333,\n\n", "\ufeff1,a\r\n22,bb\r\n333,\r\n"],
)
@pytest.mark.parametrize("header", ["", "id,name\n"])
def test_a_file_split_at_any_two_bytes_has_each_row_exactly_once(tmp_path, content, header):
    if header and content.startswith("\ufeff"):
        content = "\ufeff" + header + content[1:]
    else:
        content = header + content
    mode = HeaderMode.USE if header else HeaderMode.NONE
    size = len(content.encode())
    for first in range(size + 1):
        for second in range(first, size + 1, 3):
            assert read(tmp_path, content, cuts=(first, second), header=mode) == [(1, "a"), (22, "bb"), (333, "")]


@given(
    rows=st.lists(st.tuples(st.integers(-(1 << 63), (1 << 63) - 1), st.text("abc ,;\"'é€", max_size=12)), max_size=30),
    fractions=st.lists(st.floats(0, 1), max_size=5),
    max_batch_rows=st.integers(1, 10),
)
def test_any_rows_are_read_whole_from_splits_at_any_bytes(tmp_path_factory, rows, fractions, max_batch_rows):
    content = "".join(f'{number},"{text.replace(chr(34), chr(34) * 2)}"\n' for number, text in rows)
    cuts = sorted(int(len(content.encode()) * fraction) for fraction in fractions)
    tmp_path = tmp_path_factory.mktemp("csv")
    assert read(tmp_path, content, cuts=cuts, max_batch_rows=max_batch_rows) == rows


@given(
    rows=st.lists(st.tuples(st.integers(0, 99), st.text('ab,"\n', max_size=12)), max_size=30),
    target_bytes=st.integers(1, 50),
)
def test_quoted_newlines_survive_in_pieces_of_any_size(tmp_path_factory, rows, target_bytes):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_chunks, "MIN_CHUNK_BYTES", 1)
        patch.setattr(line_chunks, "MAX_CHUNK_BYTES", target_bytes)
        patch.setattr(line_chunks.ChunkSizer, "_FIRST_BYTES", target_bytes)
        content = "id,name\n" + "".join(f'{number},"{text.replace(chr(34), chr(34) * 2)}"\n' for number, text in rows)
        tmp_path = tmp_path_factory.mktemp("csv")
        assert read(tmp_path, content, newlines_in_values=True, header=HeaderMode.USE) == rows


def test_every_type_is_parsed(tmp_path):
    row_type = row_type_of(
        {
            "byte": Types.BYTE(),
            "short": Types.SHORT(),
            "int": Types.INT(),
            "float": Types.FLOAT(),
            "double": Types.DOUBLE(),
            "ok": Types.BOOLEAN(),
            "dec": Types.BIG_DEC(),
            "big": Types.BIG_INT(),
            "date": Types.SQL_DATE(),
            "time": Types.SQL_TIME(),
            "ts": Types.SQL_TIMESTAMP(),
            "list": Types.LIST(Types.INT()),
            "names": Types.BASIC_ARRAY(Types.STRING()),
        }
    )
    content = "1,2,3,0.5,1e3,true,1.25,123456789012345678901,2013-01-01,10:11:12,2013-01-01 10:11:12.5,1;2;3,a|b\n"
    content += ",,,,,,,,,,,,\n"
    [row, empty] = read(tmp_path, content, row_type, array_separators={"names": "|"})
    assert row == (
        1,
        2,
        3,
        0.5,
        1000.0,
        True,
        Decimal("1.25"),
        123456789012345678901,
        datetime.date(2013, 1, 1),
        datetime.time(10, 11, 12),
        datetime.datetime(2013, 1, 1, 10, 11, 12, 500_000),
        [1, 2, 3],
        ["a", "b"],
    )
    assert empty == (None,) * 11 + ([], [])


def test_null_values_are_configured_and_an_empty_text_is_no_null(tmp_path):
    content = '1,\n,""\nNA,NA\n2,"NA"\n'
    with pytest.raises(InputFormatError, match=r"row 3, column 'id'.*'NA'"):
        read(tmp_path, content)
    assert read(tmp_path, content, null_values=("NA",)) == [(1, ""), (None, ""), (None, None), (2, "NA")]
    assert read(tmp_path, content, null_values=("NA", "")) == [(1, None), (None, ""), (None, None), (2, "NA")]
    assert read(tmp_path, "1,\n,x\n") == [(1, ""), (None, "x")]
    with pytest.raises(InputFormatError, match=r"row 2, column 'id'.*'x'"):
        read(tmp_path, ",\nx,\n", null_values=("NA",))


def test_delimiter_quote_and_escape_are_configured(tmp_path):
    assert read(tmp_path, "1|'a|b'\n", delimiter="|", quote_char="'") == [(1, "a|b")]
    assert read(tmp_path, '1,"a\n', quote_char="") == [(1, '"a')]
    assert read(tmp_path, '1,"a\\"b"\n', escape_char="\\") == [(1, 'a"b')]
    assert read(tmp_path, '1,"a\\"\nb"\n', escape_char="\\", newlines_in_values=True) == [(1, 'a"\nb')]
    for name, bad in (("delimiter", ""), ("delimiter", "ab"), ("quote_char", "“"), ("escape_char", "\n")):
        with pytest.raises(ValueError, match=name):
            CsvOptions(**{name: bad})


def test_comments_and_the_first_row_can_be_skipped(tmp_path):
    content = "# about\nid,name\n# more\nx,y\n1,a\n#2,b\n3,c\n"
    for cut in range(len(content)):
        rows = read(
            tmp_path,
            content,
            cuts=(cut,),
            allow_comments=True,
            skip_first_data_row=True,
            header=HeaderMode.SKIP,
        )
        assert rows == [(1, "a"), (3, "c")], cut


def test_a_strict_header_must_match(tmp_path):
    assert read(tmp_path, "id,name\n1,a\n", header=HeaderMode.STRICT) == [(1, "a")]
    with pytest.raises(InputFormatError, match=r"row 1: the header is \['name', 'id'\], not \['id', 'name'\]"):
        read(tmp_path, "name,id\na,1\n", header=HeaderMode.STRICT)
    with pytest.raises(InputFormatError, match="column 'id' more than once"):
        read(tmp_path, "id,id,name\n1,2,a\n", header=HeaderMode.USE)


def test_an_empty_file_or_one_with_only_a_header_has_no_rows(tmp_path):
    assert read(tmp_path, "id,name\n", header=HeaderMode.USE) == []
    assert read(tmp_path, "", header=HeaderMode.USE) == []
    assert read(tmp_path, "\n\n") == []


@pytest.mark.parametrize(
    ("bad_row", "reason"),
    [
        ("x,a", "row {row}, column 'id': CSV conversion error to int64: invalid value 'x'; the row is: x,a"),
        ("7", "row {row}: Expected 2 columns, got 1"),
        ("7,a,b", "row {row}: Expected 2 columns, got 3"),
        ("9223372036854775808,a", "row {row}, column 'id'"),
    ],
)
@pytest.mark.parametrize("position", [0, 1, 500, 999])
def test_the_error_shows_number_and_text_of_a_malformed_row(tmp_path, bad_row, reason, position):
    rows = [f"{number},name {number}" for number in range(1000)]
    rows[position] = bad_row
    rows[5:5] = ["", ""]
    row = position + (4 if position >= 5 else 2)
    content = "id,name\n" + "\n".join(rows)
    for cuts in ((), (7_000,), (3, 5_000, 9_000)):
        with pytest.raises(InputFormatError) as caught:
            read(tmp_path, content, cuts=cuts, header=HeaderMode.USE)
        message = str(caught.value)
        assert message.startswith(f"{tmp_path}/a.csv, ")
        assert reason.format(row=row) in message
        assert caught.value.details["row"] == str(row)
        assert caught.value.details["text"] == bad_row


def test_the_error_of_a_malformed_list_element_names_its_column(tmp_path):
    row_type = row_type_of({"id": Types.LONG(), "list": Types.LIST(Types.INT())})
    with pytest.raises(InputFormatError, match=r"row 2, column 'list': .*'x'.*; the row is: 2,1;x"):
        read(tmp_path, "1,1;2\n2,1;x\n", row_type)


def test_the_error_names_the_first_malformed_row_of_any_kind_of_file(tmp_path):
    content = 'id,name\n1,"a\nb"\n2,x\nbad,y\n3,z\nworse\n'
    with pytest.raises(InputFormatError, match=r"row 5, column 'id'.*the row is: bad,y"):
        read(tmp_path, content, header=HeaderMode.USE, newlines_in_values=True)
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"1,a\n" * 300_000 + b"bad,a\n"))
    with pytest.raises(InputFormatError, match=r"a\.csv\.gz, row 300001, column 'id'"):
        rows_of(splits_at(path), ID_NAME, CsvOptions())


def test_text_that_is_not_utf_8_is_an_error_with_its_row(tmp_path):
    with pytest.raises(InputFormatError, match=r"row 2, column 'name': .*invalid UTF8 data; the row is: 2,.xff"):
        read(tmp_path, b"1,a\n2,\xff\n")


def test_the_error_shows_only_a_part_of_a_long_row(tmp_path):
    with pytest.raises(InputFormatError) as caught:
        read(tmp_path, "x," + "y" * 100_000 + "\n")
    assert len(str(caught.value)) < 1_500


def test_batches_have_nearly_the_allowed_size(tmp_path):
    rows = [(number, "name") for number in range(200_000)]
    path = tmp_path / "a.csv"
    path.write_text("".join(f"{number},{name}\n" for number, name in rows))
    reader = CsvFormat(ID_NAME, CsvOptions()).open(splits_at(path)[0], 30_000)
    sizes = []
    while (batch := reader.read_batch()) is not None:
        sizes.append(batch.num_rows)
    reader.close()
    assert sum(sizes) == 200_000
    assert max(sizes) <= 30_000
    assert min(sizes[:-1]) > 15_000


@pytest.mark.parametrize(
    ("content", "header", "expected"),
    [
        ("a,b\n1,x\n", HeaderMode.USE, {"a": Types.LONG(), "b": Types.STRING()}),
        ("1,2.5\n", HeaderMode.NONE, {"f0": Types.LONG(), "f1": Types.DOUBLE()}),
        ("a,b\n", HeaderMode.USE, {"a": Types.STRING(), "b": Types.STRING()}),
        ("a,b\n,\n", HeaderMode.USE, {"a": Types.STRING(), "b": Types.STRING()}),
        ("t\n2013-01-01T10:00:00Z\n", HeaderMode.USE, {"t": Types.INSTANT()}),
        ("t\n2013-01-01 10:00:00\n", HeaderMode.USE, {"t": Types.SQL_TIMESTAMP()}),
    ],
)
def test_types_are_inferred_from_the_beginning_of_a_file(tmp_path, content, header, expected):
    path = tmp_path / "a.csv"
    path.write_text(content)
    inferred = infer_row_type(str(path), CsvOptions(header=header), path.stat().st_size)
    assert inferred == row_type_of(expected)
    read(tmp_path, content, inferred, header=header)


def test_inference_names_a_row_with_a_wrong_number_of_fields(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,b\n1,2\n3\n")
    with pytest.raises(InputFormatError, match=r"a\.csv, row 3: Expected 2 columns, got 1"):
        infer_row_type(str(path), CsvOptions(header=HeaderMode.USE), 12)
    path.write_text("")
    with pytest.raises(InputFormatError, match="is empty"):
        infer_row_type(str(path), CsvOptions(), 0)


def test_decimals_are_rounded_half_up_to_their_scale(tmp_path):
    row_type = row_type_of({"id": Types.LONG(), "d": Types.DECIMAL(4, 1)})
    content = "1,1.25\n2,-1.25\n3,\n4,1.24999999999\n5,999.9\n6,7\n7,1.5e1\n"
    assert read(tmp_path, content, row_type) == [
        (1, Decimal("1.3")),
        (2, Decimal("-1.3")),
        (3, None),
        (4, Decimal("1.2")),
        (5, Decimal("999.9")),
        (6, Decimal("7.0")),
        (7, Decimal("15.0")),
    ]


@pytest.mark.parametrize("text", ["1000", "999.95", "x"])
def test_decimal_with_too_many_digits_before_the_point_is_refused(tmp_path, text):
    row_type = row_type_of({"id": Types.LONG(), "d": Types.DECIMAL(4, 1)})
    with pytest.raises(InputFormatError, match="row 2, column 'd'"):
        read(tmp_path, f"1,1\n2,{text}\n", row_type)

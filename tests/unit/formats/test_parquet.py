from __future__ import annotations

import datetime
import itertools

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from connector_fakes import read_splits
from hypothesis import given
from hypothesis import strategies as st

from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import InputFormatError, UnsupportedOperationError
from flinkpy.common.typeinfo import Types
from flinkpy.connectors.file_source import FileSource
from flinkpy.datastream.formats.parquet import (
    ParquetBulkWriters,
    ParquetColumnarRowInputFormat,
)
from flinkpy.formats.file_format import FileSourceSplit
from flinkpy.formats.parquet_format import ParquetFormat
from flinkpy.formats.row_types import row_type_of
from flinkpy.records.lanes import arrow_schema

ROWS = 1_000


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("parquet") / "a.parquet"
    table = pa.table({"id": range(ROWS), "name": pa.array(f"n{i % 7}" for i in range(ROWS)).dictionary_encode()})
    pq.write_table(table, path, row_group_size=100)
    return path


def splits_at(path, *cuts):
    size = path.stat().st_size
    bounds = [0, *cuts, size]
    return [FileSourceSplit(str(i), str(path), a, b - a, size) for i, (a, b) in enumerate(itertools.pairwise(bounds))]


def read(splits, read_format, max_batch_rows=1000):
    batches = []
    for split in splits:
        reader = read_format.open(split, max_batch_rows)
        while (batch := reader.read_batch()) is not None:
            assert 0 < batch.num_rows <= max_batch_rows
            batches.append(batch)
        reader.close()
    return batches


@given(fractions=st.lists(st.floats(0, 1), max_size=8), max_batch_rows=st.integers(1, 300))
def test_each_row_group_is_read_once_for_any_splits(path, fractions, max_batch_rows):
    size = path.stat().st_size
    cuts = sorted(int(size * fraction) for fraction in fractions)
    batches = read(splits_at(path, *cuts), ParquetFormat(row_type_of({"id": Types.LONG()})), max_batch_rows)
    assert [row["id"] for batch in batches for row in batch.values.to_pylist()] == list(range(ROWS))


def test_columns_have_the_requested_order_and_types(path):
    row_type = row_type_of({"name": Types.STRING(), "id": Types.INT()})
    for batch in read(splits_at(path), ParquetFormat(row_type)):
        assert batch.values.schema.equals(arrow_schema(row_type))
    assert batch.values.to_pylist()[-1] == {"name": f"n{(ROWS - 1) % 7}", "id": ROWS - 1}


def test_pyflinks_format_limits_batches_and_finds_columns_in_any_case(path):
    wanted = ParquetColumnarRowInputFormat({"NAME": Types.STRING(), "Id": Types.LONG()}, None, 30, False, False)
    batches = read(splits_at(path), wanted)
    assert max(batch.num_rows for batch in batches) == 30
    assert batches[0].values.to_pylist()[1] == {"NAME": "n1", "Id": 1}
    with pytest.raises(InputFormatError, match=r"has no column 'Id'; it has \['id', 'name'\]"):
        read(splits_at(path), ParquetColumnarRowInputFormat({"Id": Types.LONG()}))


def test_the_error_names_a_column_that_cannot_be_cast(path):
    wanted = ParquetFormat(row_type_of({"name": Types.SQL_DATE()}))
    with pytest.raises(InputFormatError, match=r"a\.parquet: .*'name'"):
        read(splits_at(path), wanted)


def test_the_error_names_a_damaged_file_or_one_of_another_format(tmp_path, path):
    bad = tmp_path / "bad.parquet"
    bad.write_text("this is text, not Parquet")
    wanted = ParquetFormat(row_type_of({"id": Types.LONG()}))
    with pytest.raises(InputFormatError, match=r"bad\.parquet is not a Parquet file"):
        read(splits_at(bad), wanted)
    content = bytearray(path.read_bytes())
    content[4:200] = bytes(196)
    bad.write_bytes(content)
    with pytest.raises(InputFormatError, match=r"bad\.parquet"):
        read(splits_at(bad), wanted)


def test_each_kind_of_column_has_a_type(tmp_path):
    table = pa.table(
        {
            "ts": pa.array([datetime.datetime(2013, 1, 1, 10)], pa.timestamp("ns")),
            "utc": pa.array([datetime.datetime(2013, 1, 1, 10)], pa.timestamp("ms", tz="UTC")),
            "list": [[1, 2]],
            "struct": [{"a": 1}],
            "u32": pa.array([1 << 31], pa.uint32()),
        }
    )
    pq.write_table(table, tmp_path / "t.parquet")
    source = FileSource.for_parquet(str(tmp_path))
    assert source.produced_type.get_field_types()[:3] == [
        Types.SQL_TIMESTAMP(),
        Types.INSTANT(),
        Types.LIST(Types.LONG()),
    ]
    [batch] = read_splits(source, source.list_splits(1))
    row = batch.values.to_pylist()[0]
    assert row["ts"] == datetime.datetime(2013, 1, 1, 10)
    assert (row["list"], row["struct"], row["u32"]) == ([1, 2], {"a": 1}, 1 << 31)


def test_arguments_that_need_a_jvm_are_refused():
    with pytest.raises(UnsupportedOperationError, match="Hadoop"):
        ParquetColumnarRowInputFormat({"id": Types.LONG()}, object())
    with pytest.raises(UnsupportedOperationError, match="Hadoop"):
        ParquetBulkWriters.for_row_type(None, object())
    with pytest.raises(ValueError, match="batch_size"):
        ParquetColumnarRowInputFormat({"id": Types.LONG()}, batch_size=0)
    ParquetColumnarRowInputFormat({"id": Types.LONG()}, Configuration())
    ParquetBulkWriters.for_row_type(None, Configuration())
    for bad in ("id BIGINT", {"id": "BIGINT"}):
        with pytest.raises(UnsupportedOperationError, match="BIGINT"):
            row_type_of(bad)


def test_the_footer_of_a_file_of_many_splits_is_read_once(path):
    size = path.stat().st_size
    read_format = ParquetFormat(row_type_of({"id": Types.LONG()}))
    splits = splits_at(path, size // 3, size // 2)
    footers = []
    for split in splits:
        read([split], read_format)
        footers.append(read_format._footer[2])
    assert footers[0] is not None and all(footer is footers[0] for footer in footers)

"""Columns and conditions can be pushed into formats."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from flinkpy.connectors.file_source import FileSource
from flinkpy.datastream.expressions import Expression, and_, col, lit
from flinkpy.datastream.output_tag import OutputTag
from flinkpy.formats.csv_format import CsvFormat, CsvOptions, HeaderMode
from flinkpy.formats.file_format import FilePosition, FileSourceSplit
from flinkpy.formats.orc_format import OrcFormat, orc_row_type
from flinkpy.formats.parquet_format import ParquetFormat, parquet_row_type
from flinkpy.formats.row_types import row_type_of

TABLE = pa.table(
    {
        "i": pa.array(range(30), pa.int32()),
        "m": pa.array([Decimal(i).scaleb(-2) for i in range(30)], pa.decimal128(6, 2)),
        "s": [f"{i:02}" for i in range(30)],
        "day": [date(2024, 1, 1 + i) for i in range(30)],
        "at": [datetime(2024, 1, 1, i % 24) for i in range(30)],
        "d": [float("nan") if i == 15 else float(i) for i in range(30)],
        "none": pa.array([None] * 30, pa.int32()),
        "some": pa.array([None if i < 12 else 7 for i in range(30)], pa.int32()),
    }
)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pushed") / "a.parquet"
    pq.write_table(TABLE, path, row_group_size=10)
    return path


def rows(path: Path, read_format: Any, position: FilePosition | None = None) -> list[dict[str, Any]]:
    size = path.stat().st_size
    reader = read_format.open(FileSourceSplit("1", str(path), 0, size, size, position), 100)
    found = []
    while (batch := reader.read_batch()) is not None:
        found.extend(batch.values.to_pylist())
    reader.close()
    return found


@pytest.mark.parametrize(
    ("predicate", "groups"),
    [
        (col("i") == 12, [1]),
        (col("i") < 10, [0]),
        (col("i") <= 10, [0, 1]),
        (col("i") > 19, [2]),
        (col("i") >= 19, [1, 2]),
        (col("i").in_(3, 25), [0, 2]),
        (and_(col("i") >= 10, col("m") < Decimal("0.2")), [1]),
        (col("m") == 0, [0]),
        (col("s") > "19", [2]),
        (col("day") < date(2024, 1, 11), [0]),
        (col("at") > datetime(2024, 2, 1), []),
        (col("d") == 25.0, [2]),
        (col("none") == 1, []),
        (lit(20) <= col("i"), [2]),
        ((col("i") < 3) | (col("i") > 22), [0, 2]),
        (((col("i") < 3) & (col("s") > "2")) | (col("day") == date(2024, 1, 15)), [1]),
        (col("some") != 7, []),
        (col("some").is_null, [0, 1]),
        (col("some").is_not_null, [1, 2]),
        (col("none").is_not_null | (col("i") == 3), [0]),
        (col("s").starts_with("1"), [1]),
        (col("s").starts_with("12345"), [1]),
        (col("s").starts_with("x"), []),
        # The filter decides where statistics cannot.
        (col("i") != 3, [0, 1, 2]),
        (col("d") != 3.0, [0, 1, 2]),
        ((col("i") == 3) | (col("i") + 1 == 12), [0, 1, 2]),
        (col("i") == 12.0, [0, 1, 2]),
        (col("m") == 0.5, [0, 1, 2]),
        (col("d") == lit(float("nan")), [0, 1, 2]),
        (col("i") + 1 == 12, [0, 1, 2]),
        (col("s").ends_with("1"), [0, 1, 2]),
        (col("i") == col("some"), [0, 1, 2]),
    ],
    ids=str,
)
def test_row_groups_without_matching_records_are_skipped(path: Path, predicate: Expression, groups: list[int]) -> None:
    read_format = ParquetFormat(parquet_row_type(str(path), None)).filtered_by(predicate)
    assert read_format is not None

    assert [row["i"] for row in rows(path, read_format)] == [10 * group + i for group in groups for i in range(10)]


def test_a_restored_reader_keeps_its_row_group_despite_the_predicate(path: Path) -> None:
    """It began without the predicate. The group has no matching record, but the position counts records in it."""
    read_format = ParquetFormat(parquet_row_type(str(path), ["i"])).filtered_by(col("i") > 19)

    assert [row["i"] for row in rows(path, read_format, FilePosition(0, 4))] == [*range(10), *range(20, 30)]


def test_the_statistics_of_converted_columns_are_ignored(path: Path) -> None:
    """Read as BYTE, 300 would become 44."""
    read_format = ParquetFormat(row_type_of({"i": pa.int64()})).filtered_by(col("i") > 19)

    assert len(rows(path, read_format)) == 30


@pytest.mark.parametrize("columns", [["s"], ["m", "i"]])
def test_only_the_requested_columns_are_read(path: Path, tmp_path: Path, columns: list[str]) -> None:
    expected = TABLE.select(columns).to_pylist()
    orc_path, csv_path, bare_path = tmp_path / "a.orc", tmp_path / "a.csv", tmp_path / "bare.csv"
    orc.write_table(TABLE.select(["i", "m", "s"]), orc_path)
    lines = [f"{row['i']},{row['m']},{row['s']}" for row in TABLE.select(["i", "m", "s"]).to_pylist()]
    csv_path.write_text("\n".join(["i,m,s", *lines]))
    bare_path.write_text("\n".join(lines))
    row_type = row_type_of(TABLE.select(["i", "m", "s"]).schema)
    formats = [
        (path, ParquetFormat(parquet_row_type(str(path), None))),
        (orc_path, OrcFormat(orc_row_type(str(orc_path), None))),
        (csv_path, CsvFormat(row_type, CsvOptions(header=HeaderMode.USE))),
        (csv_path, CsvFormat(row_type, CsvOptions(header=HeaderMode.SKIP))),
        (bare_path, CsvFormat(row_type, CsvOptions())),
    ]

    for file, read_format in formats:
        projected = read_format.projected_to(columns)
        assert projected is not None
        assert projected.produced_type.get_field_names() == columns
        assert rows(file, projected) == expected


def test_nothing_is_skipped_if_bad_records_are_reported(path: Path) -> None:
    """The bad records depend on the data that is read."""
    row_type = row_type_of({"i": pa.int32()})
    bad = OutputTag("bad")
    for read_format in (ParquetFormat(row_type), OrcFormat(row_type), CsvFormat(row_type, CsvOptions())):
        kept = read_format.with_on_error(bad)
        assert kept.projected_to(["i"]) is None
        assert kept.filtered_by(col("i") > 1) is None
    assert CsvFormat(row_type, CsvOptions(header=HeaderMode.STRICT)).projected_to(["i"]) is None


def test_a_file_source_pushes_into_a_copy_of_its_format(path: Path) -> None:
    source = FileSource.for_parquet(str(path))

    projected = source.projected_to(["s"])
    assert projected is not None
    assert projected.produced_type.get_field_names() == ["s"]
    assert source.produced_type.get_field_names() == TABLE.column_names
    assert source.filtered_by(col("i") > 1) is not None
    assert FileSource.for_json(str(path), schema={"i": pa.int32()}).projected_to(["i"]) is None

"""Columns in the names of directories: their values, types and pruning."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from connector_fakes import read_splits
from pyarrow import orc

from flinkpy.common.errors import InputFormatError, UnsupportedOperationError
from flinkpy.common.typeinfo import Types
from flinkpy.connectors.file_source import FileSource
from flinkpy.datastream.expressions import Expression, and_, col, or_
from flinkpy.formats.file_format import StreamFormat
from flinkpy.formats.partitioned_format import directory_name, escaped, partition_type_of, unescaped

YEAR_AND_MONTH = {"year": Types.INT(), "month": Types.STRING()}
#: Directory -> value of the column n.
LAYOUT = {
    "year=2023/month=12": 1,
    "year=2024/month=01": 2,
    "year=2024/month=__HIVE_DEFAULT_PARTITION__": 3,
    "year=__HIVE_DEFAULT_PARTITION__/month=a%2Fb": 4,
}
ROWS = [(1, 2023, "12"), (2, 2024, "01"), (3, 2024, None), (4, None, "a/b")]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("partitions")
    hidden = ("_temporary/0/year=1/month=1", ".staging/year=1/month=1", "year=2024/_temporary/month=1")
    for directory, number in {**LAYOUT, **dict.fromkeys(hidden, -1)}.items():
        (base / directory).mkdir(parents=True)
        pq.write_table(pa.table({"n": [number]}), base / directory / "part-0.parquet")
        (base / directory / "_SUCCESS").touch()
        (base / directory / ".part-0.parquet.crc").touch()
    return base


def rows_in(source: Any) -> list[tuple[Any, ...]]:
    batches = read_splits(source, source.list_splits(2), 1000)
    return sorted((tuple(row.values()) for batch in batches for row in batch.values.to_pylist()), key=repr)


def test_columns_of_directories_follow_the_columns_of_files(table: Path) -> None:
    source = FileSource.for_parquet(str(table), partition_columns=YEAR_AND_MONTH)
    assert source.produced_type == Types.ROW_NAMED(["n", "year", "month"], [Types.LONG(), Types.INT(), Types.STRING()])
    assert rows_in(source) == ROWS


def test_names_alone_declare_strings(table: Path) -> None:
    source = FileSource.for_parquet(str(table), partition_columns=["month", "year"], columns=["month", "year"])
    assert rows_in(source) == sorted([(m, None if y is None else str(y)) for _, y, m in ROWS], key=repr)


def test_a_path_within_the_table_has_the_values_above_it_too(table: Path) -> None:
    source = FileSource.for_parquet(f"{table}/year=2024", partition_columns=YEAR_AND_MONTH, columns=["year", "n"])
    assert rows_in(source) == [(2024, 2), (2024, 3)]


@pytest.mark.parametrize(
    ("predicate", "numbers"),
    [
        (col("year") == 2024, [2, 3]),
        (col("year") != 2024, [1]),
        (col("month").is_null, [3]),
        (col("month").is_not_null, [1, 2, 4]),
        (and_(col("year") >= 2024, col("month") == "01"), [2]),
        (or_(col("year") == 2023, col("month").in_("a/b")), [1, 4]),
        (col("month") > "02", [1, 4]),
        # Statistics in files are used as well.
        (and_(col("year") == 2024, col("n") == 3), [2, 3]),
    ],
)
def test_partitions_without_records_for_a_predicate_are_not_listed(
    table: Path, predicate: Expression, numbers: list[int]
) -> None:
    source = FileSource.for_parquet(str(table), partition_columns=YEAR_AND_MONTH).filtered_by(predicate)
    assert source is not None
    files = [path for path, _ in source.list_files()]
    assert sorted(LAYOUT[path.removeprefix(f"{table}/").rpartition("/")[0]] for path in files) == numbers


def test_excluded_directories_are_not_even_opened(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    opened: list[str] = []
    scan = os.scandir

    def recorded(path: str) -> Any:
        opened.append(str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", recorded)
    source = FileSource.for_parquet(str(table), partition_columns=YEAR_AND_MONTH).filtered_by(col("year") == 2023)
    assert source is not None
    opened.clear()
    source.list_files()
    assert [Path(path).name for path in opened if "month=" in path] == ["month=12"]


def test_a_projection_keeps_the_predicate_and_reads_one_column_to_count(table: Path) -> None:
    source = FileSource.for_parquet(str(table), partition_columns=YEAR_AND_MONTH)
    pushed = source.filtered_by(col("year") == 2024)
    assert pushed is not None
    assert rows_in(pushed.projected_to(["year"])) == [(2024,), (2024,)]


def test_values_that_are_not_of_their_type_name_the_file(tmp_path: Path) -> None:
    for text in ("7x", "", " 7", "1_000", str(2**31)):
        directory = tmp_path / f"{len(text)}-{text[:1]}" / f"year={text}"
        directory.mkdir(parents=True)
        pq.write_table(pa.table({"n": [1]}), directory / "a.parquet")
        source = FileSource.for_parquet(str(directory.parent), partition_columns={"year": Types.INT()})
        with pytest.raises(InputFormatError, match=r"a\.parquet: the value .* of the partition column 'year'"):
            source.list_splits(1)


def test_a_file_outside_of_the_partitions_is_an_error(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": [1]}), tmp_path / "year=1.parquet")
    source = FileSource.for_parquet(str(tmp_path), partition_columns=["year"])
    with pytest.raises(InputFormatError, match=r"year=1\.parquet is in no directory year="):
        source.list_splits(1)


def test_types_of_partition_columns(tmp_path: Path) -> None:
    directory = tmp_path / "flag=TRUE" / "day=2024-02-29" / "small=-07"
    directory.mkdir(parents=True)
    orc.write_table(pa.table({"n": [1], "flag": ["in the file"]}), str(directory / "a.orc"))
    types = {"flag": Types.BOOLEAN(), "day": Types.SQL_DATE(), "small": Types.BYTE()}
    source = FileSource.for_orc(str(tmp_path), partition_columns=types)
    assert rows_in(source) == [(1, True, datetime.date(2024, 2, 29), -7)]
    with pytest.raises(UnsupportedOperationError, match="partition column 'x' cannot be"):
        partition_type_of({"x": Types.DOUBLE()})


def test_lines_of_csv_and_json_have_partition_columns(tmp_path: Path) -> None:
    directory = tmp_path / "_day=a%3Ab"
    directory.mkdir()
    (directory / "a.csv").write_text("1,x\n2,y\n")
    csv = FileSource.for_csv(
        str(tmp_path),
        schema={"n": Types.INT(), "s": Types.STRING()},
        columns=["_day", "s"],
        header=False,
        partition_columns=["_day"],
    )
    assert rows_in(csv) == [("a:b", "x"), ("a:b", "y")]
    (directory / "a.csv").write_text('{"n": 1}\nbroken\n{"n": 2}\n')
    lines = FileSource.for_json(str(tmp_path), schema={"n": Types.INT()}, on_error="skip", partition_columns=["_day"])
    assert rows_in(lines) == [(1, "a:b"), (2, "a:b")]


def test_only_records_with_named_columns_have_partition_columns() -> None:
    builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "/nowhere")
    with pytest.raises(UnsupportedOperationError, match="records with named columns"):
        builder.set_partition_columns(["year"])
    with pytest.raises(ValueError, match="cannot also be columns of the files: 'n'"):
        FileSource.for_json("/nowhere", schema={"n": Types.INT()}, partition_columns=["n"])


def test_names_of_partitions_are_escaped_like_those_of_hive() -> None:
    # Results of org.apache.hadoop.hive.common.FileUtils.escapePathName.
    assert escaped("a/b:c=d%é x{y}\n") == "a%2Fb%3Ac%3Dd%25é x%7By}%0A"
    assert unescaped(escaped("a/b:c=d%é x{y}\n")) == "a/b:c=d%é x{y}\n"
    assert unescaped("100%") == "100%"
    assert directory_name("day", None) == directory_name("day", "") == "day=__HIVE_DEFAULT_PARTITION__"

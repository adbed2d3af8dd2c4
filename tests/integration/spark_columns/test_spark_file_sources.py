"""Spark reads many files, tables with partitions and unusual names like one file, and like flinkpy."""

from __future__ import annotations

import csv
import json
import os
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from column_engines import TIME

from flinkpy.common import Types
from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.connectors import file_source
from flinkpy.connectors.file_source import FileSource
from flinkpy.expressions.nodes import Expression, col
from flinkpy.formats.file_format import FileSourceSplit, StreamFormat
from flinkpy.graph import operator_specs as specs
from flinkpy.graph.spark_region import SparkNode

pytest.importorskip("pyspark")

from flinkpy.spark.columns import is_expressible, translate
from flinkpy.spark.columns.file_sources import check_files
from flinkpy.spark.columns.names import NotExpressible

PARTITIONS = {"year": Types.INT(), "month": Types.STRING()}


def node(source: FileSource) -> SparkNode:
    return SparkNode(7, "files", "uid", "op", specs.SourceSpec(source, output_type=source.produced_type), 2, ())


def rows(records: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted((tuple(row[name] for name in row if name != TIME) for row in records), key=repr)


def in_spark(session: Any, source: FileSource) -> Any:
    assert is_expressible(node(source), session)
    stream = translate(node(source), [], session)
    assert stream is not None
    return stream.frame


def natively(source: FileSource) -> list[tuple[Any, ...]]:
    records: list[dict[str, Any]] = []
    for number, (path, size) in enumerate(source.list_files()):
        reader = source.file_format.open(FileSourceSplit(str(number), path, 0, size, size), 100)
        while (batch := reader.read_batch()) is not None:
            records += batch.values.to_pylist()  # type: ignore[union-attr]
    return rows(records)


def assert_read_alike(session: Any, source: FileSource) -> list[tuple[Any, ...]]:
    found = rows(in_spark(session, source).toArrow().to_pylist())
    assert found == natively(source)
    return found


def write(path: Path, *numbers: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"n": list(numbers)}), path)


def plan_of(frame: Any) -> str:
    """Returns the physical plan, without ids."""
    return re.sub(r"#\d+L?", "", frame._jdf.queryExecution().executedPlan().toString())


def test_the_plan_of_many_files_is_that_of_one(session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "files" / "0.parquet", 0)
    source = FileSource.for_parquet(str(tmp_path / "files"))
    plan = plan_of(in_spark(session, source))
    for number in range(1, 300):
        write(tmp_path / "files" / f"{number}.parquet", number)
    listed: list[str] = []
    list_files = file_source.list_files

    def recorded(path: str, *given: Any) -> Any:
        listed.append(path)
        return list_files(path, *given)

    monkeypatch.setattr(file_source, "list_files", recorded)
    frame = in_spark(session, source)
    assert plan_of(frame) == plan
    assert listed == [str(tmp_path / "files")]
    assert len(frame.inputFiles()) == 300
    # A program may name each file.
    named = FileSource.for_parquet(*[str(tmp_path / "files" / f"{number}.parquet") for number in range(300)])
    frame = in_spark(session, named)
    assert plan_of(frame) == plan
    assert len(frame.inputFiles()) == 300


def test_only_named_files_of_a_directory_are_read(session: Any, tmp_path: Path) -> None:
    for name in ("a", "b", "c", "_hidden"):
        write(tmp_path / f"{name}.parquet", ord(name[-1]))
    (tmp_path / "empty.parquet").touch()
    paths = [str(tmp_path / f"{name}.parquet") for name in "abc"]
    assert assert_read_alike(session, FileSource.for_parquet(*paths[:2])) == [(97,), (98,)]
    assert assert_read_alike(session, FileSource.for_parquet(*paths)) == [(97,), (98,), (99,)]
    # Spark would read a file once that is named twice.
    assert not is_expressible(node(FileSource.for_parquet(paths[0], str(tmp_path))), session)


@pytest.mark.parametrize("name", ["a[1]{x}*?", "per%20cent", "sp ace+#é", "k=v"])
def test_unusual_names_are_found(session: Any, tmp_path: Path, name: str) -> None:
    write(tmp_path / name / f"{name}.parquet", 1)
    write(tmp_path / name / "below" / "b.parquet", 2)
    assert assert_read_alike(session, FileSource.for_parquet(str(tmp_path / name))) == [(1,), (2,)]


@pytest.mark.parametrize("name", ["_x=1/a.parquet", "a.parquet._COPYING_"])
def test_names_that_only_one_of_both_reads_are_left_to_our_reader(session: Any, tmp_path: Path, name: str) -> None:
    write(tmp_path / "a.parquet", 1)
    write(tmp_path / name, 2)
    assert not is_expressible(node(FileSource.for_parquet(str(tmp_path))), session)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("table")
    write(base / "year=2023" / "month=12" / "a.parquet", 1)
    write(base / "year=2024" / "month=01" / "a.parquet", 2, 3)
    write(base / "year=2024" / "month=01" / "below" / "a.parquet", 4)
    write(base / "year=2024" / "month=__HIVE_DEFAULT_PARTITION__" / "a.parquet", 5)
    write(base / "year=__HIVE_DEFAULT_PARTITION__" / "month=a%2Fb" / "a.parquet", 6)
    for hidden in ("_temporary/0/year=1/month=1", ".staging/year=1/month=1", "year=2024/month=01/_temporary"):
        write(base / hidden / "a.parquet", -1)
    (base / "_SUCCESS").touch()
    return base


def test_partition_columns_have_the_same_values(session: Any, table: Path) -> None:
    source = FileSource.for_parquet(str(table), partition_columns=PARTITIONS)
    expected = [(1, 2023, "12"), (2, 2024, "01"), (3, 2024, "01"), (4, 2024, "01"), (5, 2024, None), (6, None, "a/b")]
    assert assert_read_alike(session, source) == expected
    narrow = source.projected_to(["month"])
    assert narrow is not None
    assert len(assert_read_alike(session, narrow)) == 6
    inner = FileSource.for_parquet(f"{table}/year=2024", partition_columns=PARTITIONS, columns=["year", "n"])
    assert assert_read_alike(session, inner) == [(2024, number) for number in (2, 3, 4, 5)]


@pytest.mark.parametrize(
    ("predicate", "numbers"), [(col("year") == 2024, {2, 3, 4, 5}), (col("month").is_null, {5}), (col("n") > 4, {5, 6})]
)
def test_spark_reads_only_partitions_with_records_for_a_predicate(
    session: Any, table: Path, predicate: Expression, numbers: set[int]
) -> None:
    source = FileSource.for_parquet(str(table), partition_columns=PARTITIONS)
    pushed = source.filtered_by(predicate)
    assert pushed is not None
    stream = translate(node(pushed), [], session)
    assert stream is not None
    spec = specs.FilterBatchesSpec(None, predicate, output_type=source.produced_type)
    edges = (specs_edge(stream),)
    filtered = translate(SparkNode(8, "filter", "uid", "op", spec, 2, edges), [stream], session)
    assert filtered is not None
    assert {row["n"] for row in filtered.frame.toArrow().to_pylist()} == numbers
    if "n" not in str(predicate):
        plan = filtered.frame._jdf.queryExecution().executedPlan().toString()
        assert "PartitionFilters: [isn" in plan
        assert str(os.fspath(table)) in plan


def specs_edge(stream: Any) -> Any:
    from flinkpy.graph.spark_region import SparkEdge

    return SparkEdge(7, 0, None, "FORWARD", stream.type_info)


def test_tables_at_several_places_are_one_source(session: Any, tmp_path: Path) -> None:
    write(tmp_path / "one" / "day=1" / "a.parquet", 1)
    write(tmp_path / "two" / "day=2" / "a.parquet", 2)
    source = FileSource.for_parquet(
        str(tmp_path / "one"), str(tmp_path / "two"), partition_columns={"day": Types.LONG()}
    )
    assert assert_read_alike(session, source) == [(1, 1), (2, 2)]


def test_tables_that_spark_would_refuse_are_left_to_our_reader(session: Any, tmp_path: Path) -> None:
    write(tmp_path / "day=1" / "a.parquet", 1)
    write(tmp_path / "day=2" / "hour=1" / "a.parquet", 2)
    source = FileSource.for_parquet(str(tmp_path), partition_columns=["day"])
    assert not is_expressible(node(source), session)
    assert natively(source) == [(1, "1"), (2, "2")]


TEXT_ROWS = [
    {"id": 1, "name": 'a, "b"', "price": "1.25", "day": "2024-02-29", "at": "2024-02-29T01:02:03", "flag": "true"},
    {"id": 2, "name": "", "price": "2.345", "day": "", "at": "", "flag": ""},
    {"id": -3, "name": "ä\u2028", "price": "-0.5", "day": "1969-12-31", "at": "1969-12-31T23:59:59.5", "flag": "false"},
]
TEXT_TYPES = {
    "id": Types.LONG(),
    "name": Types.STRING(),
    "price": Types.DOUBLE(),
    "day": Types.SQL_DATE(),
    "at": Types.SQL_TIMESTAMP(),
    "flag": Types.BOOLEAN(),
}


def write_csv(path: Path, names: list[str], delimiter: str = ",") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(names)
        for row in TEXT_ROWS:
            writer.writerow([row.get(name, "another, column") for name in names])


def test_spark_parses_csv_files_on_request(session: Any, tmp_path: Path) -> None:
    """Columns are found by the header, also in directories with values of columns; nulls are those of flinkpy."""
    names = ["price", "other", "id", "name", "flag", "day", "at"]
    for month in ("01", "02"):
        write_csv(tmp_path / "t" / f"month={month}" / "a.csv", names, ";")
    given: dict[str, Any] = {"schema": TEXT_TYPES, "delimiter": ";", "partition_columns": ["month"]}
    plain = FileSource.for_csv(str(tmp_path / "t"), **given)
    assert not is_expressible(node(plain), session)
    for null_values in ((), ("2.345",)):
        source = FileSource.for_csv(str(tmp_path / "t"), **given, null_values=null_values, spark_reader=True)
        assert len(assert_read_alike(session, source)) == 6
        narrow = source.projected_to(["name", "month"])
        assert narrow is not None
        assert len(assert_read_alike(session, narrow)) == 6


def test_spark_parses_json_lines_on_request(session: Any, tmp_path: Path) -> None:
    types = {"id": Types.LONG(), "name": Types.STRING(), "price": Types.DOUBLE(), "tags": Types.LIST(Types.STRING())}
    with (tmp_path / "a.json").open("w") as file:
        for number in range(50):
            row = {"id": number, "price": number / 4, "more": {"x": 1}, "tags": ["a", None] if number % 2 else None}
            file.write(json.dumps(row | ({"name": f"n\u00e4{number}"} if number % 3 else {})) + "\n")
    assert not is_expressible(node(FileSource.for_json(str(tmp_path), schema=types)), session)
    assert len(assert_read_alike(session, FileSource.for_json(str(tmp_path), schema=types, spark_reader=True))) == 50


def test_a_record_that_spark_cannot_parse_fails_the_job(session: Any, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id\n1\nx\n")
    (tmp_path / "a.json").write_text('{"id": 1}\n{"id": ')
    types = {"id": Types.LONG()}
    for source in (
        FileSource.for_csv(str(tmp_path / "a.csv"), schema=types, spark_reader=True),
        FileSource.for_json(str(tmp_path / "a.json"), schema=types, spark_reader=True),
    ):
        with pytest.raises(Exception, match=r"MALFORMED_RECORD_IN_PARSING|FAILED_READ_FILE"):
            in_spark(session, source).toArrow()


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"null_values": ("NA", "-")}, "CSV files with the texts 'NA', '-', '' for null"),
        ({"on_error": "skip"}, "skipping records that cannot be read"),
        ({"schema": {"id": Types.BYTE(), "n": Types.LIST(Types.INT())}}, "CSV column 'n' of type array<int>"),
    ],
)
def test_csv_that_spark_would_read_otherwise_is_read_by_flinkpy(
    session: Any, tmp_path: Path, settings: dict[str, Any], reason: str
) -> None:
    (tmp_path / "a.csv").write_text("id,n\n1,2\n")
    source = FileSource.for_csv(str(tmp_path), **{"schema": {"id": Types.LONG()}, **settings}, spark_reader=True)
    with pytest.raises(NotExpressible, match=re.escape(reason)):
        check_files(session, node(source).spec)  # type: ignore[arg-type]


def test_files_with_different_headers_are_read_by_flinkpy(session: Any, tmp_path: Path) -> None:
    write_csv(tmp_path / "a.csv", ["id", "name"])
    write_csv(tmp_path / "b.csv", ["name", "id"])
    types = {"id": Types.LONG(), "name": Types.STRING()}
    source = FileSource.for_csv(str(tmp_path), schema=types, spark_reader=True)
    with pytest.raises(NotExpressible, match="has the header"):
        check_files(session, node(source).spec)  # type: ignore[arg-type]


def test_only_csv_and_json_have_another_reader() -> None:
    with pytest.raises(UnsupportedOperationError, match="TextLineFormat: only CSV and JSON"):
        FileSource.for_record_stream_format(StreamFormat.text_line_format(), "/a").set_spark_reader()

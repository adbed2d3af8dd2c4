"""Tables in files: columns and partitions are read with the types of the table, and looked up by key."""

from __future__ import annotations

import datetime
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import UnsupportedOperationError, ValidationError
from flinkpy.records.batch import Batch
from flinkpy.sql.types import logical_types as types
from flinkpy.sql.types.arrow import schema_of
from flinkpy.sql.types.internal_type_info import InternalTypeInfo
from flinkpy.table.catalog.catalog_tables import CatalogTable, ContextResolvedTable
from flinkpy.table.catalog.identifiers import ObjectIdentifier
from flinkpy.table.catalog.resolved_schema import ResolvedSchema
from flinkpy.table.connectors.registry import create_sink, create_source
from flinkpy.table.schema import Schema

COLUMNS = (
    ("id", types.BigIntType()),
    ("price", types.DecimalType(6, 2)),
    ("at", types.TimestampType(3)),
    ("name", types.VarCharType()),
)


def table(
    path: Path, options: dict[str, str], columns: Any = COLUMNS, keys: tuple[str, ...] = ()
) -> ContextResolvedTable:
    identifier = ObjectIdentifier("c", "d", "t")
    options = {"connector": "filesystem", "path": str(path), "format": "csv"} | options
    return ContextResolvedTable(
        identifier, CatalogTable(Schema(), options, "", keys), ResolvedSchema.physical(*columns)
    )


def read(source: Any) -> pa.Table:
    found = source.source()
    batches = []
    for split in found.list_splits(1):
        reader = found.reading_format.open(split, 1_000)
        while (batch := reader.read_batch()) is not None:
            batches.append(batch.values)
        reader.close()
    return pa.Table.from_batches(batches, schema=schema_of(source.produced_type))


@pytest.fixture
def prices(tmp_path: Path) -> Path:
    (tmp_path / "a.csv").write_text('1,2.50,2024-01-02 03:04:05.678,x\n2,,2024-01-02 03:04:06,"y,z"\n')
    return tmp_path


def test_csv_is_read_with_the_types_of_the_table(prices: Path) -> None:
    found = read(create_source(table(prices, {}), Configuration()))
    assert found.schema == schema_of(types.RowType.of(*COLUMNS))
    assert found.column("price").to_pylist()[1] is None
    assert [str(each) for each in found.column("at").to_pylist()] == [
        "2024-01-02 03:04:05.678000",
        "2024-01-02 03:04:06",
    ]
    assert found.column("name").to_pylist() == ["x", "y,z"]


def test_moments_in_csv_are_read_with_or_without_their_zone(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('"2024-01-02 03:04:05.5Z",1\n2024-01-02 03:04:05.5,2\n,3\n')
    columns = (("at", types.LocalZonedTimestampType(3)), ("n", types.IntType()))
    found = read(create_source(table(tmp_path, {}, columns), Configuration())).column("at").to_pylist()
    assert [str(each) for each in found] == [*["2024-01-02 03:04:05.500000+00:00"] * 2, "None"]


def test_only_the_asked_columns_are_read_in_the_asked_order(prices: Path) -> None:
    source: Any = create_source(table(prices, {}), Configuration())
    wanted = types.RowType.of(COLUMNS[3], COLUMNS[0])
    assert read(source.with_projection(((3,), (0,)), wanted)).to_pydict() == {"name": ["x", "y,z"], "id": [1, 2]}


def test_partitions_are_columns_from_the_names_of_directories(tmp_path: Path) -> None:
    for day, number in (("2024-01-01", 1), ("2024-01-02", 2)):
        (tmp_path / f"day={day}").mkdir()
        (tmp_path / f"day={day}" / "part").write_text(f"{number}\n")
    columns = (("n", types.IntType()), ("day", types.DateType()))
    found = read(create_source(table(tmp_path, {}, columns, ("day",)), Configuration()))
    assert sorted((str(row["day"]), row["n"]) for row in found.to_pylist()) == [("2024-01-01", 1), ("2024-01-02", 2)]


def test_rows_are_looked_up_by_key_with_all_their_matches(prices: Path) -> None:
    (prices / "b.csv").write_text("1,3.00,2024-01-02 03:04:05,again\n")
    source: Any = create_source(table(prices, {}), Configuration())
    function = source.lookup_function((0,))
    function.open(None)
    positions, rows = function.lookup(pa.RecordBatch.from_arrays([pa.array([7, 1, None])], names=["id"]))
    assert positions.tolist() == [1, 1]
    assert sorted(rows.column("name").to_pylist()) == ["again", "x"]
    function.close()


def test_files_are_read_again_for_lookups_after_the_interval(prices: Path) -> None:
    source: Any = create_source(table(prices, {"lookup.full-cache.periodic-reload.interval": "0 ms"}), Configuration())
    function = source.lookup_function((0,))
    function.open(None)
    (prices / "b.csv").write_text("7,3.00,2024-01-02 03:04:05,later\n")
    _, rows = function.lookup(pa.RecordBatch.from_arrays([pa.array([7])], names=["id"]))
    assert rows.column("name").to_pylist() == ["later"]
    function.close()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"format": "cvs"}, "Available format identifiers are:\n\navro\navro-confluent\n"),
        ({"csv.field-delimitr": ";"}, "field-delimitr .did you mean 'field-delimiter'"),
        ({"csv.field-delimiter": "ab"}, "one ASCII character"),
        ({"csv.ignore-parse-errors": "maybe"}, "ignore-parse-errors"),
    ],
)
def test_wrong_formats_and_their_options_are_reported(tmp_path: Path, options: dict[str, str], expected: str) -> None:
    with pytest.raises(ValidationError, match=expected):
        create_source(table(tmp_path, options), Configuration())


def test_a_missing_path_is_reported() -> None:
    identifier = ObjectIdentifier("c", "d", "t")
    options = {"connector": "filesystem", "format": "json"}
    broken = ContextResolvedTable(identifier, CatalogTable(Schema(), options), ResolvedSchema.physical(*COLUMNS))
    with pytest.raises(ValidationError, match="Missing required options are:\n\npath"):
        create_sink(broken, Configuration())


PARTITIONED = (("n", types.IntType()), ("dt", types.VarCharType()), ("hm", types.VarCharType()))
COMMITTED = {
    "sink.partition-commit.trigger": "partition-time",
    "sink.partition-commit.delay": "1 min",
    "sink.partition-commit.policy.kind": "success-file",
    "partition.time-extractor.timestamp-pattern": "$dt $hm:00",
    "sink.rolling-policy.rollover-interval": "1min",
    "sink.rolling-policy.check-interval": "1min",
}


def test_partitions_are_committed_by_one_committer_in_streaming_mode(tmp_path: Path) -> None:
    partitioned = table(tmp_path, COMMITTED, PARTITIONED, ("dt", "hm"))
    streaming: Any = create_sink(partitioned, Configuration()).sink()
    assert streaming.has_global_committer
    assert not streaming.needs_batch_mode
    assert streaming.rolling_policy.should_roll(0, 0, 60_000, 60_000)
    assert not streaming.rolling_policy.should_roll(0, 0, 59_999, 59_999)
    batch: Any = create_sink(partitioned, Configuration(), is_bounded=True).sink()
    assert batch.publication.success_file == "_SUCCESS"
    assert not batch.has_global_committer


def test_without_a_policy_partitions_are_not_committed(tmp_path: Path) -> None:
    options = {key: value for key, value in COMMITTED.items() if not key.endswith("policy.kind")}
    sink: Any = create_sink(table(tmp_path, options, PARTITIONED, ("dt", "hm")), Configuration()).sink()
    assert not sink.has_global_committer


def test_the_name_of_the_null_partition_is_read_as_null(tmp_path: Path) -> None:
    (tmp_path / "dt=nothing" / "hm=1").mkdir(parents=True)
    (tmp_path / "dt=nothing" / "hm=1" / "part").write_text("7\n")
    found = table(tmp_path, {"partition.default-name": "nothing"}, PARTITIONED, ("dt", "hm"))
    assert read(create_source(found, Configuration())).to_pylist() == [{"n": 7, "dt": None, "hm": "1"}]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"sink.partition-commit.policy.kind": "metastore"}, "for a hive table"),
        ({"sink.partition-commit.policy.kind": "custom"}, "needs the option 'sink.partition-commit.policy.class'"),
        (
            {"sink.partition-commit.policy.kind": "custom", "sink.partition-commit.policy.class": "json.JSONDecoder"},
            "json.JSONDecoder is no partition commit policy: it is not derived from PartitionCommitPolicy",
        ),
        ({"sink.partition-commit.policy.kind": "succes-file"}, "succes-file is not supported, only success-file"),
        (COMMITTED | {"sink.partition-commit.success-file.name": "done"}, "begins with '_'"),
        (COMMITTED | {"sink.partition-commit.watermark-time-zone": "Mars"}, "unknown time zone 'Mars'"),
        (COMMITTED | {"partition.time-extractor.kind": "own"}, "must be 'default'"),
        (COMMITTED | {"partition.time-extractor.timestamp-formatter": "G"}, "'G' is not supported"),
        ({"sink.partition-commit.trigger": "event-time"}, "sink.partition-commit.trigger"),
        ({"sink.shuffle-by-partition.enable": "true"}, "sink.parallelism"),
    ],
)
def test_options_that_the_sink_cannot_follow_are_reported(
    tmp_path: Path, options: dict[str, str], expected: str
) -> None:
    with pytest.raises((ValidationError, UnsupportedOperationError), match=expected):
        create_sink(table(tmp_path, options, PARTITIONED, ("dt", "hm")), Configuration())


def test_only_files_are_read_whose_paths_match(prices: Path) -> None:
    (prices / "below").mkdir()
    (prices / "below" / "b.csv").write_text("3,1,2024-01-02 03:04:05,z\n")
    (prices / "a.csv.part").write_text("broken")
    pattern = {"source.path.regex-pattern": r".*/[^/]*\.csv"}
    assert sorted(read(create_source(table(prices, pattern), Configuration())).column("id").to_pylist()) == [1, 2, 3]
    with pytest.raises(ValidationError, match="is no regular expression"):
        create_source(table(prices, {"source.path.regex-pattern": "("}), Configuration())


def test_facts_about_files_are_columns(prices: Path) -> None:
    source: Any = create_source(table(prices, {}), Configuration())
    assert list(source.metadata) == ["file.path", "file.name", "file.size", "file.modification-time"]
    whole = source.with_metadata(("file.name", "file.size", "file.path", "file.modification-time"))
    os.utime(prices / "a.csv", (5, 5))
    found = read(whole)
    assert found.schema == schema_of(whole.produced_type)
    size = (prices / "a.csv").stat().st_size
    moment = datetime.datetime(1970, 1, 1, 0, 0, 5, tzinfo=datetime.UTC)
    facts = ["a.csv", size, f"file:{prices / 'a.csv'}", moment]
    assert [list(row.values())[4:] for row in found.to_pylist()] == [facts, facts]
    wanted = types.RowType.of(COLUMNS[0], ("$metadata$file.size", types.BigIntType()))
    narrow = read(whole.with_projection(((0,), (5,)), wanted))
    assert narrow.to_pylist() == [{"id": 1, "$metadata$file.size": size}, {"id": 2, "$metadata$file.size": size}]
    assert whole.with_projection(((5,), (0,)), wanted) is None


@pytest.mark.parametrize("identifier", ["csv", "json", "parquet", "orc", "avro"])
def test_small_files_are_merged_up_to_the_asked_size(tmp_path: Path, identifier: str) -> None:
    pytest.importorskip("fastavro")
    options = {"format": identifier, "auto-compaction": "true", "compaction.file-size": "1 gb"}
    sink = create_sink(table(tmp_path, options), Configuration())
    assert sink.sink()._compaction[0].target_size == 1 << 30
    row = {"id": 1, "price": None, "at": None, "name": "x"}
    rows = pa.RecordBatch.from_pylist([row], schema=schema_of(types.RowType.of(*COLUMNS)))
    paths = []
    for number in range(3):
        paths.append(str(tmp_path / f"{number}"))
        with open(paths[-1], "wb") as file:
            writer = sink.writer.create(file, InternalTypeInfo(types.RowType.of(*COLUMNS)))
            writer.add(Batch(rows))
            writer.finish()
    (tmp_path / "merged").mkdir()
    with (tmp_path / "merged" / "part").open("wb") as file:
        sink.compactor.compact(paths, file)
    merged = read(create_source(table(tmp_path / "merged", {"format": identifier}), Configuration()))
    assert merged.to_pylist() == [row] * 3

"""Tables in files: columns and partitions are read with the types of the table, and looked up by key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import ValidationError
from flinkpy.sql.types import logical_types as types
from flinkpy.sql.types.arrow import schema_of
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


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"format": "cvs"}, "Available format identifiers are:\n\ncsv\njson"),
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

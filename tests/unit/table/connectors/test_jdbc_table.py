"""Tables of databases: they are scanned in partitions and looked up by key, with the types of the table."""

from __future__ import annotations

import datetime
import pickle
import sqlite3
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import JdbcError, ValidationError
from flinkpy.connectors.jdbc.dialects import dialect_of
from flinkpy.graph.table_specs import LookupCacheOptions
from flinkpy.sql.rex import InputRef, Literal, RexCall, RexNode
from flinkpy.sql.types import logical_types as types
from flinkpy.sql.types.arrow import schema_of
from flinkpy.table.catalog.catalog_tables import CatalogTable, ContextResolvedTable
from flinkpy.table.catalog.identifiers import ObjectIdentifier
from flinkpy.table.catalog.resolved_schema import ResolvedSchema
from flinkpy.table.connectors.jdbc_filters import condition_of
from flinkpy.table.connectors.registry import create_source
from flinkpy.table.schema import Schema
from tests.unit.connectors.connector_fakes import read_splits

COLUMNS = (
    ("id", types.IntType()),
    ("my name", types.VarCharType()),
    ("price", types.DecimalType(6, 2)),
    ("at", types.TimestampType(3)),
    ("is_new", types.BooleanType()),
)
AT = datetime.datetime(2024, 1, 2, 3, 4, 5)
ROWS = [(number, f"n{number % 3}", 2.5, str(AT), 1) for number in range(9)] + [(9, None, None, None, None)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "db"
    with sqlite3.connect(found) as connection:
        connection.execute('CREATE TABLE items (id, "my name", price, at, is_new)')
        connection.executemany("INSERT INTO items VALUES (?, ?, ?, ?, ?)", ROWS)
    connection.close()
    return found


def source_of(path: Path, **options: str) -> Any:
    given = {key.replace("_", "-"): text for key, text in options.items()}
    options = {"connector": "jdbc", "url": f"jdbc:sqlite:{path}", "table-name": "items", **given}
    resolved = ResolvedSchema.physical(*COLUMNS)
    table = ContextResolvedTable(ObjectIdentifier("c", "d", "t"), CatalogTable(Schema(), options), resolved)
    return create_source(table, Configuration())


PARTITIONED = {
    "scan.partition.column": "id",
    "scan.partition.num": "3",
    "scan.partition.lower-bound": "0",
    "scan.partition.upper-bound": "9",
}


@pytest.mark.parametrize(("options", "splits"), [({}, 1), (PARTITIONED, 3)])
def test_a_table_is_scanned_with_its_types(path: Path, options: dict[str, str], splits: int) -> None:
    source = pickle.loads(pickle.dumps(source_of(path, **options).source()))
    assert len(source.list_splits()) == splits
    batches = [batch.values for batch in read_splits(source, source.list_splits(), 4)]
    found = pa.Table.from_batches(batches, schema=schema_of(types.RowType.of(*COLUMNS))).to_pylist()
    assert found[1] == {"id": 1, "my name": "n1", "price": Decimal("2.50"), "at": AT, "is_new": True}
    assert found[9] == {"id": 9, "my name": None, "price": None, "at": None, "is_new": None}
    assert [row["id"] for row in found] == list(range(10))


def test_only_the_asked_columns_are_read(path: Path) -> None:
    source = source_of(path, **PARTITIONED).with_projection(((1,),), types.RowType.of(COLUMNS[1])).source()
    (batch, *_) = read_splits(source, source.list_splits())
    assert batch.values.schema.names == ["my name"]


def test_rows_are_looked_up_by_several_columns_and_null_equals_nothing(path: Path) -> None:
    function = pickle.loads(pickle.dumps(source_of(path).lookup_function((1, 4))))
    keys = pa.RecordBatch.from_pydict({"my name": ["n2", None, "x", "n0"], "is_new": [True, True, True, True]})
    positions, rows = function.lookup(keys)
    assert positions.tolist() == [0, 0, 0, 3, 3, 3]
    assert rows.column("id").to_pylist() == [2, 5, 8, 0, 3, 6]
    function.close()


def test_a_lookup_that_fails_names_the_statement_after_its_retries(path: Path) -> None:
    function = source_of(path, **{"table-name": "nothing", "lookup.max-retries": "1"}).lookup_function((0,))
    with pytest.raises(JdbcError, match=r'FROM "nothing" WHERE "id" = .*no such table'):
        function.lookup(pa.RecordBatch.from_pydict({"id": [1]}))


def test_the_cache_of_lookups_follows_the_options(path: Path) -> None:
    assert source_of(path).lookup_cache is None
    cache = {"lookup.cache": "PARTIAL", "lookup.partial-cache.max-rows": "7"}
    assert source_of(path, **cache, **{"lookup.partial-cache.expire-after-write": "1 s"}).lookup_cache == (
        LookupCacheOptions(max_rows=7, expire_after_write_ms=1_000)
    )


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"scan.partition.num": "2"}, "Either all or none of the following options"),
        ({**PARTITIONED, "scan.partition.lower-bound": "10"}, "must not be larger than"),
        ({**PARTITIONED, "scan.partition.column": "x"}, "'x', but the columns are id, my name"),
        ({"url": "jdbc:oracle:x"}, "flinkpy knows drivers for"),
        ({"tablename": "x"}, "did you mean 'table-name'"),
    ],
)
def test_wrong_options_are_reported(path: Path, options: dict[str, str], expected: str) -> None:
    with pytest.raises(ValidationError, match=expected):
        source_of(path, **options)


ID, NAME, PRICE, SEEN = (InputRef(kind, place) for place, (_, kind) in enumerate(COLUMNS[:4]))


def call(function: str, *arguments: RexNode) -> RexCall:
    return RexCall(types.BooleanType(), function, arguments)


def literal(value: Any, kind: types.LogicalType) -> Literal:
    return Literal(kind, value)


FIVE, TEXT = literal(5, types.IntType()), literal("n1", types.CharType(2))


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (call("<", ID, FIVE), ('"id" < ?', (5,))),
        (call(">=", FIVE, ID), ('"id" <= ?', (5,))),
        (call("=", NAME, TEXT), ('"my name" = ?', ("n1",))),
        (call("IS NULL", NAME), ('"my name" IS NULL', ())),
        (call("OR", call("=", ID, FIVE), call("IS NOT NULL", SEEN)), ('("id" = ?) OR ("at" IS NOT NULL)', (5,))),
        (call("=", PRICE, literal(Decimal("2.5"), types.DecimalType(2, 1))), ('"price" = ?', (Decimal("2.5"),))),
        (call("<>", NAME, TEXT), None),
        (call("<", NAME, TEXT), None),
        (call("OR", call("=", ID, FIVE), call("<", NAME, TEXT)), None),
        (call("=", call("+", ID, FIVE), FIVE), None),
        (call("=", ID, literal(None, types.IntType())), None),
    ],
)
def test_conditions_become_sql_if_the_database_keeps_all_rows_for_which_they_are_true(
    condition: RexNode, expected: Any
) -> None:
    found = condition_of(condition, types.RowType.of(*COLUMNS), dialect_of("jdbc:postgresql://h/d"))
    assert (None if found is None else (found.sql, found.parameters)) == expected


def test_values_that_a_database_has_as_text_are_not_compared_there() -> None:
    condition = call("=", PRICE, literal(Decimal("2.5"), types.DecimalType(2, 1)))
    assert condition_of(condition, types.RowType.of(*COLUMNS), dialect_of("jdbc:sqlite:x")) is None


@pytest.mark.parametrize("options", [{}, PARTITIONED])
def test_the_database_leaves_out_rows_and_the_query_checks_the_conditions_again(
    path: Path, options: dict[str, str]
) -> None:
    filters = (call(">", ID, FIVE), call("=", NAME, TEXT), call("<>", NAME, TEXT))
    pushed = source_of(path, **options).with_filters(filters)
    assert pushed.accepted == filters[:2]
    assert pushed.remaining == filters
    source = pickle.loads(pickle.dumps(pushed.source.source()))
    batches = read_splits(source, source.list_splits())
    assert [row["id"] for batch in batches for row in batch.values.to_pylist()] == [7]
    limited = source_of(path).with_limit(2).source()
    assert sum(batch.num_rows for batch in read_splits(limited, limited.list_splits())) == 2

"""ANALYZE TABLE: the query that computes statistics, what is stored, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest

from flinkpy.common.errors import TableProgramError, ValidationError
from flinkpy.sql.parser import nodes as ast
from flinkpy.sql.parser import parse_statement
from flinkpy.table import EnvironmentSettings, TableEnvironment
from flinkpy.table.catalog.catalog_manager import CatalogManager
from flinkpy.table.catalog.catalog_statistics import ColumnStatistics
from flinkpy.table.catalog.identifiers import ObjectPath
from flinkpy.table.statements.analyze import analyze_table

_SINK = "WITH ('connector' = 'blackhole')"


@pytest.fixture
def tables() -> TableEnvironment:
    made = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    made.execute_sql(f"CREATE TABLE t (a INT, s STRING, b BOOLEAN, l ARRAY<INT>, c AS a + 1) {_SINK}")
    made.execute_sql(f"CREATE TABLE p (a INT, k STRING, n INT) PARTITIONED BY (k, n) {_SINK}")
    made.execute_sql("CREATE VIEW v AS SELECT 1 AS x")
    made.execute_sql(f"CREATE TEMPORARY TABLE temporary_t (a INT) {_SINK}")
    return made


def analyze(tables: TableEnvironment, statement: str, rows: Sequence[Sequence[Any]]) -> str:
    """Executes a statement whose query has these rows. Returns the query."""
    parsed = parse_statement(statement)
    assert isinstance(parsed, ast.AnalyzeTable)
    catalogs: CatalogManager = tables._catalogs
    asked: list[str] = []

    def collect(query: str) -> Sequence[Sequence[Any]]:
        asked.append(query)
        return rows

    analyze_table(parsed, catalogs, collect)
    (query,) = asked
    return query


def test_each_type_has_its_statistics(tables: TableEnvironment) -> None:
    row = (9, 1, 8, -3, Decimal(5), 0, 2, 1.5, 4, 3, 4, 2, 6)
    analyze(tables, "ANALYZE TABLE t COMPUTE STATISTICS FOR ALL COLUMNS", [row])
    catalog, path = tables.get_catalog("default_catalog"), ObjectPath("default_database", "t")
    assert catalog.get_table_statistics(path).get_row_count() == 9
    assert catalog.get_table_column_statistics(path).get_column_statistics_data() == {
        "a": ColumnStatistics(1, 8, -3, Decimal(5)),
        "s": ColumnStatistics(0, 2, average_length=1.5, max_length=4),
        "b": ColumnStatistics(3, true_count=4, false_count=2),
        "l": ColumnStatistics(6),
    }


def test_statistics_of_other_columns_stay_and_go_with_the_table(tables: TableEnvironment) -> None:
    analyze(tables, "ANALYZE TABLE t COMPUTE STATISTICS FOR COLUMNS l", [(9, 6)])
    analyze(tables, "ANALYZE TABLE t COMPUTE STATISTICS FOR COLUMNS b", [(10, 0, 5, 5)])
    tables.execute_sql("ALTER TABLE t RENAME TO u")
    catalog, path = tables.get_catalog("default_catalog"), ObjectPath("default_database", "u")
    assert set(catalog.get_table_column_statistics(path).get_column_statistics_data()) == {"l", "b"}
    assert catalog.get_table_statistics(path).get_row_count() == 10
    tables.execute_sql("DROP TABLE u")
    tables.execute_sql(f"CREATE TABLE u (a INT) {_SINK}")
    assert catalog.get_table_statistics(path).get_row_count() == -1


def test_partitions_are_counted_by_one_query(tables: TableEnvironment) -> None:
    for key, number in (("x", 1), ("x", 2), ("y", 1)):
        tables.execute_sql(f"ALTER TABLE p ADD PARTITION (k = '{key}', n = {number})")
    query = analyze(tables, "ANALYZE TABLE p PARTITION (k = 'x', n) COMPUTE STATISTICS", [("x", 1, 7)])
    assert query.endswith("WHERE `k` = 'x' GROUP BY `k`, `n`")
    catalog, path = tables.get_catalog("default_catalog"), ObjectPath("default_database", "p")
    counts = {
        each: catalog.get_partition_statistics(path, each).get_row_count() for each in catalog.list_partitions(path)
    }
    assert counts == {(("k", "x"), ("n", "1")): 7, (("k", "x"), ("n", "2")): 0, (("k", "y"), ("n", "1")): -1}
    catalogs: CatalogManager = tables._catalogs
    assert catalogs.row_count(catalogs.qualify(("p",))) == -1
    analyze(tables, "ANALYZE TABLE p PARTITION (k, n) COMPUTE STATISTICS", [("x", 1, 7), ("y", 1, 3)])
    assert catalogs.row_count(catalogs.qualify(("p",))) == 10


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("ANALYZE TABLE v COMPUTE STATISTICS", "ANALYZE TABLE for a view is not allowed"),
        ("ANALYZE TABLE temporary_t COMPUTE STATISTICS", "is temporary"),
        ("ANALYZE TABLE p COMPUTE STATISTICS", "all partition keys should be specified explicitly"),
        ("ANALYZE TABLE p PARTITION (k) COMPUTE STATISTICS", "all partition keys should be specified explicitly"),
        ("ANALYZE TABLE t PARTITION (a) COMPUTE STATISTICS", "is not a partition table"),
        ("ANALYZE TABLE t COMPUTE STATISTICS FOR COLUMNS c", "does not support computed column"),
        ("ANALYZE TABLE t COMPUTE STATISTICS FOR COLUMNS d", "Column: d does not exist in the table"),
        ("ANALYZE TABLE nothing COMPUTE STATISTICS", "Object 'nothing' not found"),
    ],
)
def test_a_table_without_statistics_is_refused(tables: TableEnvironment, statement: str, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        tables.execute_sql(statement)


def test_streaming_mode_computes_none() -> None:
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    with pytest.raises(TableProgramError, match=r"not supported for streaming mode now \(at line 1, column 1\)"):
        tables.execute_sql("ANALYZE TABLE t COMPUTE STATISTICS")

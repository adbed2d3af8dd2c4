"""Filters on partition columns choose the directories that are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flinkpy.table import EnvironmentSettings, TableEnvironment


@pytest.fixture
def tables(tmp_path: Path) -> TableEnvironment:
    for day, kind in (
        ("2024-01-01", "a"),
        ("2024-01-02", "a"),
        ("2024-01-02", "b"),
        ("__HIVE_DEFAULT_PARTITION__", "b"),
    ):
        directory = tmp_path / f"day={day}" / f"kind={kind}"
        directory.mkdir(parents=True)
        (directory / "part.csv").write_text("1,2\n")
    made = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    made.execute_sql(
        "CREATE TABLE t (id INT, price INT, `day` DATE, kind STRING) PARTITIONED BY (`day`, kind) WITH "
        f"('connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'csv', "
        "'partition.default-name' = '__HIVE_DEFAULT_PARTITION__')"
    )
    return made


def scan_of(tables: TableEnvironment, query: str) -> str:
    plan = tables.explain_sql(query).partition("== Optimized Physical Plan ==")[2]
    return next(line for line in plan.splitlines() if "TableSourceScan" in line)


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ("kind = 'b'", "{day=2024-01-02, kind=b}, {day=None, kind=b}"),
        ("`day` = DATE '2024-01-02' AND kind <> 'b'", "{day=2024-01-02, kind=a}"),
        ("EXTRACT(DAY FROM `day`) = 1 OR UPPER(kind) = 'C'", "{day=2024-01-01, kind=a}"),
        ("`day` IS NULL", "{day=None, kind=b}"),
        ("`day` > DATE '2025-01-01'", ""),
    ],
)
def test_source_reads_the_partitions_for_which_conditions_are_true(
    tables: TableEnvironment, condition: str, kept: str
) -> None:
    scan = scan_of(tables, f"SELECT id FROM t WHERE {condition}")

    assert f"partitions=[{kept}]" in scan


def test_conditions_on_other_columns_stay_in_the_query(tables: TableEnvironment) -> None:
    plan = tables.explain_sql("SELECT id FROM t WHERE kind = 'b' AND price > 1 AND id < CHAR_LENGTH(kind)")

    optimised = plan.partition("== Optimized Physical Plan ==")[2]
    assert "where=[AND(>(price, 1), <(id, CHAR_LENGTH(kind)))]" in optimised
    assert "partitions=[{day=2024-01-02, kind=b}, {day=None, kind=b}]" in optimised


def test_watched_directories_and_missing_ones_are_not_pruned(tables: TableEnvironment, tmp_path: Path) -> None:
    hint = "/*+ OPTIONS('source.monitor-interval' = '1 s') */"
    assert "partitions=" not in scan_of(tables, f"SELECT id FROM t {hint} WHERE kind = 'b'")
    hint = f"/*+ OPTIONS('path' = '{tmp_path}/none') */"
    assert "partitions=" not in scan_of(tables, f"SELECT id FROM t {hint} WHERE kind = 'b'")


def test_only_files_of_the_chosen_partitions_are_listed(tables: TableEnvironment, monkeypatch: Any) -> None:
    from flinkpy.table.connectors.filesystem_source import FileSystemTableSource

    listed: list[list[str]] = []
    original = FileSystemTableSource.with_partitions

    def with_partitions(self: FileSystemTableSource, partitions: Any) -> Any:
        made: Any = original(self, partitions)
        listed.append([path for path, _ in made.source().list_files()])
        return made

    monkeypatch.setattr(FileSystemTableSource, "with_partitions", with_partitions)
    scan_of(tables, "SELECT id FROM t WHERE kind = 'b' AND `day` IS NOT NULL")

    assert [path.partition("day=")[2] for path in listed[0]] == ["2024-01-02/kind=b/part.csv"]

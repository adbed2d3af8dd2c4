"""Tables of databases that are written: rows are added, or replaced and deleted by primary key."""

from __future__ import annotations

import datetime
import pickle
import sqlite3
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import JdbcError, ValidationError
from flinkpy.common.types import RowKind
from flinkpy.connectors.jdbc.dialects import dialect_of
from flinkpy.records.batch import Batch
from flinkpy.sql.types import logical_types as types
from flinkpy.sql.types.arrow import schema_of
from flinkpy.table.catalog.catalog_tables import CatalogTable, ContextResolvedTable
from flinkpy.table.catalog.identifiers import ObjectIdentifier
from flinkpy.table.catalog.resolved_schema import ResolvedSchema, UniqueConstraint
from flinkpy.table.connectors.changelog_mode import INSERT_ONLY, ChangelogMode
from flinkpy.table.connectors.registry import create_sink
from flinkpy.table.schema import Schema
from tests.unit.connectors.connector_fakes import TestingWriterContext

PAIR = (("k", types.BigIntType()), ("v", types.VarCharType()))
INS, UB, UA, DEL = RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER, RowKind.DELETE


def sink_of(path: Path, columns: Any = PAIR, keys: tuple[str, ...] = ("k",), **options: str) -> Any:
    given = {"connector": "jdbc", "url": f"jdbc:sqlite:{path}", "table-name": "t", **options}
    key = UniqueConstraint("pk", keys) if keys else None
    schema = ResolvedSchema(ResolvedSchema.physical(*columns).columns, (), key)
    table = ContextResolvedTable(ObjectIdentifier("c", "d", "t"), CatalogTable(Schema(), given), schema)
    return create_sink(table, Configuration())


def batch_of(rows: list[tuple[Any, ...]], kinds: list[RowKind] | None = None, columns: Any = PAIR) -> Batch:
    schema = schema_of(types.RowType.of(*columns))
    arrays = [pa.array(list(values), field.type) for values, field in zip(zip(*rows), schema)]
    changes = None if kinds is None else np.array([kind.value for kind in kinds], np.int8)
    return Batch(pa.RecordBatch.from_arrays(arrays, schema=schema), None, changes)


def ask(path: Path, sql: str) -> list[Any]:
    with sqlite3.connect(path) as connection:
        found = connection.execute(sql).fetchall()
    connection.close()
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    ask(tmp_path / "db", "CREATE TABLE t (k INTEGER PRIMARY KEY, v TEXT)")
    return tmp_path / "db"


def write(sink: Any, *batches: Batch) -> None:
    writer = pickle.loads(pickle.dumps(sink.sink())).create_writer(TestingWriterContext())
    try:
        for batch in batches:
            writer.write(batch)
        writer.flush(True)
    finally:
        writer.close()


def test_rows_are_replaced_and_deleted_by_primary_key(path: Path) -> None:
    first = batch_of([(1, "a"), (2, "b"), (3, "c")])
    second = batch_of([(1, "a"), (1, "x"), (2, "b"), (4, "d"), (4, "d")], [UB, UA, DEL, INS, DEL])
    write(sink_of(path), first, second)
    assert ask(path, "SELECT * FROM t ORDER BY k") == [(1, "x"), (3, "c")]


@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_any_cut_of_a_changelog_leaves_the_last_row_of_each_key(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("cut") / "db"
    ask(path, "CREATE TABLE t (k INTEGER PRIMARY KEY, v TEXT)")
    changes = data.draw(
        st.lists(st.tuples(st.integers(0, 3), st.text("ab", max_size=2), st.sampled_from([INS, UA, DEL])), min_size=1)
    )
    expected: dict[int, str] = {}
    for key, value, kind in changes:
        expected.pop(key, None)
        if kind is not DEL:
            expected[key] = value
    cut = data.draw(st.integers(0, len(changes)))
    parts = [part for part in (changes[:cut], changes[cut:]) if part]
    max_rows = str(data.draw(st.integers(0, 4)))
    sink = sink_of(path, **{"sink.buffer-flush.max-rows": max_rows, "sink.buffer-flush.interval": "0"})
    write(sink, *(batch_of([row[:2] for row in part], [row[2] for row in part]) for part in parts))
    assert dict(ask(path, "SELECT * FROM t")) == expected


def test_rows_are_written_when_enough_have_come_and_after_the_interval(path: Path) -> None:
    context = TestingWriterContext()
    sink = sink_of(path, **{"sink.buffer-flush.max-rows": "2"}).sink()
    writer = sink.create_writer(context)
    writer.write(batch_of([(1, "a"), (2, "b"), (3, "c")]))
    writer.wait_until_written()
    assert ask(path, "SELECT count(*) FROM t") == [(2,)]
    [(delay_ms, action)] = context.timers
    assert delay_ms == 1_000
    action(0)
    writer.wait_until_written()
    assert ask(path, "SELECT count(*) FROM t") == [(3,)]
    writer.close()


KINDS = (
    ("id", types.IntType()),
    ("price", types.DecimalType(6, 2)),
    ("at", types.TimestampType(9)),
    ("day", types.DateType()),
    ("time", types.TimeType(0)),
    ("raw", types.VarBinaryType()),
    ("flag", types.BooleanType()),
)


def test_values_of_every_type_are_written_and_without_key_rows_are_only_added(tmp_path: Path) -> None:
    path = tmp_path / "db"
    ask(path, "CREATE TABLE t (id INTEGER, price TEXT, at TEXT, day TEXT, time TEXT, raw BLOB, flag INTEGER)")
    at = datetime.datetime(2024, 1, 2, 3, 4, 5, 678)
    row = (1, Decimal("2.50"), at, at.date(), datetime.time(3, 4, 5), b"\x00", True)
    sink = sink_of(path, KINDS, ())
    write(sink, batch_of([row, row, (None,) * 7], columns=KINDS))
    stored = (1, "2.50", "2024-01-02 03:04:05.000678", "2024-01-02", "03:04:05", b"\x00", 1)
    assert ask(path, "SELECT * FROM t") == [stored, stored, (None,) * 7]


def test_changes_need_a_primary_key(path: Path) -> None:
    sink = sink_of(path, keys=())
    assert sink.changelog_mode(INSERT_ONLY) == INSERT_ONLY
    with pytest.raises(ValidationError, match="please declare primary key for sink table 't'"):
        sink.changelog_mode(ChangelogMode.all())


def test_a_refused_row_is_named(path: Path) -> None:
    ask(path, "CREATE TABLE u (k INTEGER PRIMARY KEY, v TEXT NOT NULL)")
    with pytest.raises(JdbcError, match=r"row \(2, None\).*NOT NULL constraint failed"):
        write(sink_of(path, **{"table-name": "u"}), batch_of([(1, "a"), (2, None)]))


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (
            "jdbc:postgresql://h/d",
            'INSERT INTO "s"."t"("k", "v") VALUES (?, ?) ON CONFLICT ("k") DO UPDATE SET "v"=EXCLUDED."v"',
        ),
        ("jdbc:mysql://h/d", "INSERT INTO `s`.`t`(`k`, `v`) VALUES (?, ?) ON DUPLICATE KEY UPDATE `v`=VALUES(`v`)"),
    ],
)
def test_a_dialect_inserts_or_replaces_in_one_statement(url: str, expected: str) -> None:
    assert dialect_of(url).upsert("s.t", ["k", "v"], ["k"]) == expected


def test_a_row_of_keys_only_is_left_as_it_is() -> None:
    assert dialect_of("jdbc:sqlite:x").upsert("t", ["k"], ["k"]).endswith('ON CONFLICT ("k") DO NOTHING')
    assert dialect_of("jdbc:mysql://h/d").upsert("t", ["k"], ["k"]).endswith("UPDATE `k`=VALUES(`k`)")

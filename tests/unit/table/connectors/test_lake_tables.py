"""Tables of Iceberg and Delta in SQL: one version is read in the asked columns, and rows are appended."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyiceberg")
pytest.importorskip("deltalake")

from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import UnsupportedOperationError, ValidationError
from flinkpy.records.batch import Batch
from flinkpy.sql.types import logical_types as types
from flinkpy.sql.types.arrow import schema_of
from flinkpy.sql.types.internal_type_info import InternalTypeInfo
from flinkpy.table.catalog.catalog_tables import CatalogTable, ContextResolvedTable
from flinkpy.table.catalog.identifiers import ObjectIdentifier
from flinkpy.table.catalog.resolved_schema import ResolvedSchema
from flinkpy.table.connectors.changelog_mode import INSERT_ONLY, ChangelogMode
from flinkpy.table.connectors.registry import create_sink, create_source
from flinkpy.table.schema import Schema
from tests.real_tables import FORMATS, RealTable, records
from tests.unit.connectors.connector_fakes import TestingWriterContext, read_splits

COLUMNS = (
    ("id", types.IntType()),
    ("name", types.VarCharType()),
    ("day", types.DateType()),
    ("price", types.DecimalType(10, 2)),
)


@pytest.fixture(params=FORMATS)
def real(request: pytest.FixtureRequest, tmp_path: Path) -> RealTable:
    return RealTable(request.param, tmp_path).create()


def declared(real: RealTable, columns: Any = COLUMNS, **options: str) -> ContextResolvedTable:
    given = {"connector": real.format, **options}
    if real.format == "delta":
        given["table-path"] = str(real.directory)
    else:
        place = {key: text for key, text in real.catalog.items() if key != "type"}
        given |= {"catalog-name": "lake", "catalog-type": "sql", "catalog-table": "t", **place}
    resolved = ResolvedSchema.physical(*columns)
    return ContextResolvedTable(ObjectIdentifier("c", "db", "sales"), CatalogTable(Schema(), given), resolved)


def rows_of(source: Any) -> list[dict[str, Any]]:
    made = pickle.loads(pickle.dumps(source.source()))
    batches = read_splits(made, made.snapshot.list_splits(None), 3)
    assert all(batch.values.schema == schema_of(source.produced_type) for batch in batches)
    return sorted((row for batch in batches for row in batch.values.to_pylist()), key=lambda row: row["id"])


def test_the_asked_columns_are_read_with_the_types_of_the_declaration(real: RealTable) -> None:
    real.append(records(range(6)))
    source: Any = create_source(declared(real), Configuration())
    assert rows_of(source) == records(range(6)).to_pylist()
    wanted = types.RowType.of(COLUMNS[2], COLUMNS[0])
    narrow = source.with_projection(((2,), (0,)), wanted)
    assert [list(row) for row in rows_of(narrow)] == [["day", "id"]] * 6


def test_an_earlier_version_is_read_if_asked(real: RealTable) -> None:
    real.append(records(range(2)))
    first = (
        str(real.delta().version()) if real.format == "delta" else str(real.iceberg().current_snapshot().snapshot_id)
    )
    real.append(records(range(2, 4)))
    option = "versionAsOf" if real.format == "delta" else "snapshot-id"
    assert len(rows_of(create_source(declared(real, **{option: first}), Configuration()))) == 2
    assert len(rows_of(create_source(declared(real), Configuration()))) == 4


def test_rows_are_appended_and_changes_are_not_taken(real: RealTable) -> None:
    sink: Any = create_sink(declared(real), Configuration())
    assert sink.changelog_mode(ChangelogMode.all()) == INSERT_ONLY
    row_type = types.RowType.of(*COLUMNS)
    made = pickle.loads(pickle.dumps(sink.sink()))
    writer = made.create_writer(TestingWriterContext(input_type=InternalTypeInfo(row_type)))
    rows = [{"id": 1, "name": "a", "day": None, "price": None}]
    writer.write(Batch(pa.RecordBatch.from_pylist(rows, schema=schema_of(row_type))))
    writer.flush(True)
    (committable,) = writer.prepare_commit()
    writer.close()
    with made.table.open() as table:
        assert table.try_commit([committable], made.mode)
    assert real.ids() == [1]


def test_overwriting_needs_batch_mode(real: RealTable) -> None:
    streaming: Any = create_sink(declared(real), Configuration())
    assert streaming.with_overwrite() is None
    batch: Any = create_sink(declared(real), Configuration(), is_bounded=True)
    assert batch.with_overwrite().sink().needs_batch_mode


def test_columns_that_the_table_does_not_have_are_reported(real: RealTable) -> None:
    with pytest.raises(ValidationError, match="there is no column 'colour'"):
        create_source(declared(real, (("colour", types.IntType()),)), Configuration())


def test_wrong_options_are_reported(tmp_path: Path) -> None:
    delta = RealTable("delta", tmp_path).create()
    with pytest.raises(ValidationError, match="must be a time such as"):
        create_source(declared(delta, timestampAsOf="noon"), Configuration())
    with pytest.raises(ValidationError, match="did you mean 'versionAsOf'"):
        create_source(declared(delta, versionAsof="1"), Configuration())
    iceberg = RealTable("iceberg", tmp_path).create()
    with pytest.raises(ValidationError, match="did you mean 'snapshot-id'"):
        create_source(declared(iceberg, **{"snapshot-ids": "1"}), Configuration())
    refused = {"streaming": "true", "monitor-interval": "10s", "catalog-impl": "org.example.Catalog"}
    for key, text in refused.items():
        with pytest.raises(UnsupportedOperationError, match=f"the option '{key}' is not supported"):
            create_source(declared(iceberg, **{key: text}), Configuration())
    with pytest.raises(UnsupportedOperationError, match="'upsert-enabled' is not supported: pyiceberg"):
        create_sink(declared(iceberg, **{"upsert-enabled": "true"}), Configuration())
    with pytest.raises(ValidationError, match="has been set already"):
        create_source(declared(iceberg, branch="main", tag="x"), Configuration())


@pytest.mark.parametrize(
    ("table_format", "option", "value"),
    [
        ("iceberg", "snapshot-id", "1"),
        ("iceberg", "as-of-timestamp", "1"),
        ("iceberg", "branch", "b"),
        ("iceberg", "tag", "x"),
        ("delta", "versionAsOf", "0"),
        ("delta", "timestampAsOf", "2024-01-02"),
    ],
)
def test_a_table_of_a_chosen_version_is_not_written(tmp_path: Path, table_format: str, option: str, value: str) -> None:
    table = declared(RealTable(table_format, tmp_path).create(), **{option: value})
    with pytest.raises(ValidationError, match=f"cannot be written with '{option}'"):
        create_sink(table, Configuration())

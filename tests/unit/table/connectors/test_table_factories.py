"""Connectors are found by their option, and wrong options are reported with those that there are."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import ValidationError
from flinkpy.common.types import RowKind
from flinkpy.sql.types import logical_types as types
from flinkpy.table.catalog.catalog_tables import CatalogTable, ContextResolvedTable
from flinkpy.table.catalog.identifiers import ObjectIdentifier
from flinkpy.table.catalog.resolved_schema import ResolvedSchema
from flinkpy.table.connectors.changelog_mode import ChangelogMode
from flinkpy.table.connectors.datagen import DataGenTableSource
from flinkpy.table.connectors.datagen_columns import RowGenerator
from flinkpy.table.connectors.registry import _offered, create_sink, create_source, identifiers
from flinkpy.table.connectors.table_options import TableOptions
from flinkpy.table.formats.table_format import format_of
from flinkpy.table.schema import Schema

ONE_COLUMN = (("n", types.IntType()),)


def table(
    options: dict[str, str], columns: tuple[tuple[str, types.LogicalType], ...] = ONE_COLUMN
) -> ContextResolvedTable:
    identifier = ObjectIdentifier("default_catalog", "default_database", "t")
    return ContextResolvedTable(identifier, CatalogTable(Schema(), options), ResolvedSchema.physical(*columns))


def source(options: dict[str, str], columns: tuple[tuple[str, types.LogicalType], ...] = ONE_COLUMN) -> Any:
    return create_source(table({"connector": "datagen"} | options, columns), Configuration())


def generated(source: DataGenTableSource, first: int = 0, rows: int = 1_000) -> pa.RecordBatch:
    batch = RowGenerator(source.row_type, source.columns).map_batch(np.arange(first, first + rows))
    batch.validate(full=True)
    return batch


def test_an_unknown_connector_is_reported_with_the_known_ones() -> None:
    with pytest.raises(
        ValidationError, match=r"'connector'='datagem' of table 'default_catalog.default_database.t'"
    ) as e:
        create_source(table({"connector": "datagem"}), Configuration())
    assert "blackhole\ndatagen" in e.value.message
    assert "Did you mean 'datagen'?" in e.value.message


def test_connector_that_only_flink_has_is_reported_with_what_to_do() -> None:
    with pytest.raises(ValidationError, match=r"has no connector 'hbase-2\.2': Python has no client of HBase's RPC"):
        create_source(table({"connector": "hbase-2.2"}), Configuration())


def test_a_table_without_connector_is_reported() -> None:
    with pytest.raises(ValidationError, match="do not contain an option key 'connector'"):
        create_source(table({}), Configuration())


def test_an_unknown_option_is_reported_with_a_similar_one_and_the_supported_ones() -> None:
    with pytest.raises(ValidationError, match="Unsupported options found for 'datagen'") as e:
        source({"rows-per-secnd": "5"})
    assert "rows-per-secnd (did you mean 'rows-per-second'?)" in e.value.message
    assert "number-of-rows" in e.value.message


@pytest.mark.parametrize("value", ["many", "0"])
def test_a_wrong_value_names_the_option_and_what_it_can_be(value: str) -> None:
    with pytest.raises(
        ValidationError, match=re.escape(f"'rows-per-second' of table 'default_catalog.default_database.t': '{value}'")
    ):
        source({"rows-per-second": value})


def test_a_sink_is_no_source_and_a_source_is_no_sink() -> None:
    with pytest.raises(ValidationError, match="'print' can only be used as a sink"):
        create_source(table({"connector": "print"}), Configuration())
    with pytest.raises(ValidationError, match="'datagen' can only be used as a source"):
        create_sink(table({"connector": "datagen"}), Configuration())


def test_a_blackhole_needs_no_update_before() -> None:
    sink = create_sink(table({"connector": "blackhole"}), Configuration())
    assert RowKind.UPDATE_BEFORE not in sink.changelog_mode(ChangelogMode.all()).kinds
    assert sink.changelog_mode(ChangelogMode.insert_only()) == ChangelogMode.insert_only()


COLUMNS = (
    ("i", types.IntType()),
    ("b", types.BigIntType()),
    ("d", types.DecimalType(5, 2)),
    ("f", types.FloatType()),
    ("t", types.VarCharType()),
    ("y", types.VarBinaryType(4)),
    ("c", types.CharType(7)),
    ("ts", types.TimestampType(3)),
    ("z", types.LocalZonedTimestampType(6)),
    ("day", types.DateType()),
    ("time", types.TimeType(3)),
    ("flag", types.BooleanType()),
    ("a", types.ArrayType(types.IntType())),
    ("m", types.MapType(types.VarCharType(3), types.BigIntType())),
    ("r", types.RowType.of(("x", types.SmallIntType()), ("y", types.DoubleType()))),
)


def test_every_type_is_generated_and_any_cut_into_batches_gives_the_same_rows() -> None:
    found = source({"fields.y.length": "4", "fields.t.length": "12", "fields.m.key.length": "3"}, COLUMNS)
    stable = [place for place, (name, _) in enumerate(COLUMNS) if name not in ("ts", "z")]
    whole = generated(found).select(stable)
    parts = pa.Table.from_batches([generated(found, 0, 300).select(stable), generated(found, 300, 700).select(stable)])
    assert pa.Table.from_batches([whole]).equals(parts)


def test_a_column_is_the_same_whether_the_others_are_read_or_not() -> None:
    found = source({}, (("n", types.IntType()), ("b", types.BigIntType())))
    projected = found.with_projection(((1,),), types.RowType.of(("b", types.BigIntType())))
    assert generated(projected).column(0).equals(generated(found).column(1))


def test_bounds_lengths_and_null_rates_are_kept() -> None:
    columns = (("n", types.IntType()), ("t", types.VarCharType()), ("d", types.DecimalType(6, 2)))
    options = {
        "fields.n.min": "-3",
        "fields.n.max": "3",
        "fields.n.null-rate": "0.5",
        "fields.t.length": "5",
        "fields.t.var-len": "true",
        "fields.d.min": "1",
        "fields.d.max": "2",
    }
    batch = generated(source(options, columns))
    numbers = batch.column(0)
    assert 300 < numbers.null_count < 700
    assert set(numbers.drop_null().to_pylist()) == set(range(-3, 4))
    assert {len(text) for text in batch.column(1).to_pylist()} == {1, 2, 3, 4, 5}
    assert all(1 <= each <= 2 for each in batch.column(2).to_pylist())


def test_a_sequence_ends_the_source_after_its_last_number() -> None:
    columns = (("n", types.BigIntType()), ("t", types.VarCharType()))
    options = {
        "fields.n.kind": "sequence",
        "fields.n.start": "5",
        "fields.n.end": "9",
        "fields.t.kind": "sequence",
        "fields.t.start": "1",
        "fields.t.end": "7",
    }
    found = source(options, columns)
    assert found.count == 5
    batch = generated(found, 0, 5)
    assert batch.column(0).to_pylist() == [5, 6, 7, 8, 9]
    assert batch.column(1).to_pylist() == ["1", "2", "3", "4", "5"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"fields.n.kind": "sequence"}, "required property 'fields.n.start'"),
        ({"fields.n.min": "5", "fields.n.max": "1"}, "above max"),
        ({"fields.m.min": "5"}, "fields.m.min"),
    ],
)
def test_wrong_options_of_fields_name_the_field(options: dict[str, str], expected: str) -> None:
    with pytest.raises(ValidationError, match=expected):
        source(options)


MODULE = """
from flinkpy.configuration.options import ConfigOption, OptionType
from flinkpy.connectors.discard_sink import DiscardingSink
from flinkpy.table.connectors.blackhole import BlackholeTableSink
from flinkpy.table.connectors.table_factory import TableFactory
from flinkpy.table.formats.json import JsonTableFormat

ROOM = ConfigOption("room", OptionType.STRING, None, "The room to post in.")


class ChatFactory(TableFactory):
    identifier = "chat"
    required_options = (ROOM,)

    def create_sink(self, context):
        return BlackholeTableSink()


class Markdown(JsonTableFormat):
    identifier = "markdown"
"""
ENTRY_POINTS = """
[flinkpy.table.factories]
chat = chat_tables:ChatFactory

[flinkpy.table.formats]
markdown = chat_tables:Markdown
"""


@pytest.fixture
def chat_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Installs a package of its own, as pip leaves it behind."""
    (tmp_path / "chat_tables.py").write_text(MODULE)
    facts = tmp_path / "chat_tables-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: chat-tables\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(str(tmp_path))
    _offered.cache_clear()
    yield
    monkeypatch.undo()
    _offered.cache_clear()
    sys.modules.pop("chat_tables", None)


@pytest.mark.usefixtures("chat_package")
def test_a_package_adds_connectors_and_formats_by_its_entry_points() -> None:
    assert create_sink(table({"connector": "chat", "room": "r"}), Configuration()).summary == "BlackHole"
    assert {"chat", "blackhole"} <= set(identifiers())
    found, _ = format_of("markdown", TableOptions({}, "t"), "t")
    assert found.identifier == "markdown"
    with pytest.raises(ValidationError, match="Missing required options are:\n\nroom"):
        create_sink(table({"connector": "chat"}), Configuration())
    with pytest.raises(ValidationError, match="Did you mean 'chat'"):
        create_sink(table({"connector": "chatt"}), Configuration())
    with pytest.raises(ValidationError, match="Did you mean 'markdown'"):
        format_of("markdwon", TableOptions({}, "t"), "t")

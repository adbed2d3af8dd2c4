"""A planner over tables of fake connectors, for tests of plans."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flinkpy.common.configuration import Configuration
from flinkpy.common.types import RowKind
from flinkpy.sql.parser import nodes as ast
from flinkpy.sql.parser import parse_query, parse_statement
from flinkpy.sql.types.logical_types import RowType
from flinkpy.table.catalog.catalog_manager import CatalogManager
from flinkpy.table.catalog.catalog_tables import CatalogTable, CatalogView, ContextResolvedTable
from flinkpy.table.connectors.changelog_mode import ALL, INSERT_ONLY, UPSERT, ChangelogMode
from flinkpy.table.connectors.table_sink import DynamicTableSink
from flinkpy.table.connectors.table_source import LookupFunction, LookupTableSource, ScanTableSource
from flinkpy.table.planner.planner import Planner
from flinkpy.table.schema import Schema

MODES = {"I": INSERT_ONLY, "I,UA,D": UPSERT, "I,UB,UA,D": ALL}


@dataclass(frozen=True)
class FakeScan(ScanTableSource):
    """A source that takes over nothing."""

    rows: RowType
    mode: ChangelogMode

    @property
    def summary(self) -> str:
        return "fake"

    @property
    def changelog_mode(self) -> ChangelogMode:
        return self.mode

    @property
    def produced_type(self) -> RowType:
        return self.rows

    def source(self) -> Any:
        raise AssertionError("a test of plans does not run jobs")


@dataclass(frozen=True)
class FakeLookup(LookupTableSource):
    rows: RowType
    is_async: bool = False

    @property
    def summary(self) -> str:
        return "fake lookup"

    @property
    def produced_type(self) -> RowType:
        return self.rows

    def lookup_function(self, keys: tuple[int, ...]) -> LookupFunction:
        raise AssertionError("a test of plans does not run jobs")

    def async_lookup_function(self, keys: tuple[int, ...]) -> Any:
        return object() if self.is_async else None


@dataclass(frozen=True)
class FakeSink(DynamicTableSink):
    """A sink of the modes that its table's option `mode` names; without one it takes all but UPDATE_BEFORE."""

    mode: ChangelogMode | None

    @property
    def summary(self) -> str:
        return "fake sink"

    def changelog_mode(self, requested: ChangelogMode) -> ChangelogMode:
        return ChangelogMode(requested.kinds - {RowKind.UPDATE_BEFORE}) if self.mode is None else self.mode

    def sink(self) -> Any:
        raise AssertionError("a test of plans does not run jobs")


class _Config:
    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    def get_configuration(self) -> Configuration:
        return self._configuration

    def get_local_timezone(self) -> str:
        return "UTC"


def _source(table: ContextResolvedTable, configuration: Configuration, is_bounded: bool) -> Any:
    rows = table.resolved_schema.to_physical_row_type()
    if "lookup" in table.options:
        return FakeLookup(rows, table.options["lookup"] == "async")
    return FakeScan(rows, MODES[table.options.get("mode", "I")])


def _sink(table: ContextResolvedTable, configuration: Configuration, is_bounded: bool) -> DynamicTableSink:
    mode = table.options.get("mode")
    return FakeSink(None if mode is None else MODES[mode])


class PlannerFixture:
    """A planner with a catalog of its own."""

    def __init__(self, functions: Any = None) -> None:
        self.configuration = Configuration()
        self.catalogs = CatalogManager()
        self.planner = Planner(self.catalogs, functions, _Config(self.configuration), _source, _sink)
        self.catalogs.schema_resolver = self.planner

    def table(self, name: str, *columns: str, watermark: str = "", key: tuple[str, ...] = (), **options: str) -> None:
        """Creates a table. Columns are `name TYPE` or `name AS expression`; the watermark is `column AS expression`."""
        builder = Schema.new_builder()
        for column in columns:
            left, _, right = column.partition(" ")
            if right.startswith("AS "):
                builder.column_by_expression(left, right[3:])
            else:
                builder.column(left, right)
        if watermark:
            column, _, expression = watermark.partition(" AS ")
            builder.watermark(column, expression)
        if key:
            builder.primary_key(*key)
        self.catalogs.create_table(self.catalogs.qualify((name,)), CatalogTable(builder.build(), options), False)

    def view(self, name: str, query: str) -> None:
        rows = self.planner.bind(parse_query(query)).row_type
        builder = Schema.new_builder()
        for each in rows.fields:
            builder.column(each.name, each.type)
        view = CatalogView(builder.build(), query, query)
        self.catalogs.create_table(self.catalogs.qualify((name,)), view, False)

    def operation(self, text: str) -> Any:
        statement = parse_statement(text)
        if isinstance(statement, ast.Insert):
            return self.planner.bind_insert(statement)
        assert isinstance(statement, ast.QueryStatement)
        return self.planner.bind(statement.query)

    def plan(self, text: str, *, changelog: bool = True) -> str:
        """Returns the optimised physical plan of a statement."""
        return self.planner.physical_text([self.operation(text)], changelog=changelog)

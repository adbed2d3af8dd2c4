"""TableExpansion: turns the name of a table or view into a plan that produces its columns."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import ValidationError
from flinkpy.sql.parser import nodes as ast
from flinkpy.sql.rex import InputRef, RexNode, moved
from flinkpy.sql.types import logical_types as lt
from flinkpy.table.catalog.catalog_tables import CatalogView, ContextResolvedTable, QueryView
from flinkpy.table.catalog.resolved_schema import ComputedColumn, MetadataColumn
from flinkpy.table.connectors.abilities import ReadingMetadata
from flinkpy.table.connectors.watermark_params import watermark_params
from flinkpy.table.planner.binder import operators
from flinkpy.table.planner.errors import invalid, shown_in
from flinkpy.table.planner.logical import nodes as rel

if TYPE_CHECKING:
    from flinkpy.table.planner.binder.queries import QueryBinder


class TableExpansion:
    """Expands views, computed columns and watermarks."""

    def __init__(self, queries: QueryBinder) -> None:
        self._queries = queries

    def expand(self, node: ast.NamedTable) -> tuple[rel.RelNode, tuple[str, ...]]:
        """Returns the plan and the full name of a table. Raises: ValidationError for an unknown name."""
        try:
            table = self._queries.context.tables.get_table_or_error(node.name.parts)
        except ValidationError as error:
            raise invalid(node.name, error.message) from error
        options = {
            option.key: option.value
            for hint in node.hints
            if hint.name.upper() == "OPTIONS"
            for option in hint.options
            if option.key is not None
        }
        path = table.identifier.parts
        if isinstance(table.table, QueryView):
            return table.table.operation, path
        if isinstance(table.table, CatalogView):
            if options:
                raise invalid(
                    node,
                    f"View '{'.'.join(path)}' cannot be enriched with new options. "
                    "Hints can only be applied to tables.",
                )
            return self._view(table), path
        if options:
            changed = replace(table.table, options={**table.table.options, **options})
            table = replace(table, table=changed)
        return self.scan(table), path

    def _view(self, table: ContextResolvedTable) -> rel.RelNode:
        from flinkpy.table.planner.binder.queries import QueryBinder

        assert isinstance(table.table, CatalogView)
        context = self._queries.context
        query = table.table.expanded_query
        with shown_in(query, f"the view {table.identifier}"):
            plan = QueryBinder(context).bind(context.parse_query(query))
        names = table.resolved_schema.column_names
        if names and names != plan.names and len(names) == plan.width:
            plan = rel.Project(plan, plan.references(), names)
        return plan

    def scan(self, table: ContextResolvedTable) -> rel.RelNode:
        """Returns a plan that reads the table: the connector's rows, computed columns, and the watermark."""
        schema = table.resolved_schema
        source = self._queries.context.create_source(table)
        physical = [column for column in schema.columns if column.is_physical]
        metadata = [column for column in schema.columns if isinstance(column, MetadataColumn)]
        source_type, metadata_types = _with_metadata(source, table, metadata)
        row = rel.row_of(
            tuple(each.name for each in (*physical, *metadata)),
            (*(each.type for each in physical), *metadata_types),
        )
        abilities = (ReadingMetadata(tuple(each.key for each in metadata)),) if metadata else ()
        plan: rel.RelNode = rel.Scan(table, source_type, row, abilities=abilities)
        place_in_scan = {each.name: place for place, each in enumerate((*physical, *metadata))}
        positions = {
            place: place_in_scan[column.name]
            for place, column in enumerate(schema.columns)
            if column.name in place_in_scan
        }
        expressions: list[RexNode] = []
        for place, column in enumerate(schema.columns):
            if isinstance(column, ComputedColumn):
                assert column.expression is not None
                expressions.append(moved(column.expression, positions))
            else:
                reference = InputRef(row.fields[positions[place]].type, positions[place])
                expressions.append(operators.cast(reference, column.type))
        if tuple(expressions) != plan.references():
            plan = rel.Project(plan, tuple(expressions), schema.column_names)
        if schema.watermark is not None and self._queries.context.is_streaming:
            rowtime = schema.column_names.index(schema.watermark.rowtime_column)
            name = table.identifier.as_summary_string()
            params = watermark_params(table.options, f"table '{name}'")
            plan = rel.WatermarkAssigner(plan, rowtime, schema.watermark.expression, params)
        return plan


def _with_metadata(
    source: Any, table: ContextResolvedTable, columns: list[MetadataColumn]
) -> tuple[Any, list[lt.LogicalType]]:
    """Returns the source that adds the metadata columns, and their types."""
    if not columns:
        return source, []
    known: dict[str, lt.LogicalType] = getattr(source, "metadata", {})
    types = []
    for column in columns:
        if column.key not in known:
            name = table.identifier.as_summary_string()
            offered = ", ".join(sorted(known)) or "none"
            raise ValidationError(
                f"Invalid metadata key '{column.key}' in column '{column.name}' of table '{name}'. "
                f"Supported metadata keys for reading: {offered}"
            )
        types.append(known[column.key])
    changed = source.with_metadata(tuple(column.key for column in columns))
    if changed is None:
        raise ValidationError(f"The source of table '{table.identifier.as_summary_string()}' cannot read metadata.")
    return changed, types

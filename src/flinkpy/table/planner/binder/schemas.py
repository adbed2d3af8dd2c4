"""SchemaBinder: resolves declared schemas: types, computed columns, watermarks and primary keys.

Source: org.apache.flink.table.catalog.DefaultSchemaResolver.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flinkpy.common.errors import ValidationError
from flinkpy.sql.parser import nodes as ast
from flinkpy.sql.rex import RexNode
from flinkpy.sql.types.logical_types import LogicalType
from flinkpy.table.catalog import resolved_schema as resolved
from flinkpy.table.planner.binder.expressions import ExpressionBinder
from flinkpy.table.planner.binder.queries import QueryBinder
from flinkpy.table.planner.binder.scope import Relation
from flinkpy.table.planner.context import PlannerContext
from flinkpy.table.planner.errors import did_you_mean
from flinkpy.table.planner.logical import nodes as rel
from flinkpy.table.planner.logical.time import SOURCE_WATERMARK, as_regular, as_rowtime, source_watermark
from flinkpy.table.schema import (
    Schema,
    UnresolvedColumn,
    UnresolvedComputedColumn,
    UnresolvedMetadataColumn,
    UnresolvedWatermark,
)
from flinkpy.table.type_conversion import logical_type_of


class SchemaBinder:
    """Resolves schemas of one session."""

    def __init__(self, context: PlannerContext) -> None:
        self._context = context

    def resolve(self, schema: Schema, description: str) -> resolved.ResolvedSchema:
        """Returns the resolved schema. Raises: ValidationError, which begins with `description`."""
        try:
            return self._resolve(schema)
        except ValidationError as error:
            raise ValidationError(f"{description}: {error.message}") from error

    def _resolve(self, schema: Schema) -> resolved.ResolvedSchema:
        names = [each.name for each in schema.columns]
        repeated = next((name for name in names if names.count(name) > 1), None)
        if repeated is not None:
            raise ValidationError(f"Schema must not contain duplicate column names. Found duplicates: [{repeated}]")
        # Computed columns refer to the others, which are resolved first.
        columns: list[resolved.Column | None] = [self._declared(each) for each in schema.columns]
        known = [each for each in columns if each is not None]
        for place, each in enumerate(schema.columns):
            if isinstance(each, UnresolvedComputedColumn):
                expression = self._expression(each.expression, names, known, f"computed column '{each.name}'")
                sql = each.expression if isinstance(each.expression, str) else ""
                columns[place] = resolved.ComputedColumn(each.name, expression.type, each.comment, expression, sql)
        complete = tuple(each for each in columns if each is not None)
        watermark = None
        if len(schema.watermarks) > 1:
            raise ValidationError("Multiple watermark definitions are not supported yet.")
        if schema.watermarks:
            watermark, complete = self._watermark(schema.watermarks[0], names, complete)
        key = None
        if schema.primary_key is not None:
            key, complete = _primary_key(*schema.primary_key, complete)
        return resolved.ResolvedSchema(complete, watermark, key)

    def _declared(self, column: UnresolvedColumn) -> resolved.Column | None:
        if isinstance(column, UnresolvedComputedColumn):
            return None
        kind = self._type(getattr(column, "type", None), column.name)
        if isinstance(column, UnresolvedMetadataColumn):
            return resolved.MetadataColumn(column.name, kind, column.comment, column.metadata_key, column.is_virtual)
        return resolved.PhysicalColumn(column.name, kind, column.comment)

    @staticmethod
    def _type(declared: Any, column: str) -> LogicalType:
        try:
            return logical_type_of(declared)
        except TypeError as error:
            raise ValidationError(f"column '{column}': {error}") from error

    def _expression(self, expression: Any, names: list[str], columns: list[resolved.Column], owner: str) -> RexNode:
        if isinstance(expression, RexNode):
            return expression
        if isinstance(expression, str):
            from flinkpy.sql.parser import parse_expression

            expression = parse_expression(expression)
        queries = QueryBinder(self._context)
        relations = []
        for column in columns:
            row = rel.row_of((column.name,), (column.type,))
            relations.append(Relation((), (column.name,), names.index(column.name), row))
        try:
            return ExpressionBinder(queries, queries.scope(relations, None)).bind(expression)
        except ValidationError as error:
            raise ValidationError(f"Invalid expression for {owner}. {error.message}") from error

    def _watermark(
        self, declared: UnresolvedWatermark, names: list[str], columns: tuple[resolved.Column, ...]
    ) -> tuple[resolved.WatermarkSpec, tuple[resolved.Column, ...]]:
        if declared.column not in names:
            raise ValidationError(
                f"Invalid column name '{declared.column}' for rowtime attribute in watermark declaration. Available "
                f"columns are: {names}{did_you_mean(declared.column, names)}"
            )
        place = names.index(declared.column)
        rowtime = columns[place]
        owner = f"watermark of '{declared.column}'"
        expression: RexNode = source_watermark(rowtime.type)
        if not _is_source_watermark(declared.expression):
            expression = self._expression(declared.expression, names, list(columns), owner)
        if as_regular(expression.type).root is not rowtime.type.root:
            raise ValidationError(
                f"The watermark declaration's output data type '{expression.type}' is different from the time field's "
                f"data type '{rowtime.type}'."
            )
        as_rowtime(rowtime.type)
        sql = declared.expression if isinstance(declared.expression, str) else ""
        return resolved.WatermarkSpec(declared.column, expression, sql), columns


def _is_source_watermark(expression: Any) -> bool:
    """True for SOURCE_WATERMARK(), which is allowed as a whole watermark only."""
    if isinstance(expression, str):
        from flinkpy.sql.parser import parse_expression

        expression = parse_expression(expression)
    if not isinstance(expression, ast.FunctionCall) or expression.arguments:
        return False
    return expression.name.parts[-1].upper() == SOURCE_WATERMARK


def _primary_key(
    name: str, keys: tuple[str, ...], columns: tuple[resolved.Column, ...]
) -> tuple[resolved.UniqueConstraint, tuple[resolved.Column, ...]]:
    """Returns the constraint, and the columns with those of the key NOT NULL."""
    known = {each.name: each for each in columns}
    for key in keys:
        if key not in known:
            raise ValidationError(
                f"Invalid primary key '{name}'. Column '{key}' does not exist{did_you_mean(key, known)}"
            )
        if not known[key].is_physical:
            raise ValidationError(f"Invalid primary key '{name}'. Column '{key}' is not a physical column.")
    changed = tuple(replace(each, type=each.type.not_null()) if each.name in keys else each for each in columns)
    return resolved.UniqueConstraint(name, keys), changed

"""PlanTables: the tables of a compiled plan. It says how much of a table a plan has, and what catalogs must have.

A plan names a table by its identifier. For a permanent table it also has the schema and the options, as far as
`table.plan.compile.catalog-objects` says. `table.plan.restore.catalog-objects` says which of them a restored plan uses.

Source: org.apache.flink.table.planner.plan.nodes.exec.serde.{ContextResolvedTableJsonSerializer,
ContextResolvedTableJsonDeserializer, ResolvedSchemaJsonSerializer}.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flinkpy.common.errors import TableProgramError, UnsupportedOperationError
from flinkpy.configuration.table_options import PLAN_COMPILE_CATALOG_OBJECTS, PLAN_RESTORE_CATALOG_OBJECTS
from flinkpy.table.catalog.catalog_tables import CatalogTable, ContextResolvedTable, InlineTable
from flinkpy.table.catalog.identifiers import ObjectIdentifier
from flinkpy.table.catalog.resolved_schema import (
    Column,
    ComputedColumn,
    MetadataColumn,
    PhysicalColumn,
    ResolvedSchema,
    UniqueConstraint,
    WatermarkSpec,
)
from flinkpy.table.planner.plans.values import LATER_VERSION, PlanValues
from flinkpy.table.schema import Schema

_KINDS = {"COMPUTED": ComputedColumn, "METADATA": MetadataColumn, "PHYSICAL": PhysicalColumn}


class PlanTables:
    """Writes and reads tables.

    Args:
        values: the codec of types and expressions.
        catalogs: the CatalogManager of the session.
        compiled_objects: `table.plan.compile.catalog-objects`.
        restored_objects: `table.plan.restore.catalog-objects`.
    """

    def __init__(self, values: PlanValues, catalogs: Any, compiled_objects: str, restored_objects: str) -> None:
        self._values = values
        self._catalogs = catalogs
        self._compiled_objects = compiled_objects
        self._restored_objects = restored_objects

    # -- writing -----------------------------------------------------------------------------------------------------

    def encode(self, table: ContextResolvedTable) -> dict[str, Any]:
        """Returns the JSON of a table. Raises: UnsupportedOperationError for rows or streams of the program."""
        found = table.table
        if isinstance(found, InlineTable) or not isinstance(found, CatalogTable):
            raise UnsupportedOperationError(
                f"Table '{table.identifier.as_summary_string()}' holds rows or a stream of this program, which a plan "
                "cannot contain. Create a table with a connector instead."
            )
        written: dict[str, Any] = {"identifier": list(table.identifier.parts)}
        is_whole = self._compiled_objects == "ALL"
        if not table.is_temporary and self._compiled_objects != "IDENTIFIER":
            resolved: dict[str, Any] = {"schema": self._encode_schema(table.resolved_schema)}
            if found.partition_keys:
                resolved["partitionKeys"] = list(found.partition_keys)
            if found.comment and is_whole:
                resolved["comment"] = found.comment
            if is_whole:
                resolved["options"] = dict(found.options)
            written["resolvedTable"] = resolved
        if table.is_temporary or not is_whole:
            # The options of the catalog are looked up again; those of an OPTIONS hint are not in the catalog.
            known = self._catalogs.get_table(table.identifier)
            options = {} if known is None else known.options
            hinted = {key: value for key, value in found.options.items() if options.get(key) != value}
            if hinted:
                written["dynamicOptions"] = hinted
        return written

    def _encode_schema(self, schema: ResolvedSchema) -> dict[str, Any]:
        written: dict[str, Any] = {"columns": [self._encode_column(each) for each in schema.columns]}
        if schema.watermark is not None:
            written["watermark"] = {
                "rowtimeColumn": schema.watermark.rowtime_column,
                "expression": self._values.encode(schema.watermark.expression),
                "sql": schema.watermark.sql,
            }
        if schema.primary_key is not None:
            written["primaryKey"] = {"name": schema.primary_key.name, "columns": list(schema.primary_key.columns)}
        return written

    def _encode_column(self, column: Column) -> dict[str, Any]:
        kind = next(name for name, cls in _KINDS.items() if isinstance(column, cls))
        fields = self._values.encode_fields(column)
        return fields if kind == "PHYSICAL" else {"kind": kind, **fields}

    # -- reading -----------------------------------------------------------------------------------------------------

    def decode(self, data: dict[str, Any]) -> ContextResolvedTable:
        """Returns the table.

        Raises: TableProgramError if the catalog does not have it, or has another schema, or the plan lacks a part.
        """
        identifier = ObjectIdentifier(*data["identifier"])
        resolved = data.get("resolvedTable")
        in_catalog: ContextResolvedTable | None = self._catalogs.get_table(identifier)
        has_options = resolved is not None and "options" in resolved
        is_permanent = in_catalog is not None and not in_catalog.is_temporary
        if not has_options and self._restored_objects == "ALL_ENFORCED" and is_permanent:
            raise self._lookup_disabled(identifier)
        schema = None if resolved is None else self._decode_schema(resolved["schema"])
        if schema is not None and in_catalog is not None and not _same_schema(schema, in_catalog.resolved_schema):
            raise TableProgramError(
                f"The schema of table '{identifier.as_summary_string()}' from the persisted plan does not match the "
                f"schema loaded from the catalog: '{_shown(schema)}' != '{_shown(in_catalog.resolved_schema)}'. Make "
                "sure the table schema in the catalog is still identical."
            )
        if schema is not None and has_options and self._restored_objects != "IDENTIFIER":
            return self._of_plan(identifier, resolved or {}, schema, is_temporary=not is_permanent)
        if in_catalog is None:
            raise self._missing(identifier)
        hinted = data.get("dynamicOptions", {})
        if hinted and isinstance(in_catalog.table, CatalogTable):
            options = {**in_catalog.options, **hinted}
            return replace(in_catalog, table=replace(in_catalog.table, options=options))
        return in_catalog

    @staticmethod
    def _of_plan(
        identifier: ObjectIdentifier, data: dict[str, Any], schema: ResolvedSchema, *, is_temporary: bool
    ) -> ContextResolvedTable:
        table = CatalogTable(
            _declared(schema), dict(data["options"]), data.get("comment", ""), tuple(data.get("partitionKeys", ()))
        )
        return ContextResolvedTable(identifier, table, schema, is_temporary=is_temporary)

    def _decode_schema(self, data: dict[str, Any]) -> ResolvedSchema:
        watermark = data.get("watermark")
        key = data.get("primaryKey")
        return ResolvedSchema(
            tuple(self._decode_column(each) for each in data["columns"]),
            None
            if watermark is None
            else WatermarkSpec(
                watermark["rowtimeColumn"], self._values.decode(watermark["expression"]), watermark.get("sql", "")
            ),
            None if key is None else UniqueConstraint(key["name"], tuple(key["columns"])),
        )

    def _decode_column(self, data: dict[str, Any]) -> Column:
        kind = data.get("kind", "PHYSICAL")
        if kind not in _KINDS:
            raise TableProgramError(f"The plan has a column of the unknown kind '{kind}'.{LATER_VERSION}")
        rest = {key: value for key, value in data.items() if key != "kind"}
        column: Column = self._values.build(_KINDS[kind], rest, f"column {data.get('name')}")
        return column

    # -- errors ------------------------------------------------------------------------------------------------------

    def _lookup_disabled(self, identifier: ObjectIdentifier) -> TableProgramError:
        restore = PLAN_RESTORE_CATALOG_OBJECTS.key
        return TableProgramError(
            "The persisted plan does not include all required catalog metadata for table "
            f"'{identifier.as_summary_string()}'. However, lookup is disabled because option '{restore}' = "
            f"'ALL_ENFORCED'. Either enable the catalog lookup with '{restore}' = 'IDENTIFIER' / 'ALL' or regenerate "
            f"the plan with '{PLAN_COMPILE_CATALOG_OBJECTS.key}' = 'ALL'. Make sure the table is not compiled as a "
            "temporary table."
        )

    def _missing(self, identifier: ObjectIdentifier) -> TableProgramError:
        name = identifier.as_summary_string()
        if self._restored_objects == "IDENTIFIER":
            reason = (
                f"Cannot resolve table '{name}' and catalog lookup is forced because "
                f"'{PLAN_RESTORE_CATALOG_OBJECTS.key}' = 'IDENTIFIER'. "
            )
        else:
            reason = (
                f"Cannot resolve table '{name}' and the persisted plan does not include all required catalog table "
                "metadata. "
            )
        return TableProgramError(
            f"{reason}Make sure a registered catalog contains the table when restoring or the table is available as a "
            f"temporary table. Otherwise regenerate the plan with '{PLAN_COMPILE_CATALOG_OBJECTS.key}' != 'IDENTIFIER' "
            "and make sure the table was not compiled as a temporary table."
        )


def _same_schema(plan: ResolvedSchema, catalog: ResolvedSchema) -> bool:
    """True if the columns have the same order, names, kinds and types, and the primary keys are equal."""
    return plan.primary_key == catalog.primary_key and [
        (type(each), each.name, each.type) for each in plan.columns
    ] == [(type(each), each.name, each.type) for each in catalog.columns]


def _shown(schema: ResolvedSchema) -> str:
    key = "" if schema.primary_key is None else f", PRIMARY KEY ({', '.join(schema.primary_key.columns)}) NOT ENFORCED"
    return f"({', '.join(f'`{each.name}` {each.type}' for each in schema.columns)}{key})"


def _declared(schema: ResolvedSchema) -> Schema:
    """Returns the schema as a program would declare it."""
    builder = Schema.new_builder()
    for column in schema.columns:
        if isinstance(column, ComputedColumn):
            builder.column_by_expression(column.name, column.sql)
        elif isinstance(column, MetadataColumn):
            builder.column_by_metadata(column.name, column.type, column.metadata_key, column.is_virtual)
        else:
            builder.column(column.name, column.type)
        if column.comment is not None:
            builder.with_comment(column.comment)
    if schema.watermark is not None:
        builder.watermark(schema.watermark.rowtime_column, schema.watermark.sql)
    if schema.primary_key is not None:
        builder.primary_key_named(schema.primary_key.name, *schema.primary_key.columns)
    return builder.build()

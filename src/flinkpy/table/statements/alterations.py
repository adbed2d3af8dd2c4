"""The changes of ALTER TABLE: columns, watermark, constraints, options and partitions.

Source: org.apache.flink.table.planner.operations.converters.table.SqlAlterTable*Converter.
"""

from __future__ import annotations

from dataclasses import replace

from flinkpy.common.errors import UnsupportedOperationError, ValidationError
from flinkpy.sql.parser import nodes as ast
from flinkpy.table.catalog.catalog import PartitionSpec
from flinkpy.table.catalog.catalog_manager import CatalogManager
from flinkpy.table.catalog.catalog_tables import CatalogTable, ContextResolvedTable
from flinkpy.table.schema import Schema, UnresolvedColumn, UnresolvedComputedColumn, UnresolvedPhysicalColumn
from flinkpy.table.statements.declarations import (
    TypeBinder,
    column_of,
    distribution_of,
    names_of,
    options_of,
    primary_key_of,
    watermark_of,
)

_FAILED = "Failed to execute ALTER TABLE statement.\n"


def altered_table(table: CatalogTable, action: ast.AlterAction, bind_type: TypeBinder) -> CatalogTable:
    """Returns the table after the change. Raises: ValidationError if the table does not allow it."""
    match action:
        case ast.SetOptions(options):
            return replace(table, options=table.options | options_of(options))
        case ast.ResetOptions(keys):
            names = {each.key for each in keys}
            if not names:
                raise ValidationError("ALTER TABLE RESET does not support empty key")
            if "connector" in names:
                raise ValidationError("ALTER TABLE RESET does not support changing 'connector'")
            return replace(table, options={key: value for key, value in table.options.items() if key not in names})
        case ast.AlterSchema():
            return _altered_schema(table, action, bind_type)
        case ast.RenameColumn(column, new_name):
            return _renamed(table, column.last, new_name.last)
        case ast.DropColumns(columns):
            return _without_columns(table, names_of(columns))
        case ast.DropPrimaryKey():
            if table.schema.primary_key is None:
                raise ValidationError(f"{_FAILED}The base table does not define any primary key.")
            return replace(table, schema=Schema(table.schema.columns, table.schema.watermarks))
        case ast.DropConstraint(name):
            key = table.schema.primary_key
            if key is None or key[0] != name.last:
                known = "does not define any primary key" if key is None else f"has the constraint '{key[0]}' only"
                raise ValidationError(f"{_FAILED}The base table {known}: cannot drop '{name.last}'.")
            return replace(table, schema=Schema(table.schema.columns, table.schema.watermarks))
        case ast.DropWatermark():
            if not table.schema.watermarks:
                raise ValidationError(f"{_FAILED}The base table does not define any watermark strategy.")
            return replace(table, schema=Schema(table.schema.columns, (), table.schema.primary_key))
        case ast.DropDistribution():
            if table.distribution is None:
                raise ValidationError(f"{_FAILED}The base table does not define any distribution.")
            return replace(table, distribution=None)
    raise UnsupportedOperationError(f"flinkpy does not have ALTER TABLE with {type(action).__name__} yet")


def _altered_schema(table: CatalogTable, action: ast.AlterSchema, bind_type: TypeBinder) -> CatalogTable:
    schema, is_add = table.schema, action.verb == "ADD"
    columns = list(schema.columns)
    keys = list(action.constraints)
    for change in action.columns:
        column = column_of(change.column, bind_type)
        if isinstance(change.column, ast.PhysicalColumn) and change.column.constraint is not None:
            keys.append(replace(change.column.constraint, columns=(change.column.name,)))
        columns = _placed(columns, column, change, is_add)
    key, watermarks, distribution = schema.primary_key, schema.watermarks, table.distribution
    if keys:
        _check_presence("a primary key", key is not None, is_add)
        key = primary_key_of(keys)
    if action.watermark is not None:
        _check_presence("a watermark strategy", bool(watermarks), is_add)
        watermarks = (watermark_of(action.watermark),)
    if action.distribution is not None:
        _check_presence("a distribution", distribution is not None, is_add)
        distribution = distribution_of(action.distribution)
    return replace(table, schema=Schema(tuple(columns), watermarks, key), distribution=distribution)


def _check_presence(what: str, is_there: bool, is_add: bool) -> None:
    if is_add and is_there:
        raise ValidationError(f"{_FAILED}The base table has already defined {what}. Drop or modify it first.")
    if not is_add and not is_there:
        raise ValidationError(f"{_FAILED}The base table does not define {what}. Add it first.")


def _placed(
    columns: list[UnresolvedColumn], column: UnresolvedColumn, change: ast.AlterColumn, is_add: bool
) -> list[UnresolvedColumn]:
    names = [each.name for each in columns]
    is_there = column.name in names
    if is_add and is_there:
        raise ValidationError(f"{_FAILED}Try to add a column `{column.name}` which already exists in the table.")
    if not is_add and not is_there:
        raise ValidationError(f"{_FAILED}Try to modify a column `{column.name}` which does not exist in the table.")
    place = names.index(column.name) if is_there else len(columns)
    rest = [each for each in columns if each.name != column.name]
    if change.first:
        place = 0
    elif change.after is not None:
        others = [each.name for each in rest]
        if change.after.last not in others:
            raise ValidationError(
                f"{_FAILED}Referenced column `{change.after.last}` by 'AFTER' does not exist in the table."
            )
        place = others.index(change.after.last) + 1
    return [*rest[:place], column, *rest[place:]]


def _check_is_not_used(table: CatalogTable, name: str, verb: str) -> None:
    """Raises: ValidationError if another part of the table refers to the column."""
    if name not in [each.name for each in table.schema.columns]:
        raise ValidationError(f"{_FAILED}The column `{name}` does not exist in the base table.")
    quoted = f"`{name}`"
    for column in table.schema.columns:
        if isinstance(column, UnresolvedComputedColumn) and column.name != name and quoted in str(column.expression):
            raise ValidationError(f"{_FAILED}The column {quoted} is referenced by computed column `{column.name}`.")
    for watermark in table.schema.watermarks:
        if watermark.column == name or quoted in str(watermark.expression):
            raise ValidationError(f"{_FAILED}The column {quoted} is referenced by watermark expression.")
    if name in table.partition_keys:
        raise ValidationError(f"{_FAILED}The column {quoted} is used as the partition keys.")
    if table.distribution is not None and name in table.distribution[2]:
        raise ValidationError(f"{_FAILED}The column {quoted} is used as a distribution key.")
    if verb == "drop" and table.schema.primary_key is not None and name in table.schema.primary_key[1]:
        raise ValidationError(f"{_FAILED}The column {quoted} is used as the primary key.")


def _renamed(table: CatalogTable, old: str, new: str) -> CatalogTable:
    _check_is_not_used(table, old, "rename")
    schema = table.schema
    if new in [each.name for each in schema.columns]:
        raise ValidationError(f"{_FAILED}The column `{new}` already existed in table schema.")
    columns = tuple(replace(each, name=new) if each.name == old else each for each in schema.columns)
    key = schema.primary_key
    if key is not None:
        key = (key[0], tuple(new if each == old else each for each in key[1]))
    return replace(table, schema=Schema(columns, schema.watermarks, key))


def _without_columns(table: CatalogTable, names: tuple[str, ...]) -> CatalogTable:
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ValidationError(f"{_FAILED}Duplicate column `{min(twice)}`.")
    # Computed columns go first, so that a statement may drop a column together with those that refer to it.
    is_physical = {each.name: isinstance(each, UnresolvedPhysicalColumn) for each in table.schema.columns}
    for name in sorted(names, key=lambda each: is_physical.get(each, True)):
        _check_is_not_used(table, name, "drop")
        columns = tuple(each for each in table.schema.columns if each.name != name)
        table = replace(table, schema=Schema(columns, table.schema.watermarks, table.schema.primary_key))
    return table


def alter_partitions(catalogs: CatalogManager, found: ContextResolvedTable, action: ast.AlterAction) -> bool:
    """Adds or drops partitions if that is the change. Returns False for other changes."""
    if not isinstance(action, (ast.AddPartitions, ast.DropPartitions)):
        return False
    catalog = catalogs.catalog_or_error(found.identifier.catalog_name)
    path = found.identifier.to_object_path()
    for each in action.partitions:
        partition = partition_spec(each.partition)
        if isinstance(action, ast.AddPartitions):
            catalog.create_partition(path, partition, options_of(each.options), action.if_not_exists)
        else:
            catalog.drop_partition(path, partition, action.if_exists)
    return True


def partition_spec(columns: tuple[ast.PartitionColumn, ...]) -> PartitionSpec:
    """Returns the columns and values of PARTITION (...). Raises: ValidationError for a column without a value."""
    parts = []
    for each in columns:
        if each.value is None:
            raise ValidationError(f"PARTITION ({each.column.last}) needs a value.")
        parts.append((each.column.last, literal_text(each.value)))
    return tuple(parts)


def literal_text(node: ast.Expression) -> str:
    """Returns the text of a literal in PARTITION."""
    value = getattr(node, "value", None)
    if value is None:
        value = getattr(node, "text", None)
    if value is None:
        raise ValidationError(f"a partition value must be a literal, not {type(node).__name__}")
    return str(value)

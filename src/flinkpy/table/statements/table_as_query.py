"""The schema of CREATE TABLE ... AS and REPLACE TABLE ... AS: the columns of the query, and those that are declared.

Source: org.apache.flink.table.planner.operations.converters.MergeTableAsUtil.
"""

from __future__ import annotations

from collections.abc import Sequence

from flinkpy.common.errors import ValidationError
from flinkpy.sql.types.casting import supports_implicit_cast
from flinkpy.sql.types.logical_types import RowType
from flinkpy.table.schema import Schema, UnresolvedColumn, UnresolvedPhysicalColumn


def schema_as_query(query: RowType, declared: Schema, names: Sequence[str]) -> Schema:
    """Returns the schema of the table.

    Declared columns that the query does not have come first. A declared column with the name of a query's column takes
    its place, and its values are cast. `names` without types only choose the order.

    Args:
        query: the rows of the query, without time attributes.
        declared: the columns with types, the watermark and the primary key of the statement.
        names: the column names without types.

    Raises: ValidationError if names or types do not fit.
    """
    found: dict[str, UnresolvedColumn] = {}
    for each in query.fields:
        if each.name in found:
            raise _exists_already(each.name)
        found[each.name] = UnresolvedPhysicalColumn(each.name, None, each.type)
    columns = _reordered(found, names) if names else _merged(query, found, declared)
    return Schema(tuple(columns), declared.watermarks, declared.primary_key)


def _reordered(found: dict[str, UnresolvedColumn], names: Sequence[str]) -> list[UnresolvedColumn]:
    if len(names) != len(found):
        raise ValidationError(
            "The number of columns in the column list must match the number of columns in the source schema."
        )
    for name in names:
        if name not in found:
            raise ValidationError(f"Column '{name}' not found in the source schema.", details={"column": name})
    return [found[name] for name in dict.fromkeys(names)]


def _merged(query: RowType, found: dict[str, UnresolvedColumn], declared: Schema) -> list[UnresolvedColumn]:
    types = dict(zip(query.names, query.children, strict=True))
    first: dict[str, UnresolvedColumn] = {}
    merged = dict(found)
    for place, column in enumerate(declared.columns):
        if column.name in first:
            raise _exists_already(column.name)
        if column.name not in found:
            first[column.name] = column
            continue
        kind = types[column.name]
        wanted = column.type if isinstance(column, UnresolvedPhysicalColumn) else None
        if wanted is not None and not supports_implicit_cast(kind.as_nullable(), wanted.as_nullable()):
            raise ValidationError(
                f"Incompatible types for sink column '{column.name}' at position {place}. The source column has type "
                f"'{kind}', while the target column has type '{wanted}'.",
                details={"column": column.name},
            )
        merged[column.name] = column
    return [*first.values(), *merged.values()]


def _exists_already(name: str) -> ValidationError:
    return ValidationError(f"A column named '{name}' already exists in the schema.", details={"column": name})

"""Makes catalog tables and schemas from parsed column definitions.

Source: org.apache.flink.table.planner.operations.converters.{SqlCreateTableConverter, MergeTableLikeUtil}.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from flinkpy.common.errors import ValidationError
from flinkpy.sql.parser import nodes as ast
from flinkpy.sql.parser.unparse import unparse
from flinkpy.sql.types.logical_types import LogicalType
from flinkpy.table.catalog.catalog_tables import CatalogTable
from flinkpy.table.schema import (
    Schema,
    UnresolvedColumn,
    UnresolvedComputedColumn,
    UnresolvedMetadataColumn,
    UnresolvedPhysicalColumn,
    UnresolvedWatermark,
)

Distribution = tuple[str | None, int | None, tuple[str, ...]]


#: Makes logical types from parsed ones.
TypeBinder = Callable[[ast.DataType], LogicalType]


def options_of(options: Iterable[ast.Option]) -> dict[str, str]:
    """Returns WITH options. Raises: ValidationError if a key stands there twice."""
    found: dict[str, str] = {}
    for each in options:
        if each.key in found:
            raise ValidationError(f"The option '{each.key}' is given twice.", details={"option": each.key})
        found[each.key] = each.value
    return found


def table_of(statement: ast.CreateTable, bind_type: TypeBinder) -> CatalogTable:
    """Returns the table that a CREATE TABLE without LIKE and AS declares."""
    return CatalogTable(
        schema_of(statement.columns, statement.constraints, statement.watermark, bind_type),
        options_of(statement.options),
        statement.comment or "",
        names_of(statement.partitioned_by),
        distribution_of(statement.distribution),
    )


def names_of(identifiers: Iterable[ast.Identifier]) -> tuple[str, ...]:
    return tuple(each.last for each in identifiers)


def distribution_of(distribution: ast.Distribution | None) -> Distribution | None:
    if distribution is None:
        return None
    return distribution.kind, distribution.buckets, names_of(distribution.columns)


def schema_of(
    columns: Sequence[ast.ColumnDefinition],
    constraints: Sequence[ast.TableConstraint],
    watermark: ast.Watermark | None,
    bind_type: TypeBinder,
) -> Schema:
    """Returns the declared schema. Raises: ValidationError for a second primary key or an enforced one."""
    keys = list(constraints)
    declared = []
    for column in columns:
        declared.append(column_of(column, bind_type))
        if isinstance(column, ast.PhysicalColumn) and column.constraint is not None:
            keys.append(
                ast.TableConstraint(
                    column.constraint.kind,
                    (column.name,),
                    column.constraint.name,
                    column.constraint.enforced,
                    position=column.constraint.position,
                )
            )
    return Schema(
        tuple(declared),
        () if watermark is None else (watermark_of(watermark),),
        primary_key_of(keys),
    )


def column_of(column: ast.ColumnDefinition, bind_type: TypeBinder) -> UnresolvedColumn:
    match column:
        case ast.PhysicalColumn():
            return UnresolvedPhysicalColumn(column.name.last, column.comment, bind_type(column.type))
        case ast.MetadataColumn():
            kind = bind_type(column.type)
            return UnresolvedMetadataColumn(column.name.last, column.comment, kind, column.metadata_key, column.virtual)
        case ast.ComputedColumn():
            return UnresolvedComputedColumn(column.name.last, column.comment, unparse(column.expression))
    raise ValidationError(f"A column cannot be declared as {type(column).__name__}.")


def watermark_of(watermark: ast.Watermark) -> UnresolvedWatermark:
    return UnresolvedWatermark(".".join(watermark.column.parts), unparse(watermark.expression))


def primary_key_of(constraints: Sequence[ast.TableConstraint]) -> tuple[str, tuple[str, ...]] | None:
    """Returns the name and columns of the primary key."""
    for each in constraints:
        if each.kind != "PRIMARY KEY":
            raise ValidationError("UNIQUE constraint is not supported yet")
        if each.enforced is not False:
            raise ValidationError(
                "Flink doesn't support ENFORCED mode for PRIMARY KEY constraint. ENFORCED/NOT ENFORCED controls if the "
                "constraint checks are performed on the incoming/outgoing data. Flink does not own the data therefore "
                "the only supported mode is the NOT ENFORCED mode"
            )
    if not constraints:
        return None
    if len(constraints) > 1:
        raise ValidationError("Duplicate primary key definition")
    columns = names_of(constraints[0].columns)
    name = constraints[0].name
    return (name.last if name is not None else "PK_" + "_".join(columns)), columns


# -- LIKE ------------------------------------------------------------------------------------------------------------

_FEATURES = ("CONSTRAINTS", "DISTRIBUTION", "GENERATED", "METADATA", "OPTIONS", "PARTITIONS", "WATERMARKS")
_OVERWRITABLE = ("GENERATED", "METADATA", "OPTIONS", "WATERMARKS")
_BY_DEFAULT = {"OPTIONS": "OVERWRITING"}


def like_strategies(options: Sequence[ast.LikeOption]) -> dict[str, str]:
    """Returns INCLUDING, EXCLUDING or OVERWRITING for each feature of LIKE.

    Raises: ValidationError if a feature is named twice or cannot be overwritten.
    """
    strategies = {feature: _BY_DEFAULT.get(feature, "INCLUDING") for feature in _FEATURES}
    named: set[str] = set()
    for option in sorted(options, key=lambda each: each.feature != "ALL"):
        if option.feature in named:
            raise ValidationError(f"Each like option feature can be declared only once: {option.feature}")
        named.add(option.feature)
        if option.feature == "ALL":
            strategies = dict.fromkeys(_FEATURES, option.strategy)
            continue
        if option.strategy == "OVERWRITING" and option.feature not in _OVERWRITABLE:
            raise ValidationError(f"Illegal merging strategy 'OVERWRITING' for '{option.feature}' option.")
        strategies[option.feature] = option.strategy
    return strategies


def merged_like(source: CatalogTable, derived: CatalogTable, options: Sequence[ast.LikeOption]) -> CatalogTable:
    """Returns the table of CREATE TABLE ... LIKE: the parts of the source that are included, then its own."""
    strategies = like_strategies(options)
    if strategies["PARTITIONS"] == "INCLUDING" and source.partition_keys and derived.partition_keys:
        raise ValidationError(
            "The base table already has partitions defined. You might want to specify EXCLUDING PARTITIONS."
        )
    if strategies["DISTRIBUTION"] == "INCLUDING" and source.distribution and derived.distribution:
        raise ValidationError(
            "The base table already has a distribution defined. You might want to specify EXCLUDING DISTRIBUTION."
        )
    keeps_partitions = strategies["PARTITIONS"] != "EXCLUDING"
    keeps_distribution = strategies["DISTRIBUTION"] != "EXCLUDING"
    return CatalogTable(
        _merged_schema(source.schema, derived.schema, strategies),
        _merged_options(source.options, derived.options, strategies["OPTIONS"]),
        derived.comment or source.comment,
        derived.partition_keys or (source.partition_keys if keeps_partitions else ()),
        derived.distribution or (source.distribution if keeps_distribution else None),
    )


def _merged_options(source: dict[str, str], derived: dict[str, str], strategy: str) -> dict[str, str]:
    if strategy == "EXCLUDING":
        return derived
    twice = sorted(source.keys() & derived.keys())
    if strategy == "INCLUDING" and twice:
        raise ValidationError(
            f"There already exists an option ['{twice[0]}' -> '{source[twice[0]]}'] in the base table. You might want "
            "to specify EXCLUDING OPTIONS or OVERWRITING OPTIONS."
        )
    return source | derived


def _merged_schema(source: Schema, derived: Schema, strategies: dict[str, str]) -> Schema:
    columns = {each.name: each for each in source.columns if _is_kept(each, strategies)}
    for column in derived.columns:
        known = columns.get(column.name)
        if known is not None and not _overwrites(column, known, strategies):
            raise ValidationError(
                f"A column named '{column.name}' already exists in the base table.", details={"column": column.name}
            )
        columns[column.name] = column
    watermarks = source.watermarks if strategies["WATERMARKS"] != "EXCLUDING" else ()
    if watermarks and derived.watermarks and strategies["WATERMARKS"] == "INCLUDING":
        raise ValidationError(
            f"There already exists a watermark spec for column '{watermarks[0].column}' in the base table. You might "
            "want to specify EXCLUDING WATERMARKS or OVERWRITING WATERMARKS."
        )
    key = source.primary_key if strategies["CONSTRAINTS"] != "EXCLUDING" else None
    if key is not None and derived.primary_key is not None:
        raise ValidationError(
            "The base table already has a primary key. You might want to specify EXCLUDING CONSTRAINTS."
        )
    return Schema(tuple(columns.values()), derived.watermarks or watermarks, derived.primary_key or key)


def _is_kept(column: UnresolvedColumn, strategies: dict[str, str]) -> bool:
    if isinstance(column, UnresolvedComputedColumn):
        return strategies["GENERATED"] != "EXCLUDING"
    if isinstance(column, UnresolvedMetadataColumn):
        return strategies["METADATA"] != "EXCLUDING"
    return True


def _overwrites(column: UnresolvedColumn, known: UnresolvedColumn, strategies: dict[str, str]) -> bool:
    if isinstance(column, UnresolvedComputedColumn) and isinstance(known, UnresolvedComputedColumn):
        return strategies["GENERATED"] == "OVERWRITING"
    if isinstance(column, UnresolvedMetadataColumn) and isinstance(known, UnresolvedMetadataColumn):
        return strategies["METADATA"] == "OVERWRITING"
    return False

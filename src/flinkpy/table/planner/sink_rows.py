"""Fits the rows of a query to the columns of the table that gets them: their order, and casts where INSERT allows them.

Source: org.apache.flink.table.planner.connectors.DynamicSinkUtils.
"""

from __future__ import annotations

from flinkpy.common.errors import ValidationError
from flinkpy.sql.parser import nodes as ast
from flinkpy.sql.rex import InputRef, Literal, RexCall, RexNode, input_columns
from flinkpy.sql.types.logical_types import LogicalType, RowType, is_rowtime
from flinkpy.table.catalog.catalog_tables import ContextResolvedTable
from flinkpy.table.planner.binder import operators
from flinkpy.table.planner.errors import did_you_mean, invalid
from flinkpy.table.planner.logical import nodes as rel
from flinkpy.table.planner.logical.time import as_regular


def check_targets(statement: ast.Insert, table: ContextResolvedTable) -> None:
    """Checks the columns and the partition that an INSERT names. Raises: ValidationError with the place of one."""
    partition = [given.column for given in statement.partition]
    known = table.resolved_schema.to_sink_row_type().names
    for each in (*statement.columns, *partition):
        if each.last not in known:
            raise invalid(each, f"Unknown target column '{each.last}'{did_you_mean(each.last, known)}")
    keys = table.partition_keys
    for given in statement.partition:
        if given.column.last not in keys:
            kind = "Partition" if given.value is None else "Static partition"
            raise invalid(
                given.column,
                f"{kind} column '{given.column.last}' should be in the partition keys list [{', '.join(keys)}] "
                f"for table '{table.identifier.as_summary_string()}'.",
            )
    # A partition column without a value may stand among the columns: its values come from the query.
    static = [given.column for given in statement.partition if given.value is not None]
    for targets in (partition, (*static, *statement.columns)):
        seen: set[str] = set()
        for each in targets:
            if each.last in seen:
                raise invalid(each, f"Target column '{each.last}' is assigned more than once")
            seen.add(each.last)


def fitted_to_sink(
    query: rel.RelNode, wanted: RowType, name: str, columns: tuple[str, ...], partition: dict[str, RexNode]
) -> rel.RelNode:
    """Returns the query with the columns of the table: cast, in its order, with NULL for those that are not given.

    Args:
        columns: the names of the columns of the query and of the partition.
    """
    given = [each for each in columns if each not in partition]
    if len(given) != query.width:
        problem = "Too many columns" if query.width > len(given) else "Different number of columns"
        raise _mismatch(problem, name, query.row_type, wanted)
    references = dict(zip(given, query.references(), strict=True))
    values: list[RexNode] = []
    for field in wanted.fields:
        value = references.get(field.name, partition.get(field.name))
        if value is None:
            if not field.type.nullable:
                raise ValidationError(f"Column '{field.name}' of table '{name}' is NOT NULL and has no value.")
            value = Literal(field.type, None)
        values.append(_cast_for_sink(value, field.type, query.row_type, wanted, name, field.name))
    if tuple(values) == query.references() or _same_but_roles(values, query):
        return query
    # As in Flink, a projection of casts also makes regular timestamps of event times.
    regular = tuple(
        RexCall(as_regular(each.type), "CAST", (each,)) if is_rowtime(each.type) else each for each in values
    )
    return rel.Project(query, regular, _names(values, query, wanted))


def _same_but_roles(values: list[RexNode], query: rel.RelNode) -> bool:
    """True if the columns are those of the query, apart from their nullability and roles as time attributes."""
    return len(values) == query.width and all(
        isinstance(value, InputRef) and value.index == place for place, value in enumerate(values)
    )


def _names(values: list[RexNode], query: rel.RelNode, wanted: RowType) -> tuple[str, ...]:
    """Returns the names of the query's columns if each is written, else those of the table."""
    columns = [input_columns([each]) for each in values]
    if len(values) != query.width or any(len(each) != 1 for each in columns):
        return wanted.names if len(values) != query.width else query.names
    return tuple(query.names[each[0]] for each in columns)


def _cast_for_sink(
    value: RexNode, target: LogicalType, source_row: RowType, sink_row: RowType, table: str, column: str
) -> RexNode:
    from flinkpy.sql.types.casting import supports_implicit_cast

    source = as_regular(value.type).as_nullable()
    if operators.same_type(source, target):
        return value
    if (
        source.root.value == "NULL"
        or supports_implicit_cast(source, target.as_nullable())
        or _assignable(source, target)
    ):
        return operators.cast(value, target)
    place = sink_row.names.index(column)
    raise _mismatch(f"Incompatible types for sink column '{column}' at position {place}", table, source_row, sink_row)


def _assignable(source: LogicalType, target: LogicalType) -> bool:
    """True if INSERT casts values although some may not fit: between numbers, and to shorter texts and times."""
    from flinkpy.sql.types import families as of
    from flinkpy.sql.types.casting import class_of

    for family in (of.NUMERIC, of.CHARACTER_STRING, of.BINARY_STRING, of.TIMESTAMP):
        if source.root in family and target.root in family:
            return True
    return source.root is target.root and class_of(source) == class_of(target)


def _mismatch(problem: str, table: str, query: RowType, sink: RowType) -> ValidationError:
    def text(row: RowType) -> str:
        return "[" + ", ".join(f"{each.name}: {each.type}" for each in row.fields) + "]"

    return ValidationError(
        f"Column types of query result and sink for '{table}' do not match.\nCause: {problem}.\n\n"
        f"Query schema: {text(query)}\nSink schema:  {text(sink)}"
    )

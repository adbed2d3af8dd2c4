"""Table: a query that is not yet computed, and the methods that build queries from it. Source: pyflink.table.table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import ValidationError
from flinkpy.sql.types.logical_types import is_time_attribute
from flinkpy.table.catalog.resolved_schema import ResolvedSchema
from flinkpy.table.explain_detail import ExplainDetail
from flinkpy.table.expression import Expression, node_of
from flinkpy.table.expression_nodes import ExpressionNode, UnresolvedReference
from flinkpy.table.expressions import col, with_columns
from flinkpy.table.planner.operation_tree_builder import Grouping, OperationTreeBuilder
from flinkpy.table.schema import Schema
from flinkpy.table.table_descriptor import TableDescriptor
from flinkpy.table.table_result import TableResult
from flinkpy.table.udf import UserDefinedFunctionWrapper
from flinkpy.table.window import GroupWindow, OverWindow

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from flinkpy.table.planner.logical.nodes import RelNode
    from flinkpy.table.table_environment import TableEnvironment
    from flinkpy.table.table_pipeline import TablePipeline
    from flinkpy.table.temporal_table_function import TemporalTableFunction

__all__ = ["GroupWindowedTable", "GroupedTable", "OverWindowedTable", "Table", "WindowGroupedTable"]


class Table:
    """A query of a TableEnvironment. It can be executed, written to a table, given a name, or be part of other queries.

    A column is also an attribute: `table.price` is `col("price")`. All methods that take expressions raise
    ValidationError if a column does not exist or types do not fit.

    Args:
        operation: the planner's logical plan.
        environment: the environment of the table.

    Example:
        >>> large = orders.filter(col("amount") > 10)
        >>> large.group_by(col("user")).select(col("user"), col("amount").sum.alias("total"))
    """

    def __init__(self, operation: Any, environment: TableEnvironment) -> None:
        self.operation = operation
        self._environment = environment
        #: The name that the table got for SQL.
        self._name: str | None = None

    def __getattr__(self, name: str) -> Expression[Any]:
        if name.startswith("__") or "operation" not in self.__dict__:
            raise AttributeError(name)
        names = self.operation.names
        if name not in names:
            raise AttributeError(
                f"The current table has no column named '{name}', available columns: [{', '.join(names)}]"
            )
        return col(name)

    def __str__(self) -> str:
        """Returns a name by which SQL can refer to the table, as in `sql_query(f"SELECT * FROM {table}")`."""
        if self._name is None:
            self._name = self._environment.name_of(self)
        return self._name

    def __repr__(self) -> str:
        return f"Table({', '.join(self.get_resolved_schema().column_names)})"

    @property
    def _builder(self) -> OperationTreeBuilder:
        return self._environment.planner.operation_tree_builder()

    def _made(self, operation: RelNode) -> Table:
        return Table(operation, self._environment)

    # -- projections and conditions ----------------------------------------------------------------------------------

    def select(self, *fields: Expression[Any]) -> Table:
        """Returns a column per expression. With aggregates among them there is one row, of all rows."""
        return self._made(self._builder.project(_nodes(fields), self.operation))

    def alias(self, field: str, *fields: str) -> Table:
        """Returns the table with other names for its first columns."""
        return self._made(self._builder.alias((field, *fields), self.operation))

    def filter(self, predicate: Expression[bool]) -> Table:
        """Returns the rows for which a condition is true."""
        return self._made(self._builder.filter(node_of(predicate), self.operation))

    def where(self, predicate: Expression[bool]) -> Table:
        """Returns the rows for which a condition is true, as `filter`."""
        return self.filter(predicate)

    def distinct(self) -> Table:
        """Returns each row once."""
        return self._made(self._builder.distinct(self.operation))

    def add_columns(self, *fields: Expression[Any]) -> Table:
        """Returns the table with further columns. Raises: ValidationError if one has a name that exists."""
        return self._made(self._builder.add_columns(_nodes(fields), self.operation, replace_existing=False))

    def add_or_replace_columns(self, *fields: Expression[Any]) -> Table:
        """Returns the table with further columns, which take the place of those with the same name."""
        return self._made(self._builder.add_columns(_nodes(fields), self.operation, replace_existing=True))

    def rename_columns(self, *fields: Expression[Any]) -> Table:
        """Returns the table with some columns renamed: `col("a").alias("b")`."""
        return self._made(self._builder.rename_columns(_nodes(fields), self.operation))

    def drop_columns(self, *fields: Expression[Any]) -> Table:
        """Returns the table without some columns."""
        return self._made(self._builder.drop_columns(_nodes(fields), self.operation))

    # -- groups and windows ------------------------------------------------------------------------------------------

    def group_by(self, *fields: Expression[Any]) -> GroupedTable:
        """Groups the rows by the values of expressions."""
        return GroupedTable(self, Grouping(tuple(_nodes(fields))))

    def window(self, window: GroupWindow) -> GroupWindowedTable:
        """Puts the rows into group windows, of `flinkpy.table.window`."""
        return GroupWindowedTable(self, window)

    def over_window(self, *over_windows: OverWindow) -> OverWindowedTable:
        """Defines OVER windows for aggregates, of `flinkpy.table.window`."""
        return OverWindowedTable(self, over_windows)

    def aggregate(self, func: Expression[Any] | UserDefinedFunctionWrapper) -> AggregatedTable:
        """Aggregates all rows by a function that returns a row. A function that is not called gets whole rows."""
        return GroupedTable(self, Grouping()).aggregate(func)

    def flat_aggregate(self, func: Expression[Any] | UserDefinedFunctionWrapper) -> FlatAggregateTable:
        """Aggregates all rows by a function that emits any number of rows. An uncalled function gets whole rows."""
        return GroupedTable(self, Grouping()).flat_aggregate(func)

    # -- joins -------------------------------------------------------------------------------------------------------

    def join(self, right: Table, join_predicate: Expression[bool] | None = None) -> Table:
        """Returns the pairs of rows of two tables for which a condition is true; without one all pairs."""
        return self._joined(right, "INNER", join_predicate)

    def left_outer_join(self, right: Table, join_predicate: Expression[bool] | None = None) -> Table:
        """Returns the pairs of `join`, and rows of this table without a partner, with nulls."""
        return self._joined(right, "LEFT", join_predicate)

    def right_outer_join(self, right: Table, join_predicate: Expression[bool]) -> Table:
        """Returns the pairs of `join`, and rows of the other table without a partner, with nulls."""
        return self._joined(right, "RIGHT", join_predicate)

    def full_outer_join(self, right: Table, join_predicate: Expression[bool]) -> Table:
        """Returns the pairs of `join`, and rows of both tables without a partner, with nulls."""
        return self._joined(right, "FULL", join_predicate)

    def _joined(self, right: Table, kind: str, predicate: Expression[bool] | None) -> Table:
        self._check_environment(right, "joined")
        condition = None if predicate is None else node_of(predicate)
        return self._made(self._builder.join(self.operation, right.operation, kind, condition))

    def join_lateral(
        self,
        table_function_call: Expression[Any] | UserDefinedFunctionWrapper,
        join_predicate: Expression[bool] | None = None,
    ) -> Table:
        """Returns each row with the rows that a table function returns for it."""
        return self._joined_lateral(table_function_call, "INNER", join_predicate)

    def left_outer_join_lateral(
        self,
        table_function_call: Expression[Any] | UserDefinedFunctionWrapper,
        join_predicate: Expression[bool] | None = None,
    ) -> Table:
        """Returns each row with the rows that a table function returns for it; with nulls if there are none."""
        return self._joined_lateral(table_function_call, "LEFT", join_predicate)

    def _joined_lateral(self, call: Any, kind: str, predicate: Expression[bool] | None) -> Table:
        condition = None if predicate is None else node_of(predicate)
        return self._made(self._builder.join_lateral(self._row_call(call), self.operation, kind, condition))

    # -- set operations ----------------------------------------------------------------------------------------------

    def minus(self, right: Table) -> Table:
        """Returns the distinct rows that another table does not have."""
        return self._combined("EXCEPT", right, is_all=False)

    def minus_all(self, right: Table) -> Table:
        """Returns the rows as often as this table has them more often than another one."""
        return self._combined("EXCEPT", right, is_all=True)

    def union(self, right: Table) -> Table:
        """Returns the distinct rows of two tables."""
        return self._combined("UNION", right, is_all=False)

    def union_all(self, right: Table) -> Table:
        """Returns the rows of two tables."""
        return self._combined("UNION", right, is_all=True)

    def intersect(self, right: Table) -> Table:
        """Returns the distinct rows that both tables have."""
        return self._combined("INTERSECT", right, is_all=False)

    def intersect_all(self, right: Table) -> Table:
        """Returns the rows that both tables have, as often as both have them."""
        return self._combined("INTERSECT", right, is_all=True)

    def _combined(self, kind: str, right: Table, *, is_all: bool) -> Table:
        self._check_environment(right, "combined by set operations")
        return self._made(self._builder.set_operation(kind, self.operation, right.operation, is_all=is_all))

    def _check_environment(self, other: Table, verb: str) -> None:
        if not isinstance(other, Table):
            raise TypeError(f"a Table is needed, not {type(other).__name__}")
        if other._environment is not self._environment:
            raise ValidationError(f"Only tables from the same TableEnvironment can be {verb}.")

    # -- order -------------------------------------------------------------------------------------------------------

    def order_by(self, *fields: Expression[Any]) -> Table:
        """Returns the rows in an order: `col("a").desc`, ascending by default."""
        return self._made(self._builder.sort(_nodes(fields), self.operation))

    def offset(self, offset: int) -> Table:
        """Returns the rows without the first ones, of an order."""
        return self._made(self._builder.limit(self.operation, offset=offset))

    def fetch(self, fetch: int) -> Table:
        """Returns the first rows, of an order."""
        return self._made(self._builder.limit(self.operation, fetch=fetch))

    def limit(self, fetch: int, offset: int = 0) -> Table:
        """Returns a number of rows, without the first ones."""
        return self.offset(offset).fetch(fetch) if offset else self.fetch(fetch)

    # -- functions of rows -------------------------------------------------------------------------------------------

    def map(self, func: Expression[Any] | UserDefinedFunctionWrapper) -> Table:
        """Returns the row that a scalar function returns for each row. An uncalled function gets whole rows."""
        return self._made(self._builder.map(self._row_call(func), self.operation))

    def flat_map(self, func: Expression[Any] | UserDefinedFunctionWrapper) -> Table:
        """Returns the rows that a table function returns for each row. An uncalled function gets whole rows."""
        return self._made(self._builder.flat_map(self._row_call(func), self.operation))

    def to_changelog(self, *arguments: Expression[Any]) -> Table:
        """Returns a row for each change of this table, with the kind of the change in a first column.

        Args:
            arguments: `descriptor("kind").as_argument("op")` names the column, which is `op` by default, and
                `map_("INSERT", "I", ...).as_argument("op_mapping")` gives its values. Other changes are dropped.
        """
        return self._made(self._builder.process("TO_CHANGELOG", _nodes(arguments), self.operation))

    def from_changelog(self, *arguments: Expression[Any]) -> Table:
        """Returns a table whose changes are the rows of this one, of which a column has the kind of the change.

        Args:
            arguments: as for `to_changelog`; the keys of the mapping are the values of the column.
        """
        return self._made(self._builder.process("FROM_CHANGELOG", _nodes(arguments), self.operation))

    def _row_call(self, function: Any) -> ExpressionNode:
        """Returns the call of a function; of one that is not called yet with whole rows."""
        if isinstance(function, Expression):
            return function.node
        if not isinstance(function, UserDefinedFunctionWrapper):
            raise TypeError(f"an Expression or a user-defined function is needed, not {type(function).__name__}")
        call = function.taking_rows(self.operation.names)(with_columns(col("*")))
        return node_of(call.alias(*function.alias_names) if function.alias_names else call)

    # -- the schema --------------------------------------------------------------------------------------------------

    def create_temporal_table_function(
        self, time_attribute: Expression[Any] | str, primary_key: Expression[Any] | str
    ) -> TemporalTableFunction:
        """Returns a function of the versions of this table. Beyond PyFlink; Java's API has it.

        Registered by `create_temporary_system_function("Rates", function)`, it is called as
        `FROM orders AS o, LATERAL TABLE(Rates(o.ts)) AS r WHERE o.currency = r.currency`.

        Args:
            time_attribute: the event time or processing time from which a row is valid.
            primary_key: the column whose rows are versions of one another.

        Raises: ValidationError if a column is unknown, or the first one is no time attribute.
        """
        from flinkpy.table.temporal_table_function import TemporalTableFunction

        names = self.operation.row_type.names
        places = []
        for each in (time_attribute, primary_key):
            node = each if isinstance(each, str) else node_of(each)
            name = node.name if isinstance(node, UnresolvedReference) else str(node)
            if name not in names:
                raise ValidationError(f"The table has no column '{name}', only {list(names)}.")
            places.append(names.index(name))
        made = TemporalTableFunction(self.operation, *places)
        if not is_time_attribute(self.operation.row_type.fields[places[0]].type):
            raise ValidationError(
                f"The column '{names[places[0]]}' is no time attribute. Declare a watermark for it, or use PROCTIME()."
            )
        return made

    def get_resolved_schema(self) -> ResolvedSchema:
        """Returns the columns of the table."""
        return self._environment.planner.schema(self.operation)

    def print_schema(self) -> None:
        """Prints the columns with their types to standard output."""
        import sys

        lines = [f"  `{column.name}` {column.type}" for column in self.get_resolved_schema().columns]
        sys.stdout.write("(\n" + ",\n".join(lines) + "\n)\n")

    # -- execution ---------------------------------------------------------------------------------------------------

    def execute(self) -> TableResult:
        """Runs the query as a job and returns its rows."""
        return self._environment.execute_query(self.operation)

    def execute_insert(self, table_path_or_descriptor: str | TableDescriptor, overwrite: bool = False) -> TableResult:
        """Writes the rows to a table, by a job of its own.

        Raises: ValidationError if the table does not exist or its columns do not fit.
        """
        return self.insert_into(table_path_or_descriptor, overwrite).execute()

    def insert_into(self, table_path_or_descriptor: str | TableDescriptor, overwrite: bool = False) -> TablePipeline:
        """Returns the INSERT of the rows into a table, which can be executed, explained, or added to a StatementSet.

        Raises: ValidationError if the table does not exist or its columns do not fit.
        """
        from flinkpy.table.statements.names import parse_path
        from flinkpy.table.table_pipeline import TablePipeline

        planner = self._environment.planner
        if isinstance(table_path_or_descriptor, str):
            parts = parse_path(table_path_or_descriptor)
            insert = planner.insert_into(parts, self.operation, overwrite=overwrite)
        else:
            row = planner.stored_row_type(self.operation)
            schema = Schema.new_builder().from_fields(list(row.names), list(row.children)).build()
            table = self._environment.described_table(table_path_or_descriptor, schema)
            insert = planner.insert_into_table(table, self.operation, overwrite=overwrite)
        return TablePipeline(insert, self._environment)

    def explain(self, *extra_details: ExplainDetail) -> str:
        """Returns the plan of the query."""
        return self._environment.explain_operations([self.operation], tuple(each.name for each in extra_details))

    def print_explain(self, *extra_details: ExplainDetail) -> None:
        """Prints the plan of the query to standard output."""
        import sys

        sys.stdout.write(self.explain(*extra_details) + "\n")

    def to_arrow(self) -> pa.Table:
        """Runs the query and returns its final rows: deletions and updates are applied. Beyond PyFlink."""
        from flinkpy.sql.types.arrow import schema_of
        from flinkpy.table.materialized_rows import materialized

        result = self.execute()
        schema = schema_of(self.get_resolved_schema().to_row_type())
        with result.collect_batches() as batches:
            return materialized(batches, schema, has_kinds=result.has_row_kinds)

    def to_pandas(self) -> pd.DataFrame:
        """Runs the query and returns its final rows as a pandas DataFrame."""
        return self.to_arrow().to_pandas()


class GroupedTable:
    """Groups of the rows of a table.

    Args:
        table: the rows.
        grouping: what they are grouped by.
    """

    def __init__(self, table: Table, grouping: Grouping) -> None:
        self._table = table
        self._grouping = grouping

    def select(self, *fields: Expression[Any]) -> Table:
        """Returns a row per group: keys and aggregates."""
        table = self._table
        return table._made(table._builder.aggregate(_nodes(fields), self._grouping, table.operation))

    def aggregate(self, func: Expression[Any] | UserDefinedFunctionWrapper) -> AggregatedTable:
        """Aggregates each group by a function that returns a row. A function that is not called gets whole rows."""
        table = self._table
        rows = table._builder.aggregate_rows(table._row_call(func), self._grouping, table.operation)
        return AggregatedTable(table._made(rows), self._grouping)

    def flat_aggregate(self, func: Expression[Any] | UserDefinedFunctionWrapper) -> FlatAggregateTable:
        """Aggregates each group by a function that emits any number of rows. An uncalled function gets whole rows."""
        table = self._table
        rows = table._builder.aggregate_table(table._row_call(func), self._grouping, table.operation)
        return FlatAggregateTable(table._made(rows), self._grouping)


class GroupWindowedTable:
    """A table with a group window."""

    def __init__(self, table: Table, window: GroupWindow) -> None:
        self._table = table
        self._window = window

    def group_by(self, *fields: Expression[Any]) -> WindowGroupedTable:
        """Groups the rows by the window, whose alias must be one of the expressions, and by other expressions."""
        alias = self._window.call.alias
        nodes = _nodes(fields)
        keys = tuple(node for node in nodes if not (isinstance(node, UnresolvedReference) and node.name == alias))
        if len(keys) != len(nodes) - 1:
            raise ValidationError("GroupBy must contain exactly one window alias.")
        return WindowGroupedTable(self._table, Grouping(keys, self._window.call))


class WindowGroupedTable(GroupedTable):
    """Groups of the rows of a table by a window and keys."""


class OverWindowedTable:
    """A table with OVER windows."""

    def __init__(self, table: Table, windows: tuple[OverWindow, ...]) -> None:
        if not windows:
            raise ValidationError("OverWindow is missing: over_window needs at least one window.")
        self._table = table
        self._windows = windows

    def select(self, *fields: Expression[Any]) -> Table:
        """Returns a column per expression, with aggregates such as `col("a").sum.over(col("w"))`."""
        windows = [each.call for each in self._windows]
        table = self._table
        return table._made(table._builder.project(_nodes(fields), table.operation, windows))


class AggregatedTable:
    """The rows that an aggregate function returns for groups, behind the keys of the groups.

    Args:
        table: keys, rows, and the properties of a window.
        grouping: what the rows are grouped by.
    """

    def __init__(self, table: Table, grouping: Grouping) -> None:
        self._table = table
        self._grouping = grouping

    def select(self, *fields: Expression[Any]) -> Table:
        """Returns a column per expression over the keys, the columns of the function, and the window."""
        table = self._table
        return table._made(table._builder.project_aggregated(_nodes(fields), self._grouping, table.operation))


class FlatAggregateTable(AggregatedTable):
    """The rows that a table aggregate function emits for groups, behind the keys of the groups."""


def _nodes(fields: tuple[Expression[Any], ...]) -> list[ExpressionNode]:
    return [node_of(each) for each in fields]

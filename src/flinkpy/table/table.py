"""Table: the result of a query, not yet computed. Source: pyflink.table.table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flinkpy.table.catalog.resolved_schema import ResolvedSchema
from flinkpy.table.explain_detail import ExplainDetail
from flinkpy.table.table_result import TableResult

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from flinkpy.table.table_environment import TableEnvironment

__all__ = ["Table"]


class Table:
    """A query of a TableEnvironment. It can be executed, written to a table, or given a name.

    Args:
        operation: the planner's logical plan.
        environment: the environment of the table.
    """

    def __init__(self, operation: Any, environment: TableEnvironment) -> None:
        self.operation = operation
        self._environment = environment

    def get_resolved_schema(self) -> ResolvedSchema:
        """Returns the columns of the table. Beyond PyFlink."""
        return self._environment.planner.schema(self.operation)

    def print_schema(self) -> None:
        """Prints the columns with their types to standard output."""
        import sys

        lines = [f"  `{column.name}` {column.type}" for column in self.get_resolved_schema().columns]
        sys.stdout.write("(\n" + ",\n".join(lines) + "\n)\n")

    def execute(self) -> TableResult:
        """Runs the query as a job and returns its rows."""
        return self._environment.execute_query(self.operation)

    def execute_insert(self, table_path_or_descriptor: str, overwrite: bool = False) -> TableResult:
        """Writes the rows to a table, by a job of its own.

        Raises: ValidationError if the table does not exist or its columns do not fit.
        """
        from flinkpy.table.statements.names import parse_path

        parts = parse_path(table_path_or_descriptor)
        insert = self._environment.planner.insert_into(parts, self.operation, overwrite=overwrite)
        return self._environment.execute_inserts([insert])

    def explain(self, *extra_details: ExplainDetail) -> str:
        """Returns the plan of the query."""
        return self._environment.explain_operations([self.operation], tuple(each.name for each in extra_details))

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

    def __str__(self) -> str:
        return f"Table({', '.join(self.get_resolved_schema().column_names)})"

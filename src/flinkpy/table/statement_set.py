"""StatementSet: several INSERTs that become one job. Source: pyflink.table.statement_set."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import ValidationError
from flinkpy.sql.parser import nodes as ast
from flinkpy.table.explain_detail import ExplainDetail
from flinkpy.table.planner.errors import shown_in
from flinkpy.table.table import Table
from flinkpy.table.table_descriptor import TableDescriptor
from flinkpy.table.table_pipeline import TablePipeline
from flinkpy.table.table_result import TableResult

if TYPE_CHECKING:
    from flinkpy.table.compiled_plan import CompiledPlan
    from flinkpy.table.table_environment import TableEnvironment

__all__ = ["StatementSet"]


class StatementSet:
    """Collects INSERTs. Made by `TableEnvironment.create_statement_set`."""

    def __init__(self, environment: TableEnvironment) -> None:
        self._environment = environment
        self._operations: list[Any] = []

    def add_insert_sql(self, stmt: str) -> StatementSet:
        """Adds an INSERT. Raises: ValidationError if the statement is another one."""
        from flinkpy.sql.parser import parse_statement

        statement = parse_statement(stmt)
        if not isinstance(statement, ast.Insert):
            raise ValidationError("Only insert statement is supported now.")
        with shown_in(stmt):
            self._operations.append(self._environment.planner.bind_insert(statement))
        return self

    def add_insert(
        self, target_path_or_descriptor: str | TableDescriptor, table: Table, overwrite: bool = False
    ) -> StatementSet:
        """Adds the rows of a Table to the rows for another table."""
        return self.add(table.insert_into(target_path_or_descriptor, overwrite))

    def add(self, table_pipeline: TablePipeline) -> StatementSet:
        """Adds an INSERT that `Table.insert_into` made."""
        self._operations.append(table_pipeline.operation)
        return self

    def print_explain(self, *extra_details: ExplainDetail) -> None:
        """Prints the plan of all INSERTs to standard output."""
        sys.stdout.write(self.explain(*extra_details) + "\n")

    def attach_as_datastream(self) -> None:
        """Adds the INSERTs to the program of the StreamExecutionEnvironment, whose `execute` runs them.

        The set forgets them.
        """
        operations, self._operations = self._operations, []
        self._environment.attach_inserts(operations)

    def compile_plan(self) -> CompiledPlan:
        """Returns the compiled plan of all INSERTs, which stay in the set."""
        from flinkpy.table.compiled_plan import CompiledPlan

        return CompiledPlan(self._environment.planner.compile_plan(self._operations), self._environment)

    def explain(self, *extra_details: ExplainDetail) -> str:
        """Returns the plan of all INSERTs."""
        return self._environment.explain_operations(self._operations, tuple(each.name for each in extra_details))

    def execute(self) -> TableResult:
        """Runs all INSERTs as one job, and forgets them."""
        operations, self._operations = self._operations, []
        return self._environment.execute_inserts(operations)

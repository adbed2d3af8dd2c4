"""TablePipeline: a query with the table that it is written to. Source: pyflink.table.table_pipeline."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from flinkpy.table.catalog.identifiers import ObjectIdentifier
from flinkpy.table.explain_detail import ExplainDetail
from flinkpy.table.table_result import TableResult

if TYPE_CHECKING:
    from flinkpy.table.compiled_plan import CompiledPlan
    from flinkpy.table.table_environment import TableEnvironment

__all__ = ["TablePipeline"]


class TablePipeline:
    """An INSERT of the rows of a table. Made by `Table.insert_into`.

    Args:
        operation: the planner's logical plan of the INSERT.
        environment: the environment of the table.
    """

    def __init__(self, operation: Any, environment: TableEnvironment) -> None:
        self.operation = operation
        self._environment = environment

    def __str__(self) -> str:
        return f"TablePipeline({self.operation.name})"

    def execute(self) -> TableResult:
        """Runs the INSERT as a job of its own."""
        return self._environment.execute_inserts([self.operation])

    def explain(self, *extra_details: ExplainDetail) -> str:
        """Returns the plan of the INSERT."""
        return self._environment.explain_operations([self.operation], tuple(each.name for each in extra_details))

    def print_explain(self, *extra_details: ExplainDetail) -> None:
        """Prints the plan of the INSERT to standard output."""
        sys.stdout.write(self.explain(*extra_details) + "\n")

    def get_sink_identifier(self) -> ObjectIdentifier | None:
        """Returns the name of the table that is written to; None if it has none."""
        table = self.operation.table
        return None if table is None or table.is_anonymous else table.identifier

    def compile_plan(self) -> CompiledPlan:
        """Returns the compiled plan of the INSERT."""
        from flinkpy.table.compiled_plan import CompiledPlan

        return CompiledPlan(self._environment.planner.compile_plan([self.operation]), self._environment)

"""PlanCompiler: turns the optimised plan of INSERTs into the text of a compiled plan, and loads such texts.

Source: org.apache.flink.table.planner.delegation.StreamPlanner.{compilePlan, loadPlan}.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from flinkpy.common.errors import TableProgramError, UnsupportedOperationError
from flinkpy.configuration.options import read_option
from flinkpy.configuration.table_options import PLAN_COMPILE_CATALOG_OBJECTS, PLAN_RESTORE_CATALOG_OBJECTS
from flinkpy.table.planner.context import PlannerContext
from flinkpy.table.planner.physical import nodes as ph
from flinkpy.table.planner.plans.plan_graph import PlanCodec, PlanGraph
from flinkpy.table.planner.plans.tables import PlanTables
from flinkpy.table.planner.plans.values import PlanValues


class PlanCompiler:
    """Writes and reads the plans of one session."""

    def __init__(self, context: PlannerContext) -> None:
        self._context = context
        values = PlanValues(self._function)
        tables = PlanTables(
            values,
            context.tables,
            read_option(context.configuration, PLAN_COMPILE_CATALOG_OBJECTS),
            read_option(context.configuration, PLAN_RESTORE_CATALOG_OBJECTS),
        )
        self._codec = PlanCodec(values, tables, context.create_source, context.create_sink)

    def _function(self, name: str) -> Any:
        found = self._context.functions.by_name(name)
        return None if found is None else found.function

    def compile(self, roots: Sequence[ph.PhysicalNode], options: dict[str, str]) -> str:
        """Returns the JSON text of a plan.

        Args:
            roots: the plans of INSERTs, with equal parts shared.
            options: the options on which the operators depend.

        Raises: UnsupportedOperationError if the plan has something that JSON cannot hold, or is no INSERT.
        """
        if not roots or not all(isinstance(each, ph.Sink) for each in roots):
            raise UnsupportedOperationError(
                "Unsupported SQL query! compile_plan_sql() only accepts a single SQL statement of type INSERT or a "
                "STATEMENT SET."
            )
        graph = PlanGraph.of(roots, is_streaming=self._context.is_streaming, options=options)
        return json.dumps(self._codec.encode(graph), indent=2, ensure_ascii=False, allow_nan=False)

    def load(self, text: str) -> PlanGraph:
        """Returns the plan of a text. Raises: TableProgramError if it cannot be run in this session."""
        try:
            data = json.loads(text)
        except ValueError as error:
            raise TableProgramError(f"The compiled plan is no JSON: {error}") from error
        try:
            graph = self._codec.decode(data)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise TableProgramError(f"The compiled plan is damaged: {type(error).__name__}: {error}") from error
        if graph.is_streaming != self._context.is_streaming:
            modes = ("STREAMING", "BATCH") if graph.is_streaming else ("BATCH", "STREAMING")
            raise TableProgramError(
                f"The plan was compiled with 'execution.runtime-mode' = '{modes[0]}' and cannot be executed in a "
                f"session with '{modes[1]}'."
            )
        return graph

"""The phases of planning that only batch mode has.

Source: org.apache.flink.table.planner.plan.optimize.program.FlinkBatchProgram.
"""

from __future__ import annotations

import logging
from functools import cache
from importlib.util import find_spec

from flinkpy.common.errors import TableProgramError, ValidationError
from flinkpy.configuration.options import read_option
from flinkpy.configuration.table_options import BATCH_ENGINE
from flinkpy.table.connectors.changelog_mode import INSERT_ONLY
from flinkpy.table.connectors.table_source import ScanTableSource
from flinkpy.table.planner.batch.constants import fold_constants
from flinkpy.table.planner.batch.regions import cut_into_regions
from flinkpy.table.planner.context import PlannerContext
from flinkpy.table.planner.logical import nodes as rel

_LOG = logging.getLogger(__name__)


def plan_batch(plan: rel.RelNode, context: PlannerContext) -> rel.RelNode:
    """Returns an optimised plan with the parts that an embedded engine computes.

    Raises:
        TableProgramError: a source is unbounded, or sends changes other than inserts.
    """
    for node in rel.walk(plan):
        if isinstance(node, rel.Scan) and isinstance(node.source, ScanTableSource):
            _check_source(node.table.identifier.as_summary_string(), node.source)
    plan = fold_constants(plan, context.settings)
    if not _uses_engine(context):
        return plan
    if isinstance(plan, rel.Sink):
        return plan.with_inputs((cut_into_regions(plan.input),))
    return cut_into_regions(plan)


def _check_source(name: str, source: ScanTableSource) -> None:
    if source.changelog_mode != INSERT_ONLY:
        raise TableProgramError(
            f"Querying a table in batch mode is currently only possible for INSERT-only table sources. But the source "
            f"for table '{name}' produces other changelog messages than just INSERT."
        )
    if not source.is_bounded:
        raise TableProgramError(
            f"Querying an unbounded table '{name}' in batch mode is not allowed. The table source is unbounded."
        )


def _uses_engine(context: PlannerContext) -> bool:
    wanted = read_option(context.configuration, BATCH_ENGINE)
    if wanted == "OPERATORS":
        return False
    if find_spec("duckdb") is not None:
        return True
    if wanted == "DUCKDB":
        raise ValidationError(f"{BATCH_ENGINE.key} is DUCKDB, which is not installed: pip install 'flinkpy[duckdb]'")
    _say_once()
    return False


@cache
def _say_once() -> None:
    _LOG.warning(
        "DuckDB is not installed, so batch queries run with the operators of streaming mode, which are slower: "
        "pip install 'flinkpy[duckdb]'"
    )

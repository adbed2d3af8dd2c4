"""The phases of planning that only batch mode has.

Source: org.apache.flink.table.planner.plan.optimize.program.FlinkBatchProgram.
"""

from __future__ import annotations

import logging
from functools import cache
from importlib.util import find_spec

from flinkpy.common.errors import TableProgramError, ValidationError
from flinkpy.configuration import spark_options
from flinkpy.configuration.options import read_option
from flinkpy.configuration.table_options import BATCH_ENGINE
from flinkpy.graph import spark_choice
from flinkpy.table.connectors.changelog_mode import INSERT_ONLY
from flinkpy.table.connectors.table_source import ScanTableSource
from flinkpy.table.planner.batch.constants import fold_constants
from flinkpy.table.planner.batch.dialect import Dialect
from flinkpy.table.planner.batch.duckdb_dialect import DUCKDB
from flinkpy.table.planner.batch.regions import cut_into_regions
from flinkpy.table.planner.batch.spark_dialect import SPARK
from flinkpy.table.planner.context import PlannerContext
from flinkpy.table.planner.logical import nodes as rel

_LOG = logging.getLogger(__name__)
#: The assumed size of a value of which only the number of rows is known.
_BYTES_PER_VALUE = 8


def plan_batch(plan: rel.RelNode, context: PlannerContext) -> rel.RelNode:
    """Returns an optimised plan with the parts that an engine computes.

    Raises:
        TableProgramError: a source is unbounded, or sends changes other than inserts.
    """
    for node in rel.walk(plan):
        if isinstance(node, rel.Scan) and isinstance(node.source, ScanTableSource):
            _check_source(node.table.identifier.as_summary_string(), node.source)
    plan = fold_constants(plan, context.settings)
    dialect = _dialect_of(plan, context)
    if dialect is None:
        return plan
    if isinstance(plan, rel.Sink):
        return plan.with_inputs((cut_into_regions(plan.input, dialect),))
    return cut_into_regions(plan, dialect)


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


def _dialect_of(plan: rel.RelNode, context: PlannerContext) -> Dialect | None:
    """Returns the language of the engine; None for operators alone."""
    configuration = context.configuration
    wanted = read_option(configuration, BATCH_ENGINE)
    if wanted == "OPERATORS":
        return None
    if wanted == "AUTO" and _runs_in_spark(plan, context):
        return SPARK
    if find_spec("duckdb") is not None:
        return DUCKDB
    if wanted == "DUCKDB":
        raise ValidationError(f"{BATCH_ENGINE.key} is DUCKDB, which is not installed: pip install 'flinkpy[duckdb]'")
    _say_once()
    return None


def _runs_in_spark(plan: rel.RelNode, context: PlannerContext) -> bool:
    """True if the Spark backend is chosen by the options, or by the size of the sources."""
    configuration = context.configuration
    backend = read_option(configuration, spark_options.BACKEND)
    if backend != spark_choice.AUTO or spark_choice.has_no_cluster(configuration):
        return backend != spark_choice.NATIVE
    scans = [node for node in rel.walk(plan) if isinstance(node, rel.Scan)]
    size = sum(_size_of(each, context) for each in scans if isinstance(each.source, ScanTableSource))
    return spark_choice.decide_by_size(size, configuration).backend == spark_choice.SPARK


def _size_of(scan: rel.Scan, context: PlannerContext) -> int:
    """Returns the bytes that a scan reads: as its source says, else by the rows that ANALYZE TABLE has counted."""
    found: int = scan.source.estimated_size_bytes
    if found:
        return found
    rows = context.tables.row_count(scan.table.identifier)
    return max(rows, 0) * _BYTES_PER_VALUE * scan.width


@cache
def _say_once() -> None:
    _LOG.warning(
        "DuckDB is not installed, so batch queries run with the operators of streaming mode, which are slower: "
        "pip install 'flinkpy[duckdb]'"
    )

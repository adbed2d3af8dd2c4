"""The phases of planning that only batch mode has.

Source: org.apache.flink.table.planner.plan.optimize.program.FlinkBatchProgram.
"""

from __future__ import annotations

import logging
from functools import cache
from importlib.util import find_spec
from typing import Any

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


def plan_batch(plan: rel.RelNode, context: PlannerContext) -> rel.RelNode:
    """Returns an optimised plan with the parts that an engine computes.

    Raises:
        TableProgramError: a source is unbounded, or sends changes other than inserts.
    """
    for node in rel.walk(plan):
        if isinstance(node, rel.Scan) and isinstance(node.source, ScanTableSource):
            _check_source(node.table.identifier.as_summary_string(), node.source)
    plan = fold_constants(plan, context.settings)
    dialect = _dialect_of(plan, context.configuration)
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


def _dialect_of(plan: rel.RelNode, configuration: Any) -> Dialect | None:
    """Returns the language of the engine; None for operators alone."""
    wanted = read_option(configuration, BATCH_ENGINE)
    if wanted == "OPERATORS":
        return None
    if wanted == "AUTO" and _runs_in_spark(plan, configuration):
        return SPARK
    if find_spec("duckdb") is not None:
        return DUCKDB
    if wanted == "DUCKDB":
        raise ValidationError(f"{BATCH_ENGINE.key} is DUCKDB, which is not installed: pip install 'flinkpy[duckdb]'")
    _say_once()
    return None


def _runs_in_spark(plan: rel.RelNode, configuration: Any) -> bool:
    """True if the Spark backend is chosen by the options, or by the size of the sources."""
    backend = read_option(configuration, spark_options.BACKEND)
    if backend != spark_choice.AUTO or spark_choice.has_no_cluster(configuration):
        return backend != spark_choice.NATIVE
    sources = [node.source for node in rel.walk(plan) if isinstance(node, rel.Scan)]
    size = sum(each.estimated_size_bytes for each in sources if isinstance(each, ScanTableSource))
    return spark_choice.decide_by_size(size, configuration).backend == spark_choice.SPARK


@cache
def _say_once() -> None:
    _LOG.warning(
        "DuckDB is not installed, so batch queries run with the operators of streaming mode, which are slower: "
        "pip install 'flinkpy[duckdb]'"
    )

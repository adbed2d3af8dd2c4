"""The column optimiser: reduces the data that a program of column operations reads and exchanges.

| rule | what it does | where |
|---|---|---|
| fusion | merges consecutive selections and filters | batch mode |
| projection | sources, selections and filters emit only the columns that a consumer needs | both modes |
| predicates | sources receive the conditions of filters, and may skip blocks without matching records | both modes |
| pre-aggregation | aggregates by key before the exchange too | batch mode |

It changes only operators that use nothing but columns. A stream that a function or sink reads keeps all of its columns.
In streaming mode the graph keeps its operators, and so their ids.

Source: org.apache.flink.table.planner.plan.rules.logical.{PushProjectIntoTableSourceScanRule,
PushFilterIntoTableSourceScanRule}, org.apache.flink.table.planner.plan.rules.physical.batch.BatchPhysicalHashAggRule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flinkpy.configuration import read_option
from flinkpy.configuration.column_options import OPTIMIZER_ENABLED
from flinkpy.graph.column_fusion import fuse
from flinkpy.graph.column_pre_aggregation import pre_aggregate
from flinkpy.graph.column_predicates import push_predicates
from flinkpy.graph.column_projection import push_projections

if TYPE_CHECKING:
    from flinkpy.common.configuration import Configuration
    from flinkpy.graph.stream_graph import StreamGraph


def optimize_columns(graph: StreamGraph, configuration: Configuration, is_batch: bool) -> None:
    """Optimises the column operators of the graph. Adds notes about the changes to its nodes."""
    if not read_option(configuration, OPTIMIZER_ENABLED):
        return
    if is_batch:
        fuse(graph)
    push_projections(graph)
    push_predicates(graph, is_batch)
    if is_batch:
        pre_aggregate(graph)

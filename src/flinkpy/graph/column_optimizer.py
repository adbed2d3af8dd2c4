"""The column optimiser: programs of column operations do the same with less data.

| rule | what it does | where |
|---|---|---|
| fusion | selections and filters in a row become one | batch mode |
| projection | sources read, selections make and filters hand on only the columns that somebody needs | both modes |
| predicates | sources learn of conditions, and may leave out blocks that have no such records | both modes |
| pre-aggregation | what is aggregated by key is aggregated before the exchange too | batch mode |

Only operators that are known to look at columns alone are changed: a stream that anything else reads (a function, a
sink) keeps all of its columns. In streaming mode the graph keeps its operators, and so their ids.

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
    """Change the graph's column operators. What was done is in the `notes` of its nodes."""
    if not read_option(configuration, OPTIMIZER_ENABLED):
        return
    if is_batch:
        fuse(graph)
    push_projections(graph)
    push_predicates(graph, is_batch)
    if is_batch:
        pre_aggregate(graph)

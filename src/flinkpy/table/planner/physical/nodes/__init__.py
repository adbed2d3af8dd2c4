"""Physical nodes: the operators of a plan, named as Flink's exec nodes.

Each has the specs of its operator except key selectors and types of streams, which `translate` adds. The changelog
program sets `modify_kinds` and `update_kind`; until then they are empty.

Source: org.apache.flink.table.planner.plan.nodes.physical.stream, ...plan.nodes.exec.stream.
"""

from flinkpy.table.planner.physical.nodes.aggregates import (
    AggregateNode,
    GlobalGroupAggregate,
    GroupAggregate,
    GroupTableAggregate,
    IncrementalGroupAggregate,
    LocalGroupAggregate,
    OverAggregate,
)
from flinkpy.table.planner.physical.nodes.base import PhysicalNode, Term, walk
from flinkpy.table.planner.physical.nodes.engines import EngineQuery, FinalRows
from flinkpy.table.planner.physical.nodes.functions import (
    Correlate,
    MLPredictTableFunction,
    ProcessTableFunction,
    ReplicateRows,
    RowLevelChange,
    VectorSearchTableFunction,
)
from flinkpy.table.planner.physical.nodes.joins import (
    IntervalJoin,
    Join,
    JoinNode,
    LookupJoin,
    MultiJoin,
    TemporalJoin,
    WindowJoin,
    joined_names,
)
from flinkpy.table.planner.physical.nodes.orders import Limit, Rank, Sort, SortLimit, TemporalSort
from flinkpy.table.planner.physical.nodes.patterns import Match
from flinkpy.table.planner.physical.nodes.rows import (
    AsyncCalc,
    Calc,
    ChangelogNormalize,
    DropUpdateBefore,
    Exchange,
    Expand,
    MiniBatchAssigner,
    TableSourceScan,
    Union,
    Values,
    WatermarkAssigner,
)
from flinkpy.table.planner.physical.nodes.sinks import Sink, changelog_text
from flinkpy.table.planner.physical.nodes.windows import (
    GlobalWindowAggregate,
    GroupWindowAggregate,
    LocalWindowAggregate,
    WindowAggregate,
    WindowAggregateNode,
    WindowDeduplicate,
    WindowRank,
    WindowTableFunction,
)

__all__ = [
    "AggregateNode",
    "AsyncCalc",
    "Calc",
    "ChangelogNormalize",
    "Correlate",
    "DropUpdateBefore",
    "EngineQuery",
    "Exchange",
    "Expand",
    "FinalRows",
    "GlobalGroupAggregate",
    "GlobalWindowAggregate",
    "GroupAggregate",
    "GroupTableAggregate",
    "GroupWindowAggregate",
    "IncrementalGroupAggregate",
    "IntervalJoin",
    "Join",
    "JoinNode",
    "Limit",
    "LocalGroupAggregate",
    "LocalWindowAggregate",
    "LookupJoin",
    "MLPredictTableFunction",
    "Match",
    "MiniBatchAssigner",
    "MultiJoin",
    "OverAggregate",
    "PhysicalNode",
    "ProcessTableFunction",
    "Rank",
    "ReplicateRows",
    "RowLevelChange",
    "Sink",
    "Sort",
    "SortLimit",
    "TableSourceScan",
    "TemporalJoin",
    "TemporalSort",
    "Term",
    "Union",
    "Values",
    "VectorSearchTableFunction",
    "WatermarkAssigner",
    "WindowAggregate",
    "WindowAggregateNode",
    "WindowDeduplicate",
    "WindowJoin",
    "WindowRank",
    "WindowTableFunction",
    "changelog_text",
    "joined_names",
    "walk",
]

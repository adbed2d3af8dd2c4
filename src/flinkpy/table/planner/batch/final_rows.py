"""Makes batch plans insert-only: after each operator that sends changes come the rows that remain of them.

Source: org.apache.flink.table.planner.plan.optimize.program.FlinkBatchProgram, whose operators have no changelog.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flinkpy.graph.table_specs import JoinType
from flinkpy.sql.rex import AggregateCall
from flinkpy.table.planner.physical import nodes as ph

#: Functions whose value is 0 and not NULL.
_ZERO_OF_NO_ROWS = frozenset({"COUNT", "APPROX_COUNT_DISTINCT", "SUM0", "$SUM0"})


def with_final_rows(root: ph.PhysicalNode) -> ph.PhysicalNode:
    """Returns a plan of a batch query whose nodes send inserts only."""
    known: dict[int, tuple[ph.PhysicalNode, ph.PhysicalNode]] = {}

    def visit(node: ph.PhysicalNode) -> ph.PhysicalNode:
        if id(node) not in known:
            inputs = [visit(each) for each in node.inputs]
            known[id(node)] = (node, _changed(replace(node, inputs=inputs)))
        return known[id(node)][1]

    return visit(root)


def _changed(node: ph.PhysicalNode) -> ph.PhysicalNode:
    if isinstance(node, ph.SortLimit):
        # The changes of a Top-N do not come in its order.
        ordered = ph.Sort(node.inputs, node.row_type, node.order)
        single = ph.Exchange([ordered], node.row_type, ())
        return ph.Limit([single], node.row_type, node.offset, node.limit)
    if isinstance(node, ph.GroupAggregate) and not node.grouping:
        # Streaming mode has no row before the first input.
        return ph.FinalRows([node], node.row_type, tuple(map(_value_without_rows, node.aggregates)))
    if isinstance(node, ph.RowLevelChange):
        # The sink must not change rows that the query has yet to read.
        return replace(node, inputs=[ph.FinalRows(node.inputs, node.input.row_type)])
    if _sends_changes(node):
        return ph.FinalRows([node], node.row_type)
    return node


def _value_without_rows(call: AggregateCall) -> Any:
    """Returns the aggregate of no rows."""
    function = call.user_function
    if function is not None:
        return function.encoded([function.value(function.create())]).to_pylist()[0]
    return 0 if call.function in _ZERO_OF_NO_ROWS else None


def _sends_changes(node: ph.PhysicalNode) -> bool:
    """True for operators that send updates although their inputs do not."""
    if isinstance(node, ph.Join):
        return node.join_type not in (JoinType.INNER, JoinType.SEMI)
    if isinstance(node, ph.ProcessTableFunction):
        return node.emits_changes
    return isinstance(node, (ph.GroupAggregate, ph.GroupTableAggregate, ph.OverAggregate, ph.Rank))

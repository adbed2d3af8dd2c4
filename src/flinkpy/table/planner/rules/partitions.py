"""Lets sources read only the partitions for which filters on partition columns can be true.

Source: org.apache.flink.table.planner.plan.rules.logical.PushPartitionIntoTableSourceScanRule, PartitionPruner.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from flinkpy.common.errors import FunctionError
from flinkpy.sql.functions import compile_expressions
from flinkpy.sql.rex import InputRef, RexCall, RexNode, rewrite
from flinkpy.sql.session_settings import SessionSettings
from flinkpy.sql.types import logical_types as lt
from flinkpy.table.connectors.abilities import PartitionPushDown
from flinkpy.table.connectors.table_source import ScanTableSource
from flinkpy.table.planner.binder import operators
from flinkpy.table.planner.logical import nodes as rel
from flinkpy.table.planner.rules.expressions import columns_of, is_inlinable

#: The values of a partition by column; None for NULL.
Partition = dict[str, str | None]


def push_partitions(plan: rel.RelNode, settings: SessionSettings) -> rel.RelNode:
    """Returns the plan whose sources read the partitions that filters above them ask for, without these filters."""

    def change(node: rel.RelNode) -> rel.RelNode:
        if not isinstance(node, rel.Filter) or not isinstance(node.input, rel.Scan):
            return node
        scan = node.input
        keys = [scan.names.index(each) for each in scan.table.partition_keys if each in scan.names]
        if not keys or not isinstance(scan.source, ScanTableSource):
            return node
        conditions = operators.conjuncts(node.condition)
        tests = [each for each in conditions if set() < columns_of(each) <= set(keys) and is_inlinable((each,))]
        rest = [each for each in conditions if each not in tests]
        pruned = _pruned(scan, keys, tests, settings) if tests else None
        if pruned is None:
            return node
        return rel.Filter(pruned, operators.and_(rest)) if rest else pruned

    return rel.transform(plan, change)


def _pruned(scan: rel.Scan, keys: list[int], tests: list[RexNode], settings: SessionSettings) -> rel.Scan | None:
    """Returns the scan of some partitions; None if the source cannot list or choose them."""
    partitions = scan.source.partitions()
    if partitions is None:
        return None
    kept = _matching(scan, keys, tests, partitions, settings)
    if kept is None:
        return None
    source = scan.source.with_partitions(kept)
    if source is None:
        return None
    shown = ", ".join("{" + ", ".join(f"{key}={value}" for key, value in each.items()) + "}" for each in kept)
    ability = PartitionPushDown(tuple(tuple(each.items()) for each in kept))
    return replace(
        scan,
        source=source,
        pushed=(*scan.pushed, f"partitions=[{shown}]"),
        abilities=(*scan.abilities, ability),
    )


def _matching(
    scan: rel.Scan, keys: list[int], tests: list[RexNode], partitions: list[Partition], settings: SessionSettings
) -> list[Partition] | None:
    """Returns the partitions for which all tests are true; None if a test fails, as it then may in the job."""
    text = lt.VarCharType()
    places = {column: place for place, column in enumerate(keys)}

    def value(each: RexNode) -> RexNode | None:
        if not isinstance(each, InputRef):
            return None
        reference = InputRef(text, places[each.index])
        return RexCall(each.type.as_nullable(), "CAST", (reference,))

    condition = operators.and_([rewrite(each, value) for each in tests])
    columns = [pa.array([each[scan.names[key]] for each in partitions], pa.string()) for key in keys]
    rows = pa.RecordBatch.from_arrays(columns, names=[scan.names[key] for key in keys])
    try:
        (result,) = compile_expressions([condition], settings).evaluate(rows)
    except FunctionError:
        return None
    return [each for each, is_kept in zip(partitions, result.to_pylist(), strict=True) if is_kept]

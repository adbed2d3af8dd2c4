"""Advice of EXPLAIN PLAN_ADVICE: what may be slow or wrong in a plan.

Source: org.apache.flink.table.planner.plan.optimize.{GroupAggregationAnalyzer, NonDeterministicUpdateAnalyzer},
org.apache.flink.table.planner.plan.utils.FlinkRelOptUtil.
"""

from __future__ import annotations

from typing import Any

from flinkpy.common.errors import TableProgramError
from flinkpy.configuration.options import read_option
from flinkpy.configuration.table_options import (
    AGG_PHASE_STRATEGY,
    MINI_BATCH_ALLOW_LATENCY,
    MINI_BATCH_ENABLED,
    MINI_BATCH_SIZE,
)
from flinkpy.table.planner.changelog.determinism import checked_for_determinism
from flinkpy.table.planner.physical import nodes as ph
from flinkpy.table.planner.physical.accumulators import is_mergeable


def advised_nodes(plans: list[ph.PhysicalNode]) -> set[int]:
    """Returns the ids of aggregates that could run in two phases, but do not."""
    return {
        id(node)
        for plan in plans
        for node in ph.walk(plan)
        if isinstance(node, ph.GroupAggregate)
        and isinstance(node.input, ph.Exchange)
        and node.aggregates
        and all(is_mergeable(call) for call in node.aggregates)
    }


def advice_texts(plans: list[ph.PhysicalNode], configuration: Any) -> list[str]:
    """Returns the lines after the plans. The first is about `advised_nodes` if there are any."""
    lines = []
    if advised_nodes(plans):
        lines.append(f"[ADVICE] {_two_phase_advice(configuration)}")
    for plan in plans:
        try:
            checked_for_determinism(plan)
        except TableProgramError as error:
            lines.append(f"[WARNING] {error.message}")
    return [f"advice[{number}]: {line}" for number, line in enumerate(lines, 1)] or ["No available advice..."]


def _two_phase_advice(configuration: Any) -> str:
    wanted = []
    if read_option(configuration, AGG_PHASE_STRATEGY) == "ONE_PHASE":
        wanted.append(f"'{AGG_PHASE_STRATEGY.key}' to 'AUTO'")
    if not read_option(configuration, MINI_BATCH_ENABLED):
        wanted.append(f"'{MINI_BATCH_ENABLED.key}' to 'true'")
    for option in (MINI_BATCH_ALLOW_LATENCY, MINI_BATCH_SIZE):
        if read_option(configuration, option) <= 0:
            wanted.append(f"'{option.key}' to a positive long value")
    return f"You might want to enable local-global two-phase optimization by configuring ({', '.join(wanted)})."

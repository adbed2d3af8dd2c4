"""ExplainDetail: what EXPLAIN shows beside the plan. Source: pyflink.table.explain_detail."""

from __future__ import annotations

import enum

__all__ = ["ExplainDetail"]


class ExplainDetail(enum.Enum):
    """The details of EXPLAIN."""

    #: The planner's estimate of the cost of each node.
    ESTIMATED_COST = 0
    #: The kinds of changes that each node emits.
    CHANGELOG_MODE = 1
    #: The plan of the job as JSON.
    JSON_EXECUTION_PLAN = 2
    #: Advice about risks of the plan.
    PLAN_ADVICE = 3

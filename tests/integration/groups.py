"""Which tests of a run share a worker of xdist, which of them begin first, and which are left to longer runs.

Tests of one group share what is expensive to start, so one worker runs them. What takes longest begins first: else a
worker would begin it when the other has nothing left to do.
"""

from __future__ import annotations

import pytest

#: A driver of Spark takes half a minute of a processor to start and to become quick: clusters have one, tests another.
SPARK_CLUSTER, SPARK_SESSION = "spark-cluster", "spark-session"
GROUP_OF_MODULE = {
    "test_spark_regions": SPARK_CLUSTER,
    "test_spark_operators": SPARK_SESSION,
    "test_spark_operators_mixed": SPARK_SESSION,
    "test_spark_operators_sinks": SPARK_SESSION,
}
#: The groups that take longest, longest first; modules are groups of their own. Others follow in their order.
FIRST = (
    SPARK_CLUSTER,
    SPARK_SESSION,
)


def group_of(item: pytest.Item) -> str:
    if engine_of(item) == "spark":
        return SPARK_CLUSTER
    module = item.path.stem
    return GROUP_OF_MODULE.get(module, module)


def engine_of(item: pytest.Item) -> str | None:
    """The engine of a test that runs on several."""
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    engine = parameters.get("engine", parameters.get("same_results"))
    return engine if isinstance(engine, str) else None


def arrange(items: list[pytest.Item]) -> None:
    """Give each test its group, and the whole its order; programs run on all engines in `make differential`."""
    for item in items:
        item.add_marker(pytest.mark.xdist_group(group_of(item)))
        if engine_of(item) == "spark" and item.get_closest_marker("short_on_spark") is None:
            item.add_marker(pytest.mark.differential)
    ranks = {group: rank for rank, group in enumerate(FIRST)}
    items.sort(key=lambda item: ranks.get(group_of(item), len(ranks)))

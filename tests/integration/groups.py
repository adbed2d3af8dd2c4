"""Which tests of a run share a worker of xdist, which of them begin first, and which are left to longer runs.

Tests of one group share what is expensive to start, so one worker runs them. What takes longest begins first: else a
worker would begin it when the other has nothing left to do. The groups of xdist itself do not work with every pytest:
3.8 puts them into node ids, which pytest 9.2 does not let it change.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

#: A driver of Spark takes half a minute of a processor to start and to become quick: clusters have one, tests another.
SPARK_CLUSTER, SPARK_SESSION = "spark-cluster", "spark-session"
GROUP_OF_MODULE = {
    "test_spark_regions": SPARK_CLUSTER,
    "test_spark_commits": SPARK_CLUSTER,
    "test_spark_operators": SPARK_SESSION,
    "test_spark_operators_mixed": SPARK_SESSION,
    "test_spark_operators_sinks": SPARK_SESSION,
}
#: Their tests have the engine as a parameter.
ON_ALL_ENGINES = {
    "test_demo_batch",
    "test_generated_pipelines",
    "test_pyflink_behaviours",
    "test_three_engines",
    "test_tpch",
}
#: The groups that take longest, longest first; modules are groups of their own. Others follow in their order.
FIRST = (
    SPARK_CLUSTER,
    SPARK_SESSION,
    "test_ha_masters",
    "test_storage_faults",
    "test_spark_clusters",
    "test_spark_bad_input",
    "test_python_dependencies",
    "test_application_mode",
    "test_exactly_once",
    "test_zookeeper_election",
    "test_ha_job_masters",
    "test_killed_job_masters",
    "test_kafka_exactly_once",
    "test_pyflink_behaviours",
    "test_rolling_restart",
    "test_partitions",
    "test_crash_points",
)


def group_of(nodeid: str) -> str:
    module = PurePosixPath(nodeid.partition("::")[0]).stem
    return SPARK_CLUSTER if is_on_spark(nodeid) else GROUP_OF_MODULE.get(module, module)


def is_on_spark(nodeid: str) -> bool:
    """Whether it is the case with Spark of a test that runs on all engines."""
    module = PurePosixPath(nodeid.partition("::")[0]).stem
    return module in ON_ALL_ENGINES and "spark" in nodeid.partition("[")[2].rstrip("]").split("-")


def is_same_as_batch(item: pytest.Item) -> bool:
    """Whether it is the batch of a test that expects the same of a stream, in a module beside which others compare."""
    fixtures = getattr(item, "fixturenames", ())
    return item.path.stem == "test_pyflink_behaviours" and "[native-batch" in item.nodeid and "mode" not in fixtures


def arrange(items: list[pytest.Item]) -> None:
    """Put them in order; `make differential` runs them on all engines, of which some stand for the others."""
    for item in items:
        is_repeated = is_on_spark(item.nodeid) or is_same_as_batch(item)
        if is_repeated and item.get_closest_marker("short_on_spark") is None:
            item.add_marker(pytest.mark.differential)
    ranks = {group: rank for rank, group in enumerate(FIRST)}
    items.sort(key=lambda item: ranks.get(group_of(item.nodeid), len(ranks)))


class GroupScheduling(LoadScopeScheduling):
    """Gives workers whole groups, in the order of the tests."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)

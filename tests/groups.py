"""Which tests of a run share a worker of xdist, which of them begin first, and which are left to longer runs.

Tests of one group share what is expensive to start, so one worker runs them. What takes longest begins first: else a
worker would begin it when the others have nothing left to do. The groups of xdist itself do not work with every pytest:
3.8 puts them into node ids, which pytest 9.2 does not let it change.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

#: A driver of Spark takes half a minute of a processor to start and to become quick: clusters have one, tests another.
SPARK_CLUSTER, SPARK_SESSION = "spark-cluster", "spark-session"
#: A broker takes some seconds of a processor to start.
KAFKA = "kafka"
GROUP_OF_MODULE = {
    "test_kafka_exactly_once": KAFKA,
    "test_kafka_sink": KAFKA,
    "test_kafka_source": KAFKA,
    "test_spark_column_aggregates": SPARK_SESSION,
    "test_spark_expressions": SPARK_SESSION,
    "test_spark_translate": SPARK_SESSION,
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
#: Long modules whose tests share nothing: each test is a group of its own.
SHARES_NOTHING = {"test_storage_faults"}
#: The groups that take longest, longest first; modules are groups of their own. Others follow in their order.
FIRST = (
    SPARK_SESSION,
    KAFKA,
    SPARK_CLUSTER,
    "test_spark_clusters",
    "test_rolling_restart",
    "test_ha_masters",
    "test_exactly_once",
    "test_application_mode",
    "test_zookeeper_election",
    "test_ha_job_masters",
    "test_partitions",
    "test_storage_faults",
    "test_spark_bad_input",
    "test_killed_job_masters",
    "test_python_dependencies",
    "test_pyflink_behaviours",
    "test_async_programs",
    "test_crash_points",
    "test_batch_recovery",
    "test_compose_topology",
)
RANKS = {name: rank for rank, name in enumerate(FIRST)}


def module_of(nodeid: str) -> str:
    return PurePosixPath(nodeid.partition("::")[0]).stem


def group_of(nodeid: str) -> str:
    module = module_of(nodeid)
    if module in SHARES_NOTHING:
        return nodeid
    return SPARK_CLUSTER if is_on_spark(nodeid) else GROUP_OF_MODULE.get(module, module)


def rank_of(group: str) -> int:
    """How early the group begins; groups of the same rank keep their order."""
    return RANKS.get(module_of(group), len(RANKS))


def is_on_spark(nodeid: str) -> bool:
    """Whether it is the case with Spark of a test that runs on all engines."""
    return module_of(nodeid) in ON_ALL_ENGINES and "spark" in nodeid.partition("[")[2].rstrip("]").split("-")


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
    items.sort(key=lambda item: rank_of(group_of(item.nodeid)))


class GroupScheduling(LoadScopeScheduling):
    """Gives workers whole groups, those first that take longest."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)

    def _assign_work_unit(self, node: Any) -> None:
        self.workqueue.move_to_end(min(self.workqueue, key=rank_of), last=False)
        super()._assign_work_unit(node)

    def _reschedule(self, node: Any) -> None:
        """A worker takes its next group with its last test, not with the one before: others may be free earlier."""
        is_last = node in self.assigned_work and self._pending_of(self.assigned_work[node]) < 2
        if is_last or not self.workqueue:
            super()._reschedule(node)

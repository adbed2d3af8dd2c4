"""Groups the tests of a run: each group runs on one worker of xdist, and the longest groups begin first.

Tests of one group share servers or clusters that are expensive to start, so one worker runs them all. The longest group
begins first, because a worker that began it late would still run when the others have finished. Some tests are marked
`differential` here, which leaves them to longer runs.

The groups of xdist itself do not work with every pytest: xdist 3.8 changes node ids, which pytest 9.2 does not permit.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

#: A Spark driver needs half a minute of CPU time to start and to warm up. The cluster tests share one driver, the
#: others a second one.
SPARK_CLUSTER, SPARK_SESSION = "spark-cluster", "spark-session"
#: A Kafka broker needs some seconds of CPU time to start.
KAFKA = "kafka"
#: The tests of this folder share the session of SPARK_SESSION.
SPARK_COLUMNS = "spark_columns"
#: An ensemble of three ZooKeeper servers.
ZOOKEEPER_ENSEMBLE = "zookeeper-ensemble"
GROUP_OF_MODULE = {
    "test_kafka_exactly_once": KAFKA,
    "test_kafka_sink": KAFKA,
    "test_kafka_source": KAFKA,
    "test_spark_regions": SPARK_CLUSTER,
    "test_spark_commits": SPARK_CLUSTER,
    "test_file_overwrites": SPARK_CLUSTER,
    # Its broker starts faster than another driver.
    "test_kafka_batch": SPARK_CLUSTER,
    "test_spark_operators": SPARK_SESSION,
    "test_spark_operators_mixed": SPARK_SESSION,
    "test_spark_operators_sinks": SPARK_SESSION,
    "test_table_programs": SPARK_CLUSTER,
    "test_zookeeper_election": ZOOKEEPER_ENSEMBLE,
    "test_zookeeper_refusals": ZOOKEEPER_ENSEMBLE,
}
#: Modules whose tests have the engine as a parameter.
ON_ALL_ENGINES = {
    "test_demo_batch",
    "test_generated_pipelines",
    "test_pyflink_behaviours",
    "test_three_engines",
    "test_tpch",
}
#: Long modules whose tests share nothing, so each test is its own group.
SHARES_NOTHING = {"test_storage_faults"}
#: The longest groups, the longest first. A module without a group is its own group. All others follow in file order.
FIRST = (
    SPARK_SESSION,
    KAFKA,
    SPARK_CLUSTER,
    "test_spark_clusters",
    "test_rolling_restart",
    "test_ha_masters",
    "test_exactly_once",
    "test_application_mode",
    ZOOKEEPER_ENSEMBLE,
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
    if SPARK_COLUMNS in PurePosixPath(nodeid).parts:
        return SPARK_SESSION
    return SPARK_CLUSTER if is_on_spark(nodeid) else GROUP_OF_MODULE.get(module, module)


def rank_of(group: str) -> int:
    """Returns the place of the group in the order of starts. Groups with the same rank keep their order."""
    return RANKS.get(module_of(group), len(RANKS))


def is_on_spark(nodeid: str) -> bool:
    """True if this is the Spark case of a test that runs on all engines."""
    return module_of(nodeid) in ON_ALL_ENGINES and "spark" in nodeid.partition("[")[2].rstrip("]").split("-")


def is_same_as_batch(item: pytest.Item) -> bool:
    """True if this is the batch case of a test that expects the same result in streaming mode.

    Only for test_pyflink_behaviours: other modules compare batch and streaming mode as well.
    """
    fixtures = getattr(item, "fixturenames", ())
    return item.path.stem == "test_pyflink_behaviours" and "[native-batch" in item.nodeid and "mode" not in fixtures


def arrange(items: list[pytest.Item]) -> None:
    """Orders the tests, and marks repeated ones `differential`.

    A test is repeated if the same test on another engine, or in streaming mode, stands for it. `make differential` runs
    all of them.
    """
    for item in items:
        is_repeated = is_on_spark(item.nodeid) or is_same_as_batch(item)
        if is_repeated and item.get_closest_marker("short_on_spark") is None:
            item.add_marker(pytest.mark.differential)
    items.sort(key=lambda item: rank_of(group_of(item.nodeid)))


class GroupScheduling(LoadScopeScheduling):
    """Assigns whole groups to workers, the longest group first."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)

    def _assign_work_unit(self, node: Any) -> None:
        self.workqueue.move_to_end(min(self.workqueue, key=rank_of), last=False)
        super()._assign_work_unit(node)

    def _reschedule(self, node: Any) -> None:
        """Assigns the next group to a worker only when it has begun its last test.

        xdist itself does it one test earlier, when another worker may be free sooner.
        """
        is_last = node in self.assigned_work and self._pending_of(self.assigned_work[node]) < 2
        if is_last or not self.workqueue:
            super()._reschedule(node)

"""The metrics of the cluster that the ResourceManager knows, under Flink's names.

Source: org.apache.flink.runtime.resourcemanager.ResourceManager#registerMetrics, slotmanager.FineGrainedSlotManager,
active.ActiveResourceManager.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from flinkpy.metrics.metric_registry import NamedMetricGroup
from flinkpy.metrics.metricbase import DEFAULT_TIME_SPAN_S, CounterView, Meter
from flinkpy.resourcemanager.task_executor_tracker import SlotState

if TYPE_CHECKING:
    from flinkpy.resourcemanager.resource_manager import ResourceManager

#: The subgroup of the metrics of this process. The Dispatcher has the same scope, and its process has no subgroup.
PROCESS_GROUP = "ResourceManager"


def register_cluster_metrics(group: NamedMetricGroup, leading: Callable[[], ResourceManager | None]) -> None:
    """Registers gauges that read the ResourceManager of the present term. All are 0 while this process does not lead.

    Any thread may read them: they read copies of collections.
    """

    def reading(read: Callable[[ResourceManager], int]) -> Callable[[], int]:
        def value() -> int:
            resource_manager = leading()
            return 0 if resource_manager is None else read(resource_manager)

        return value

    group.gauge("numRegisteredTaskManagers", reading(lambda one: len(one.slot_manager.task_executors)))
    group.gauge("numPendingTaskManagers", reading(lambda one: one.workers.num_pending))
    group.gauge("taskSlotsTotal", reading(lambda one: one.slot_manager.task_executors.num_slots))
    group.gauge("taskSlotsAvailable", reading(lambda one: one.slot_manager.task_executors.count(SlotState.FREE)))
    failures = CounterView(reading(lambda one: one.workers.num_start_failures))
    group.register("startWorkFailurePerSecond", Meter(DEFAULT_TIME_SPAN_S, failures))

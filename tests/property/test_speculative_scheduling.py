"""Speculative attempts of tasks, and vertices whose parallelism is decided late, on a cluster with faults."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import settings
from hypothesis.stateful import rule
from test_job_scheduling import ClusterMachine

from flinkpy._proto import job_pb2
from flinkpy.common.states import ExecutionState
from flinkpy.jobmaster.scheduler import events as ev
from flinkpy.jobmaster.scheduler.adaptive_parallelism import AdaptiveParallelismOptions
from flinkpy.jobmaster.scheduler.slow_task_detector import (
    SlowTaskDetectorOptions,
    SpeculativeExecutionOptions,
)
from flinkpy.jobmaster.scheduler.speculative_scheduler import SpeculativeScheduler

EAGER = SpeculativeExecutionOptions(
    is_enabled=True,
    max_concurrent_executions=3,
    block_slow_node_duration_ms=2_000,
    detector=SlowTaskDetectorOptions(
        check_interval_ms=50, baseline_lower_bound_ms=0, baseline_ratio=0.3, baseline_multiplier=0.5
    ),
)


class SpeculativeClusterMachine(ClusterMachine):
    def make_scheduler(self, graph, *, options, **arguments):
        for vertex in graph.vertices:
            vertex.supports_concurrent_attempts = True
            vertex.slot_sharing_group = vertex.id
            vertex.chain[0].ClearField("coordinator_pickle")
            for result in vertex.results:
                result.type = job_pb2.BLOCKING
            if vertex.inputs:
                vertex.parallelism, vertex.parallelism_bound = -1, vertex.parallelism
        adaptive = AdaptiveParallelismOptions(min_parallelism=2)
        options = replace(options, speculative=EAGER, adaptive=adaptive)
        return SpeculativeScheduler(graph, options=options, **arguments)

    @rule()
    def work_goes_on(self):
        """Delivers slots, calls and updates, and ends one of the running tasks."""
        for name in self.living or ["tm0"]:
            if name not in self.living:
                self.task_manager_comes(num_slots=3)
            elif self.scheduler.slot_pool.num_required > self.scheduler.slot_pool.num_slots:
                self.offer(name, 3)
        while self.calls:
            self.carry_out(self.calls.pop(0))
        while self.updates:
            self.deliver(0)
        if self.tasks:
            name, attempt = self.tasks[0]
            del self.task_managers[name][attempt]
            self.updates.append(ev.TaskStateUpdated(attempt, ExecutionState.FINISHED))


TestSpeculativeScheduling = SpeculativeClusterMachine.TestCase
TestSpeculativeScheduling.settings = settings(max_examples=30, stateful_step_count=40, deadline=None)

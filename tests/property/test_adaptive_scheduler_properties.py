"""The adaptive scheduler on a cluster with faults, while users change the requirements of the job.

`validate` holds after each event: no slot leaks, and no more slots are wanted than desired. A new generation of tasks
asserts that no task of the former one is left. At the end the job runs with its highest parallelism.
"""

from __future__ import annotations

from dataclasses import replace

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import rule
from test_job_scheduling import ClusterMachine

from flinkpy._proto import job_pb2
from flinkpy.common.states import JobState
from flinkpy.jobmaster.scheduler import events as ev
from flinkpy.jobmaster.scheduler.adaptive.adaptive_scheduler import AdaptiveScheduler
from flinkpy.jobmaster.scheduler.adaptive.slot_sharing_slot_allocator import joined_bounds
from flinkpy.jobmaster.scheduler.adaptive.states import AdaptiveSchedulerOptions


class AdaptiveClusterMachine(ClusterMachine):
    def make_scheduler(self, graph, *, options, **arguments):
        for vertex in graph.vertices:
            for result in vertex.results:
                result.type = job_pb2.PIPELINED_BOUNDED
                result.partitioner_name = "FORWARD" if result.distribution == job_pb2.POINTWISE else "HASH"
        if len(graph.vertices) > 2:  # two pipelines: a rescale of one lets the other go on
            del graph.vertices[1].results[:]
            del graph.vertices[2].inputs[:]
        adaptive = AdaptiveSchedulerOptions(
            is_enabled=True,
            resource_wait_timeout_ms=5_000,
            submission_stabilization_timeout_ms=500,
            executing_cooldown_ms=1_000,
            executing_stabilization_timeout_ms=2_000,
        )
        return AdaptiveScheduler(graph, options=replace(options, adaptive_scheduler=adaptive), **arguments)

    @rule(data=st.data())
    def a_user_changes_the_requirements(self, data):
        wanted = []
        for vertex_id in self.scheduler.graph.job_vertices:
            lower = data.draw(st.integers(1, 2))
            upper = data.draw(st.integers(lower, 4))
            wanted.append(
                job_pb2.VertexParallelismBounds(vertex_id=str(vertex_id), lower_bound=lower, upper_bound=upper)
            )
        self.send(ev.ResourceRequirementsChanged(self.scheduler.checked_requirements(wanted)))

    @rule()
    def work_goes_on(self):
        """Delivers slots, calls and updates."""
        for name in self.living or ["tm0"]:
            if name not in self.living:
                self.task_manager_comes(num_slots=2)
        while self.calls:
            self.carry_out(self.calls.pop(0))
        while self.updates:
            self.deliver(0)

    def teardown(self):
        super().teardown()
        if hasattr(self, "scheduler") and self.scheduler.state is JobState.RUNNING:
            highest = joined_bounds(self.scheduler.graph, self.scheduler.requirements)
            for vertex in self.scheduler.graph.job_vertices.values():
                assert vertex.parallelism == highest[vertex.id].upper


TestAdaptiveScheduling = AdaptiveClusterMachine.TestCase
TestAdaptiveScheduling.settings = settings(max_examples=15, stateful_step_count=40, deadline=None)

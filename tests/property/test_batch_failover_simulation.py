"""Random batch jobs end under any faults, and every record has arrived exactly once.

The scheduler is the real one. Simulated TaskExecutors hold results as lists of records. A partitioner that is not
deterministic sends records elsewhere in every attempt. The splits of a source go to the subtask that asks first. The
test compares the records read by the last attempts of the sinks with those of a run without failures.

Some vertices also write to sinks. A committer commits one record at a time, and may fail or die after each. A commit
that is repeated for the same attempt of the writer has no effect; one for another attempt is a second record. The
JobMaster dies, too. The next one knows the events that are on disk: at least those that were recorded before a
committer got its committables. Without job recovery only what concerns commits is restored. With it, TaskExecutors keep
their results, and sources have fixed splits, because this test has no snapshots of coordinators.

FLINKPY_SIMULATION_SEEDS=2000 pytest tests/property/test_batch_failover_simulation.py      # many
"""

from __future__ import annotations

import os
from collections import Counter, deque
from random import Random
from typing import Any

import pytest
from batch_jobs import NUM_SPLITS, add_committers, expected_output, partitioned, random_job

from flinkpy._proto import job_event_pb2, job_pb2, taskexecutor_pb2
from flinkpy.common.errors import (
    FlinkError,
    FunctionError,
    PartitionCorruptedError,
    PartitionNotFoundError,
    TaskManagerLostError,
)
from flinkpy.common.ids import AllocationID, ExecutionAttemptID, ResourceID
from flinkpy.common.states import ExecutionState, JobState
from flinkpy.jobmaster.failover.restart_strategy import FixedDelayRestartStrategy
from flinkpy.jobmaster.job_event_store import job_events
from flinkpy.jobmaster.scheduler import effects as fx
from flinkpy.jobmaster.scheduler import events as ev
from flinkpy.jobmaster.scheduler.default_scheduler import PARTITION_DETAIL, DefaultScheduler, SchedulerOptions
from flinkpy.jobmaster.slotpool.declarative_slot_pool import SlotPoolOptions
from flinkpy.jobmaster.slotpool.physical_slot import SlotOffer, TaskManagerLocation

NUM_SEEDS = int(os.environ.get("FLINKPY_SIMULATION_SEEDS", "150"))
#: The most steps of a run, far more than any of these runs needs.
MAX_STEPS = 20_000
E = ExecutionState


#: A record of an attempt of a writer, with its position.
Committable = tuple[str, int, str]


class Task:
    def __init__(self, deployment: taskexecutor_pb2.TaskDeployment) -> None:
        self.deployment = deployment
        self.attempt = ExecutionAttemptID.parse(deployment.execution_attempt_id)
        self.is_running = False
        #: Gates that have not been read yet.
        self.unread = [(gate, partition) for gate in deployment.input_gates for partition in gate.partitions]
        self.records: list[str] = []
        #: Records that a committer has not committed yet.
        self.committables: list[Committable] = []


class Executor:
    def __init__(self, name: str, num_slots: int) -> None:
        self.name = name
        self.location = TaskManagerLocation(ResourceID(name), f"{name}:1", f"{name}:2")
        self.num_slots = num_slots
        self.slots: set[AllocationID] = set()
        self.tasks: dict[ExecutionAttemptID, Task] = {}
        #: Results by id: the records of each subpartition.
        self.results: dict[str, list[list[str]]] = {}
        self.outbox: deque[ev.SchedulerEvent] = deque()
        self.is_alive = True


class World:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.is_recovering = self.random.random() < 0.3
        self.graph = random_job(self.random, coordinator=b"" if self.is_recovering else b"x")
        add_committers(self.graph, self.random)
        self.now_ms = 1_000
        self._options = SchedulerOptions(
            slot_pool=SlotPoolOptions(request_timeout_ms=600_000, are_requests_in_turn=True),
            records_events=self.is_recovering,
            failover_strategy=self.random.choice(["region", "region", "full"]),
            releases_partitions_during_execution=self.random.random() < 0.8,
        )
        self._delay_ms = self.random.choice([0, 10, 50])
        self.num_job_masters = 0
        self.scheduler = self.new_scheduler()
        self.executors: dict[str, Executor] = {}
        self.lost: list[Executor] = []
        self.wanted = 0
        self.pending: deque[Any] = deque()
        #: The unassigned splits of each source, and the owners of the others.
        self.splits = {vertex.id: splits_of(vertex.id) for vertex in self.graph.vertices if not vertex.inputs}
        if self.is_recovering:
            self.splits.clear()
        self.assigned: dict[Any, list[str]] = {}
        self.output: dict[ExecutionAttemptID, list[str]] = {}
        #: The committables that the JobMaster keeps, by the id of the result partition.
        self.kept: dict[str, list[Committable]] = {}
        self.committed: dict[str, set[Committable]] = {}
        #: The attempts of writers that had to drop their records.
        self.num_dropped = 0
        #: The recorded events, and how many of them are on disk for sure.
        self.events: list[bytes] = []
        self.num_stored_events = 0
        self.num_faults = 0
        self.is_faulty = True
        self._numbers = 0

    def new_scheduler(self) -> DefaultScheduler:
        self.num_job_masters += 1
        return DefaultScheduler(
            self.graph,
            graph_id=f"g{self.num_job_masters}",
            options=self._options,
            restart_strategy=FixedDelayRestartStrategy(1_000_000, self._delay_ms),
            now_ms=self.now_ms,
        )

    def start(self) -> None:
        self.send(ev.JobMasterInitialized())
        self.send(ev.StartScheduling())

    def kill_job_master(self) -> None:
        """Starts the job under another JobMaster. All TaskExecutors drop their tasks, and perhaps their results."""
        self.num_faults += 1
        self.num_stored_events = self.random.randint(self.num_stored_events, len(self.events))
        del self.events[self.num_stored_events :]
        kept = [one for one in self.executors.values() if one.is_alive] if self.is_recovering else []
        self.executors = {}
        for executor in kept:
            executor.tasks.clear()
            executor.slots.clear()
            executor.outbox.clear()
            self.executors[executor.name] = executor
        held = set(self.kept).union(*(executor.results for executor in kept))
        self.lost.clear()
        self.pending.clear()
        self.wanted = 0
        self.scheduler = self.new_scheduler()
        graph = self.scheduler.graph
        coordinated = [vertex.id for vertex in graph.job_vertices.values() if vertex.has_coordinators]
        recorded = job_events.replay(map(job_event_pb2.JobEvent.FromString, self.events), coordinated)
        self.scheduler.start_with_sources({})
        self.scheduler.recover(recorded, frozenset(held))
        for executor in kept:
            self.send(ev.TaskManagerRegistered(executor.location))
        for vertex in graph.job_vertices.values() if not self.is_recovering else ():
            if any(task.current.state is not E.FINISHED for task in vertex.task_vertices) and not vertex.inputs:
                self.splits[str(vertex.id)] = splits_of(str(vertex.id))
                for task in vertex.task_vertices:
                    self.assigned.pop(task.id, None)
        self.start()

    def send(self, event: ev.SchedulerEvent) -> None:
        for effect in self.scheduler.handle(event, self.now_ms):
            self.run(effect)
        self.scheduler.validate()

    def run(self, effect: fx.SchedulerEffect) -> None:
        match effect:
            case fx.DeclareRequirements(requirements):
                self.wanted = requirements.total
            case fx.SubmitTasks():
                self.pending.append(effect)
            case fx.CancelTasks(location, attempts):
                executor = self.executors.get(str(location.resource_id))
                for attempt in attempts if executor is not None else ():
                    self.end(executor, attempt, E.CANCELED)
            case fx.ReleasePartitions(location, partition_ids):
                executor = self.executors.get(str(location.resource_id))
                for partition_id in partition_ids if executor is not None else ():
                    executor.results.pop(partition_id, None)
            case fx.RemoveKeptResults(partition_ids):
                for partition_id in partition_ids:
                    self.kept.pop(partition_id, None)
            case fx.FreeSlot(slot):
                executor = self.executors.get(str(slot.location.resource_id))
                if executor is not None:
                    executor.slots.discard(slot.allocation_id)
            case fx.RecordJobEvent(event):
                self.events.append(event.SerializeToString())
            case fx.SubtaskReset(vertex_id):
                self.splits[vertex_id.job_vertex_id.value] += self.assigned.pop(vertex_id, [])
            case fx.ResetCoordinators(job_vertex_id):
                for vertex_id in list(self.assigned):
                    if vertex_id.job_vertex_id == job_vertex_id:
                        self.splits[job_vertex_id.value] += self.assigned.pop(vertex_id)

    def end(
        self, executor: Executor, attempt: ExecutionAttemptID, state: ExecutionState, error: FlinkError | None = None
    ) -> None:
        task = executor.tasks.pop(attempt, None)
        if task is None:
            return
        if state is E.FINISHED:
            self.output[attempt] = task.records
            for produced in task.deployment.produced_partitions:
                if produced.is_kept_by_job_master:
                    self.keep(task, produced)
                    continue
                result = self.data_set(produced.data_set_id)
                executor.results[produced.result_partition_id] = partitioned(
                    task.records, result.partitioner_name, produced.num_subpartitions, self.random
                )
        executor.outbox.append(ev.TaskStateUpdated(attempt, state, error))

    def keep(self, task: Task, produced: taskexecutor_pb2.ResultPartitionDeployment) -> None:
        if produced.is_final:
            self.num_dropped += 1
            return
        records = [(str(task.attempt), number, record) for number, record in enumerate(task.records)]
        self.kept[produced.result_partition_id] = records

    def data_set(self, data_set_id: str) -> job_pb2.IntermediateDataSet:
        return next(result for vertex in self.graph.vertices for result in vertex.results if result.id == data_set_id)

    # events

    def step(self) -> None:
        random = self.random
        self.now_ms += random.choice([0, 1, 5, 20])
        due_ms = self.scheduler.next_deadline_ms
        if due_ms is not None and due_ms <= self.now_ms:
            self.send(ev.CheckDeadlines())
        if self.is_faulty and random.random() < 0.02:
            self.fail_something()
        for executor in self.lost[:]:
            if random.random() < 0.3:
                self.lost.remove(executor)
                cause = TaskManagerLostError(f"{executor.name} is lost")
                self.send(ev.TaskManagerLost(executor.location.resource_id, cause))
        if self.pending and random.random() < 0.7:
            self.submit(self.pending.popleft())
        self.give_slots()
        for executor in list(self.executors.values()):
            for task in list(executor.tasks.values()):
                if random.random() < 0.5:
                    self.work(executor, task)
            if executor.outbox and random.random() < 0.7:
                self.send(executor.outbox.popleft())

    def give_slots(self) -> None:
        self.executors = {name: executor for name, executor in self.executors.items() if executor.is_alive}
        held = sum(len(executor.slots) for executor in self.executors.values())
        if held >= self.wanted:
            return
        free = [executor for executor in self.executors.values() if len(executor.slots) < executor.num_slots]
        if free:
            executor = self.random.choice(free)
            self._numbers += 1
            slot = AllocationID(f"{executor.name}-{self._numbers}")
            executor.slots.add(slot)
            resource_id = executor.location.resource_id
            for effect in self.scheduler.handle(ev.SlotsOffered(resource_id, (SlotOffer(slot, 0),)), self.now_ms):
                self.run(effect)
            if slot not in self.scheduler.slot_pool.allocations_of(resource_id):
                executor.slots.discard(slot)
        elif len(self.executors) < 2:
            self._numbers += 1
            executor = Executor(f"tm{self._numbers}", self.random.randint(1, 2))
            self.executors[executor.name] = executor
            self.send(ev.TaskManagerRegistered(executor.location))

    def submit(self, effect: fx.SubmitTasks) -> None:
        executor = self.executors.get(str(effect.location.resource_id))
        if executor is None or not executor.is_alive:
            return  # the notification of its loss is in flight
        for deployment in effect.tasks:
            task = Task(deployment)
            vertex = next(one for one in self.graph.vertices if one.id == deployment.vertex_id)
            if self.is_recovering and not vertex.inputs:
                task.records = splits_of(vertex.id)[deployment.subtask_index :: vertex.parallelism]
            executor.tasks[task.attempt] = task
        self.send(ev.TasksSubmitted(effect.attempts))

    def work(self, executor: Executor, task: Task) -> None:
        if not task.is_running:
            task.is_running = True
            executor.outbox.append(ev.TaskStateUpdated(task.attempt, E.INITIALIZING))
            executor.outbox.append(ev.TaskStateUpdated(task.attempt, E.RUNNING))
            return
        vertex_id = task.attempt.vertex
        pool = self.splits.get(vertex_id.job_vertex_id.value)
        if pool:
            split = pool.pop()
            self.assigned.setdefault(vertex_id, []).append(split)
            task.records.append(split)
        elif task.unread:
            self.read(executor, task)
        elif self.is_faulty and self.random.random() < 0.02:
            self.num_faults += 1
            self.end(executor, task.attempt, E.FAILED, FunctionError("boom"))
        elif task.committables:
            committed = self.committed.setdefault(vertex_id.job_vertex_id.value, set())
            committed.add(task.committables.pop())
        else:
            self.end(executor, task.attempt, E.FINISHED)

    def read(self, executor: Executor, task: Task) -> None:
        gate, partition = task.unread.pop()
        if gate.is_kept_by_job_master:
            assert not partition.resource_id
            self.num_stored_events = len(self.events)
            task.committables += self.kept[partition.result_partition_id]
            return
        producer = self.executors.get(partition.resource_id)
        result = (
            None if producer is None or not producer.is_alive else producer.results.get(partition.result_partition_id)
        )
        is_corrupt = self.is_faulty and self.random.random() < 0.02
        if result is None or is_corrupt:
            self.num_faults += 1
            kind = PartitionCorruptedError if is_corrupt else PartitionNotFoundError
            error = kind("it cannot be read", details={PARTITION_DETAIL: partition.result_partition_id})
            self.end(executor, task.attempt, E.FAILED, error)
            return
        first = gate.subpartition_index
        for subpartition in result[first : first + max(1, gate.num_subpartitions)]:
            task.records += subpartition

    def fail_something(self) -> None:
        alive = [executor for executor in self.executors.values() if executor.is_alive]
        if not alive:
            return
        self.num_faults += 1
        executor = self.random.choice(alive)
        if self.random.random() < 0.5:
            executor.is_alive = False
            executor.outbox.clear()
            self.lost.append(executor)
            for task in executor.tasks.values():
                self.output.pop(task.attempt, None)
        elif executor.tasks:
            self.end(executor, self.random.choice(list(executor.tasks)), E.FAILED, FunctionError("boom"))

    def result(self) -> dict[str, Counter[str]]:
        """Returns the records that the last attempts of each vertex have read."""
        found: dict[str, Counter[str]] = {vertex.id: Counter() for vertex in self.graph.vertices}
        for vertex in self.scheduler.graph.vertices:
            found[vertex.job_vertex.name].update(self.output[vertex.current.attempt_id])
        return found


def splits_of(vertex_id: str) -> list[str]:
    return [f"{vertex_id}:{split}" for split in range(NUM_SPLITS)]


def simulate(seed: int) -> World:
    world = World(seed)
    try:
        world.start()
        for number in range(MAX_STEPS):
            if world.scheduler.state.is_terminal:
                break
            world.is_faulty = number < 400
            if world.is_faulty and world.random.random() < 0.005:
                world.kill_job_master()
            world.step()
        assert world.scheduler.state is JobState.FINISHED, world.scheduler.state
        expected = expected_output(world.graph)
        consumed = {edge.source_data_set_id for vertex in world.graph.vertices for edge in vertex.inputs}
        found = world.result()
        for vertex in world.graph.vertices:
            if not vertex.is_committer and not any(result.id in consumed for result in vertex.results):
                assert found[vertex.id] == expected[vertex.id], vertex.id
            if vertex.is_committer:
                writer = vertex.id.removesuffix("-committer")
                committed = Counter(record for _, _, record in world.committed.get(vertex.id, ()))
                assert committed == expected[writer], f"{writer} has committed something else"
    except BaseException as error:
        error.add_note(f"seed {seed}")
        raise
    return world


@pytest.mark.parametrize("first", range(0, NUM_SEEDS, 10))
def test_a_batch_job_ends_with_every_record_exactly_once_under_any_faults(first: int) -> None:
    worlds = [simulate(seed) for seed in range(first, first + 10)]
    assert sum(world.num_faults for world in worlds) > 0
    assert sum(len(committed) for world in worlds for committed in world.committed.values()) > 0


def test_writers_whose_committables_are_final_drop_their_records() -> None:
    assert any(simulate(seed).num_dropped for seed in range(50))


def test_settled_tasks_do_not_run_again_under_another_job_master() -> None:
    def has_settled(world: World) -> bool:
        attempts = [vertex.current.attempt_id for vertex in world.scheduler.graph.vertices]
        return any(attempt.execution_graph_id != world.scheduler.graph.graph_id for attempt in attempts)

    assert any(has_settled(simulate(seed)) for seed in range(50))


def test_a_seed_determines_the_run() -> None:
    first, second = simulate(7), simulate(7)
    assert (first.now_ms, first.num_faults) == (second.now_ms, second.num_faults)

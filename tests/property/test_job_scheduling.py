"""A job on a cluster that loses, duplicates, delays and reorders messages, and whose processes die.

The simulated cluster knows which task really runs where. The scheduler's invariants hold after every event
(`validate`). Once faults stop, the job ends or all its tasks run, and no other task runs.
"""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from flinkpy._proto import job_pb2
from flinkpy.common.errors import FunctionError, RpcTimeoutError, TaskManagerLostError
from flinkpy.common.ids import AllocationID, ResourceID
from flinkpy.common.states import ExecutionState, JobState
from flinkpy.jobmaster.executiongraph.edge_manager import pointwise_partitions
from flinkpy.jobmaster.executiongraph.execution_graph import ExecutionGraph
from flinkpy.jobmaster.failover.restart_strategy import FixedDelayRestartStrategy, NoRestartStrategy
from flinkpy.jobmaster.scheduler import effects as fx
from flinkpy.jobmaster.scheduler import events as ev
from flinkpy.jobmaster.scheduler.default_scheduler import DefaultScheduler, SchedulerOptions
from flinkpy.jobmaster.slotpool.declarative_slot_pool import SlotPoolOptions
from flinkpy.jobmaster.slotpool.physical_slot import SlotOffer, TaskManagerLocation

E = ExecutionState
BOOM = FunctionError("boom")

#: Longer than every timeout of a job.
LONG_MS = 60_000


def _vertex(name, parallelism, inputs=(), results=(), pointwise=False, blocking=False, group=""):
    return job_pb2.JobVertex(
        id=name,
        name=name,
        parallelism=parallelism,
        max_parallelism=-1,
        slot_sharing_group=group,
        chain=[job_pb2.OperatorDescriptor(operator_id=name, name=name, coordinator_pickle=b"x")],
        inputs=[job_pb2.JobEdge(source_data_set_id=data_set) for data_set in inputs],
        results=[
            job_pb2.IntermediateDataSet(
                id=data_set,
                type=job_pb2.BLOCKING if blocking else job_pb2.PIPELINED_BOUNDED,
                distribution=job_pb2.POINTWISE if pointwise else job_pb2.ALL_TO_ALL,
            )
            for data_set in results
        ],
    )


@st.composite
def job_graphs(draw):
    """Draws a chain of two to four vertices with any kinds of edges."""
    num_vertices = draw(st.integers(2, 4))
    vertices = []
    for index in range(num_vertices):
        vertices.append(
            _vertex(
                f"v{index}",
                draw(st.integers(1, 3)),
                inputs=[f"d{index - 1}"] if index else [],
                results=[f"d{index}"] if index < num_vertices - 1 else [],
                pointwise=draw(st.booleans()),
                blocking=draw(st.integers(0, 3)) == 0,
                group=draw(st.sampled_from(["", "", "other"])),
            )
        )
    return job_pb2.JobGraph(job_id="job", name="job", vertices=vertices)


@given(st.integers(1, 40), st.integers(1, 40))
def test_pointwise_wiring_covers_everything_once_and_evenly(num_partitions, num_consumers):
    reads = [list(pointwise_partitions(num_partitions, num_consumers, i)) for i in range(num_consumers)]
    assert all(reads)
    flat = [partition for partitions in reads for partition in partitions]
    assert flat == sorted(flat), "neighbours stay neighbours"
    assert set(flat) == set(range(num_partitions))
    if num_partitions >= num_consumers:
        assert len(flat) == num_partitions
        sizes = [len(partitions) for partitions in reads]
    else:
        assert all(len(partitions) == 1 for partitions in reads)
        sizes = [flat.count(partition) for partition in range(num_partitions)]
    assert max(sizes) - min(sizes) <= 1


@given(job_graphs())
def test_every_subpartition_has_exactly_one_reader(graph):
    execution_graph = ExecutionGraph(graph, graph_id="g", now_ms=0)
    execution_graph.validate()
    readers = {}
    for vertex in execution_graph.vertices:
        for gate in vertex.consumed:
            for partition in gate.partitions:
                for subpartition in range(gate.num_subpartitions):
                    key = (partition.result.id, partition.index, gate.subpartition_index + subpartition)
                    assert partition.result.is_broadcast or key not in readers
                    readers[key] = vertex
    offered = {
        (partition.result.id, partition.index, subpartition)
        for vertex in execution_graph.vertices
        for partition in vertex.produced
        for subpartition in range(partition.num_subpartitions)
    }
    assert readers.keys() == offered


class ClusterMachine(RuleBasedStateMachine):
    @initialize(
        graph=job_graphs(),
        restarts=st.sampled_from([0, 3, 1_000]),
        failover=st.sampled_from(["region", "full"]),
        delay_ms=st.sampled_from([0, 100]),
    )
    def start(self, graph, restarts, failover, delay_ms):
        self.now_ms = 0
        self.scheduler = self.make_scheduler(
            graph,
            graph_id="g",
            options=SchedulerOptions(slot_pool=SlotPoolOptions(5_000, 1_000), failover_strategy=failover),
            restart_strategy=FixedDelayRestartStrategy(restarts, delay_ms) if restarts else NoRestartStrategy(),
            now_ms=0,
        )
        self.task_managers = {}  # name -> {attempt: allocation} of the tasks that really run there
        self.slots = {}  # name -> allocations the TaskExecutor holds for the job
        self.updates = []  # state updates in flight
        self.delivered = []  # recently delivered updates, which may come again
        self.calls = []  # SubmitTasks and CancelTasks calls in flight
        self.num_allocations = 0
        self.required = 0
        self.terminated = None
        self.send(ev.JobMasterInitialized())
        self.send(ev.StartScheduling())

    def make_scheduler(self, graph, **arguments):
        return DefaultScheduler(graph, **arguments)

    # effects of the scheduler

    def send(self, event):
        for effect in self.scheduler.handle(event, self.now_ms):
            self.do(effect)
        self.scheduler.validate()

    def do(self, effect):
        match effect:
            case fx.SubmitTasks() | fx.CancelTasks():
                self.calls.append(effect)
            case fx.DeclareRequirements(requirements):
                self.required = requirements.total
            case fx.FreeSlot(slot, _):
                self._free(slot.location.resource_id.value, slot.allocation_id)
            case fx.JobTerminated(state, _):
                assert self.terminated is None, "a job ends once"
                self.terminated = state

    def _free(self, name, allocation_id):
        """The TaskExecutor frees a slot: tasks in it are cancelled."""
        self.slots.get(name, set()).discard(allocation_id)
        for attempt, allocation in list(self.task_managers.get(name, {}).items()):
            if allocation == allocation_id:
                del self.task_managers[name][attempt]
                self.updates.append(ev.TaskStateUpdated(attempt, E.CANCELED))

    # actions of the cluster

    @rule(num_slots=st.integers(1, 3))
    def task_manager_comes(self, num_slots):
        name = f"tm{len(self.task_managers)}"
        self.task_managers[name] = {}
        self.slots[name] = set()
        self.send(ev.TaskManagerRegistered(TaskManagerLocation(ResourceID(name), f"{name}:1", f"{name}:2")))
        self.offer(name, num_slots)

    def offer(self, name, num_slots):
        offers = []
        for index in range(num_slots):
            self.num_allocations += 1
            offers.append(SlotOffer(AllocationID(f"a{self.num_allocations}"), index))
        event = ev.SlotsOffered(ResourceID(name), tuple(offers))
        before = self.scheduler.slot_pool.allocations_of(ResourceID(name))
        self.send(event)
        held = self.scheduler.slot_pool.allocations_of(ResourceID(name))
        self.slots[name] |= set(held) - set(before)

    @property
    def living(self):
        return [tm.resource_id.value for tm in self.scheduler.slot_pool.task_managers]

    @precondition(lambda self: self.living)
    @rule(data=st.data(), num_slots=st.integers(1, 3))
    def more_slots(self, data, num_slots):
        self.offer(data.draw(st.sampled_from(self.living)), num_slots)

    @precondition(lambda self: self.living)
    @rule(data=st.data())
    def task_manager_dies(self, data):
        name = data.draw(st.sampled_from(self.living))
        self.die(name)

    def die(self, name):
        self.task_managers[name] = {}
        self.slots[name] = set()
        self.send(ev.TaskManagerLost(ResourceID(name), TaskManagerLostError(f"{name} is lost")))

    @precondition(lambda self: self.calls)
    @rule(data=st.data(), outcome=st.sampled_from(["arrives", "arrives", "arrives", "answer lost", "lost"]))
    def a_call(self, data, outcome):
        call = self.calls.pop(data.draw(st.integers(0, len(self.calls) - 1)))
        self.carry_out(call, outcome)

    def carry_out(self, call, outcome="arrives"):
        name = call.location.resource_id.value
        if name not in self.living:
            return
        if isinstance(call, fx.CancelTasks):
            if outcome != "arrives":
                self.calls.append(call)  # the JobMaster repeats the call
            if outcome != "lost":
                for attempt in call.attempts:
                    if self.task_managers[name].pop(attempt, None) is not None:
                        self.updates.append(ev.TaskStateUpdated(attempt, E.CANCELED))
            return
        if outcome != "lost":
            for attempt, task in zip(call.attempts, call.tasks, strict=True):
                self.task_managers[name][attempt] = AllocationID(task.allocation_id)
                self.updates.append(ev.TaskStateUpdated(attempt, E.INITIALIZING))
                self.updates.append(ev.TaskStateUpdated(attempt, E.RUNNING))
        if outcome == "arrives":
            self.send(ev.TasksSubmitted(call.attempts))
        else:
            error = RpcTimeoutError("no answer")
            self.send(ev.TasksSubmitted(call.attempts, tuple((attempt, error) for attempt in call.attempts)))

    @precondition(lambda self: self.updates)
    @rule(data=st.data())
    def an_update_arrives_out_of_order(self, data):
        self.deliver(data.draw(st.integers(0, len(self.updates) - 1)))

    @precondition(lambda self: self.updates)
    @rule()
    def the_oldest_update_arrives(self):
        self.deliver(0)

    def deliver(self, index):
        update = self.updates.pop(index)
        self.delivered = [*self.delivered[-5:], update]
        self.send(update)

    @precondition(lambda self: self.delivered)
    @rule(data=st.data())
    def an_update_arrives_again(self, data):
        self.send(data.draw(st.sampled_from(self.delivered)))

    @property
    def tasks(self):
        return [(name, attempt) for name, tasks in self.task_managers.items() for attempt in tasks]

    @precondition(lambda self: self.tasks)
    @rule(data=st.data(), state=st.sampled_from([E.FINISHED, E.FINISHED, E.FAILED, E.CANCELED]))
    def a_task_ends(self, data, state):
        name, attempt = data.draw(st.sampled_from(self.tasks))
        del self.task_managers[name][attempt]
        self.updates.append(ev.TaskStateUpdated(attempt, state, BOOM if state is E.FAILED else None))

    @rule(by_ms=st.sampled_from([1, 100, 1_000, 5_000]))
    def time_passes(self, by_ms):
        end_ms = self.now_ms + by_ms
        for _ in range(1_000):
            due_ms = self.scheduler.next_deadline_ms
            if due_ms is None or due_ms > end_ms:
                break
            self.now_ms = max(self.now_ms, due_ms)
            self.send(ev.CheckDeadlines())
        else:
            raise AssertionError("the deadlines never end")
        self.now_ms = end_ms

    @precondition(lambda self: self.living)
    @rule(data=st.data())
    def a_heartbeat_reports_deployments(self, data):
        self.heartbeat(data.draw(st.sampled_from(self.living)))

    def heartbeat(self, name):
        self.send(ev.DeploymentsReported(ResourceID(name), frozenset(self.task_managers[name])))

    @rule()
    def the_enumerator_fails(self):
        self.send(ev.GlobalFailure(FunctionError("enumerator")))

    @rule()
    def the_job_is_cancelled(self):
        if self.now_ms > 3_000:  # let most jobs live for a while
            self.send(ev.CancelJob())

    # the end: the cluster behaves again

    def teardown(self):
        if not hasattr(self, "scheduler"):
            return
        name = f"tm{len(self.task_managers)}"
        self.task_managers[name], self.slots[name] = {}, set()
        self.send(ev.TaskManagerRegistered(TaskManagerLocation(ResourceID(name), f"{name}:1", f"{name}:2")))
        # The steps are shorter than any timeout, because a cluster without faults offers slots before their request
        # expires.
        for _ in range(100):
            if self.scheduler.slot_pool.num_required > self.scheduler.slot_pool.num_slots:
                self.offer(name, self.required)
            while self.calls:
                self.carry_out(self.calls.pop(0))
            while self.updates:
                self.deliver(0)
            for living in self.living:
                self.heartbeat(living)
            self.time_passes(1_000)
        graph = self.scheduler.graph
        if self.scheduler.state.is_terminal:
            assert self.terminated is self.scheduler.state
            assert self.required == 0
            assert not any(self.slots[living] for living in self.living)
        else:
            assert self.scheduler.state is JobState.RUNNING
            states = {vertex.current.state for vertex in graph.vertices}
            assert states <= {E.RUNNING, E.FINISHED, E.CREATED}, states
            if E.CREATED in states:  # waits for a blocking result
                assert E.RUNNING in states
        wanted = {a.attempt_id for v in graph.vertices for a in (v.current, *v.speculative) if a.state is E.RUNNING}
        assert {attempt for _, attempt in self.tasks} == wanted


ClusterMachine.TestCase.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
TestJobScheduling = ClusterMachine.TestCase

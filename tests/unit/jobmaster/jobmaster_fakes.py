"""Small job graphs, and a scheduler with a simulated cluster."""

from __future__ import annotations

from random import Random

from flinkpy._proto import job_pb2
from flinkpy.common.errors import FlinkError, TaskManagerLostError
from flinkpy.common.ids import AllocationID, ExecutionAttemptID, ExecutionVertexID, JobVertexID, ResourceID
from flinkpy.common.resource_profile import ResourceCounter, ResourceProfile
from flinkpy.common.states import ExecutionState, JobState
from flinkpy.jobmaster.failover.restart_strategy import NoRestartStrategy
from flinkpy.jobmaster.scheduler import effects as fx
from flinkpy.jobmaster.scheduler import events as ev
from flinkpy.jobmaster.scheduler.default_scheduler import SchedulerOptions
from flinkpy.jobmaster.scheduler.scheduler_factory import scheduler_class
from flinkpy.jobmaster.slotpool.physical_slot import SlotOffer, TaskManagerLocation

E = ExecutionState


def default_slots(number: int) -> ResourceCounter:
    return ResourceCounter({ResourceProfile.UNKNOWN: number})


def vertex(
    name,
    parallelism,
    *,
    inputs=(),
    results=(),
    group="",
    max_parallelism=-1,
    coordinator=b"",
    pointwise=False,
    blocking=False,
    partitioner="",
):
    """Returns a vertex whose id is its name. `results` are data set ids, all of the same type."""
    return job_pb2.JobVertex(
        id=name,
        name=name,
        parallelism=parallelism,
        max_parallelism=max_parallelism,
        slot_sharing_group=group,
        chain=[job_pb2.OperatorDescriptor(operator_id=f"{name}-op", name=name, coordinator_pickle=coordinator)],
        inputs=[job_pb2.JobEdge(source_data_set_id=data_set) for data_set in inputs],
        results=[
            job_pb2.IntermediateDataSet(
                id=data_set,
                type=job_pb2.BLOCKING if blocking else job_pb2.PIPELINED_BOUNDED,
                distribution=job_pb2.POINTWISE if pointwise else job_pb2.ALL_TO_ALL,
                partitioner_name=partitioner,
            )
            for data_set in results
        ],
    )


def job_graph(*vertices, name="test job", configuration=None):
    graph = job_pb2.JobGraph(job_id="job", name=name, vertices=vertices)
    graph.configuration.entries.update(configuration or {})
    return graph


def source_and_sink(parallelism=2, **source):
    """source -ALL_TO_ALL-> sink: one region."""
    return job_graph(
        vertex("source", parallelism, results=["data"], **source), vertex("sink", parallelism, inputs=["data"])
    )


def two_regions():
    """Two independent forward chains: the subtasks i of both vertices are one region."""
    return job_graph(
        vertex("source", 2, results=["data"], pointwise=True, coordinator=b"x"), vertex("sink", 2, inputs=["data"])
    )


def batch_vertex(name, parallelism, *, inputs=(), results=(), partitioner="HASH", **rest):
    """Returns a vertex of a batch job. It has its own slots, and its results are blocking."""
    pointwise = partitioner in ("FORWARD", "RESCALE")
    return vertex(
        name,
        parallelism,
        inputs=inputs,
        results=results,
        group=f"group of {name}",
        blocking=True,
        partitioner=partitioner,
        pointwise=pointwise,
        **rest,
    )


def location(name):
    return TaskManagerLocation(ResourceID(name), f"{name}:1", f"{name}:2")


class Cluster:
    """A scheduler with TaskExecutors that act when the test tells them.

    Each event is followed by `validate()`, so that a broken invariant fails the test at once.
    """

    def __init__(self, graph, *, options=None, restart_strategy=None, graph_id="g", now_ms=1_000):
        self.now_ms = now_ms
        options = options or SchedulerOptions()
        self.scheduler = scheduler_class(options, graph)(
            graph,
            graph_id=graph_id,
            options=options,
            restart_strategy=restart_strategy or NoRestartStrategy(),
            now_ms=now_ms,
        )
        self.effects: list[fx.SchedulerEffect] = []
        self._next_allocation = 0
        self.random = Random(0)

    # events

    def send(self, event):
        effects = self.scheduler.handle(event, self.now_ms)
        self.scheduler.validate()
        self.effects += effects
        return effects

    def start(self):
        self.send(ev.JobMasterInitialized())
        return self.send(ev.StartScheduling())

    def advance(self, by_ms):
        """Advances the time and sends CheckDeadlines at each deadline."""
        end_ms = self.now_ms + by_ms
        while True:
            due_ms = self.scheduler.next_deadline_ms
            if due_ms is None or due_ms > end_ms:
                break
            self.now_ms = max(self.now_ms, due_ms)
            self.send(ev.CheckDeadlines())
        self.now_ms = end_ms

    def register(self, name):
        return self.send(ev.TaskManagerRegistered(location(name)))

    def offer(self, name, num_slots):
        """Offers new slots. Returns the accepted allocation ids."""
        offers = []
        for index in range(num_slots):
            self._next_allocation += 1
            offers.append(SlotOffer(AllocationID(f"{name}-a{self._next_allocation}"), index))
        self.send(ev.SlotsOffered(ResourceID(name), tuple(offers)))
        held = self.scheduler.slot_pool.allocations_of(ResourceID(name))
        return tuple(offer.allocation_id for offer in offers if offer.allocation_id in held)

    def add_task_manager(self, name, num_slots):
        self.register(name)
        return self.offer(name, num_slots)

    def lose(self, name):
        return self.send(ev.TaskManagerLost(ResourceID(name), TaskManagerLostError(f"{name} is lost")))

    # tasks

    def submitted(self):
        """Removes and returns the SubmitTasks effects so far."""
        return self.take(fx.SubmitTasks)

    def take(self, kind):
        taken = [effect for effect in self.effects if isinstance(effect, kind)]
        self.effects = [effect for effect in self.effects if not isinstance(effect, kind)]
        return taken

    def acknowledge_submissions(self):
        for effect in self.submitted():
            self.send(ev.TasksSubmitted(effect.attempts))

    def update(self, attempt_id, state, error=None):
        return self.send(ev.TaskStateUpdated(attempt_id, state, error))

    def run_all(self):
        """Acknowledges all deployed tasks and reports them as RUNNING."""
        self.acknowledge_submissions()
        for attempt_id in self.attempts(E.DEPLOYING):
            self.update(attempt_id, E.INITIALIZING)
            self.update(attempt_id, E.RUNNING)

    def obey_cancels(self):
        """Reports CANCELED for all tasks that the scheduler has canceled."""
        for effect in self.take(fx.CancelTasks):
            for attempt_id in effect.attempts:
                self.update(attempt_id, E.CANCELED)

    def finish(self, *names):
        """Finishes these tasks (`name0`, `name1`, ... of a vertex, or all of `name`)."""
        self.run_all()
        for vertex in list(self.scheduler.graph.vertices):
            if vertex.job_vertex.name in names or f"{vertex.job_vertex.name}{vertex.subtask_index}" in names:
                self.update(vertex.current.attempt_id, E.FINISHED)
        self.run_all()

    def attempt(self, name, subtask=0) -> ExecutionAttemptID:
        return self.execution(name, subtask).attempt_id

    def execution(self, name, subtask=0):
        return self.scheduler.graph.vertex(ExecutionVertexID(JobVertexID(name), subtask)).current

    def attempts(self, state):
        return [v.current.attempt_id for v in self.scheduler.graph.vertices if v.current.state is state]

    def states(self):
        return {f"{v.job_vertex.name}{v.subtask_index}": v.current.state.name for v in self.scheduler.graph.vertices}

    @property
    def state(self) -> JobState:
        return self.scheduler.state

    @property
    def failure(self) -> FlinkError | None:
        return self.scheduler.graph.failure_cause

    def statuses(self):
        return [effect.state.name for effect in self.effects if isinstance(effect, fx.JobStatusChanged)]


def running(graph, *, slots=(("tm1", 4),), **arguments) -> Cluster:
    """Returns a cluster whose job runs."""
    cluster = Cluster(graph, **arguments)
    cluster.start()
    for name, num_slots in slots:
        cluster.add_task_manager(name, num_slots)
    cluster.run_all()
    cluster.effects.clear()
    return cluster

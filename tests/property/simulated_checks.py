"""The invariants of a simulated cluster, which hold at any time under any faults.

* A checkpoint is a consistent cut when it becomes durable, and its id was never used before. Only checkpoints whose
  completion has been recorded are confirmed to tasks or restored.
* A TaskExecutor runs tasks of one JobMaster of a job at a time, each in a slot of its own job. No slot is assigned
  twice. Tasks of a replaced JobMaster end within the time in which its loss is noticed.
* No two processes lead one component, unless one of them was suspended for longer than its session.
* Nodes of ZooKeeper that only a leader may write are written in the session of the leader.
* A job whose result is stored gets no further JobMaster.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from simulated_processes import CURRENT, SimulatedProcess
from simulated_tasks import DataPlane, SimulatedTask
from simulated_world import SimulatedWorld

from flinkpy.highavailability.file_job_result_store import FileJobResultStore
from flinkpy.jobmaster.checkpoint_io import CheckpointIo
from flinkpy.jobmaster.job_master import JobMaster

#: The longest time for which tasks of a former JobMaster may run beside those of its successor if their TaskExecutor is
#: not told: the heartbeat timeout, twice the longest delay of a message, and the duration of a cancellation.
MAX_OVERLAP_S = 15.0
#: The interval between two checks.
INTERVAL_S = 0.1
#: The longest time for which two leaders may be seen: the interval between two checks.
MAX_TWO_LEADERS_S = 0.25

#: The root node of the simulated cluster.
CLUSTER = "/flink/simulated"


class Checks:
    def __init__(self, world: SimulatedWorld, plane: DataPlane) -> None:
        self._world = world
        self._plane = plane
        self._loop = world.loop
        #: The latest endpoint of each TaskExecutor.
        self.executors: dict[str, tuple[SimulatedProcess, Any]] = {}
        #: Per job, the ids of its JobMasters in the order in which their tasks came, with the time.
        self._job_masters: dict[str, dict[str, float]] = {}
        #: The JobMaster of each process that has led a job.
        self.job_masters: dict[SimulatedProcess, JobMaster] = {}
        #: Components with two leaders, with the time since when.
        self._overlaps: dict[str, float] = {}
        #: JobMaster processes that have found the state from which their job starts.
        self.has_begun: set[str] = set()
        self._results: dict[str, float] = {}
        self.num_refused_writes = 0
        plane.on_deployed = self._on_deployed
        world.zookeeper.on_change = self._on_change

    def fail(self, message: str) -> None:
        self._world.network.errors.append(AssertionError(f"at {self._loop.time():.3f}: {message}"))

    def unexpected_end(self, process: SimulatedProcess) -> None:
        assert process.error is not None
        self._world.network.errors.append(process.error)

    # Continuously

    def start(self) -> None:
        """Starts the periodic checks."""
        self.run()
        if not self._loop.is_unwinding:
            self._world.network.later(INTERVAL_S, self.start)

    def run(self) -> None:
        for process, executor in self.executors.values():
            if not process.is_dead and not executor.is_closed:
                executor.service.slots.validate()
                executor.service.jobs.validate()
        self._check_tasks()
        self._check_leaders()

    def _check_leaders(self) -> None:
        """Checks that no two processes act as one leader at a time, except processes that do not notice a silent
        ZooKeeper.
        """
        slow = {process for process, client in self._world.clients if client.is_slow_to_notice}
        leading: dict[str, list[SimulatedProcess]] = {}
        for server in self._world.network.servers.values():
            for service in ("Dispatcher", "ResourceManager"):
                endpoint = server.endpoints.get(service)
                if endpoint is not None and endpoint.is_serving:
                    leading.setdefault(service, []).append(server.process)
        for process, job_master in self.job_masters.items():
            if not process.is_dead and not job_master.state.is_terminal and not job_master.is_closed:
                leading.setdefault(job_master.job_id, []).append(process)
        for component, processes in leading.items():
            if len([process for process in processes if process not in slow]) < 2:
                self._overlaps.pop(component, None)
                continue
            since_s = self._overlaps.setdefault(component, self._loop.time())
            if self._loop.time() - since_s > MAX_TWO_LEADERS_S:
                self.fail(f"{component} is led by {processes} at once since {since_s:.3f}")

    def _check_tasks(self) -> None:
        now_s = self._loop.time()
        for job_id in self._plane.jobs:
            tasks = [task for task in self._plane.living() if task.job_id == job_id]
            by_executor: dict[str, set[str]] = {}
            for task in tasks:
                by_executor.setdefault(task.process.name, set()).add(task.job_master_id)
            for name, job_masters in by_executor.items():
                if len(job_masters) > 1:
                    self.fail(f"{name} runs tasks of {len(job_masters)} JobMasters of job {job_id}")
            begun = self._job_masters.get(job_id, {})
            leading = {task.job_master_id for task in tasks}
            newest_s = max((begun[one] for one in leading), default=now_s)
            if len(leading) > 1 and now_s - newest_s > MAX_OVERLAP_S:
                self.fail(f"tasks of {len(leading)} JobMasters of job {job_id} run beside each other")

    def _on_deployed(self, task: SimulatedTask) -> None:
        begun = self._job_masters.setdefault(task.job_id, {})
        stored_s = self._results.get(task.job_id)
        if task.job_master_id not in begun:
            begun[task.job_master_id] = self._loop.time()
            assert stored_s is None or self._loop.time() - stored_s < MAX_OVERLAP_S, "a job that has ended runs again"
        others = [
            other
            for other in self._plane.tasks.values()
            if other is not task and not other.process.is_dead and other.allocation_id == task.allocation_id
        ]
        for other in others:
            assert other.job_id == task.job_id and other.process is task.process, "a slot is given twice"

    # ZooKeeper

    def _on_change(self, kind: str, path: str, session: int) -> None:
        """Checks that a leader's node is changed only in the session with the lowest latch."""
        self._world.network.trace.note("zookeeper", kind, path)
        component = _component_of(path)
        if component is None or (kind == "delete" and component != "dispatcher"):
            return
        nodes = self._world.zookeeper.nodes
        latch = f"{CLUSTER}/leader/{component}/latch"
        present = nodes.get(latch)
        names = [] if present is None else sorted(present.children, key=lambda name: name[-10:])
        owner = nodes[f"{latch}/{names[0]}"].owner if names else None
        if owner != session:
            self.fail(f"{kind} of {path} by session {session:x}, the leader's is {owner or 0:x}")

    # Checkpoints and results

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Observes checkpoints and results at the moment they become durable."""
        originals = (
            CheckpointIo.__init__,
            CheckpointIo.open,
            JobMaster.start,
            JobMaster._start_scheduling,
            CheckpointIo.make_location,
            CheckpointIo.finalize,
            FileJobResultStore.create_dirty,
        )
        initialize, open_store, start, start_scheduling, make_location, finalize, create_dirty = originals
        checks = self

        def observed_initialize(io: Any, configuration: Any, job_id: str, *rest: Any, **further: Any) -> None:
            initialize(io, configuration, job_id, *rest, **further)
            io.simulated_job_id = job_id

        def observed_open(io: Any, now_ms: int) -> Any:
            found = open_store(io, now_ms)
            if found.checkpoint is not None:  # its JobMaster may have died before it knew that it was recorded
                checks.finalized(io.simulated_job_id, found.checkpoint.checkpoint_id)
            return found

        def observed_life(job_master: JobMaster) -> None:
            of = CURRENT.get()
            assert of is not None
            checks.job_masters[of] = job_master
            start(job_master)

        def observed_start(job_master: JobMaster) -> None:
            start_scheduling(job_master)
            of = CURRENT.get()
            if of is not None:
                checks.has_begun.add(of.name)

        def observed_location(io: Any, effect: Any) -> Any:
            location = make_location(io, effect)
            checks.location(io.simulated_job_id, effect.checkpoint_id)
            return location

        def observed_finalize(io: Any, effect: Any) -> Any:
            checks.finalizing(io.simulated_job_id, effect)
            finalized = finalize(io, effect)
            if effect.properties.counts_for_recovery:
                checks.finalized(io.simulated_job_id, effect.checkpoint_id)
            return finalized

        def observed_result(store: Any, terminated: Any, *rest: Any) -> Any:
            answer = create_dirty(store, terminated, *rest)
            checks.result_stored(terminated.job_id)
            return answer

        CheckpointIo.__init__ = observed_initialize  # type: ignore[method-assign]
        CheckpointIo.open = observed_open  # type: ignore[method-assign]
        JobMaster.start = observed_life  # type: ignore[method-assign]
        JobMaster._start_scheduling = observed_start  # type: ignore[method-assign]
        CheckpointIo.make_location = observed_location  # type: ignore[method-assign]
        CheckpointIo.finalize = observed_finalize  # type: ignore[method-assign]
        FileJobResultStore.create_dirty = observed_result  # type: ignore[method-assign]
        try:
            yield
        finally:
            (
                CheckpointIo.__init__,  # type: ignore[method-assign]
                CheckpointIo.open,  # type: ignore[method-assign]
                JobMaster.start,  # type: ignore[method-assign]
                JobMaster._start_scheduling,  # type: ignore[method-assign]
                CheckpointIo.make_location,  # type: ignore[method-assign]
                CheckpointIo.finalize,  # type: ignore[method-assign]
                FileJobResultStore.create_dirty,  # type: ignore[method-assign]
            ) = originals

    def location(self, job_id: str, checkpoint_id: int) -> None:
        if self._loop.is_unwinding:  # type: ignore[attr-defined]
            return
        job = self._plane.jobs[job_id]
        if checkpoint_id in job.used_ids:
            self.fail(f"checkpoint id {checkpoint_id} is used again")
        job.used_ids.add(checkpoint_id)

    def finalizing(self, job_id: str, effect: Any) -> None:
        job = self._plane.jobs[job_id]
        try:
            self._plane.check_cut(job, effect.metadata)
        except AssertionError as error:
            self._world.network.errors.append(error)
        job.completed[effect.checkpoint_id] = effect.metadata
        if effect.properties.counts_for_recovery:
            job.tried.add(effect.checkpoint_id)

    def finalized(self, job_id: str, checkpoint_id: int) -> None:
        of = CURRENT.get()
        self._world.network.trace.note("completed", of and of.name, job_id, checkpoint_id)
        self._plane.jobs[job_id].counting.add(checkpoint_id)

    def result_stored(self, job_id: str) -> None:
        self._results.setdefault(job_id, self._loop.time())

    def check_output(self, job_id: str) -> None:
        job = self._plane.jobs[job_id]
        newest = max(job.counting | job.completed.keys())
        operators = {operator.operator_id: operator for operator in job.completed[newest].operators}
        sources = operators["source-op"].subtasks
        sent = [int(sources[i].operator[0].file.data.split(b",")[i]) for i in range(job.parallelism)]
        assert job.committed == [sent] * job.parallelism, "the committed records differ from the records sent"


def _component_of(path: str) -> str | None:
    """Returns the component whose leader alone may write the path, or None.

    Any process may remove nodes of ended jobs and empty parent nodes.
    """
    match path.removeprefix(f"{CLUSTER}/").split("/"):
        case ["execution-plans", _]:
            return "dispatcher"
        case ["jobs", job_id, "checkpoints", _] | ["jobs", job_id, "checkpoint_id_counter"]:
            return job_id
    return None

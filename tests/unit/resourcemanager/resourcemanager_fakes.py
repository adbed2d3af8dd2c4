"""Fakes for the ResourceManager: virtual time, scripted peers, a driver without processes."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

from fake_peers import FakePeers
from virtual_time import LoopClock, run_on_virtual_time

from flinkpy._proto import resourcemanager_pb2 as pb
from flinkpy._proto import taskexecutor_pb2
from flinkpy.common.ids import AllocationID, InstanceID, ResourceID, ResourceManagerId
from flinkpy.resourcemanager.options import ResourceManagerOptions
from flinkpy.resourcemanager.resource_manager import IdSource, ResourceManager
from flinkpy.rpc.server import CallContext

RM_ID = "rm-1"
JOB = "a" * 32
OTHER_JOB = "b" * 32
CONTEXT = CallContext(fencing_token=RM_ID, client_version=None, peer="test")


class FakeDriver:
    """Starts no process. The test decides how each start and each process ends."""

    def __init__(self, *, can_start_workers: bool = True) -> None:
        self.can_start_workers = can_start_workers
        self.started: list[ResourceID] = []
        self.stopped: list[ResourceID] = []
        self.start_error: Exception | None = None
        self.is_closed = False
        self.recovered: list[ResourceID] = []
        self.on_worker_terminated: Callable[[ResourceID, str], None] = lambda *_: None

    def start(self, address: str, on_worker_terminated: Callable[[ResourceID, str], None]) -> None:
        self.on_worker_terminated = on_worker_terminated

    async def recover_workers(self) -> list[ResourceID]:
        return self.recovered

    async def start_worker(self, resource_id: ResourceID) -> None:
        self.started.append(resource_id)
        if self.start_error is not None:
            raise self.start_error

    async def stop_worker(self, resource_id: ResourceID) -> None:
        self.stopped.append(resource_id)

    async def close(self) -> None:
        self.is_closed = True


class Harness:
    """A started ResourceManager with fakes around it."""

    def __init__(self, *, can_start_workers: bool = False, recovered: tuple[str, ...] = (), **options: Any) -> None:
        loop = asyncio.get_running_loop()
        allocations, instances, workers = itertools.count(1), itertools.count(1), itertools.count(1)
        self.peers = FakePeers()
        self.driver = FakeDriver(can_start_workers=can_start_workers)
        self.driver.recovered = list(map(ResourceID, recovered))
        self.endpoint = ResourceManager(
            loop,
            options=ResourceManagerOptions(**options),
            resource_id=ResourceID("rm"),
            resource_manager_id=ResourceManagerId(RM_ID),
            peers=self.peers,
            driver=self.driver,
            clock=LoopClock(loop),
            ids=IdSource(
                allocation_id=lambda: AllocationID(f"alloc-{next(allocations)}"),
                instance_id=lambda: InstanceID(f"inst-{next(instances)}"),
                worker_resource_id=lambda: ResourceID(f"worker-{next(workers)}"),
            ),
        )
        self.endpoint.on_fatal_error = self._fail
        self.errors: list[BaseException] = []
        self.peers.answers["heartbeat_from_resource_manager"] = self._heartbeat
        #: what each TaskExecutor would answer to a heartbeat: instance and slots by address
        self.executors: dict[str, tuple[str, str, dict[int, tuple[str, str]], int]] = {}
        self.endpoint.start("127.0.0.1:1")

    def _fail(self, error: BaseException) -> None:
        self.errors.append(error)

    def _heartbeat(self, request: taskexecutor_pb2.ResourceManagerHeartbeat) -> Any:
        address = self.peers.calls[-1].address
        resource_id, instance_id, held, num_slots = self.executors[address]
        return pb.TaskExecutorHeartbeat(
            resource_id=resource_id, instance_id=instance_id, slot_report=slot_report(num_slots, held)
        )

    def register_executor(
        self, name: str = "te-1", *, slots: int = 1, pid: int = 100, held: dict[int, tuple[str, str]] | None = None
    ) -> str:
        """Registers and reports its slots (`held`: index -> allocation and job). Returns the InstanceID."""
        instance_id = self.register_executor_without_report(name, slots=slots, pid=pid)
        self.report(name, held or {})
        return instance_id

    def register_executor_without_report(self, name: str, *, slots: int = 1, pid: int = 100) -> str:
        address = f"{name}:1"
        response = self.endpoint.register_task_executor(
            pb.RegisterTaskExecutorRequest(
                resource_id=name, address=address, data_address=f"{name}:2", pid=pid, host="host", num_slots=slots
            ),
            CONTEXT,
        )
        assert response.resource_manager_id == RM_ID
        self.executors[address] = (name, response.instance_id, {}, slots)
        return response.instance_id

    def report(self, name: str, held: dict[int, tuple[str, str]]) -> None:
        address = f"{name}:1"
        resource_id, instance_id, _, slots = self.executors[address]
        self.executors[address] = (resource_id, instance_id, held, slots)
        self.endpoint.send_slot_report(
            pb.SendSlotReportRequest(resource_id=resource_id, instance_id=instance_id, report=slot_report(slots, held)),
            CONTEXT,
        )

    def register_job(self, job_id: str = JOB, job_master_id: str = "jm-1", resource_id: str = "jm") -> None:
        self.endpoint.register_job_master(
            pb.RegisterJobMasterRequest(
                job_id=job_id, job_master_id=job_master_id, resource_id=resource_id, address=f"{job_master_id}:1"
            ),
            CONTEXT,
        )

    def declare(self, num_slots: int, job_id: str = JOB, job_master_id: str = "jm-1", sequence: int = 1) -> None:
        self.endpoint.declare_required_resources(
            pb.ResourceRequirements(
                job_id=job_id,
                job_master_id=job_master_id,
                job_master_address=f"{job_master_id}:1",
                requirements=[pb.ResourceRequirement(num_slots=num_slots)],
                sequence_number=sequence,
            ),
            CONTEXT,
        )

    def overview(self) -> pb.ResourceOverview:
        return self.endpoint.request_resource_overview(pb.ResourceOverviewRequest(), CONTEXT)

    async def settle(self, seconds: float = 0.2) -> None:
        """Runs everything that is due until the given virtual time has passed."""
        await asyncio.sleep(seconds)
        self.endpoint.slot_manager.validate()
        assert self.errors == []


def slot_report(num_slots: int, held: dict[int, tuple[str, str]]) -> pb.SlotReport:
    report = pb.SlotReport()
    for index in range(num_slots):
        allocation_id, job_id = held.get(index, ("", ""))
        report.slots.add(slot_index=index, allocation_id=allocation_id, job_id=job_id)
    return report


def scenario(**options: Any) -> Callable[[Callable[[Harness], Awaitable[None]]], Callable[[], None]]:
    """Runs the test on virtual time with a started ResourceManager. Checks its invariants at the end."""

    def decorate(test: Callable[[Harness], Awaitable[None]]) -> Callable[[], None]:
        def wrapped() -> None:
            async def body() -> None:
                harness = Harness(**options)
                await test(harness)
                await harness.settle()
                await harness.endpoint.close()
                assert harness.driver.is_closed

            run_on_virtual_time(body)

        wrapped.__name__ = test.__name__
        wrapped.__doc__ = test.__doc__
        return wrapped

    return decorate

"""Gateways with configurable answers, and a JobMaster process that uses them."""

from __future__ import annotations

import asyncio
import itertools
from random import Random

from fake_peers import FakePeers

from flinkpy._proto import job_pb2, jobmaster_pb2
from flinkpy.common.clock import ManualClock
from flinkpy.jobmaster.job_master import JobMaster
from flinkpy.jobmaster.job_master_environment import JobMasterEnvironment
from flinkpy.jobmaster.servicer import JobMasterServicer
from flinkpy.rpc.server import CallContext

CONTEXT = CallContext(fencing_token="jmid", client_version=None, peer="test")

#: Turns of the loop after which everything that can happen without time passing has happened.
MANY_TURNS = 100


class Process:
    """A JobMaster with testing gateways for the Dispatcher, the ResourceManager and the TaskExecutors."""

    def __init__(self, graph, tmp_path, configuration=None, **environment):
        self.peers = FakePeers()
        self.peers.answers["register_job_master"] = lambda _: _registered()
        self.clock = ManualClock(5_000)
        self.blobs = {}
        environment = JobMasterEnvironment(
            peers=self.peers,
            resource_id="jm",
            address="jm:1",
            dispatcher=self.peers.gateway("Dispatcher", "dispatcher:1", "dispatcher-id"),
            dispatcher_address="dispatcher:1",
            fetch_blob=self._fetch_blob,
            working_directory=tmp_path,
            random=Random(0),
            graph_id="g",
            **environment,
        )
        self.job_master = JobMaster(
            asyncio.get_running_loop(),
            job_graph=graph,
            job_master_id="jmid",
            resource_manager_address="rm:1",
            cluster_configuration=configuration or {},
            submitted_ms=4_000,
            environment=environment,
            clock=self.clock,
        )
        self.fatal = []
        self.lost_leaderships = []
        self.event_numbers = itertools.count(1)
        self.job_master.on_fatal_error = self.fatal.append
        self.job_master.on_leadership_lost = self._leadership_lost
        self.servicer = JobMasterServicer("jm")
        self.servicer.attach(self.job_master, "jmid")

    def _leadership_lost(self, error):
        self.lost_leaderships.append(error)
        self.job_master.suspend(str(error))

    async def _fetch_blob(self, key):
        yield self.blobs[key]

    def call(self, name, request):
        return getattr(self.servicer, name)(request, CONTEXT)

    async def settle(self):
        for _ in range(MANY_TURNS):
            await asyncio.sleep(0)
        assert self.fatal == []

    async def until(self, condition):
        """Waits until `condition` holds. I/O threads and real timers run meanwhile."""
        async with asyncio.timeout(10):
            while not condition():
                await asyncio.sleep(0.001)
        await self.settle()

    async def start(self, until_state="RUNNING"):
        self.job_master.start()
        await self.until(lambda: self.job_master.state.name == until_state)

    async def add_task_manager(self, name="tm1", num_slots=2):
        self.call(
            "register_task_manager",
            jobmaster_pb2.RegisterTaskManagerRequest(
                job_id="job", resource_id=name, address=f"{name}:1", data_address=f"{name}:2"
            ),
        )
        offers = [jobmaster_pb2.SlotOffer(allocation_id=f"{name}-{i}", slot_index=i) for i in range(num_slots)]
        response = self.call(
            "offer_slots", jobmaster_pb2.OfferSlotsRequest(job_id="job", resource_id=name, offers=offers)
        )
        await self.settle()
        return [offer.allocation_id for offer in response.accepted]

    async def update(self, attempt, state, error=None):
        update = jobmaster_pb2.TaskExecutionStateUpdate(execution_attempt_id=attempt, state=f"EXECUTION_{state}")
        if error is not None:
            update.error.CopyFrom(error)
        self.call(
            "update_task_execution_states",
            jobmaster_pb2.UpdateTaskExecutionStatesRequest(job_id="job", updates=[update]),
        )
        await self.settle()

    @property
    def deployed(self):
        """The attempts of all SubmitTasks calls so far."""
        return [task.execution_attempt_id for request in self.peers.requests("submit_tasks") for task in request.tasks]

    async def run_everything(self):
        for attempt in self.deployed:
            await self.update(attempt, "RUNNING")

    @property
    def result(self):
        """The last result that the Dispatcher received."""
        return self.peers.requests("notify_job_terminated")[-1].result

    def details(self):
        return self.call("request_job_details", job_pb2.JobDetailsRequest(job_id="job"))


def _registered():
    from flinkpy._proto import resourcemanager_pb2

    return resourcemanager_pb2.RegisterJobMasterResponse(resource_manager_id="rmid", resource_id="rm")

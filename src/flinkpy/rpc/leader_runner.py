"""LeaderRunner: takes part in the leader election and makes a new endpoint for each term of leadership.

An endpoint's state ends with its term. The endpoint of the next term starts empty and recovers what is stored, so no
outdated state of a former term is used.

Source: org.apache.flink.runtime.dispatcher.runner.DefaultDispatcherRunner,
org.apache.flink.runtime.resourcemanager.ResourceManagerServiceImpl. Thread: one asyncio loop.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Generic, Protocol, TypeVar

from flinkpy.common.errors import FlinkError
from flinkpy.common.process import ShutdownRequest
from flinkpy.highavailability.leader_election import LeaderElection, LeaderInformation, LeaderRetrieval, Leadership
from flinkpy.rpc.leader_endpoint import LeaderEndpoint
from flinkpy.rpc.server import RpcServer

logger = logging.getLogger(__name__)

E = TypeVar("E")

#: Pauses between attempts to begin a term; the store to recover from may not be reachable for a while.
RETRY_DELAYS_S = (0.2, 1.0, 3.0, 5.0)


class Terms(Protocol[E]):
    """Starts and ends the endpoints of terms."""

    async def make(self, leadership: Leadership) -> E:
        """Returns the endpoint of a new term, with the state that former terms stored."""
        ...

    def activate(self, endpoint: E, address: str) -> None:
        """Called when the endpoint is served at `address`: it may act from now on."""
        ...

    async def revoked(self, endpoint: E) -> None:
        """Stops the endpoint after the leadership was lost. Must not change anything that the next leader uses."""
        ...

    async def ended(self, endpoint: E) -> None:
        """Ends the endpoint because this process shuts down. Called while the server still serves."""
        ...


class LeaderRunner(Generic[E]):
    """Runs one contender. `service` is the LeaderEndpoint that `server` serves."""

    def __init__(
        self,
        name: str,
        terms: Terms[E],
        election: LeaderElection,
        service: LeaderEndpoint,
        server: RpcServer,
        retrieval: LeaderRetrieval | None = None,
    ) -> None:
        self._name = name
        self._terms = terms
        self._election = election
        self._retrieval = retrieval
        self._service = service
        self._server = server
        self._wanted: Leadership | None = None
        self._present: Leadership | None = None
        self._endpoint: E | None = None
        self._address: str | None = None
        self._changed = asyncio.Event()
        self._worker: asyncio.Task[None] | None = None
        self._health: set[asyncio.Task[None]] = set()
        loop = asyncio.get_running_loop()
        self._made: asyncio.Future[None] = loop.create_future()
        #: Resolved with the error of a term that could not begin. The process has to end then.
        self.failed: asyncio.Future[BaseException] = loop.create_future()

    @property
    def leadership(self) -> Leadership | None:
        """The current term, from its grant to its revocation."""
        return self._wanted

    def start(self) -> None:
        """Joins the leader election. Endpoints act only after `serve` was called."""
        self._worker = asyncio.get_running_loop().create_task(self._run(), name=f"leadership of {self._name}")
        if self._retrieval is not None:
            self._retrieval.start(self._leader_changed)
        self._election.start(self)

    async def wait_until_made(self) -> None:
        """Returns when the first endpoint was made. Raises the error that prevented it."""
        assert self._worker is not None
        outcomes: set[asyncio.Future[Any]] = {self._made, self.failed}
        await asyncio.wait(outcomes, return_when=asyncio.FIRST_COMPLETED)
        if self.failed.done():
            raise self.failed.result()

    async def wait_for(self, shutdown: ShutdownRequest) -> str:
        """Returns why the process has to end: a shutdown request, or a failure to lead (see `failed`)."""
        waiting = asyncio.ensure_future(shutdown.wait())
        outcomes: set[asyncio.Future[Any]] = {waiting, self.failed}
        await asyncio.wait(outcomes, return_when=asyncio.FIRST_COMPLETED)
        if waiting.done():
            return waiting.result()
        waiting.cancel()
        return f"the {self._name} cannot lead: {self.failed.result()}"

    def serve(self, address: str) -> None:
        """Called when the server listens at `address`."""
        self._address = address
        if self._endpoint is not None and self._present == self._wanted:
            self._activate(self._endpoint)

    # --- the contender ----------------------------------------------------------------------------------------------

    def grant_leadership(self, fencing_token: str) -> None:
        self._wanted = self._election.leadership or Leadership(fencing_token)
        self._changed.set()

    def revoke_leadership(self) -> None:
        logger.warning("the %s has lost its leadership", self._name)
        self._wanted = None
        # Detach at once: a former leader must not answer calls.
        self._service.detach()
        self._refresh_health()
        self._changed.set()

    def _leader_changed(self, leader: LeaderInformation | None) -> None:
        self._service.leader_address = None if leader is None else leader.address

    # --- the terms --------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                await self._end_term()
                wanted = self._wanted
                if wanted is not None and wanted != self._present:
                    await self._begin_term(wanted)
        except Exception as error:  # the process ends with it
            logger.critical("the %s cannot lead", self._name, exc_info=error)
            self.failed.set_result(error)

    async def _begin_term(self, leadership: Leadership) -> None:
        endpoint = await self._make(leadership)
        if endpoint is None:
            return
        self._endpoint, self._present = endpoint, leadership
        if self._wanted != leadership:
            self._changed.set()
            return
        self._service.attach(endpoint)
        if self._address is not None:
            self._activate(endpoint)
        if not self._made.done():
            self._made.set_result(None)

    async def _make(self, leadership: Leadership) -> E | None:
        """Returns None if the leadership has ended meanwhile."""
        for delay_s in (*RETRY_DELAYS_S, None):
            try:
                return await self._terms.make(leadership)
            except FlinkError as error:
                if self._wanted != leadership:
                    logger.warning("the %s lost its leadership before its term began: %s", self._name, error)
                    return None
                if delay_s is None or leadership.latch_path is None:
                    raise
                logger.warning("the %s cannot lead yet: %s; trying again in %g s", self._name, error, delay_s)
            await asyncio.sleep(delay_s)
            if self._wanted != leadership:
                return None
        raise AssertionError("the last attempt returns or raises")

    def _activate(self, endpoint: E) -> None:
        assert self._address is not None and self._present is not None
        self._terms.activate(endpoint, self._address)
        self._election.confirm_leadership(self._present.token, self._address)
        self._refresh_health()
        logger.info("the %s at %s leads", self._name, self._address)

    async def _end_term(self) -> None:
        if self._endpoint is None or self._present == self._wanted:
            return
        endpoint, self._endpoint, self._present = self._endpoint, None, None
        self._service.detach()
        await self._terms.revoked(endpoint)

    def _refresh_health(self) -> None:
        work = self._server.refresh_health(self._service.service)
        task = asyncio.get_running_loop().create_task(work, name="health")
        self._health.add(task)
        task.add_done_callback(self._health.discard)

    async def close(self) -> None:
        """Ends the current term and leaves the election. Called while the server still serves. Idempotent."""
        worker, self._worker = self._worker, None
        if worker is None:
            return
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
        endpoint, self._endpoint = self._endpoint, None
        if endpoint is not None:
            leads = self._present == self._wanted
            await (self._terms.ended(endpoint) if leads else self._terms.revoked(endpoint))
        if self._retrieval is not None:
            self._retrieval.close()
        self._election.close()
        tasks: set[asyncio.Task[Any]] = {*self._health}
        await asyncio.gather(*tasks, return_exceptions=True)

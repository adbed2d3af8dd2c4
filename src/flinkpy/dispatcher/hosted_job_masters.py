"""HostedJobMasters: runs JobMasters on the loop of the Dispatcher, in a cluster without processes of its own.

It has the interface of JobMasterLauncher. Thread: the Dispatcher's loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from flinkpy.common.configuration import Configuration
from flinkpy.common.service_host import ServiceHost, SharedProcess

logger = logging.getLogger(__name__)

#: Runs a JobMaster with its configuration, the address of its Dispatcher and its host, and returns its exit status.
RunJobMaster = Callable[[Configuration, str, ServiceHost], Coroutine[Any, Any, int]]


@dataclass(frozen=True, slots=True)
class _Guest:
    host: SharedProcess
    task: asyncio.Task[None]


class HostedJobMasters:
    """Starts and ends JobMasters. Calls `on_exited(process_id, ending)` once for every JobMaster."""

    def __init__(
        self, configuration: Mapping[str, str], on_exited: Callable[[str, str], None], run: RunJobMaster
    ) -> None:
        self._configuration = dict(configuration)
        self._on_exited = on_exited
        self._run_job_master = run
        self._guests: dict[str, _Guest] = {}
        self._is_closed = False

    def spawn(self, process_id: str, dispatcher_address: str) -> None:
        """Starts a standby, which will say hello with `process_id` as its ResourceID."""
        if self._is_closed:
            return
        host = SharedProcess()
        work = self._run(process_id, dispatcher_address, host)
        task = asyncio.get_running_loop().create_task(work, name=f"JobMaster {process_id}")
        self._guests[process_id] = _Guest(host, task)

    @property
    def has_children(self) -> bool:
        return bool(self._guests)

    def process_id_of(self, pid: int) -> str | None:
        """Returns the name of the JobMaster whose host has this pid, or None."""
        return next((name for name, guest in self._guests.items() if guest.host.pid == pid), None)

    def stop(self, process_id: str, *, at_once: bool) -> None:
        """Ends a JobMaster; cancels what it does if `at_once`. Ignores unknown names."""
        guest = self._guests.get(process_id)
        if guest is None:
            return
        if at_once:
            guest.task.cancel()
        else:
            guest.host.stop("it is not needed any more")

    def leave(self) -> None:
        """Starts no more JobMasters. Running ones continue until they end or `close` is called."""
        self._is_closed = True

    async def close(self) -> None:
        """Ends all JobMasters and returns when all have ended."""
        self._is_closed = True
        guests = list(self._guests.values())
        for guest in guests:
            guest.host.stop("the Dispatcher is shutting down")
        await asyncio.gather(*(guest.task for guest in guests), return_exceptions=True)

    async def _run(self, process_id: str, dispatcher_address: str, host: SharedProcess) -> None:
        entries = {**self._configuration, "jobmanager.resource-id": process_id, "jobmanager.rpc.port": "0"}
        entries.pop("jobmanager.rpc.bind-port", None)  # it is that of the Dispatcher
        ending = "it was canceled"
        try:
            status = await self._run_job_master(Configuration.from_dict(entries), dispatcher_address, host)
            ending = f"exit code {status}"
        except Exception as error:
            logger.exception("JobMaster %s failed", process_id)
            ending = str(error)
        finally:
            del self._guests[process_id]
            self._on_exited(process_id, ending)

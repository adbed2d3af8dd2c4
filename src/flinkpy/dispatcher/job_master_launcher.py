"""JobMasterLauncher: starts JobMaster processes as children. Thread: the Dispatcher's loop."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

from flinkpy.common.child_process import ChildOutput, ChildProcess, spawn_child
from flinkpy.common.process_template import ProcessTemplate
from flinkpy.security.confidential_settings import settings_for_child

logger = logging.getLogger(__name__)

#: How long a JobMaster whose job has ended may take to remove its checkpoints.
RELEASE_GRACE_S = 15.0
#: How long a JobMaster with a running job may take to stop when this Dispatcher ends.
STOP_GRACE_S = 2.0


class JobMasterLauncher:
    """Starts and ends children. Calls `on_exited(process_id, ending)` on the loop once for every child.

    Args:
        temporary_directory: the temporary directory of the children; None: that of this process.
        outlive_parent: the children keep running when this process is killed. They inherit its output then.
        template: the process from which children are forked. Without it, or after its end, they are started normally.
    """

    def __init__(
        self,
        configuration: Mapping[str, str],
        bind_address: str,
        temporary_directory: Path | None,
        on_exited: Callable[[str, str], None],
        *,
        outlive_parent: bool = False,
        template: ProcessTemplate | None = None,
    ) -> None:
        self._configuration = dict(configuration)
        self._temporary_directory = None if temporary_directory is None else str(temporary_directory)
        self._outlive_parent = outlive_parent
        self._template = template
        self._bind_address = bind_address
        self._on_exited = on_exited
        self._children: dict[str, ChildProcess] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_closed = False
        self._is_left = False

    def spawn(self, process_id: str, dispatcher_address: str) -> None:
        """Starts a standby, which will say hello with `process_id` as its ResourceID."""
        self._run(self._spawn(process_id, dispatcher_address), f"spawn {process_id}")

    @property
    def has_children(self) -> bool:
        return bool(self._children or self._tasks)

    def process_id_of(self, pid: int) -> str | None:
        """Returns the name of the child with this pid, or None."""
        return next((process_id for process_id, child in self._children.items() if child.pid == pid), None)

    def stop(self, process_id: str, *, at_once: bool) -> None:
        """Ends the child; kills it if `at_once`. Ignores names of processes that are not children."""
        child = self._children.get(process_id)
        if child is None:
            return
        if at_once:
            child.kill()
        else:
            self._run(child.stop(RELEASE_GRACE_S), f"stop {process_id}")

    def leave(self) -> None:
        """Starts no more children. Running ones continue until they end or `close` is called."""
        self._is_left = True

    async def close(self) -> None:
        """Ends all children and returns when all have ended."""
        self._is_closed = True
        await asyncio.gather(*(child.stop(STOP_GRACE_S) for child in list(self._children.values())))
        await asyncio.gather(*list(self._tasks))

    def _run(self, work: Coroutine[Any, Any, Any], name: str) -> None:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _spawn(self, process_id: str, dispatcher_address: str) -> None:
        if self._is_closed or self._is_left:
            return
        try:
            with settings_for_child(self._settings(process_id)) as settings:
                child = await spawn_child(
                    [*self._command(dispatcher_address), *settings.arguments],
                    name=process_id,
                    output=ChildOutput.INHERIT if self._outlive_parent else ChildOutput.TEE,
                    # The Dispatcher removes this directory, with the files of killed JobMasters.
                    temporary_directory=self._temporary_directory,
                    dies_with_parent=not self._outlive_parent,
                    environment=settings.environment,
                    pass_fds=settings.descriptors,
                    template=self._template,
                )
        except OSError as error:
            self._on_exited(process_id, f"it could not be started: {error}")
            return
        self._children[process_id] = child
        if self._is_closed:
            await child.stop(STOP_GRACE_S)
        elif self._is_left:
            child.kill()  # it was started before `leave` and is not a standby any more
        ending = await child.wait()
        del self._children[process_id]
        logger.info("JobMaster process %s (pid %d) ended: %s", process_id, child.pid, ending.description)
        self._on_exited(process_id, str(ending))

    def _settings(self, process_id: str) -> dict[str, str]:
        entries = {**self._configuration, "jobmanager.resource-id": process_id}
        # These are the ports of the Dispatcher. A JobMaster uses any free port.
        for key in ("jobmanager.rpc.port", "jobmanager.rpc.bind-port"):
            entries.pop(key, None)
        return entries

    def _command(self, dispatcher_address: str) -> list[str]:
        arguments = ["--dispatcher", dispatcher_address, "--bind-address", self._bind_address, "--port", "0"]
        return [sys.executable, "-m", "flinkpy.cli.main", "jobmaster", *arguments]

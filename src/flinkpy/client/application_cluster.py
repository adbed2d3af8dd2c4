"""ApplicationCluster: a local cluster that belongs to one program, and ends with it.

In the place of the Dispatcher stands the service that also runs the program (`flinkpy standalone-job`). All other
services are started again when they die; the end of that one is the end of the cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from flinkpy.client.local_cluster import DISPATCHER, LocalCluster, LocalClusterOptions
from flinkpy.client.service_process import ServiceProcess, ServiceSpec
from flinkpy.common.interruptible import wait_for_exit

#: Verb of the service that is the Dispatcher and runs the program.
STANDALONE_JOB = "standalone-job"


class ApplicationCluster(LocalCluster):
    """Thread: see LocalCluster."""

    def __init__(self, options: LocalClusterOptions, program: str, arguments: Sequence[str]) -> None:
        super().__init__(options)
        self._program = (program, *arguments)

    def wait(self) -> int:
        """Returns when the application has ended: its exit status."""
        status = wait_for_exit(self.processes[0].popen)
        return status if status >= 0 else 128 - status

    def _dispatcher_spec(self) -> ServiceSpec:
        arguments = ("--port", self._port(DISPATCHER), "--resourcemanager", self._resource_manager)
        # What the program prints is what a user of this command wants to see.
        spec = self._spec("application", STANDALONE_JOB, arguments, inherit_output=True, reservation=DISPATCHER)
        return replace(spec, trailing=("--", *self._program))

    def _replaceable(self) -> list[ServiceProcess]:
        return self._processes[1:]

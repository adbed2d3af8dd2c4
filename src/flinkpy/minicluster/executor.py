"""Submits jobs to the in-process cluster. It has the functions of `flinkpy.client.executor` that programs use.

Source: org.apache.flink.client.deployment.executors.LocalExecutor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flinkpy.client import executor
from flinkpy.client.application import current_application
from flinkpy.client.executor import ends_with_its_client, result_of
from flinkpy.minicluster.in_process_cluster import in_process_cluster, use_files_of_program

if TYPE_CHECKING:
    from flinkpy._proto import job_pb2
    from flinkpy.client.cluster_client import ClusterClient
    from flinkpy.client.job_client import RemoteJobClient
    from flinkpy.common.configuration import Configuration

__all__ = ["cluster_client", "ends_with_its_client", "execute", "result_of"]


def execute(
    job_graph: job_pb2.JobGraph, configuration: Configuration, *, needs_client: bool = False
) -> RemoteJobClient:
    """Submits the job, see `flinkpy.client.executor.execute`.

    Raises: also UnsupportedOperationError if the job needs other packages, or archives in its working directory.
    """
    if current_application() is None:
        use_files_of_program(job_graph)
    return executor.execute(job_graph, configuration, needs_client=needs_client, cluster=in_process_cluster())


def cluster_client(configuration: Configuration) -> ClusterClient | None:
    """Returns a client of the in-process cluster; None if it does not run."""
    return executor.cluster_client(configuration, cluster=in_process_cluster())

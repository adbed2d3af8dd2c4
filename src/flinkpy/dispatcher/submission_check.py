"""What a job must be for the Dispatcher to take it. Pure; unpickles nothing."""

from __future__ import annotations

import re

from flinkpy._proto import job_pb2
from flinkpy.common.errors import (
    ExternalError,
    FlinkError,
    JobSubmissionError,
    LeadershipLostError,
    NotLeaderError,
    VersionMismatchError,
)
from flinkpy.graph.validation import validate_job_graph
from flinkpy.rpc.versions import are_compatible_releases

_JOB_ID = re.compile(r"[0-9a-f]{32}")


def check_submission(
    job_graph: job_pb2.JobGraph, *, caller_version: str | None, cluster_version: str, cluster_python: str
) -> None:
    """Returns where the job may run on this cluster.

    Args:
        caller_version: release the calling client says it is of; None where it does not say.
        cluster_python: "major.minor".

    Raises:
        VersionMismatchError: the pickles of the graph were made by a release whose first two numbers are others, or by
            another Python minor version.
        JobSubmissionError: the graph is wrong; the message names the culprit.
    """
    for what, version in (("client", caller_version), ("JobGraph", job_graph.client_version)):
        if version is not None and not are_compatible_releases(version, cluster_version):
            raise VersionMismatchError(
                f"the {what} is of flinkpy {version or '(unknown)'}, this cluster is of {cluster_version}: "
                "pickled functions are for releases that differ in their last number at most; install the same release "
                "on both sides",
                details={"client": version, "cluster": cluster_version},
            )
    minor = ".".join(job_graph.python_version.split(".")[:2])
    if minor != cluster_python:
        raise VersionMismatchError(
            f"the job was made by Python {job_graph.python_version or '(unknown)'}, this cluster runs "
            f"{cluster_python}: functions pickled by one minor version do not work in another",
            details={"client": job_graph.python_version, "cluster": cluster_python},
        )
    # The id becomes a file name: nothing but an id may get through.
    if not _JOB_ID.fullmatch(job_graph.job_id):
        raise JobSubmissionError(
            f"{job_graph.job_id[:80]!r} is not a job id (32 lower-case hex digits)",
            details={"job_id": job_graph.job_id[:80]},
        )
    validate_job_graph(job_graph)


def not_stored(what: str, error: BaseException) -> FlinkError:
    """What the client is told: where another Dispatcher leads by now, to go there; it does not know the job yet."""
    if isinstance(error, LeadershipLostError):
        return NotLeaderError(f"{what} was not stored: {error}")
    return ExternalError(f"{what} could not be stored: {error}")

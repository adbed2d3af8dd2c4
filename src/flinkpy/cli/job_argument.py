"""The JOB argument of commands: a job's id, the beginning of one, or a job's name."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from flinkpy.common.errors import JobNotFoundError, UserError
from flinkpy.common.states import JobState

if TYPE_CHECKING:
    from flinkpy._proto import dispatcher_pb2
    from flinkpy.client.cluster_client import ClusterClient

F = TypeVar("F", bound=Callable[..., Any])

_WHOLE_ID = re.compile(r"[0-9a-f]{32}")

#: Jobs that the error about an ambiguous argument lists.
MAX_LISTED = 5


def job_argument(command: F) -> F:
    """Adds the argument; the command gets `job`, to be resolved by `find_job`."""
    return click.argument("job")(command)


def find_job(client: ClusterClient, job: str) -> str:
    """The id of the job that `job` stands for: an id, the beginning of one id only, or a name.

    A whole id is taken as it is. A name that several jobs have had means the one that has not ended.

    Raises:
        JobNotFoundError: no job is called that.
        UserError: several are.
    """
    if _WHOLE_ID.fullmatch(job):
        return job
    jobs = client.list_jobs()
    found = [one for one in jobs if one.name == job] or [one for one in jobs if job and one.job_id.startswith(job)]
    if not found:
        raise JobNotFoundError(
            f"there is no job `{job}`: not an id, the beginning of one, or a name (`flinkpy list -a` shows all)"
        )
    if len(found) > 1:
        found = [one for one in found if not JobState(one.status).is_terminal] or found
    if len(found) > 1:
        listed = ", ".join(map(_described, found[:MAX_LISTED]))
        more = f" and {len(found) - MAX_LISTED} more" if len(found) > MAX_LISTED else ""
        raise UserError(f"`{job}` stands for several jobs: {listed}{more}")
    return found[0].job_id


def _described(job: dispatcher_pb2.JobOverview) -> str:
    return f"{job.job_id} ({job.name}, {JobState(job.status).name})"

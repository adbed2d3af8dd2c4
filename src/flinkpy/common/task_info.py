"""JobInfo, TaskInfo and DistributedCache: a function's job, its place in the job, and the job's cached files.

Source: org.apache.flink.api.common.{JobInfo,TaskInfo,cache.DistributedCache}. Beyond PyFlink, whose RuntimeContext has
only single getters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from flinkpy.common.errors import InputNotFoundError
from flinkpy.common.ids import JobID

__all__ = ["DistributedCache", "JobInfo", "TaskInfo"]


@dataclass(frozen=True, slots=True)
class JobInfo:
    """The id and the name of a job."""

    job_id: JobID
    job_name: str

    def get_job_id(self) -> JobID:
        return self.job_id

    def get_job_name(self) -> str:
        return self.job_name


@dataclass(frozen=True, slots=True)
class TaskInfo:
    """The name, the parallelism and the subtask of a task."""

    task_name: str
    index_of_this_subtask: int
    number_of_parallel_subtasks: int
    max_number_of_parallel_subtasks: int
    attempt_number: int

    def get_task_name(self) -> str:
        return self.task_name

    def get_index_of_this_subtask(self) -> int:
        """Returns the index of the subtask, starting at 0."""
        return self.index_of_this_subtask

    def get_number_of_parallel_subtasks(self) -> int:
        return self.number_of_parallel_subtasks

    def get_max_number_of_parallel_subtasks(self) -> int:
        return self.max_number_of_parallel_subtasks

    def get_attempt_number(self) -> int:
        """Returns the attempt number, starting at 0."""
        return self.attempt_number

    def get_task_name_with_subtasks(self) -> str:
        """Returns e.g. `Map (1/3)#0`, with the subtask counted from 1 and the attempt from 0."""
        place = f"({self.index_of_this_subtask + 1}/{self.number_of_parallel_subtasks})"
        return f"{self.task_name} {place}#{self.attempt_number}"


class DistributedCache:
    """The local copies of the files that a program registered with `register_cached_file`.

    They are read-only: all tasks of the job on a host share them.
    """

    def __init__(self, paths: Mapping[str, str]) -> None:
        self._paths = paths

    def get_file(self, name: str) -> str:
        """Returns the local path of the file or directory registered as `name`.

        Raises:
            InputNotFoundError: no file is registered under this name.
        """
        path = self._paths.get(name)
        if path is None:
            known = ", ".join(sorted(self._paths)) or "none"
            raise InputNotFoundError(
                f"no cached file is registered as {name!r} (registered: {known}); call register_cached_file",
                details={"file": name},
            )
        return path

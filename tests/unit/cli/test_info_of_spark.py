"""`flinkpy info` shows the reports of the regions that run in Spark."""

from __future__ import annotations

from flinkpy._proto import metrics_pb2
from flinkpy.cli.jobs import describe_spark_regions


def group(vertex_id: str, **texts: str) -> metrics_pb2.MetricGroupDump:
    dump = metrics_pb2.MetricGroupDump(vertex_id=vertex_id)
    for name, text in texts.items():
        dump.metrics.add(name=name, kind="gauge", text=text)
    return dump


def test_a_region_names_its_web_page_and_the_places_of_its_operators() -> None:
    region = group(
        "v", sparkWebUrl="http://host:4040", sparkOperators="Filter: Catalyst\nMap: Python worker, because x"
    )
    assert describe_spark_regions([region, group("other", sparkWebUrl="", somethingElse="x")]) == {
        "v": ["  Spark's web page: http://host:4040", "  Filter: Catalyst", "  Map: Python worker, because x"]
    }

"""`flinkpy info` and the REST API say in words why a job has no output."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from clusters import RunningCluster
from job_support import environment, wait_until
from test_rest_jobs import RestClient

from flinkpy.common import Time, Types, WatermarkStrategy
from flinkpy.common.watermark_strategy import TimestampAssigner
from flinkpy.connector_api.source import Boundedness, ReaderStatus, SourceBase, SourceReader, SplitEnumerator
from flinkpy.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from flinkpy.datastream.functions import MapFunction
from flinkpy.datastream.window import TumblingEventTimeWindows
from flinkpy.records.batch import Batch

#: Time between two batches of the split that is not silent.
INTERVAL_MS = 50


@dataclass(frozen=True)
class Split:
    split_id: str


class BothSplits(SplitEnumerator):
    def __init__(self, context: Any) -> None:
        self._context = context

    def start(self) -> None:
        return

    def add_reader(self, subtask_index: int) -> None:
        self._context.assign_splits({subtask_index: [Split("talks"), Split("silent")]})

    def handle_split_request(self, subtask_index: int) -> None:
        return

    def add_splits_back(self, splits: list[Any], subtask_index: int) -> None:
        return


class OneTalks(SourceReader):
    """Reads two splits. One has a record every INTERVAL_MS, the other one never has any."""

    names_splits = True
    current_split_id = "talks"

    def __init__(self, context: Any) -> None:
        self._context = context
        self._next, self._ready = 0, False

    def start(self) -> None:
        self._again(0)

    def _again(self, _: int) -> None:
        self._ready = True
        self._context.schedule(INTERVAL_MS, self._again)

    def poll_batch(self) -> Batch | ReaderStatus:
        if not self._ready:
            return ReaderStatus.NOTHING_AVAILABLE
        self._ready = False
        self._next += 1
        return Batch([self._next])

    def add_splits(self, splits: list[Any]) -> None:
        return

    def notify_no_more_splits(self) -> None:
        return


class TwoSplits(SourceBase):
    boundedness = Boundedness.CONTINUOUS_UNBOUNDED  # type: ignore[assignment]

    def create_enumerator(self, context: Any) -> SplitEnumerator:
        return BothSplits(context)

    def create_reader(self, context: Any) -> SourceReader:
        return OneTalks(context)


class InSeconds(TimestampAssigner):
    def extract_timestamp(self, value: int, record_timestamp: int) -> int:
        return value * 1_000


class EarlyOnesAreLate(TimestampAssigner):
    """Gives the first records, for some time, much later times than all others."""

    def extract_timestamp(self, value: int, record_timestamp: int) -> int:
        return 1_000_000_000 + value if value < 200 else value


class Slow(MapFunction):
    def map(self, value: Any) -> Any:
        time.sleep(0.002)
        return value


def lines(result: str) -> Iterator[str]:
    return (line[2:] for line in result.splitlines() if line.startswith("- "))


def test_the_split_the_slow_vertex_and_the_late_records_are_named(shared_cluster: RunningCluster) -> None:
    env = environment(shared_cluster, 1)
    ascending = WatermarkStrategy.for_monotonous_timestamps()
    window = TumblingEventTimeWindows.of(Time.seconds(1))

    silent = env.from_source(TwoSplits(), ascending.with_timestamp_assigner(InSeconds()), "two splits", Types.LONG())
    silent.key_by(lambda value: 0).window(window).reduce(max).name("waiting").print()

    late = env.from_source(
        DataGeneratorSource(int, None, RateLimiterStrategy.per_second(200)),
        ascending.with_timestamp_assigner(EarlyOnesAreLate()),
        "disorder",
        Types.LONG(),
    )
    late.key_by(lambda value: 0).window(window).reduce(max).name("dropping").print()

    fast = env.from_source(DataGeneratorSource(int, None), WatermarkStrategy.no_watermarks(), "flood", Types.LONG())
    slow = fast.key_by(lambda value: 0).map(Slow(), output_type=Types.LONG()).name("slow").set_parallelism(2)
    slow.filter(lambda value: False).print()

    job_id = str(env.execute_async("three reasons").get_job_id())
    with RestClient(shared_cluster) as rest:

        def told() -> Any:
            findings = rest.get(f"/jobs/{job_id}/diagnosis")["findings"]
            kinds = {one["kind"]: one for one in findings if one["severity"] == "CAUSE"}
            return kinds if {"WATERMARK", "BACK_PRESSURE", "LATE_RECORDS"} <= set(kinds) else None

        found = wait_until(told, "the three reasons are found")
        vertices = {one["name"]: one["id"] for one in rest.get(f"/jobs/{job_id}")["vertices"]}
        assert found["WATERMARK"]["split"] == "silent"
        assert found["WATERMARK"]["sentence"].startswith(
            "Split silent of Source: two splits (1/1) holds the watermark back: no record with a timestamp "
            "has come from it yet"
        )
        assert "waiting" in found["WATERMARK"]["sentence"] and "with_idleness" in found["WATERMARK"]["advice"]
        (slow_id,) = (one for name, one in vertices.items() if name.startswith("slow"))
        assert found["BACK_PRESSURE"]["vertex"] == slow_id
        assert "gets 100 % of the records" in found["BACK_PRESSURE"]["sentence"]
        assert found["LATE_RECORDS"]["sentence"].startswith("dropping has dropped ")

        shown = shared_cluster.flinkpy("info", job_id)
        assert shown.returncode == 0, shown.stderr
        by_cli = list(lines(shown.stdout))
        assert any("Split silent of" in line for line in by_cli) and any("slow" in line for line in by_cli)

        shared_cluster.client.cancel_job(job_id)
        shared_cluster.client.wait_for_result(job_id)
        wait_until(lambda: rest.get(f"/jobs/{job_id}/diagnosis")["state"] == "CANCELED", "the answer is fresh")
        assert rest.get(f"/jobs/{job_id}/diagnosis")["findings"] == []
        rest.get(f"/jobs/{'0' * 32}/diagnosis", expected=404)

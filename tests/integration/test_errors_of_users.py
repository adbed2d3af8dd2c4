"""An exception of a user function quickly ends its own job with its text, and affects no other job."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
from clusters import RunningCluster
from job_support import environment, wait_for_state

from flinkpy.common import Types, WatermarkStrategy
from flinkpy.common.errors import JobExecutionError
from flinkpy.common.states import JobState
from flinkpy.connectors.discard_sink import DiscardSink
from flinkpy.connectors.number_sequence import NumberSequenceSource
from flinkpy.datastream import RuntimeContext
from flinkpy.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from flinkpy.datastream.functions import MapFunction


class WeirdError(BaseException):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def surrogate(value: int) -> int:
    raise ValueError("bad \ud800 text")


def very_long(value: int) -> int:
    raise ValueError("begin " + "x" * 25_000_000 + " end")


def weird(value: int) -> int:
    raise WeirdError


def exits(value: int) -> int:
    sys.exit("bye \udc80")


class ExitingGauge(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        runtime_context.get_metrics_group().gauge("mine \ud800", lambda: sys.exit(3))

    def map(self, value: Any) -> Any:
        raise ValueError("after the gauge")


class ExitingSource(NumberSequenceSource):
    def create_enumerator(self, context: Any) -> Any:
        sys.exit("from the enumerator")


@pytest.fixture
def cluster(shared_cluster: RunningCluster) -> RunningCluster:
    return shared_cluster


def test_an_exception_of_any_kind_fails_only_its_own_job(cluster: RunningCluster) -> None:
    env = environment(cluster, 1)
    source = DataGeneratorSource(lambda number: number, 10**9, RateLimiterStrategy.per_second(20), Types.LONG())
    env.from_source(source, WatermarkStrategy.no_watermarks(), "slow").sink_to(DiscardSink())
    innocent = env.execute_async("innocent")
    wait_for_state(cluster, str(innocent.get_job_id()), JobState.RUNNING)
    functions: list[tuple[Callable[[int], int] | MapFunction, str]] = [
        (surrogate, r"ValueError: bad \\ud800 text"),
        (very_long, r"(?s)begin xxx.*characters left out.* end"),
        (weird, r"WeirdError.__str__ raised RuntimeError"),
        (exits, r"SystemExit: bye \\udc80"),
        (ExitingGauge(), "after the gauge"),
    ]
    for function, text in functions:
        env = environment(cluster, 1)
        env.from_sequence(1, 3).map(function).print()
        with pytest.raises(JobExecutionError, match=text) as raised:
            env.execute()
        assert len(str(raised.value)) < 100_000
    env = environment(cluster, 1)
    env.from_source(ExitingSource(1, 3), WatermarkStrategy.no_watermarks(), "exits").print()
    with pytest.raises(JobExecutionError, match="SystemExit: from the enumerator"):
        env.execute()

    details = cluster.client.request_job(str(innocent.get_job_id()))
    assert (JobState(details.status), details.num_restarts) == (JobState.RUNNING, 0)

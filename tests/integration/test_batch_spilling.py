"""Batch programs with almost no memory give the same results as with plenty, and leave nothing on the disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flinkpy.common import Configuration, Time, Types, WatermarkStrategy
from flinkpy.common.watermark_strategy import TimestampAssigner
from flinkpy.datastream import DataStream, RuntimeExecutionMode, StreamExecutionEnvironment
from flinkpy.datastream.aggregates import count, max_, sum_
from flinkpy.datastream.window import TumblingEventTimeWindows

ROW = Types.ROW_NAMED(["key", "n"], [Types.LONG(), Types.LONG()])
ROWS = 20_000


def results(tmp_path: Path, build: Any, **properties: str) -> list[str]:
    configuration = Configuration.from_dict({"io.tmp.dirs": str(tmp_path), **properties})
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    env.set_parallelism(2)
    numbers = env.from_sequence(0, ROWS - 1)
    rows = numbers.map(lambda n: (n * 7919 % 997, n), Types.TUPLE([Types.LONG(), Types.LONG()]))
    with build(rows).execute_and_collect() as collected:
        found = sorted(map(str, collected))
    assert list(tmp_path.rglob("*.spill")) == []
    return found


def by_function(rows: DataStream) -> DataStream:
    """Reduces the rows in order of time, with a key selector in Python."""
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(_Backwards())
    timed = rows.assign_timestamps_and_watermarks(strategy)
    return timed.key_by(lambda row: row[0]).reduce(lambda one, two: (one[0], (one[1] * 31 + two[1]) % 1_000_003))


class _Backwards(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return ROWS - value[1]


def by_window(rows: DataStream) -> DataStream:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(_Backwards())
    windows = rows.assign_timestamps_and_watermarks(strategy).key_by(lambda row: row[0] % 50)
    return windows.window(TumblingEventTimeWindows.of(Time.seconds(5))).reduce(
        lambda one, two: (one[0], one[1] + two[1])
    )


def by_columns(rows: DataStream) -> DataStream:
    columns = rows.map(lambda row: row, ROW)
    return columns.key_by("key").aggregate(count(), sum_("n"), max_("n"))


@pytest.mark.parametrize("build", [by_function, by_window, by_columns])
def test_results_do_not_depend_on_memory(tmp_path: Path, build: Any) -> None:
    little = {"execution.sorted-inputs.memory": "64 kb", "execution.batch.column-operator.memory": "16 kb"}

    expected = results(tmp_path, build)
    assert len(expected) > 100
    assert results(tmp_path, build, **little) == expected

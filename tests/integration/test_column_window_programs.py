"""Windows over columns and compiled functions in programs on real processes."""

from __future__ import annotations

import ast
import random
from pathlib import Path
from typing import Any

import pytest
from clusters import RunningCluster
from job_support import environment
from test_embedded_programs import Program
from test_window_programs import FailsOnce, collect
from verifying.sequence_source import SequencePerKeySource

from flinkpy.common import Time, WatermarkStrategy
from flinkpy.datastream.aggregates import last, sum_
from flinkpy.datastream.window import EventTimeSessionWindows, SlidingEventTimeWindows

PROGRAM = """
import random
from flinkpy.common import Duration, Time
from flinkpy.datastream.aggregates import count, count_distinct, max_, sum_
from flinkpy.datastream.expressions import col
from flinkpy.datastream.compiled import compiled, compiled_aggregate
from flinkpy.datastream.window import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows

env.set_parallelism(2)
chance = random.Random(7)
bids = [(f"a{chance.randrange(40)}", chance.randrange(1000), i + chance.randrange(-30, 30)) for i in range(3000)]
types = [Types.STRING(), Types.LONG(), Types.LONG()]
by_time = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(60)).with_timestamp_column("at")
stream = (
    env.from_collection(bids, Types.TUPLE(types))
    .map(tuple, Types.ROW_NAMED(["item", "price", "at"], types)).set_parallelism(1)
    .assign_timestamps_and_watermarks(by_time).set_parallelism(1)
)
WINDOWS = {
    "tumble": TumblingEventTimeWindows.of(Time.milliseconds(100)),
    "hop": SlidingEventTimeWindows.of(Time.milliseconds(100), Time.milliseconds(40)),
    "session": EventTimeSessionWindows.with_gap(Time.milliseconds(20)),
}
"""


def bids() -> list[tuple[str, int, int]]:
    chance = random.Random(7)
    return [(f"a{chance.randrange(40)}", chance.randrange(1000), i + chance.randrange(-30, 30)) for i in range(3000)]


def fixed(records: list[tuple[str, int, int]], size: int, slide: int) -> dict[tuple[str, int], list[int]]:
    """Returns the prices by item and start of the window."""
    windows: dict[tuple[str, int], list[int]] = {}
    for item, price, at in records:
        for start in range(at // slide * slide, at - size, -slide):
            windows.setdefault((item, start), []).append(price)
    return windows


def sessions(records: list[tuple[str, int, int]], gap: int) -> list[Any]:
    rows = []
    for item in {record[0] for record in records}:
        mine = sorted((at, price) for other, price, at in records if other == item)
        prices, start, end = [], mine[0][0], mine[0][0]
        for at, price in mine:
            if at > end:
                rows.append((item, start, end, len(prices), max(prices)))
                prices, start = [], at
            prices.append(price)
            end = at + gap
        rows.append((item, start, end, len(prices), max(prices)))
    return rows


def run(tmp_path, text: str) -> dict[str, list[Any]]:
    """Runs the program. Returns the printed rows by the name before each row."""
    program = Program(tmp_path, PROGRAM + text)
    status, output, error = program.finish()
    assert status == 0, error
    rows: dict[str, list[Any]] = {}
    for line in output.splitlines():
        name, _, row = line.partition(" ")
        rows.setdefault(name, []).append(ast.literal_eval(row))
    return rows


def test_windows_over_columns_equal_windows_over_records(tmp_path):
    got = run(
        tmp_path,
        """
for name, windows in WINDOWS.items():
    result = stream.key_by("item").window(windows).aggregate(n=count(), top=max_("price"))
    for row in result.execute_and_collect():
        print(name, tuple(row))
whole = stream.window_all(WINDOWS["tumble"]).aggregate(items=count_distinct("item"), twice=sum_(col("price") * 2))
for row in whole.execute_and_collect():
    print("all", tuple(row))
""",
    )

    for name, slide in (("tumble", 100), ("hop", 40)):
        windows = fixed(bids(), 100, slide).items()
        expected = [(item, start, start + 100, len(prices), max(prices)) for (item, start), prices in windows]
        assert sorted(got[name]) == sorted(expected)
    assert sorted(got["session"]) == sorted(sessions(bids(), 20))
    whole: dict[int, list[tuple[str, int]]] = {}
    for item, price, at in bids():
        whole.setdefault(at // 100 * 100, []).append((item, price))
    assert sorted(got["all"]) == sorted(
        (start, start + 100, len({item for item, _ in both}), 2 * sum(price for _, price in both))
        for start, both in whole.items()
    )


def test_compiled_functions_run_in_tasks(tmp_path):
    got = run(
        tmp_path,
        """
def doubled(price):
    return price * 2

spread = compiled_aggregate(
    ["twice"], initial=(10**9, -1), add=lambda acc, x: (min(acc[0], x), max(acc[1], x)),
    merge=lambda a, b: (min(a[0], b[0]), max(a[1], b[1])), result=lambda acc: acc[1] - acc[0],
    output_type=Types.LONG(),
)
large = stream.map_columns(twice=compiled(doubled, Types.LONG())).filter_batches(
    compiled(lambda twice: twice >= 1000, Types.BOOLEAN())
)
for row in large.key_by("item").window(WINDOWS["hop"]).aggregate(spread=spread, n=count()).execute_and_collect():
    print("hop", tuple(row))
""",
    )

    windows = fixed([bid for bid in bids() if bid[1] >= 500], 100, 40).items()
    assert sorted(got["hop"]) == sorted(
        (item, start, start + 100, 2 * (max(prices) - min(prices)), len(prices)) for (item, start), prices in windows
    )


@pytest.mark.parametrize("backend", [pytest.param("hashmap", marks=pytest.mark.chaos), "rocksdb"])
def test_windows_over_columns_survive_a_failure(shared_cluster: RunningCluster, backend: str, tmp_path: Path) -> None:
    options = {
        "execution.checkpointing.interval": "100 ms",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "state.backend.type": backend,
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "3",
        "restart-strategy.fixed-delay.delay": "10 ms",
    }
    env = environment(shared_cluster, 2, **options)
    keys, numbers = 7, 1_000
    marker = tmp_path / "failed"
    source = SequencePerKeySource(keys, numbers, rate=2_000, hurry=marker)
    by_number = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column(1)
    records = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").set_parallelism(1)
    mapped = records.map(FailsOnce(marker), source.produced_type).set_parallelism(1)
    keyed = mapped.assign_timestamps_and_watermarks(by_number).set_parallelism(1).key_by(0)
    aggregates = {"total": sum_("f1"), "newest": last("f1")}
    sliding = SlidingEventTimeWindows.of(Time.milliseconds(400), Time.milliseconds(100))

    collected = collect(
        {
            "sliding": keyed.window(sliding).aggregate(**aggregates).map(tuple),
            "sessions": keyed.window(EventTimeSessionWindows.with_gap(Time.milliseconds(10)))
            .aggregate(**aggregates)
            .map(tuple),
        }
    )
    assert marker.exists()
    expected = []
    for start in range(-300, numbers, 100):
        inside = range(max(start, 0), min(start + 400, numbers))
        expected += [(key, start, start + 400, sum(inside), inside[-1]) for key in range(keys)]
    assert collected["sliding"] == sorted(expected)
    assert collected["sessions"] == [(key, 0, numbers + 9, sum(range(numbers)), numbers - 1) for key in range(keys)]

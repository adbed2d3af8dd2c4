"""Rows per second of single operators on one core, next to the plain loop they replace.

python -m benchmarks.micro_operators [--rows ROWS]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pyarrow as pa

from flinkpy._proto import job_pb2
from flinkpy.common.clock import SystemClock
from flinkpy.common.configuration import Configuration
from flinkpy.common.typeinfo import Types
from flinkpy.datastream.functions import (
    FilterFunctionWrapper,
    KeyedProcessFunction,
    KeySelectorFunctionWrapper,
    MapFunctionWrapper,
    ReduceFunctionWrapper,
)
from flinkpy.datastream.state import ValueStateDescriptor
from flinkpy.graph import operator_specs as specs
from flinkpy.metrics.metric_registry import MetricScope
from flinkpy.records.batch import Batch
from flinkpy.streaming.mailbox.task_mailbox import TaskMailbox
from flinkpy.streaming.operators.accumulator_registry import AccumulatorRegistry
from flinkpy.streaming.operators.metric_group import TaskMetricGroup
from flinkpy.streaming.operators.output import DiscardingOutput
from flinkpy.streaming.tasks.operator_chain import OperatorChain
from flinkpy.streaming.tasks.processing_time_service import ProcessingTimeService

#: Rows of a batch, unless told otherwise.
BATCH_ROWS = 65_536
BATCHES = 24
KEYS = 1_000


class Counter(KeyedProcessFunction):
    """A counter per key, the usual way."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        count = self.count.value()
        count = 1 if count is None else count + 1
        self.count.update(count)
        yield value[0], count


class NothingRestored:
    """The state of a task that starts without a checkpoint and takes none."""

    restored_checkpoint_id = None
    is_restored_as_finished = False
    files: Any = None
    io_executor: Any = None
    directory = Path(tempfile.gettempdir()) / "flinkpy-micro-operators"

    def restored_state(self, operator_id: str) -> None:
        return None


class Environment:
    """The part of a task environment that operators use."""

    def __init__(self, chain: list[specs.OperatorSpec]) -> None:
        self.vertex = job_pb2.JobVertex(id="vertex", name="bench")
        for position, spec in enumerate(chain):
            descriptor = self.vertex.chain.add(
                operator_id=str(position), name=type(spec).__name__, factory_pickle=cloudpickle.dumps(spec)
            )
            if position + 1 < len(chain):
                descriptor.outputs.add(chained_operator=position + 1)
        self.configuration = Configuration()
        self.job_id, self.job_name = "job", "bench"
        self.task_name = "bench (1/1)"
        self.metric_group = TaskMetricGroup(MetricScope("job", self.vertex.id, 0, 0), {})
        self.state = NothingRestored()
        self.accumulators = AccumulatorRegistry(SystemClock())
        self.cached_files: dict[str, str] = {}
        self.attempt_number = 0
        self.subtask_index, self.parallelism, self.max_parallelism = 0, 1, 128
        self.clock = SystemClock()
        self.load_pickle = cloudpickle.loads


def rate(run: Callable[[], object], rows: int) -> float:
    """Millions of rows per second: the best of three."""
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return rows / best / 1e6


def operator_rate(chain: list[specs.OperatorSpec], batches: list[Batch]) -> float:
    environment: Any = Environment(chain)
    mailbox = TaskMailbox()
    operators = OperatorChain(environment, mailbox, ProcessingTimeService(environment.clock), [])
    operators.open()
    process = operators.head.process_batch

    def run() -> None:
        for batch in batches:
            process(batch)

    result = rate(run, sum(batch.num_rows for batch in batches))
    operators.close()
    return result


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.micro_operators", description=__doc__)
    parser.add_argument("--rows", type=int, default=BATCH_ROWS, help="rows of a batch (default: %(default)s)")
    batch_rows = parser.parse_args().rows
    print(f"{'work':<58}{'operator':>10}{'plain loop':>12}   M rows/s")
    for name, ours, plain in measurements(batch_rows):
        print(f"{name:<58}{ours:>10.1f}{plain:>12.1f}")


def measurements(batch_rows: int) -> list[tuple[str, float, float]]:
    numbers = [Batch(list(range(batch_rows)))] * BATCHES
    pairs = [Batch([(i % KEYS, i) for i in range(batch_rows)])] * BATCHES
    rng = np.random.default_rng(0)
    prices = rng.integers(0, 1_000_000, batch_rows)
    auctions = rng.integers(0, 100_000, batch_rows)
    bids = [Batch(pa.RecordBatch.from_arrays([pa.array(auctions), pa.array(prices)], ["auction", "price"]))] * BATCHES
    times = np.arange(batch_rows)
    first = specs.FieldKeySelector((0,))
    add, even = MapFunctionWrapper(lambda v: v + 1), FilterFunctionWrapper(lambda v: v % 2 == 0)
    aggregates = (
        specs.ColumnAggregate("bids", "COUNT"),
        specs.ColumnAggregate("high", "MAX", "price"),
        specs.ColumnAggregate("mean", "MEAN", "price"),
    )
    by_auction = specs.FieldKeySelector(("auction",))
    rows = batch_rows * BATCHES
    count_loop = rate(lambda: plain_count(pairs), rows)
    aggregate_loop = rate(lambda: plain_aggregate(auctions.tolist(), prices.tolist()), batch_rows)
    filter_loop = rate(lambda: plain_map_filter(numbers), rows)
    timed = [Batch(batch.values, times) for batch in numbers]
    lambda_key = KeySelectorFunctionWrapper(lambda v: v[0])
    return [
        (
            "map(lambda), filter(lambda)",
            operator_rate([specs.MapSpec(add), specs.FilterSpec(even)], numbers),
            filter_loop,
        ),
        ("same, with timestamps", operator_rate([specs.MapSpec(add), specs.FilterSpec(even)], timed), filter_loop),
        ("map(lambda) x 3", operator_rate([specs.MapSpec(add)] * 3, numbers), 0.0),
        (
            "keyed process, ValueState counter, key by field",
            _keyed(specs.KeyedProcessSpec(first, Counter()), pairs),
            count_loop,
        ),
        ("same, key by lambda", _keyed(specs.KeyedProcessSpec(lambda_key, Counter()), pairs), count_loop),
        ("reduce(lambda) of pairs", _keyed(specs.ReduceSpec(first, ReduceFunctionWrapper(_sum_pairs)), pairs), 0.0),
        ("rolling sum of pairs", _keyed(specs.RollingAggregateSpec(first, specs.RollingKind.SUM, 1), pairs), 0.0),
        (
            "columns: count, max, mean; 100,000 keys, UPDATES",
            _keyed(specs.ColumnAggregateSpec(by_auction, aggregates), bids),
            aggregate_loop,
        ),
        (
            "columns: count, max, mean; 100,000 keys, FINAL",
            _keyed(specs.ColumnAggregateSpec(by_auction, aggregates, "FINAL"), bids),
            aggregate_loop,
        ),
    ]


def _keyed(spec: specs.OperatorSpec, batches: list[Batch]) -> float:
    return operator_rate([spec], batches)


def _sum_pairs(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    return a[0], a[1] + b[1]


def plain_map_filter(batches: list[Batch]) -> None:
    add, even, output = (lambda v: v + 1), (lambda v: v % 2 == 0), DiscardingOutput()
    for batch in batches:
        out = []
        for value in batch.values:
            value = add(value)
            if even(value):
                out.append(value)
        output.emit(Batch(out))


def plain_count(batches: list[Batch]) -> None:
    counts: dict[int, int] = {}
    for batch in batches:
        out = []
        for value in batch.values:
            key = value[0]
            counts[key] = count = counts.get(key, 0) + 1
            out.append((key, count))


def plain_aggregate(auctions: list[int], prices: list[int]) -> None:
    state: dict[int, list[int]] = {}
    for auction, price in zip(auctions, prices):
        entry = state.get(auction)
        if entry is None:
            state[auction] = [1, price, price]
        else:
            entry[0] += 1
            entry[1] = max(entry[1], price)
            entry[2] += price


if __name__ == "__main__":
    main()

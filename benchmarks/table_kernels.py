"""Rows per second and core of the aggregates of Nexmark's SQL queries, one operator at a time, on columns in memory.

python -m benchmarks.table_kernels [--rows ROWS] [--queries q4,q15] [--rocksdb] [--numpy]

The bids have Nexmark's proportions: half of them go to one of the hot auctions, three quarters come from one of the hot
bidders. Nothing is read, exchanged or written.
"""

from __future__ import annotations

import argparse
import shutil
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.micro_operators import BATCH_ROWS, Environment
from flinkpy.common.configuration import Configuration
from flinkpy.graph.operator_specs import FieldKeySelector
from flinkpy.graph.table_specs import (
    GroupAggregateSpec,
    GroupWindowAggregateSpec,
    LocalWindowAggregateSpec,
    MiniBatch,
    OverAggregateSpec,
    OverWindow,
    SortField,
    WindowAggregateSpec,
    WindowSlices,
)
from flinkpy.records.batch import Batch
from flinkpy.records.elements import Watermark
from flinkpy.sql.rex import AggregateCall
from flinkpy.sql.types import logical_types as lt
from flinkpy.sql.types.arrow import schema_of
from flinkpy.sql.types.internal_type_info import InternalTypeInfo
from flinkpy.state.row_groups import kernels
from flinkpy.streaming.mailbox.task_mailbox import TaskMailbox
from flinkpy.streaming.tasks.operator_chain import OperatorChain
from flinkpy.streaming.tasks.processing_time_service import ProcessingTimeService

_LONG, _TEXT, _FLAG = lt.BigIntType(), lt.VarCharType(), lt.BooleanType()
_TIME = lt.TimestampType(precision=3)
_FIRST_MS = 1_600_000_000_000
#: How far watermarks are behind, as in Nexmark's tables.
_BEHIND_MS = 4_000
_MINI_BATCH = MiniBatch(50_000, 2_000)

Columns = dict[str, tuple[lt.LogicalType, Any]]


class Bids:
    """Columns of bids, ten per millisecond."""

    def __init__(self, rows: int) -> None:
        rng = np.random.default_rng(1)
        ids = np.arange(rows)
        self.ids = ids
        hot_auction, recent_auction = ids // 1500 * 100, ids // 15 - rng.integers(0, 100, rows)
        self.auction = 1_000 + np.where(rng.random(rows) < 0.5, hot_auction, recent_auction)
        hot_bidder, recent_bidder = ids // 5000 * 100 + 1, ids // 46 - rng.integers(0, 1_000, rows)
        self.bidder = 1_000 + np.where(rng.random(rows) < 0.75, hot_bidder, recent_bidder)
        self.price = np.exp(rng.random(rows) * np.log(1e8)).astype(np.int64)
        self.times_ms = _FIRST_MS + ids // 10
        self.time = pa.array(self.times_ms).view(pa.timestamp("ms"))
        channels = pa.array(["Google", "Facebook", "Baidu", "Apple", *(f"channel-{i}" for i in range(9_996))])
        chosen = np.where(rng.random(rows) < 0.5, rng.integers(0, 4, rows), rng.integers(4, 10_000, rows))
        self.channel = channels.take(pa.array(chosen))
        minutes = pa.array([f"{minute // 60:02d}:{minute % 60:02d}" for minute in range(1_440)])
        self.minute = minutes.take(pa.array(self.times_ms // 60_000 % 1_440))
        self.day = pa.array(["2020-09-13"]).take(pa.array(np.zeros(rows, dtype=np.int64)))
        self.ranks = [self.price < 10_000, (self.price >= 10_000) & (self.price < 1_000_000), self.price >= 1_000_000]
        self.seller = 1_000 + rng.integers(0, max(rows // 20, 1), rows)


def call(
    function: str,
    argument: int | None = None,
    kind: lt.LogicalType = _LONG,
    filter_index: int | None = None,
    **more: Any,
) -> AggregateCall:
    name = f"{function}-{argument}-{filter_index}-{more}"
    return AggregateCall(
        function, () if argument is None else (argument,), kind, name, filter_index=filter_index, **more
    )


def ranked_counts(argument: int | None, first_rank: int, is_distinct: bool = False) -> list[AggregateCall]:
    filters = (None, *range(first_rank, first_rank + 3))
    return [call("COUNT", argument, filter_index=each, is_distinct=is_distinct) for each in filters]


def info(columns: dict[str, lt.LogicalType]) -> InternalTypeInfo:
    return InternalTypeInfo(lt.RowType(tuple(lt.RowField(name, kind) for name, kind in columns.items())))


def spec_of(kind: Any, columns: Columns, grouping: tuple[int, ...], calls: list[AggregateCall], **more: Any) -> Any:
    types = {name: each for name, (each, _) in columns.items()}
    keys = [list(columns)[position] for position in grouping]
    properties = dict.fromkeys(more.get("properties", ()), _TIME)
    output = info({**{key: types[key] for key in keys}, **{each.name: each.type for each in calls}, **properties})
    selector = () if kind is LocalWindowAggregateSpec else (FieldKeySelector(tuple(keys)),)
    return kind(
        *selector,
        input_types=(info(types),),
        output_type=output,
        grouping=grouping,
        aggregates=tuple(calls),
        **more,
    )


def batches_of(columns: Columns, kinds: np.ndarray | None = None) -> list[Batch]:
    schema = schema_of(info({name: kind for name, (kind, _) in columns.items()}).row_type)
    arrays = [
        values if isinstance(values, pa.Array) else pa.array(values, field.type)
        for (_, values), field in zip(columns.values(), schema)
    ]
    whole = Batch(pa.RecordBatch.from_arrays(arrays, schema=schema), None, kinds)
    starts = range(0, whole.num_rows, BATCH_ROWS)
    return [whole.slice(start, min(BATCH_ROWS, whole.num_rows - start)) for start in starts]


def rate(spec: Any, batches: list[Batch], watermarks: np.ndarray | None, options: dict[str, str]) -> float:
    """Returns millions of rows per second of CPU: the best of three."""
    best = float("inf")
    for _ in range(3):
        environment: Any = Environment([spec])
        environment.configuration = Configuration.from_dict(options)
        operators = OperatorChain(environment, TaskMailbox(), ProcessingTimeService(environment.clock), [])
        operators.open()
        head = operators.head
        start = time.process_time()
        for number, batch in enumerate(batches):
            head.process_batch(batch)
            if watermarks is not None:
                head.process_element(Watermark(int(watermarks[number])))
        head.finish()
        best = min(best, time.process_time() - start)
        operators.close()
        shutil.rmtree(environment.state.directory, ignore_errors=True)
    return sum(batch.num_rows for batch in batches) / best / 1e6


Measurement = tuple[str, Any, list[Batch], np.ndarray | None]


def group_aggregates(bids: Bids) -> Iterator[tuple[str, Callable[[MiniBatch | None], Any], list[Batch]]]:
    def query(
        columns: Columns, grouping: tuple[int, ...], calls: list[AggregateCall], **more: Any
    ) -> Callable[[MiniBatch | None], Any]:
        more = {"needs_retraction": False, "generate_update_before": False, **more}
        return lambda mini_batch: spec_of(GroupAggregateSpec, columns, grouping, calls, mini_batch=mini_batch, **more)

    ranks: Columns = {f"rank{number}": (_FLAG, values) for number, values in enumerate(bids.ranks)}
    q4: Columns = {
        "id": (_LONG, bids.auction),
        "category": (_LONG, 10 + bids.auction % 5),
        "price": (_LONG, bids.price),
    }
    yield "q4 MAX", query(q4, (0, 1), [call("MAX", 2)], generate_update_before=True), batches_of(q4)
    # Each category begins with a row. Then pairs of an old and a new maximum follow.
    pairs = len(bids.ids) // 2 * 2
    kinds = np.tile(np.array([1, 2], dtype=np.int8), pairs // 2)
    category = np.repeat(10 + bids.auction[::2][: pairs // 2] % 5, 2)
    price = np.concatenate([bids.price[:5], bids.price])[: pairs + 5]
    avg: Columns = {"category": (_LONG, np.concatenate([np.arange(10, 15), category])), "final": (_LONG, price)}
    yield (
        "q4 AVG of updates",
        query(avg, (0,), [call("AVG", 1)], needs_retraction=True),
        batches_of(avg, np.concatenate([np.zeros(5, dtype=np.int8), kinds])),
    )
    q15: Columns = {"day": (_TEXT, bids.day), **ranks, "bidder": (_LONG, bids.bidder), "auction": (_LONG, bids.auction)}
    calls = [*ranked_counts(None, 1), *ranked_counts(4, 1, True), *ranked_counts(5, 1, True)]
    yield "q15", query(q15, (0,), calls), batches_of(q15)
    q16: Columns = {"channel": (_TEXT, bids.channel), "day": (_TEXT, bids.day), "minute": (_TEXT, bids.minute), **ranks}
    q16 |= {"bidder": (_LONG, bids.bidder), "auction": (_LONG, bids.auction)}
    calls = [call("MAX", 2, _TEXT), *ranked_counts(None, 3), *ranked_counts(6, 3, True), *ranked_counts(7, 3, True)]
    yield "q16", query(q16, (0, 1), calls), batches_of(q16)
    q17: Columns = {"auction": (_LONG, bids.auction), "day": (_TEXT, bids.day), **ranks, "price": (_LONG, bids.price)}
    calls = [*ranked_counts(None, 2), *(call(function, 5) for function in ("MIN", "MAX", "AVG", "SUM"))]
    yield "q17", query(q17, (0, 1), calls), batches_of(q17)


def windows(bids: Bids) -> Iterator[Measurement]:
    last = np.append(np.arange(BATCH_ROWS, len(bids.ids), BATCH_ROWS), len(bids.ids)) - 1
    watermarks = bids.times_ms[last] - _BEHIND_MS
    bounds = ("window_start", "window_end")
    count, hop = [call("COUNT")], WindowSlices("HOP", 10_000, 2_000, time_column=1)
    tumble = WindowSlices("TUMBLE", 10_000, time_column=1)
    q5: Columns = {"auction": (_LONG, bids.auction), "time": (_TIME, bids.time)}
    q7: Columns = {"price": (_LONG, bids.price), "time": (_TIME, bids.time)}
    q8: Columns = {"id": (_LONG, bids.bidder), "time": (_TIME, bids.time), "name": (_TEXT, bids.channel)}
    q11: Columns = {"bidder": (_LONG, bids.bidder), "time": (_TIME, bids.time)}
    rows5, rows7, rows11 = batches_of(q5), batches_of(q7), batches_of(q11)
    one = WindowAggregateSpec
    yield "q5 HOP, one phase", spec_of(one, q5, (0,), count, window=hop, properties=bounds), rows5, watermarks
    yield "q5 HOP, local phase", spec_of(LocalWindowAggregateSpec, q5, (0,), count, window=hop), rows5, watermarks
    largest = [call("MAX", 0)]
    yield "q7 TUMBLE MAX", spec_of(one, q7, (), largest, window=tumble, properties=bounds), rows7, watermarks
    yield (
        "q8 TUMBLE of keys",
        spec_of(one, q8, (0, 2), [], window=tumble, properties=bounds),
        batches_of(q8),
        watermarks,
    )
    session = WindowSlices("SESSION", 10_000, time_column=1)
    legacy = spec_of(GroupWindowAggregateSpec, q11, (0,), count, window=session, properties=("start", "end"))
    yield "q11 SESSION", legacy, rows11, watermarks
    now = WindowSlices("TUMBLE", 10_000, is_event_time=False, time_column=1)
    yield "q12 TUMBLE of now", spec_of(one, q11, (0,), count, window=now, properties=bounds), rows11, None


def over(bids: Bids) -> Iterator[Measurement]:
    few = len(bids.ids) // 4
    columns: Columns = {
        "id": (_LONG, bids.ids[:few]),
        "seller": (_LONG, bids.seller[:few]),
        "time": (_TIME, bids.time.slice(0, few)),
        "price": (_LONG, bids.price[:few]),
    }
    types = {name: kind for name, (kind, _) in columns.items()}
    window = OverWindow((1,), (SortField(2),), True, -10, 0, (call("AVG", 3),))
    spec = OverAggregateSpec(
        FieldKeySelector(("seller",)),
        input_types=(info(types),),
        output_type=info({**types, "average": _LONG}),
        windows=(window,),
        needs_retraction=True,
    )
    yield "q6 OVER", spec, batches_of(columns), None


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.table_kernels", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_500_000, help="number of bids (default: %(default)s)")
    parser.add_argument("--queries", default="", help="beginnings of names, separated by commas (default: all)")
    parser.add_argument("--rocksdb", action="store_true", help="keep the state in RocksDB")
    parser.add_argument("--numpy", action="store_true", help="do not use compiled kernels")
    arguments = parser.parse_args()
    kernels.is_enabled = not arguments.numpy
    options = {"state.backend.type": "rocksdb"} if arguments.rocksdb else {}
    wanted = tuple(arguments.queries.split(","))
    bids = Bids(arguments.rows)
    print(f"{'M rows/s of CPU':<24}{'per row':>10}{'mini-batch':>12}")
    for name, create, batches in group_aggregates(bids):
        if name.startswith(wanted):
            rates = [rate(create(mini_batch), batches, None, options) for mini_batch in (None, _MINI_BATCH)]
            print(f"{name:<24}{rates[0]:>10.2f}{rates[1]:>12.2f}", flush=True)
    for name, spec, batches, watermarks in (*windows(bids), *over(bids)):
        if name.startswith(wanted):
            print(f"{name:<24}{rate(spec, batches, watermarks, options):>10.2f}", flush=True)


if __name__ == "__main__":
    main()

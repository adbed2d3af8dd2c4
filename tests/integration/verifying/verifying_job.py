"""The verifying job: despite any failure, it commits the same output as a run without failures.

    per-key sequences -> key_by \
              rules -> broadcast -> verify (keyed state, timers, broadcast state) -> key_by -> running total (reducing)
        -> rebalance -> count (union list state) -> two-phase sink

The sequences also go through a sliding window in columns, and the verified records through a tumbling one with a Python
aggregate function; their results are counted and written too.

The input determines every record of the output. A sequence number that is repeated, lost or out of order causes an
unexpected record.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path

from flinkpy.common import Duration, Time, Types, WatermarkStrategy
from flinkpy.common.watermark_strategy import TimestampAssigner
from flinkpy.datastream import (
    AggregateFunction,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
)
from flinkpy.datastream.aggregates import sum_
from flinkpy.datastream.checkpointed_function import CheckpointedFunction, CheckpointListener
from flinkpy.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from flinkpy.datastream.window import SlidingEventTimeWindows, TumblingEventTimeWindows
from verifying.faults import Faults
from verifying.sequence_source import SequencePerKeySource
from verifying.two_phase_sink import TwoPhaseSink

RULES = ((1, 10), (2, 20), (3, 30))
RULES_SUM = sum(value for _, value in RULES)
TIMER_EVERY = 10
TUMBLING_SIZE = 25
SLIDING_SIZE, SLIDING_SLIDE = 20, 10
RULES_STATE = MapStateDescriptor("rules", Types.LONG(), Types.LONG())
RECORD = Types.TUPLE([Types.LONG(), Types.LONG()])
OUTPUT = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG(), Types.LONG()])


def expected_output(keys: int, records_per_key: int) -> Counter[tuple[str, int, int, int]]:
    """Returns the output that every run of the job commits."""
    records = Counter(
        ("record", key, number, number * (number + 1) // 2) for key in range(keys) for number in range(records_per_key)
    )
    for kind, size, slide in (("tumbling", TUMBLING_SIZE, TUMBLING_SIZE), ("sliding", SLIDING_SIZE, SLIDING_SLIDE)):
        for start in range(slide - size, records_per_key, slide):
            total = sum(range(max(start, 0), min(start + size, records_per_key)))
            records.update((kind, key, start, total) for key in range(keys))
    records.update(
        ("timer", key, number, RULES_SUM) for key in range(keys) for number in range(0, records_per_key, TIMER_EVERY)
    )
    return records


class NumberAsTime(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class CountInUnionState(MapFunction, CheckpointedFunction, CheckpointListener):
    """Counts the records of all subtasks; a restore must bring back every subtask's count, each once."""

    def __init__(self, faults, total, slow_rate=None, hurry=None):
        self._faults = faults
        self._total = total
        self._slow_rate = slow_rate
        self._hurry = None if hurry is None else str(hurry)
        self._count = 0
        self._index = 0
        self._parallelism = 0

    def open(self, runtime_context):
        self._index = runtime_context.get_index_of_this_subtask()
        self._parallelism = runtime_context.get_number_of_parallel_subtasks()
        self._pause_s = 0.0 if self._slow_rate is None else self._parallelism / self._slow_rate

    def initialize_state(self, context):
        descriptor = ListStateDescriptor("counts", Types.PICKLED_BYTE_ARRAY())
        self._state = context.get_operator_state_store().get_union_list_state(descriptor)
        if not context.is_restored():
            return
        self._faults.hit("restore")
        restored = list(self._state.get())
        owners = [owner for owner, _, _ in restored]
        if sorted(owners) != list(range(restored[0][1])):
            raise AssertionError(f"union list state has the counts of subtasks {owners}")
        seen = sum(count for _, _, count in restored)
        if seen > self._total:
            raise AssertionError(f"{seen} records were counted, there are {self._total}")
        self._restored = seen

    def snapshot_state(self, context):
        self._faults.hit("snapshot")
        self._state.update([(self._index, self._parallelism, self._count)])

    def notify_checkpoint_complete(self, checkpoint_id):
        self._faults.hit("notify")

    def map(self, value):
        self._count += 1
        self._faults.hit("process")
        if self._pause_s:
            time.sleep(self._pause_s)
            if self._count % 50 == 0 and self._hurry is not None and os.path.exists(self._hurry):
                self._pause_s = 0.0
        return value

    def close(self):
        self._faults.hit("close")


class Verify(KeyedBroadcastProcessFunction):
    """Forwards records in the order of their numbers. Any other record becomes an unexpected one."""

    def __init__(self, faults):
        self._faults = faults

    def open(self, runtime_context):
        self._last = runtime_context.get_state(ValueStateDescriptor("last", Types.LONG()))
        self._tens = runtime_context.get_map_state(MapStateDescriptor("tens", Types.LONG(), Types.LONG()))

    def process_element(self, value, ctx):
        key, number = value
        last = self._last.value()
        if number != (0 if last is None else last + 1):
            yield "disorder", key, number, -1 if last is None else last
        self._last.update(number)
        if number % TIMER_EVERY == 0:
            ctx.timer_service().register_event_time_timer(number)
        ten = number // TIMER_EVERY
        self._tens.put(ten, (self._tens.get(ten) or 0) + 1)
        yield "record", key, number, 0

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RULES_STATE).put(value[0], value[1])

    def on_timer(self, timestamp, ctx):
        self._faults.hit("timer")
        rules = dict(ctx.get_broadcast_state(RULES_STATE).items())
        yield "timer", ctx.get_current_key(), timestamp, sum(rules.values())


class SumOfNumbers(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + value[2]

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


class Tumbled(ProcessWindowFunction):
    def process(self, key, context, elements):
        for total in elements:
            yield "tumbling", key, context.window().start, total


class RunningTotal(KeyedProcessFunction):
    def open(self, runtime_context):
        descriptor = ReducingStateDescriptor("total", lambda a, b: a + b, Types.LONG())
        self._total = runtime_context.get_reducing_state(descriptor)

    def process_element(self, value, ctx):
        kind, key, number, extra = value
        if kind == "record":
            self._total.add(number)
            extra = self._total.get()
        yield kind, key, number, extra


def build(
    env: StreamExecutionEnvironment,
    directory: Path,
    faults: Faults,
    *,
    keys: int,
    records_per_key: int,
    rate: int,
    hurry: Path | None = None,
    slow_rate: int | None = None,
) -> None:
    """Adds the job to `env`. It commits its output below `directory`.

    Args:
        rate: the records per second of the source.
        hurry: the file that ends the job; see SequencePerKeySource.
        slow_rate: the records per second that the operators after the source process until `hurry`.
    """
    source = SequencePerKeySource(keys, records_per_key, rate, hurry)
    # The bound covers the drift between keys in the source. Timers may fire late, but never wrongly.
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(records_per_key))
    records = env.from_source(source, strategy.with_timestamp_assigner(NumberAsTime()), "sequences", RECORD)
    rules = env.from_collection(list(RULES), RECORD).uid("rules").set_parallelism(1).broadcast(RULES_STATE)
    keyed = records.uid("sequences").key_by(lambda record: record[0], Types.LONG())
    verified = keyed.connect(rules).process(Verify(faults), OUTPUT).uid("verify")
    totals = verified.key_by(lambda record: record[1], Types.LONG()).process(RunningTotal(), OUTPUT).uid("total")
    tumbled = (
        verified.filter(lambda record: record[0] == "record")
        .key_by(lambda record: record[1], Types.LONG())
        .window(TumblingEventTimeWindows.of(Time.milliseconds(TUMBLING_SIZE)))
        .aggregate(SumOfNumbers(), Tumbled(), output_type=OUTPUT)
        .uid("tumbling")
    )
    slid = (
        records.key_by("f0")
        .window(SlidingEventTimeWindows.of(Time.milliseconds(SLIDING_SIZE), Time.milliseconds(SLIDING_SLIDE)))
        .aggregate(total=sum_("f1"))
        .uid("sliding")
        .map(lambda row: ("sliding", row["f0"], row["window_start"], row["total"]), OUTPUT)
    )
    num_records = expected_output(keys, records_per_key).total()
    results = totals.union(tumbled, slid)
    counted = results.rebalance().map(CountInUnionState(faults, num_records, slow_rate, hurry), OUTPUT).uid("count")
    counted.sink_to(TwoPhaseSink(str(directory), faults)).uid("sink")

"""One program, for PyFlink and for flinkpy: `python program.py PACKAGE CASES.json JAR [KEY=VALUE ...]`.

A case is `{"program": NAME, "parameters": {...}, "records": [[key, value, timestamp, watermark or null], ...]}`. The
watermark behind a record is part of the record, so that event time is the same in both engines, record by record.
The program prints JSON lines `[case, tag, key, payload]`. Lines with the same case, tag and key are in order of output.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any

PACKAGE = sys.argv[1]
common = importlib.import_module(f"{PACKAGE}.common")
datastream = importlib.import_module(f"{PACKAGE}.datastream")
functions = importlib.import_module(f"{PACKAGE}.datastream.functions")
state = importlib.import_module(f"{PACKAGE}.datastream.state")
window = importlib.import_module(f"{PACKAGE}.datastream.window")

Types = common.Types
Time = common.Time
FIELDS = ["key", "value", "time", "watermark"]


def record_type() -> Any:
    """Returns a new type each time, because PyFlink cannot pickle a type that it has translated to Java."""
    return Types.ROW_NAMED(FIELDS, [Types.STRING(), Types.LONG(), Types.LONG(), Types.LONG()])


LATE = datastream.OutputTag("late")
ODD = datastream.OutputTag("odd", Types.STRING())


def text(case: int, tag: str, key: str, payload: Any) -> str:
    return json.dumps([case, tag, key, payload])


# -- functions -----------------------------------------------------------------------------------------------------


class Add(datastream.ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        return common.Row(value1[0], value1[1] + value2[1], max(value1[2], value2[2]), None)


class SumAndCount(datastream.AggregateFunction):
    def create_accumulator(self) -> Any:
        return (0, 0)

    def add(self, value: Any, accumulator: Any) -> Any:
        return (accumulator[0] + value[1], accumulator[1] + 1)

    def get_result(self, accumulator: Any) -> Any:
        return list(accumulator)

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return (acc_a[0] + acc_b[0], acc_a[1] + acc_b[1])


class Describe(datastream.ProcessWindowFunction):
    """Emits all that a window function can see: the window, its elements, and the state of the key.

    `is_merged`: the window may be the result of a merge. The elements of merged windows come in any order.
    """

    def __init__(self, case: int, is_merged: bool) -> None:
        self.case = case
        self.is_merged = is_merged

    def process(self, key: str, context: Any, elements: Any) -> Any:
        fired = context.global_state().get_state(state.ValueStateDescriptor("fired", Types.LONG()))
        number = (fired.value() or 0) + 1
        fired.update(number)
        span = context.window()
        bounds = [span.start, span.end] if hasattr(span, "start") else str(span)
        values = [element[1] for element in elements]
        if self.is_merged:
            values.sort()
        yield text(self.case, "main", key, [bounds, values, number])

    def clear(self, context: Any) -> None:
        return None


class DescribeTotal(datastream.ProcessWindowFunction):
    """Emits the window and its one accumulated value: the result of an AggregateFunction or a reduced record."""

    def __init__(self, case: int, is_total: bool) -> None:
        self.case = case
        self.is_total = is_total

    def process(self, key: str, context: Any, elements: Any) -> Any:
        span = context.window()
        for element in elements:
            total = list(element) if self.is_total else [element[1], element[2]]
            yield text(self.case, "main", key, [span.start, span.end, total])


class Timers(datastream.KeyedProcessFunction):
    """Registers, moves and deletes event-time timers, and emits what it observes."""

    def __init__(self, case: int, delay: int) -> None:
        self.case = case
        self.delay = delay

    def open(self, runtime_context: Any) -> None:
        self.last = runtime_context.get_state(state.ValueStateDescriptor("last", Types.LONG()))
        self.seen = runtime_context.get_list_state(state.ListStateDescriptor("seen", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        timers = ctx.timer_service()
        previous = self.last.value()
        if previous is not None and value[1] % 3 == 0:
            timers.delete_event_time_timer(previous + self.delay)
        timers.register_event_time_timer(value[2] + self.delay)
        self.last.update(value[2])
        self.seen.add(value[1])
        yield text(self.case, "main", value[0], ["record", value[1], ctx.timestamp(), timers.current_watermark()])

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        seen = list(self.seen.get())
        if len(seen) > 3:
            self.seen.clear()
            # No timer is due when it is set: PyFlink fires such a timer with the next watermark or never. (Flink in
            # Java fires it at once, and so do we.)
            watermark = ctx.timer_service().current_watermark()
            if watermark < 1 << 62:
                ctx.timer_service().register_event_time_timer(max(timestamp + 2 * self.delay, watermark + 1))
        yield text(self.case, "main", ctx.get_current_key(), ["timer", timestamp, ctx.timestamp(), seen])


class SplitOdd(datastream.ProcessFunction):
    def __init__(self, case: int) -> None:
        self.case = case

    def process_element(self, value: Any, ctx: Any) -> Any:
        if value[1] % 2:
            yield ODD, text(self.case, "odd", value[0], [value[1], ctx.timestamp()])
        yield text(self.case, "main", value[0], [value[1], ctx.timestamp()])


class JoinWithin(functions.KeyedCoProcessFunction):
    """Joins records of both sides that are at most `span` apart in event time. Emits them when no more can come."""

    def __init__(self, case: int, span: int) -> None:
        self.case = case
        self.span = span

    def open(self, runtime_context: Any) -> None:
        pickled = Types.PICKLED_BYTE_ARRAY()
        self.left = runtime_context.get_map_state(state.MapStateDescriptor("left", Types.LONG(), pickled))
        self.right = runtime_context.get_map_state(state.MapStateDescriptor("right", Types.LONG(), pickled))

    def keep(self, side: Any, value: Any, ctx: Any) -> Any:
        side.put(value[2], sorted([*(side.get(value[2]) or []), value[1]]))
        ctx.timer_service().register_event_time_timer(value[2] + self.span)
        return []

    def process_element1(self, value: Any, ctx: Any) -> Any:
        return self.keep(self.left, value, ctx)

    def process_element2(self, value: Any, ctx: Any) -> Any:
        return self.keep(self.right, value, ctx)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        time = timestamp - self.span
        for left in self.left.get(time) or []:
            near = {t: v for t, v in self.right.items() if abs(t - time) <= self.span}
            yield text(self.case, "main", ctx.get_current_key(), [time, left, sorted(near.items())])
        # Records older than two spans cannot be close enough any more and are not needed.
        for side in (self.left, self.right):
            for old in [t for t, _ in side.items() if t < time - 2 * self.span]:
                side.remove(old)


class Gap(window.SessionWindowTimeGapExtractor):
    def extract(self, element: Any) -> int:
        return 1 + abs(element[1]) % 5


# -- programs ------------------------------------------------------------------------------------------------------


def as_text(case: int, tag: str) -> Any:
    return lambda value: text(case, tag, value[0], value[1])


def windowed(stream: Any, assigner: Any, parameters: dict[str, Any], trigger: Any = None) -> Any:
    result = stream.key_by(lambda record: record[0], key_type=Types.STRING()).window(assigner)
    if trigger is not None:
        result = result.trigger(trigger)
    if "lateness" in parameters:
        result = result.allowed_lateness(parameters["lateness"])
        if parameters.get("late_output"):
            result = result.side_output_late_data(LATE)
    return result


def assigner_of(parameters: dict[str, Any]) -> Any:
    kind, size = parameters["window"], parameters.get("size")
    if kind == "tumbling":
        return window.TumblingEventTimeWindows.of(
            Time.milliseconds(size), Time.milliseconds(parameters.get("offset", 0))
        )
    if kind == "sliding":
        return window.SlidingEventTimeWindows.of(
            Time.milliseconds(size),
            Time.milliseconds(parameters["slide"]),
            Time.milliseconds(parameters.get("offset", 0)),
        )
    if kind == "session":
        return window.EventTimeSessionWindows.with_gap(Time.milliseconds(size))
    if kind == "dynamic_session":
        return window.EventTimeSessionWindows.with_dynamic_gap(Gap())
    assert kind == "global"
    return window.GlobalWindows.create()


def trigger_of(parameters: dict[str, Any]) -> Any:
    kind = parameters.get("trigger")
    if kind == "purging_event_time":
        return window.PurgingTrigger.of(window.EventTimeTrigger.create())
    if kind == "count":
        return window.CountTrigger.of(parameters["count"])
    if kind == "purging_count":
        return window.PurgingTrigger.of(window.CountTrigger.of(parameters["count"]))
    return None


def with_late(case: int, result: Any, parameters: dict[str, Any]) -> list[Any]:
    """Returns the result of a window and the late records as text. (PyFlink fails if late records have no consumer.)"""
    main = result
    if parameters.get("reduced"):
        main = result.map(lambda r: text(case, "main", r[0], [r[1], r[2]]), Types.STRING())
    if not parameters.get("late_output"):
        return [main]
    late = result.get_side_output(LATE)
    return [main, late.map(lambda r: text(case, "late", r[0], [r[1], r[2]]), Types.STRING())]


def window_process(case: int, stream: Any, parameters: dict[str, Any]) -> list[Any]:
    over = windowed(stream, assigner_of(parameters), parameters, trigger_of(parameters))
    describe = Describe(case, "session" in parameters["window"])
    return with_late(case, over.process(describe, Types.STRING()), parameters)


def window_reduce(case: int, stream: Any, parameters: dict[str, Any]) -> list[Any]:
    over = windowed(stream, assigner_of(parameters), parameters, trigger_of(parameters))
    if parameters.get("reduced"):
        return with_late(case, over.reduce(Add(), output_type=record_type()), parameters)
    return with_late(case, over.reduce(Add(), DescribeTotal(case, False), output_type=Types.STRING()), parameters)


def window_aggregate(case: int, stream: Any, parameters: dict[str, Any]) -> list[Any]:
    over = windowed(stream, assigner_of(parameters), parameters, trigger_of(parameters))
    return with_late(
        case, over.aggregate(SumAndCount(), DescribeTotal(case, True), output_type=Types.STRING()), parameters
    )


def count_window(case: int, stream: Any, parameters: dict[str, Any]) -> list[Any]:
    keyed = stream.key_by(lambda record: record[0], key_type=Types.STRING())
    over = keyed.count_window(parameters["count"], parameters.get("slide", 0))
    return [
        over.reduce(Add(), output_type=record_type()).map(
            lambda r: text(case, "main", r[0], [r[1], r[2]]), Types.STRING()
        )
    ]


def window_all(case: int, stream: Any, parameters: dict[str, Any]) -> list[Any]:
    over = stream.window_all(assigner_of(parameters))
    added = over.reduce(Add(), output_type=record_type())
    return [added.map(lambda r: text(case, "main", "all", [r[1], r[2]]), Types.STRING())]


def rolling_reduce(case: int, stream: Any, parameters: dict[str, Any]) -> list[Any]:
    keyed = stream.key_by(lambda record: record[0], key_type=Types.STRING())
    return [keyed.reduce(Add()).map(lambda r: text(case, "main", r[0], [r[1], r[2]]), Types.STRING())]


def timers(case: int, stream: Any, parameters: dict[str, Any]) -> list[Any]:
    keyed = stream.key_by(lambda record: record[0], key_type=Types.STRING())
    return [keyed.process(Timers(case, parameters["delay"]), Types.STRING())]


def side_outputs(case: int, stream: Any, parameters: dict[str, Any]) -> list[Any]:
    result = stream.process(SplitOdd(case), Types.STRING())
    return [result, result.get_side_output(ODD)]


def join(case: int, stream: Any, parameters: dict[str, Any]) -> list[Any]:
    sides = [stream.filter(lambda record, bit=bit: record[1] % 2 == bit) for bit in (0, 1)]
    left, right = [side.key_by(lambda record: record[0], key_type=Types.STRING()) for side in sides]
    return [left.connect(right).process(JoinWithin(case, parameters["span"]), Types.STRING())]


PROGRAMS = {
    "window_process": window_process,
    "window_reduce": window_reduce,
    "window_aggregate": window_aggregate,
    "count_window": count_window,
    "window_all": window_all,
    "rolling_reduce": rolling_reduce,
    "timers": timers,
    "side_outputs": side_outputs,
    "join": join,
}


# -- the run -------------------------------------------------------------------------------------------------------


def watermark_strategy() -> Any:
    if PACKAGE == "pyflink":
        gateway = importlib.import_module("pyflink.java_gateway").get_gateway()
        importlib.import_module("pyflink.util.java_utils").add_jars_to_context_class_loader([f"file://{sys.argv[3]}"])
        loader = gateway.jvm.Thread.currentThread().getContextClassLoader()
        generator = gateway.jvm.Class.forName("RowWatermarks", True, loader)
        return common.WatermarkStrategy(generator.getDeclaredConstructor(None).newInstance(None))
    from flinkpy.common.watermark_strategy import TimestampAssigner, Watermark, WatermarkGenerator

    class FromField(TimestampAssigner):
        def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
            return value[2]

    class RowWatermarks(WatermarkGenerator):
        def on_event(self, event: Any, event_timestamp: int, output: Any) -> None:
            if event[3] is not None:
                output.emit_watermark(Watermark(event[3]))

        def on_periodic_emit(self, output: Any) -> None:
            return

    strategy = common.WatermarkStrategy.for_generator(RowWatermarks)
    return strategy.with_timestamp_assigner(FromField())


def run(cases: list[tuple[int, dict[str, Any]]]) -> None:
    configuration = common.Configuration()
    for setting in sys.argv[4:]:
        key, _, value = setting.partition("=")
        configuration.set_string(key, value)
    if PACKAGE == "pyflink":
        configuration.set_string("python.execution-mode", "process")
        configuration.set_string("pipeline.jars", f"file://{sys.argv[3]}")
        configuration.set_string("taskmanager.memory.managed.size", "1g")
        # PyFlink holds a watermark back until the end of its bundle. With bundles of one record, event time advances
        # after the same records in both engines.
        configuration.set_string("python.fn-execution.bundle.size", "1")
    env = datastream.StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(1)
    strategy = watermark_strategy()
    streams: list[Any] = []
    for number, case in cases:
        records = [common.Row(*record) for record in case["records"]]
        source = env.from_collection(records, record_type()).assign_timestamps_and_watermarks(strategy)
        streams += PROGRAMS[case["program"]](number, source, case["parameters"])
    result = streams[0].union(*streams[1:]) if len(streams) > 1 else streams[0]
    with result.execute_and_collect() as lines:
        for line in lines:
            print(line, flush=True)


def main() -> None:
    with open(sys.argv[2]) as file:
        cases = list(enumerate(json.load(file)))
    per_job = 10 if PACKAGE == "pyflink" else len(cases)
    for start in range(0, len(cases), per_job):
        run(cases[start : start + per_job])


if __name__ == "__main__":
    main()

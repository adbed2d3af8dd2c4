"""CoGroupOperator: window joins and co-groups."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from joined_subtasks import BACKENDS, JoinedSubtasks

from flinkpy.common import Time, Types
from flinkpy.common.errors import FunctionError
from flinkpy.datastream import StreamExecutionEnvironment
from flinkpy.datastream.functions import CoGroupFunction, FlatJoinFunction, JoinFunction
from flinkpy.datastream.window import (
    CountTrigger,
    EventTimeSessionWindows,
    Evictor,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from flinkpy.graph.operator_specs import CoGroupSpec
from flinkpy.records.batch import Batch

RECORD = Types.TUPLE([Types.STRING(), Types.LONG()])


class Both(CoGroupFunction):
    def co_group(self, first: list[Any], second: list[Any]) -> Any:
        yield sorted(value for _, value in first), sorted(value for _, value in second)


class Sums(FlatJoinFunction):
    def join(self, first: Any, second: Any) -> Any:
        if (first[1] + second[1]) % 2 == 0:
            yield first[1] + second[1]
            yield -first[1] - second[1]


class Pairs(JoinFunction):
    def join(self, first: Any, second: Any) -> Any:
        return first[1], second[1]


def paired_spec(build: Any) -> CoGroupSpec:
    """`build(first, second)` makes the operation."""
    env = StreamExecutionEnvironment.get_execution_environment()
    first, second = (env.from_collection([], RECORD) for _ in range(2))
    spec = build(first, second).transformation.spec
    assert isinstance(spec, CoGroupSpec)
    return spec


def window_join(function: Any, assigner: Any, *, join: bool = True, **settings: Any) -> JoinedSubtasks:
    def build(first: Any, second: Any) -> Any:
        paired = first.join(second) if join else first.co_group(second)
        windows = paired.where(lambda record: record[0]).equal_to(lambda record: record[0]).window(assigner)
        for name, value in settings.items():
            windows = getattr(windows, name)(value)
        return windows.apply(function)

    return JoinedSubtasks(paired_spec(build))


TEN = TumblingEventTimeWindows.of(Time.milliseconds(10))


def test_a_join_emits_every_pair_of_a_key_and_window_with_its_maximum_timestamp() -> None:
    run = window_join(Pairs(), TEN)
    run.process(0, [("a", 1), ("a", 2), ("b", 3), ("a", 11)], [1, 2, 3, 11])
    run.process(1, [("a", 5), ("b", 9), ("c", 7), ("a", 12), ("a", 13)], [5, 9, 7, 12, 13])
    run.watermark(9)
    assert sorted(run.results) == [((1, 5), 9), ((2, 5), 9), ((3, 9), 9)]
    run.watermark(100)
    run.close()
    assert sorted(run.results)[3:] == [((11, 12), 19), ((11, 13), 19)]


def test_a_join_accepts_a_plain_callable() -> None:
    run = window_join(lambda first, second: first[1] * second[1], TEN)
    run.process(0, [("a", 2)], [1])
    run.process(1, [("a", 5)], [5])
    run.watermark(9)
    run.close()
    assert run.results == [(10, 9)]


def test_a_flat_join_emits_any_number_of_results_per_pair() -> None:
    run = window_join(Sums(), TEN)
    run.process(0, [("a", 2), ("a", 3)], [1, 1])
    run.process(1, [("a", 5)], [5])
    run.watermark(9)
    run.close()
    assert sorted(run.results) == [(-8, 9), (8, 9)]


def test_a_co_group_is_called_even_if_one_side_is_empty() -> None:
    run = window_join(Both(), TEN, join=False)
    run.process(0, [("a", 2), ("b", 3)], [1, 1])
    run.process(1, [("a", 5), ("c", 6), ("a", 7)], [5, 5, 5])
    run.watermark(9)
    run.close()
    assert sorted(run.results) == [(([], [6]), 9), (([2], [5, 7]), 9), (([3], []), 9)]


def test_records_of_both_sides_form_one_session() -> None:
    run = window_join(Both(), EventTimeSessionWindows.with_gap(Time.milliseconds(5)), join=False)
    run.process(0, [("a", 1), ("a", 9)], [1, 9])
    run.process(1, [("a", 5), ("a", 20)], [5, 20])
    run.watermark(100)
    run.close()
    assert sorted(run.results) == [(([], [20]), 24), (([1, 9], [5]), 13)]


def test_sliding_windows_join_a_pair_once_per_common_window() -> None:
    run = window_join(Pairs(), SlidingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(5)))
    run.process(0, [("a", 1)], [7])
    run.process(1, [("a", 2), ("a", 3)], [3, 8])
    run.watermark(100)
    run.close()
    assert sorted(run.results) == [((1, 2), 9), ((1, 3), 9), ((1, 3), 14)]


def test_a_trigger_counts_the_records_of_both_sides() -> None:
    run = window_join(Both(), TEN, join=False, trigger=CountTrigger.of(3))
    run.process(0, [("a", 1)], [1])
    run.process(1, [("a", 2), ("a", 3), ("a", 4)], [2, 3, 4])
    run.close()
    assert run.results == [(([1], [2, 3]), 9)]


def test_an_evictor_sees_the_side_of_a_record() -> None:
    class DropFirstSide(Evictor):
        def evict_before(self, elements: list[Any], size: int, window: Any, evictor_context: Any) -> None:
            elements[:] = [element for element in elements if element.value[0] == 1]

        def evict_after(self, elements: list[Any], size: int, window: Any, evictor_context: Any) -> None:
            return

    run = window_join(Both(), TEN, join=False, evictor=DropFirstSide())
    run.process(0, [("a", 1)], [1])
    run.process(1, [("a", 2)], [2])
    run.watermark(9)
    run.close()
    assert run.results == [(([], [2]), 9)]


def test_a_record_within_the_allowed_lateness_fires_the_window_again_and_a_later_one_is_dropped() -> None:
    run = window_join(Both(), TEN, join=False, allowed_lateness=Time.milliseconds(20))
    run.process(0, [("a", 1)], [1])
    run.watermark(9)
    run.process(1, [("a", 2)], [2])
    run.watermark(40)
    run.process(1, [("a", 3)], [2])
    (operator,) = run.operators
    run.close()
    assert run.results == [(([1], []), 9), (([1], [2]), 9)]
    assert operator.context.metrics.counter("numLateRecordsDropped").get_count() == 1


def test_columns_of_both_sides_are_joined_as_rows() -> None:
    run = window_join(Pairs(), TEN)
    (operator,) = run.operators
    columns = pa.record_batch({"f0": ["a", "b"], "f1": pa.array([1, 2], pa.int64())})
    times = pa.array([1, 2], pa.int64()).to_numpy()
    operator.process_batch(Batch(columns, times), 0)
    operator.process_batch(Batch(columns, times), 1)
    run.watermark(9)
    run.close()
    assert sorted(run.results) == [((1, 1), 9), ((2, 2), 9)]


@pytest.mark.parametrize("before", BACKENDS)
@pytest.mark.parametrize("after", BACKENDS)
def test_windows_continue_after_a_restore_with_another_parallelism_and_backend(before: str, after: str) -> None:
    def build(first: Any, second: Any) -> Any:
        return first.co_group(second).where("f0").equal_to("f0").window(TEN).apply(Both())

    keys = [f"key {number}" for number in range(20)]
    run = JoinedSubtasks(paired_spec(build), before, 2)
    run.process(0, [(key, 1) for key in keys], [1] * 20)
    run = run.restored(3, after)
    run.process(1, [(key, 2) for key in keys], [2] * 20)
    run = run.restored(1, before)
    run.watermark(9)
    assert run.results == [(([1], [2]), 9)] * 20
    run.close()


def test_functions_are_opened_and_closed_and_their_errors_name_the_operator() -> None:
    log: list[str] = []

    class Logging(JoinFunction):
        def open(self, runtime_context: Any) -> None:
            log.append(f"open {runtime_context.get_index_of_this_subtask()}")

        def close(self) -> None:
            log.append("close")

        def join(self, first: Any, second: Any) -> Any:
            raise ValueError("does not fit")

        def __reduce__(self) -> Any:
            return Pairs, ()

    run = window_join(Logging(), TEN)
    run.process(0, [("a", 1)], [1])
    run.process(1, [("a", 1)], [1])
    with pytest.raises(FunctionError, match="operator join: ValueError: does not fit"):
        run.watermark(9)
    run.close()
    assert log == ["open 0", "close"]

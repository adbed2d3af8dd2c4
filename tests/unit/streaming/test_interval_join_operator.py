"""IntervalJoinOperator: the pairs, the removal of old records, and late records."""

from __future__ import annotations

from typing import Any

import pytest
from joined_subtasks import BACKENDS, JoinedSubtasks

from flinkpy.common.errors import FunctionError
from flinkpy.common.typeinfo import Types
from flinkpy.datastream.functions import KeySelectorFunctionWrapper, ProcessJoinFunction
from flinkpy.datastream.output_tag import OutputTag
from flinkpy.graph.operator_specs import IntervalJoinSpec

LEFT_LATE, RIGHT_LATE, ODD = "left-late", "right-late", "odd"
MAX_WATERMARK = (1 << 63) - 1


class Pair(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Any:
        yield left[1], right[1], ctx.get_left_timestamp(), ctx.get_right_timestamp(), ctx.get_timestamp()
        if right[1] == "odd":
            yield OutputTag(ODD, Types.STRING()), left[1]


def interval_spec(lower: int, upper: int, function: Any = None) -> IntervalJoinSpec:
    key = KeySelectorFunctionWrapper(lambda record: record[0])
    return IntervalJoinSpec(
        (key, key), function or Pair(), lower, upper, LEFT_LATE, RIGHT_LATE, key_type=Types.STRING()
    )


def joined(lower: int, upper: int, backend: str = "hashmap") -> JoinedSubtasks:
    return JoinedSubtasks(interval_spec(lower, upper), backend, side_tags=(LEFT_LATE, RIGHT_LATE, ODD))


@pytest.mark.parametrize("backend", BACKENDS)
def test_records_of_one_key_join_if_their_times_are_within_the_bounds(backend: str) -> None:
    run = joined(-1, 2, backend)
    run.process(0, [("a", "l5"), ("b", "l6")], [5, 6])
    run.process(1, [("a", f"r{time}") for time in range(3, 9)], list(range(3, 9)))
    run.process(0, [("a", "late comer")], [8])
    run.close()
    pairs = [(left, right) for (left, right, *_), _ in run.results]
    assert pairs == [("l5", "r4"), ("l5", "r5"), ("l5", "r6"), ("l5", "r7"), ("late comer", "r7"), ("late comer", "r8")]


def test_a_result_has_the_later_timestamp_and_the_function_sees_both() -> None:
    run = joined(-10, 10)
    run.process(0, [("a", "l")], [5])
    run.process(1, [("a", "r"), ("a", "s")], [3, 9])
    run.close()
    assert run.results == [(("l", "r", 5, 3, 5), 5), (("l", "s", 5, 9, 9), 9)]


def test_the_function_may_emit_to_side_outputs() -> None:
    run = joined(0, 0)
    run.process(0, [("a", "l")], [5])
    run.process(1, [("a", "odd")], [5])
    run.close()
    assert run.side_results(ODD) == [("l", 5)]
    assert len(run.results) == 1


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("lower", "upper", "left_until", "right_until"),
    [(-1, 2, 12, 11), (3, 5, 15, 10), (-5, -3, 10, 15), (0, 0, 10, 10)],
)
def test_a_record_is_removed_when_no_partner_can_arrive_any_more(
    backend: str, lower: int, upper: int, left_until: int, right_until: int
) -> None:
    run = joined(lower, upper, backend)
    (operator,) = run.operators
    run.process(0, [("a", "l")], [10])
    run.process(1, [("a", "r")], [10])
    for watermark in range(9, 18):
        run.watermark(watermark)
        operator.key_context.key = "a"
        for side, last in zip(operator._sides, (left_until, right_until)):
            assert len(side.between(0, 100, watermark)) == (0 if watermark >= last else 1)
            # The records of a bucket are removed together.
            stretch_ms = max(1, (upper - lower) // 4)
            assert side.buffer.is_empty() or watermark < last + stretch_ms
            assert len(side.expiry) == (0 if side.buffer.is_empty() else 1)
    run.close()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_record_searches_only_the_buckets_near_it(backend: str) -> None:
    run = joined(-20, 20, backend)
    (operator,) = run.operators
    times = list(range(0, 100_000, 10))
    run.process(1, [("a", time) for time in times], times)
    looked_at: list[int] = []
    right = operator._sides[1]
    get = right.buffer.get

    class Noting:
        def get(self, number: int) -> Any:
            found = get(number)
            looked_at.append(0 if found is None else len(found))
            return found

        def put(self, number: int, records: Any) -> None:
            raise AssertionError("nothing comes from this side")

    right.buffer = Noting()
    run.process(0, [("a", "l")], [50_000])
    assert [right_number for (_, right_number, *_), _ in run.results] == [49_980, 49_990, 50_000, 50_010, 50_020]
    assert sum(looked_at) <= 6
    run.close()


def test_late_records_join_nothing_and_go_to_their_side_output() -> None:
    run = joined(-100, 100)
    run.process(0, [("a", "l")], [50])
    run.watermark(40)
    run.process(1, [("a", "late"), ("a", "just")], [39, 40])
    run.process(0, [("a", "late too")], [1])
    run.close()
    assert [(left, right) for (left, right, *_), _ in run.results] == [("l", "just")]
    assert run.side_results(RIGHT_LATE) == [(("a", "late"), 39)]
    assert run.side_results(LEFT_LATE) == [(("a", "late too"), 1)]


def test_late_records_without_a_side_output_are_counted() -> None:
    spec = interval_spec(0, 0)
    run = JoinedSubtasks(IntervalJoinSpec(spec.key_selectors, spec.function, 0, 0))
    run.watermark(40)
    run.process(1, [("a", "late"), ("b", "late")], [1, 39])
    (operator,) = run.operators
    run.close()
    assert operator.context.metrics.counter("numLateRecordsDropped").get_count() == 2


def test_records_without_a_timestamp_are_refused() -> None:
    run = joined(0, 0)
    with pytest.raises(FunctionError, match="need timestamps: call assign_timestamps_and_watermarks"):
        run.process(0, [("a", "l")], None)
    run.close()


def test_an_exception_of_the_function_names_the_operator_and_shows_the_users_code() -> None:
    class Failing(ProcessJoinFunction):
        def process_element(self, left: Any, right: Any, ctx: Any) -> Any:
            raise ValueError("no such pair")

    run = JoinedSubtasks(interval_spec(0, 0, Failing()))
    run.process(0, [("a", "l")], [5])
    with pytest.raises(FunctionError, match="operator join: ValueError: no such pair"):
        run.process(1, [("a", "r")], [5])
    run.close()


@pytest.mark.parametrize("before", BACKENDS)
@pytest.mark.parametrize("after", BACKENDS)
def test_kept_records_survive_a_restore_with_another_parallelism_and_backend(before: str, after: str) -> None:
    run = JoinedSubtasks(interval_spec(0, 5), before, 2, (LEFT_LATE, RIGHT_LATE, ODD))
    keys = [f"key {number}" for number in range(20)]
    run.process(0, [(key, f"l {key}") for key in keys], [10] * 20)
    run = run.restored(3, after)
    run.watermark(10)
    run.process(1, [(key, f"r {key}") for key in keys], [15] * 20)
    assert sorted(record[:2] for record, _ in run.results) == sorted((f"l {key}", f"r {key}") for key in keys)
    run.watermark(15)
    for operator in run.operators:
        assert [len(side.expiry) for side in operator._sides] == [0, 0]
    run.close()

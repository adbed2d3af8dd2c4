"""AsyncWaitOperator: order, capacity, timeouts, retries, failures."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from async_functions_for_tests import AsyncHarness, Gated

from flinkpy.common import Types
from flinkpy.common.errors import FunctionError
from flinkpy.datastream.async_retry_predicates import empty_result_predicate, has_exception_predicate
from flinkpy.functions.async_functions import AsyncFunction, AsyncRetryStrategy
from flinkpy.records.batch import Batch
from flinkpy.records.elements import Watermark, WatermarkStatus
from flinkpy.streaming.async_io.async_wait_operator import MAX_WAITING_ROWS


class Doubling(AsyncFunction):
    async def async_invoke(self, value: int) -> list[int]:
        return [value * 2]


@pytest.fixture
def opened() -> Iterator[list[AsyncHarness]]:
    harnesses: list[AsyncHarness] = []
    yield harnesses
    for harness in harnesses:
        harness.operator.close()


def open_harness(opened: list[AsyncHarness], function: AsyncFunction, **settings: Any) -> AsyncHarness:
    harness = AsyncHarness(function, **settings)
    opened.append(harness)
    return harness


class TestRoom:
    """Batches of 1,000 come for as long as the operator takes them; its capacity is 10."""

    def fill(self, harness: AsyncHarness, first: int = 0) -> int:
        rows = 0
        while harness.operator.is_writable:
            harness.process(list(range(first + rows, first + rows + 1000)))
            rows += 1000
        return rows

    def test_the_waiting_room_grows_if_calls_finish_before_the_next_batch(self, opened: Any) -> None:
        harness = open_harness(opened, Doubling(), ordered=True, capacity=10)
        assert self.fill(harness) == 2000
        harness.drain()
        most = 0
        while most < MAX_WAITING_ROWS:
            most = max(most, self.fill(harness))
            harness.drain()
        for _ in range(10):
            assert self.fill(harness) <= 10 + MAX_WAITING_ROWS + 1000
            harness.drain()

    def test_the_waiting_room_stays_small_if_calls_are_slow(self, opened: Any) -> None:
        function = Gated()
        harness = open_harness(opened, function, ordered=True, capacity=10)
        for first in (0, 2000, 4000):
            assert self.fill(harness, first) == 2000
            function.let(*range(first, first + 1999))
            harness.run_until(lambda first=first: len(harness.output.rows) == first + 1999)
            function.let(first + 1999)
            harness.drain()


class TestOrder:
    def test_ordered_results_keep_the_order_of_the_records(self, opened: Any) -> None:
        function = Gated()
        harness = open_harness(opened, function, ordered=True)
        harness.process([1, 2, 3])
        function.wait_until(lambda: len(function.started) == 3)
        function.let(3, 2)
        function.let(1)
        assert harness.drain() == [10, 20, 30]

    def test_unordered_results_come_as_soon_as_they_are_ready(self, opened: Any) -> None:
        function = Gated()
        harness = open_harness(opened, function)
        harness.process([1, 2, 3])
        function.let(3)
        harness.run_until(lambda: harness.output.rows == [30])
        function.let(1)
        harness.run_until(lambda: harness.output.rows == [30, 10])
        function.let(2)
        assert harness.drain() == [30, 10, 20]

    @pytest.mark.parametrize("ordered", [True, False])
    def test_results_and_watermarks_do_not_overtake_each_other(self, opened: Any, ordered: bool) -> None:
        function = Gated()
        harness = open_harness(opened, function, ordered=ordered)
        harness.process([1, 2], [1, 2])
        harness.watermark(2)
        harness.process([3], [3])
        harness.watermark(3)
        function.wait_until(lambda: len(function.started) == 3)
        function.let(3, 2, 1)
        harness.drain()
        kinds = [item.timestamp if isinstance(item, Watermark) else "rows" for item in harness.output.items]
        assert [kind for kind, before in zip(kinds, [None, *kinds]) if kind != before] == ["rows", 2, "rows", 3]
        assert sorted(harness.output.rows[:2]) == [10, 20]
        assert harness.output.rows[2:] == [30]

    def test_a_watermark_without_waiting_records_passes_at_once(self, opened: Any) -> None:
        harness = open_harness(opened, Gated())
        harness.watermark(7)
        assert harness.output.items == [Watermark(7)]

    @pytest.mark.parametrize("ordered", [True, False])
    def test_consecutive_waiting_watermarks_collapse_to_the_last_one(self, opened: Any, ordered: bool) -> None:
        function = Gated()
        harness = open_harness(opened, function, ordered=ordered)
        harness.process([1], [1])
        for timestamp in range(2, 50):
            harness.watermark(timestamp)
        function.let(1)
        harness.run_until(lambda: bool(harness.output.elements) and harness.output.elements[-1] == Watermark(49))
        assert harness.operator.is_drained

    @pytest.mark.parametrize("ordered", [True, False])
    def test_idleness_keeps_its_place_between_the_records(self, opened: Any, ordered: bool) -> None:
        function = Gated()
        harness = open_harness(opened, function, ordered=ordered)
        harness.process([1])
        harness.operator.process_element(WatermarkStatus(is_idle=True))
        harness.process([2])
        function.let(2, 1)
        harness.drain()
        assert [item if not isinstance(item, Batch) else item.values for item in harness.output.items] == [
            [10],
            WatermarkStatus(is_idle=True),
            [20],
        ]


class TestRecords:
    def test_a_record_may_have_any_number_of_results_and_each_has_its_timestamp(self, opened: Any) -> None:
        class Repeating(AsyncFunction):
            async def async_invoke(self, value: int) -> list[int]:
                return [value] * value

        harness = open_harness(opened, Repeating(), ordered=True)
        harness.process([2, 0, 3], [20, 0, 30])
        assert harness.drain() == [2, 2, 3, 3, 3]
        assert harness.output.timestamps == [20, 20, 30, 30, 30]

    def test_records_with_and_without_timestamps_may_be_mixed(self, opened: Any) -> None:
        harness = open_harness(opened, Doubling(), ordered=True)
        harness.process([1, 2], [5, 6])
        harness.process([3])
        harness.process([4], [7])
        assert harness.drain() == [2, 4, 6, 8]
        assert harness.output.timestamps == [5, 6, None, 7]

    def test_columns_reach_the_function_as_python_objects(self, opened: Any) -> None:
        harness = open_harness(opened, Doubling(), ordered=True, input_types=(Types.LONG(),))
        harness.process(pa.record_batch({"f0": pa.array([1, 2, 3], pa.int64())}))
        assert harness.drain() == [2, 4, 6]

    @pytest.mark.parametrize("ordered", [True, False])
    def test_every_record_of_many_batches_has_its_results_once(self, opened: Any, ordered: bool) -> None:
        class Uneven(AsyncFunction):
            async def async_invoke(self, value: int) -> list[int]:
                for _ in range(value % 4):
                    await asyncio.sleep(0)
                return [value]

        harness = open_harness(opened, Uneven(), ordered=ordered, capacity=7)
        for begin in range(0, 6000, 500):
            harness.run_until(lambda: harness.operator.is_writable)
            harness.process(list(range(begin, begin + 500)))
        rows = harness.drain()
        assert sorted(rows) == list(range(6000))
        assert not ordered or rows == sorted(rows)


class TestCallsThatWaitForNothing:
    """Calls that finish at once are accounted for together, which must not change the behaviour of any of them."""

    class Mixed(AsyncFunction):
        """Waits until `let` for every third record, and returns the results of the others at once."""

        def __init__(self) -> None:
            self.gated = Gated()

        def __reduce__(self) -> Any:
            return type(self), ()

        async def async_invoke(self, value: int) -> list[int]:
            if value % 3 == 2:
                return await self.gated.async_invoke(value)
            return [value * 10] * (value % 3)

    @pytest.mark.parametrize("capacity", [1, 2, 100])
    def test_results_before_a_waiting_call_are_emitted(self, opened: Any, capacity: int) -> None:
        function = self.Mixed()
        harness = open_harness(opened, function, ordered=True, capacity=capacity)
        harness.process([0, 1, 2, 3, 4, 5], [5, 6, 7, 8, 9, 10])
        harness.run_until(lambda: harness.output.rows == [10])
        function.gated.let(2)
        harness.run_until(lambda: harness.output.rows == [10, 20, 40])
        function.gated.let(5)
        assert harness.drain() == [10, 20, 40, 50]
        assert harness.output.timestamps == [6, 7, 9, 10]

    def test_unordered_results_have_the_timestamps_of_their_records(self, opened: Any) -> None:
        function = self.Mixed()
        harness = open_harness(opened, function)
        harness.process([0, 1, 2, 3, 4, 5, 6, 7], [0, 1, 2, 3, 4, 5, 6, 7])
        harness.run_until(lambda: harness.output.rows == [10, 40, 70])
        function.gated.let(5)
        harness.run_until(lambda: len(harness.output.rows) == 4)
        function.gated.let(2)
        assert harness.drain() == [10, 40, 70, 50, 20]
        assert harness.output.timestamps == [1, 4, 7, 5, 2]

    @pytest.mark.parametrize("ordered", [True, False])
    def test_a_checkpoint_contains_only_waiting_records(self, opened: Any, ordered: bool) -> None:
        function = self.Mixed()
        harness = open_harness(opened, function, ordered=ordered)
        harness.process([1, 4, 2, 7], [1, 4, 2, 7])
        emitted = [10, 40] if ordered else [10, 40, 70]
        harness.run_until(lambda: harness.output.rows == emitted)
        left = [value for rows, _ in harness.operator._unfinished_records() for value in rows]
        assert left == ([2, 7] if ordered else [2])
        function.gated.let(2)
        harness.drain()

    def test_a_waiting_call_after_fast_ones_times_out_alone(self, opened: Any) -> None:
        class Patient(self.Mixed):  # type: ignore[name-defined, misc]
            def timeout(self, value: int) -> list[str]:
                return [f"late {value}"]

        harness = open_harness(opened, Patient(), ordered=True, timeout_ms=20)
        harness.process([1, 4, 2, 7])
        assert harness.drain() == [10, 40, "late 2", 70]

    @pytest.mark.parametrize("waits", [False, True])
    def test_a_failing_call_after_fast_ones_names_its_own_record(self, opened: Any, waits: bool) -> None:
        class Failing(AsyncFunction):
            async def async_invoke(self, value: str) -> list[str]:
                if value == "bad":
                    if waits:
                        await asyncio.sleep(0)
                    raise ValueError("no good")
                return [value]

        harness = open_harness(opened, Failing(), ordered=True)
        harness.process(["first", "second", "bad", "last"])
        with pytest.raises(FunctionError) as failure:
            harness.drain()
        assert "during handling input 'bad'" in failure.value.remote_traceback
        assert 'raise ValueError("no good")' in failure.value.remote_traceback

    def test_every_call_runs_in_a_task_and_may_use_its_own_timeout(self, opened: Any) -> None:
        class Limiting(AsyncFunction):
            async def async_invoke(self, value: int) -> list[Any]:
                assert asyncio.current_task() is not None
                try:
                    async with asyncio.timeout(0 if value % 2 else 60):
                        await asyncio.sleep(3600 if value % 2 else 0)
                except TimeoutError:
                    return [value, "late"]
                return [value]

        harness = open_harness(opened, Limiting(), ordered=True)
        harness.process([0, 1, 2, 3])
        assert harness.drain() == [0, 1, "late", 2, 3, "late"]

    def test_a_successful_first_attempt_is_not_retried(self, opened: Any) -> None:
        calls: list[int] = []

        class Counting(AsyncFunction):
            def __reduce__(self) -> Any:
                return type(self), ()

            async def async_invoke(self, value: int) -> list[int]:
                calls.append(value)
                return [] if calls.count(value) < value else [value]

        strategy = AsyncRetryStrategy.fixed_delay(3, 1, empty_result_predicate, has_exception_predicate)
        harness = open_harness(opened, Counting(), ordered=True, timeout_ms=60_000, retry=strategy)
        harness.process([1, 1, 3, 1, 2])
        assert harness.drain() == [1, 1, 3, 1, 2]
        assert sorted(calls) == [1, 1, 1, 2, 2, 3, 3, 3]


class TestCapacity:
    @pytest.mark.parametrize("ordered", [True, False])
    def test_the_number_of_running_calls_stays_within_the_capacity(self, opened: Any, ordered: bool) -> None:
        class Counting(AsyncFunction):
            def __init__(self) -> None:
                self.now = self.most = 0

            async def async_invoke(self, value: int) -> list[int]:
                self.now += 1
                self.most = max(self.most, self.now)
                await asyncio.sleep(0)
                self.now -= 1
                return [value]

        function = Counting()
        harness = open_harness(opened, function, ordered=ordered, capacity=5)
        harness.process(list(range(300)))
        harness.drain()
        assert function.most == 5

    def test_ordered_results_that_wait_for_an_earlier_one_count_towards_the_capacity(self, opened: Any) -> None:
        function = Gated()
        harness = open_harness(opened, function, ordered=True, capacity=3)
        function.let(*range(1, 10))
        harness.process(list(range(10)))
        function.wait_until(lambda: len(function.started) == 3)
        harness.run_mails()
        assert function.started == [0, 1, 2]
        function.let(0)
        assert harness.drain() == [value * 10 for value in range(10)]

    def test_a_full_operator_takes_no_batches_and_wakes_the_task_when_it_has_room(self, opened: Any) -> None:
        function = Gated()
        harness = open_harness(opened, function, capacity=2)
        assert harness.operator.is_writable
        batch = list(range(2000))
        harness.process(batch)
        assert not harness.operator.is_writable
        function.let(*batch)
        harness.run_until(lambda: harness.operator.is_writable)
        harness.drain()


class TestTimeouts:
    def test_a_slow_call_is_canceled_and_timeout_returns_the_results(self, opened: Any) -> None:
        class Patient(Gated):
            def timeout(self, value: Any) -> list[Any]:
                return [("timed out", value)]

        function = Patient()
        harness = open_harness(opened, function, timeout_ms=30, ordered=True)
        function.let(2)
        harness.process([1, 2, 3])
        assert harness.drain() == [("timed out", 1), 20, ("timed out", 3)]
        function.wait_until(lambda: sorted(function.cancelled) == [1, 3])

    def test_a_function_without_timeout_method_fails_and_names_the_record(self, opened: Any) -> None:
        harness = open_harness(opened, Gated(), timeout_ms=20)
        with pytest.raises(FunctionError, match="Async function call has timed out for input: 4"):
            harness.process([4])
            harness.drain()

    def test_a_call_that_ignores_its_cancellation_frees_its_place(self, opened: Any) -> None:
        class Stubborn(AsyncFunction):
            def __init__(self) -> None:
                self.may_end = asyncio.Event()

            async def async_invoke(self, value: int) -> list[int]:
                while value == 0 and not self.may_end.is_set():
                    try:
                        await self.may_end.wait()
                    except asyncio.CancelledError:
                        continue
                if value == 9:
                    self.may_end.set()
                return [value]

            def timeout(self, value: int) -> list[str]:
                return ["late"]

        harness = open_harness(opened, Stubborn(), timeout_ms=20, capacity=1)
        harness.process(list(range(10)))
        assert harness.drain() == ["late", *range(1, 10)]

    def test_a_thousand_concurrent_calls_time_out_once_each(self, opened: Any) -> None:
        class Never(Gated):
            def timeout(self, value: Any) -> list[Any]:
                return [value]

        harness = open_harness(opened, Never(), timeout_ms=50, capacity=1000)
        harness.process(list(range(1000)))
        assert sorted(harness.drain()) == list(range(1000))

    def test_fast_calls_do_not_time_out(self, opened: Any) -> None:
        harness = open_harness(opened, Doubling(), timeout_ms=60_000)
        harness.process([1])
        assert harness.drain() == [2]


class Flaky(AsyncFunction):
    """Fails or returns no result until the attempt that the record names."""

    def __init__(self, *, raises: bool) -> None:
        self.raises = raises
        self.attempts: dict[int, int] = {}

    async def async_invoke(self, value: int) -> list[int]:
        attempt = self.attempts[value] = self.attempts.get(value, 0) + 1
        if attempt < value:
            if self.raises:
                raise ValueError(f"attempt {attempt} of {value}")
            return []
        return [value]


class TestRetries:
    @pytest.mark.parametrize("raises", [True, False])
    def test_a_call_is_retried_while_the_predicate_holds(self, opened: Any, raises: bool) -> None:
        strategy = AsyncRetryStrategy.fixed_delay(5, 1, empty_result_predicate, has_exception_predicate)
        function = Flaky(raises=raises)
        harness = open_harness(opened, function, retry=strategy, timeout_ms=60_000)
        harness.process([1, 2, 3, 4])
        assert sorted(harness.drain()) == [1, 2, 3, 4]
        assert function.attempts == {1: 1, 2: 2, 3: 3, 4: 4}

    def test_the_result_of_the_last_attempt_counts(self, opened: Any) -> None:
        strategy = AsyncRetryStrategy.fixed_delay(2, 1, empty_result_predicate, None)
        function = Flaky(raises=False)
        harness = open_harness(opened, function, retry=strategy, timeout_ms=60_000)
        harness.process([9])
        assert harness.drain() == []
        assert function.attempts == {9: 3}

    def test_the_exception_of_the_last_attempt_fails_the_task(self, opened: Any) -> None:
        strategy = AsyncRetryStrategy.fixed_delay(2, 1, None, has_exception_predicate)
        harness = open_harness(opened, Flaky(raises=True), retry=strategy, timeout_ms=60_000)
        harness.process([9])
        with pytest.raises(FunctionError, match="attempt 3 of 9"):
            harness.drain()

    def test_exceptions_are_not_retried_without_an_exception_predicate(self, opened: Any) -> None:
        strategy = AsyncRetryStrategy.fixed_delay(2, 1, empty_result_predicate, None)
        harness = open_harness(opened, Flaky(raises=True), retry=strategy, timeout_ms=60_000)
        harness.process([9])
        with pytest.raises(FunctionError, match="attempt 1 of 9"):
            harness.drain()

    def test_the_retry_delay_grows_up_to_its_maximum(self) -> None:
        strategy = AsyncRetryStrategy.exponential_backoff(9, 10, 100, 3.0, None, None)
        assert [strategy.get_backoff_time_millis(attempt) for attempt in range(1, 6)] == [10, 30, 90, 100, 100]
        assert strategy.get_backoff_time_millis(5000) == 100
        assert [strategy.can_retry(attempt) for attempt in (1, 9, 10)] == [True, True, False]

    def test_other_records_continue_while_one_waits_for_a_retry(self, opened: Any) -> None:
        strategy = AsyncRetryStrategy.fixed_delay(5, 3_600_000, empty_result_predicate, None)
        harness = open_harness(opened, Flaky(raises=False), retry=strategy, timeout_ms=3_600_000)
        harness.process([2, 1])
        harness.run_until(lambda: harness.output.rows == [1])

    def test_the_timeout_covers_all_attempts_together(self, opened: Any) -> None:
        class Hopeless(Flaky):
            def timeout(self, value: int) -> list[str]:
                return ["gave up"]

        strategy = AsyncRetryStrategy.fixed_delay(1000, 3_600_000, empty_result_predicate, None)
        harness = open_harness(opened, Hopeless(raises=False), retry=strategy, timeout_ms=30)
        harness.process([9])
        assert harness.drain() == ["gave up"]

    @pytest.mark.parametrize("arguments", [(0, 1, None, None), (1, 0, None, None)])
    def test_attempts_and_delays_must_be_positive(self, arguments: Any) -> None:
        with pytest.raises(ValueError, match="should be greater than zero"):
            AsyncRetryStrategy.fixed_delay(*arguments)


class TestFailures:
    def test_an_exception_fails_the_task_with_the_users_own_traceback(self, opened: Any) -> None:
        class Failing(AsyncFunction):
            async def async_invoke(self, value: int) -> list[int]:
                return self.look_up(value)

            def look_up(self, value: int) -> list[int]:
                raise LookupError(f"no {value}")

        harness = open_harness(opened, Failing())
        harness.process([3])
        with pytest.raises(FunctionError, match="LookupError: no 3") as caught:
            harness.drain()
        lines = caught.value.remote_traceback.splitlines()
        assert "in async_invoke" in lines[1]
        assert "in look_up" in caught.value.remote_traceback
        assert "during handling input '3'" in caught.value.remote_traceback

    @pytest.mark.parametrize(
        ("result", "message"),
        [
            (None, "The result of AsyncFunction cannot be none, please check the methods 'async_invoke' and 'timeout'"),
            (7, "The result of AsyncFunction should be of list type, please check the methods 'async_invoke'"),
        ],
    )
    def test_a_result_that_is_not_iterable_fails_the_task(self, opened: Any, result: Any, message: str) -> None:
        class Wrong(AsyncFunction):
            async def async_invoke(self, value: int) -> Any:
                return result

        class WrongOnTimeout(Gated):
            def timeout(self, value: Any) -> Any:
                return result

        for function, timeout_ms in ((Wrong(), 0), (WrongOnTimeout(), 20)):
            harness = open_harness(opened, function, timeout_ms=timeout_ms)
            harness.process([1])
            with pytest.raises(FunctionError, match=message):
                harness.drain()

    def test_a_result_may_be_any_iterable(self, opened: Any) -> None:
        class Iterating(AsyncFunction):
            async def async_invoke(self, value: int) -> Any:
                return (value + step for step in range(2))

        harness = open_harness(opened, Iterating())
        harness.process([5])
        assert harness.drain() == [5, 6]

    def test_an_exception_of_timeout_fails_the_task(self, opened: Any) -> None:
        class Failing(Gated):
            def timeout(self, value: Any) -> Any:
                raise ValueError("raised in timeout")

        harness = open_harness(opened, Failing(), timeout_ms=20)
        harness.process([1])
        with pytest.raises(FunctionError, match="raised in timeout"):
            harness.drain()

    def test_system_exit_in_a_call_fails_the_task(self, opened: Any) -> None:
        class Leaving(AsyncFunction):
            async def async_invoke(self, value: int) -> Any:
                raise SystemExit(3)

        harness = open_harness(opened, Leaving())
        harness.process([1])
        with pytest.raises(FunctionError, match="SystemExit: 3"):
            harness.drain()

    def test_a_function_that_stops_its_loop_fails_the_task(self, opened: Any) -> None:
        class Stopping(AsyncFunction):
            async def async_invoke(self, value: int) -> Any:
                asyncio.get_running_loop().stop()
                await asyncio.sleep(3600)

        class Exiting(AsyncFunction):
            async def async_invoke(self, value: int) -> Any:
                async def leave() -> None:
                    raise SystemExit(4)

                leaving = asyncio.create_task(leave())
                # Otherwise it is logged with a traceback at the place where it is garbage-collected.
                leaving.add_done_callback(asyncio.Task.exception)
                await asyncio.wait([leaving])

        for function, message in ((Stopping(), "has stopped the loop"), (Exiting(), "SystemExit: 4")):
            harness = open_harness(opened, function)
            harness.process([1])
            with pytest.raises(FunctionError, match=message):
                harness.drain()


class TestLife:
    def test_open_runs_before_the_first_call_and_close_after_the_last(self) -> None:
        class Logging(Gated):
            log: list[str] = []

            def open(self, runtime_context: Any) -> None:
                self.log.append(f"open {runtime_context.get_index_of_this_subtask()}")

            async def async_invoke(self, value: Any) -> list[Any]:
                self.log.append("call")
                try:
                    return await super().async_invoke(value)
                finally:
                    self.log.append("call ends")

            def close(self) -> None:
                self.log.append("close")

        function = Logging()
        harness = AsyncHarness(function)
        harness.process([1])
        function.wait_until(lambda: function.started == [1])
        harness.operator.close()
        assert function.log == ["open 0", "call", "call ends", "close"]
        assert function.cancelled == [1]

    def test_open_and_close_may_be_coroutines_which_run_on_the_loop_of_the_calls(self) -> None:
        class WithSession(AsyncFunction):
            def __init__(self) -> None:
                self.log: list[Any] = []

            async def open(self, runtime_context: Any) -> None:  # type: ignore[override]
                await asyncio.sleep(0)
                self.log.append(("open", asyncio.get_running_loop()))

            async def async_invoke(self, value: int) -> list[int]:
                self.log.append(("call", asyncio.get_running_loop()))
                return [value]

            async def close(self) -> None:  # type: ignore[override]
                await asyncio.sleep(0)
                self.log.append(("close", asyncio.get_running_loop()))

        function = WithSession()
        harness = AsyncHarness(function)
        harness.process([1])
        assert harness.drain() == [1]
        harness.operator.close()
        assert [what for what, _ in function.log] == ["open", "call", "close"]
        assert len({loop for _, loop in function.log}) == 1

    def test_an_error_of_open_or_close_on_the_loop_names_the_operator(self) -> None:
        class Failing(AsyncFunction):
            async def open(self, runtime_context: Any) -> None:  # type: ignore[override]
                raise ValueError("cannot open")

            async def async_invoke(self, value: int) -> list[int]:
                return []

        class FailingAtEnd(Doubling):
            async def close(self) -> None:  # type: ignore[override]
                raise ValueError("cannot close")

        with pytest.raises(FunctionError, match="operator AsyncWaitSpec: ValueError: cannot open"):
            AsyncHarness(Failing())
        harness = AsyncHarness(FailingAtEnd())
        with pytest.raises(FunctionError, match="operator AsyncWaitSpec: ValueError: cannot close"):
            harness.operator.close()

    def test_the_loop_and_its_thread_end_with_the_operator(self) -> None:
        before = set(threading.enumerate())
        harness = AsyncHarness(Doubling())
        assert len(set(threading.enumerate()) - before) == 1
        harness.operator.close()
        assert set(threading.enumerate()) == before

    def test_an_operator_whose_open_failed_can_be_closed(self) -> None:
        class Closed(AsyncFunction):
            def open(self, runtime_context: Any) -> None:
                raise ValueError("cannot open")

            async def async_invoke(self, value: int) -> list[int]:
                return []

        before = set(threading.enumerate())
        function = Closed()
        with pytest.raises(FunctionError, match="cannot open"):
            AsyncHarness(function)
        assert set(threading.enumerate()) == before

    def test_a_function_that_never_suspends_does_not_delay_results(self, opened: Any) -> None:
        harness = open_harness(opened, Doubling(), capacity=1)
        harness.process(list(range(100_000)))
        harness.run_until(lambda: len(harness.output.rows) > 0)
        assert len(harness.drain()) == 100_000

    def test_finish_waits_for_records_that_an_earlier_operator_emitted_in_its_finish(self, opened: Any) -> None:
        harness = open_harness(opened, Doubling())
        harness.process([1, 2, 3])
        harness.operator.finish()
        assert sorted(harness.output.rows) == [2, 4, 6]

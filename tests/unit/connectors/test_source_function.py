"""A SourceFunction in its thread: its state in checkpoints, and its end. Threads synchronise by events, not time."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import pytest
from operator_fakes import SourceLife, merged, split_elements

from flinkpy._proto import checkpoint_pb2
from flinkpy.common.errors import FunctionError, TypeMismatchError, UnsupportedOperationError
from flinkpy.common.typeinfo import Types
from flinkpy.common.watermark_strategy import Watermark, WatermarkStrategy
from flinkpy.connector_api.source import Boundedness
from flinkpy.connectors import source_function
from flinkpy.connectors.source_function import CheckpointLock
from flinkpy.datastream.functions import RichSourceFunction, SourceFunction
from flinkpy.datastream.state import ListStateDescriptor
from flinkpy.records import elements
from flinkpy.records.elements import WatermarkStatus
from flinkpy.streaming.mailbox.mailbox_processor import ActionStatus

WAIT_S = 20


class Life(SourceLife):
    """Runs the operator of a function, and waits for its thread where it must."""

    def __init__(self, function: Any, restored: Any = None, **settings: Any) -> None:
        super().__init__(function.to_source(), restored, **settings)
        self.function = function

    def read_to_end(self) -> list[Any]:
        while True:
            status = self.operator.emit_next()
            if status is ActionStatus.END:
                return self.output.rows
            if status is ActionStatus.NOTHING_AVAILABLE:
                self.context.mailbox.wait(WAIT_S)

    def read(self, count: int) -> list[Any]:
        """Reads until there are at least this many rows."""
        while len(self.output.rows) < count:
            if self.operator.emit_next() is not ActionStatus.MORE:
                self.context.mailbox.wait(WAIT_S)
        return self.output.rows


class Cancellable(SourceFunction):
    def __init__(self):
        super().__init__()
        self.cancelled = threading.Event()

    def cancel(self):
        self.cancelled.set()


class Given(Cancellable):
    """Runs the given actions: (method of the context, arguments)."""

    def __init__(self, *calls):
        super().__init__()
        self.calls = calls

    def run(self, ctx):
        for method, *arguments in self.calls:
            getattr(ctx, method)(*arguments)


class Counting(Cancellable):
    """0, 1, 2, ... to `end`; its position is in the checkpoint. At `holds_at` it waits for the test, with the lock."""

    def __init__(self, end, holds_at=None):
        super().__init__()
        self.next, self.restored, self.end = 0, 0, end
        self.holds_at = holds_at
        self.is_holding, self.goes_on = threading.Event(), threading.Event()

    def initialize_state(self, context):
        descriptor = ListStateDescriptor("position", Types.LONG())
        self.position = context.get_operator_state_store().get_list_state(descriptor)
        self.next = self.restored = sum(self.position.get())

    def snapshot_state(self, context):
        self.position.update([self.next])

    def run(self, ctx):
        while self.next < self.end and not self.cancelled.is_set():
            with ctx.get_checkpoint_lock():
                ctx.collect(self.next)
                if self.next == self.holds_at:
                    self.is_holding.set()
                    assert self.goes_on.wait(WAIT_S)
                self.next += 1


def test_records_timestamps_watermarks_and_idleness_come_in_the_order_of_the_function():
    life = Life(
        Given(
            ("collect", "a"),
            ("collect_with_timestamp", "b", 5),
            ("collect_with_timestamp", "c", 6),
            ("emit_watermark", 5),
            ("emit_watermark", 3),
            ("mark_as_temporarily_idle",),
            ("collect", "d"),
            ("emit_watermark", Watermark(9)),
        )
    )

    assert life.read_to_end() == ["a", "b", "c", "d"]
    times = [None if batch.timestamps is None else batch.timestamps.tolist() for batch in life.output.batches]
    assert times == [None, [5, 6], None]
    assert life.output.elements == [
        elements.Watermark(5),
        WatermarkStatus(is_idle=True),
        WatermarkStatus(is_idle=False),
        elements.Watermark(9),
    ]


def test_a_watermark_stands_between_the_records_it_was_emitted_between():
    life = Life(Given(("collect", 1), ("emit_watermark", 5), ("collect", 2)))
    life.read_to_end()

    one, watermark, two = life.output.items
    assert (one.values, watermark, two.values) == ([1], elements.Watermark(5), [2])


def test_a_function_that_raises_fails_the_task_with_its_own_error():
    class Fails(Cancellable):
        def run(self, ctx):
            ctx.collect(1)
            raise KeyError("lost")

    life = Life(Fails())
    with pytest.raises(FunctionError, match="operator operator: KeyError: 'lost'") as caught:
        life.read_to_end()
    assert life.output.rows == [1]
    assert "in run" in caught.value.remote_traceback


def test_error_names_a_timestamp_or_watermark_that_is_not_a_number():
    with pytest.raises(TypeMismatchError, match="milliseconds as an int, not 'now'"):
        Life(Given(("collect_with_timestamp", 1, "now"))).read_to_end()
    with pytest.raises(FunctionError, match=r"an int \(milliseconds\), not 1\.5"):
        Life(Given(("emit_watermark", 1.5))).read_to_end()


def test_open_and_close_are_called_once_and_cancel_comes_before_close():
    log = []

    class Logs(RichSourceFunction):
        def open(self, runtime_context):
            super().open(runtime_context)
            log.append("open")

        def run(self, ctx):
            log.append(self.get_runtime_context().get_index_of_this_subtask())

        def cancel(self):
            log.append("cancel")

        def close(self):
            log.append("close")

    life = Life(Logs(), subtask_index=1, parallelism=2)
    life.read_to_end()
    life.operator.close()

    assert log == ["open", 1, "cancel", "close"]


def test_records_collected_before_a_checkpoint_precede_its_barrier():
    life = Life(Counting(1_000_000))
    life.read(10)
    state = life.checkpoint()
    emitted = list(life.output.rows)
    life.operator.close()

    assert emitted == list(range(len(emitted)))
    # The state contains the records that were collected and still in the queue, and no others.
    assert Life(Counting(20_000), state).read_to_end() == list(range(len(emitted), 20_000))


def test_checkpoint_waits_until_the_function_releases_the_lock():
    function = Counting(10, holds_at=3)
    life = Life(function)
    assert function.is_holding.wait(WAIT_S)
    taken: list[Any] = []
    checkpoint = threading.Thread(target=lambda: taken.append(life.checkpoint()))
    checkpoint.start()
    checkpoint.join(0.05)
    assert not taken, "3 is collected, and the position does not say so yet"
    function.goes_on.set()
    checkpoint.join(WAIT_S)
    emitted = list(life.output.rows)

    assert Life(Counting(10), taken[0]).read_to_end() == list(range(len(emitted), 10))
    life.operator.close()


def test_a_function_that_waits_for_room_while_it_holds_the_lock_does_not_block_a_checkpoint(monkeypatch):
    monkeypatch.setattr(source_function, "MAX_QUEUED_RECORDS", 4)

    class Bulk(Counting):
        """Ten at a time are one step."""

        def run(self, ctx):
            while self.next < self.end:
                with ctx.get_checkpoint_lock():
                    for value in range(self.next, self.next + 10):
                        ctx.collect(value)
                    self.next += 10

    life = Life(Bulk(1_000))
    state = life.checkpoint()
    emitted = list(life.output.rows)
    life.operator.close()

    restored = Life(Bulk(len(emitted) + 20), state).read_to_end()
    assert restored == list(range(len(emitted), len(emitted) + len(restored)))
    assert len(restored) >= 20


def test_checkpoint_emits_nothing_while_the_output_is_blocked(monkeypatch):
    monkeypatch.setattr(source_function, "MAX_QUEUED_RECORDS", 50)
    life = Life(Counting(1 << 40))
    life.read(1)
    emitted = len(life.output.rows)
    for checkpoint_id in range(1, 20):
        state = life.checkpoint(checkpoint_id)
    queued = life.function.next - emitted
    life.operator.close()

    assert len(life.output.rows) == emitted
    # One more record per checkpoint: the one that the function was about to collect.
    assert queued <= 2 * 50 + 20
    restored = Life(Counting(emitted + 200), state).read_to_end()
    assert restored == list(range(emitted, emitted + 200))


def test_records_of_an_endless_step_under_the_lock_are_emitted_while_a_checkpoint_waits(monkeypatch):
    monkeypatch.setattr(source_function, "MAX_QUEUED_RECORDS", 10)

    class NeverLetsGo(Cancellable):
        def run(self, ctx):
            with ctx.get_checkpoint_lock():
                for value in range(1_000):
                    ctx.collect(value)

    life = Life(NeverLetsGo())
    life.read(1)
    life.checkpoint()

    assert len(life.output.rows) > 900
    assert life.read_to_end() == list(range(1_000))


def test_queue_does_not_exceed_its_capacity(monkeypatch):
    monkeypatch.setattr(source_function, "MAX_QUEUED_RECORDS", 3)
    arrived = threading.Semaphore(0)

    class Watched(Cancellable):
        def run(self, ctx):
            for value in range(10):
                ctx.collect(value)
                arrived.release()

    life = Life(Watched())
    for _ in range(3):
        assert arrived.acquire(timeout=WAIT_S)
    assert not arrived.acquire(timeout=0.05)
    life.operator.emit_next()
    assert life.output.rows == [0, 1, 2]

    assert life.read_to_end() == list(range(10))


def test_a_function_that_waits_for_room_ends_when_the_task_does(monkeypatch):
    monkeypatch.setattr(source_function, "MAX_QUEUED_RECORDS", 1)
    ended = threading.Event()

    class Deaf(SourceFunction):
        """Its `cancel` does nothing, and it catches every exception that it can."""

        def run(self, ctx):
            try:
                while True:
                    try:
                        ctx.collect(1)
                    except Exception:  # noqa: BLE001 - that is what is tested
                        ended.clear()
            finally:
                ended.set()

        def cancel(self):
            return

    life = Life(Deaf())
    life.read(1)
    life.operator.close()

    assert ended.wait(WAIT_S)


def test_state_is_redistributed_when_the_parallelism_changes():
    first, second = Life(Counting(3)), Life(Counting(5), subtask_index=1)
    first.read_to_end()
    second.read_to_end()
    together = merged(first.checkpoint(), second.checkpoint())

    assert Life(Counting(0), together).function.restored == 8
    parts = split_elements(together, "position")
    assert sorted(Life(Counting(0), part).function.restored for part in parts) == [3, 5]


def test_notifications_reach_the_function_under_the_lock():
    class Listens(Counting):
        def notify_checkpoint_complete(self, checkpoint_id):
            self.completed = (checkpoint_id, self.next)

        def notify_checkpoint_aborted(self, checkpoint_id):
            self.aborted = checkpoint_id

    life = Life(Listens(3))
    life.read_to_end()
    life.checkpoint(7)
    life.operator.notify_checkpoint_complete(7)
    life.operator.notify_checkpoint_aborted(8)

    assert (life.function.completed, life.function.aborted) == ((7, 3), 8)


def test_function_continues_after_a_failed_snapshot():
    class FailsOnce(Counting):
        has_failed = False

        def snapshot_state(self, context):
            if not self.has_failed:
                self.has_failed = True
                raise OSError("disk")
            super().snapshot_state(context)

    life = Life(FailsOnce(20_000))
    life.read(1)
    with pytest.raises(FunctionError, match=r"FailsOnce\.snapshot_state: OSError: disk"):
        life.checkpoint()

    assert life.read_to_end() == list(range(20_000))


def test_strategy_creates_watermarks_for_collected_records():
    function = Given(("collect_with_timestamp", "a", 100), ("emit_watermark", 50))
    life = Life(function, strategy=WatermarkStrategy.for_monotonous_timestamps())
    life.read_to_end()
    life.clock.advance(201)
    life.context.processing_time_service.fire_due(life.clock.monotonic_ns())

    assert life.output.elements == [elements.Watermark(50), elements.Watermark(99)]


def test_drained_function_emits_its_records_before_the_end_of_event_time():
    life = Life(Counting(1 << 40))
    life.read(1)
    life.operator.emit_max_watermark()
    emitted = list(life.output.rows)
    state = life.checkpoint()

    assert life.output.items[-1] == elements.Watermark(elements.MAX_WATERMARK)
    assert emitted == list(range(len(emitted)))
    assert Life(Counting(len(emitted) + 3), state).read_to_end() == list(range(len(emitted), len(emitted) + 3))


def test_drained_function_that_ignores_cancel_ends_when_it_collects(monkeypatch):
    monkeypatch.setattr(source_function, "_LOOK_AGAIN_S", 0.01)

    class Deaf(SourceFunction):
        def run(self, ctx):
            while True:
                ctx.collect(1)

        def cancel(self):
            return

    life = Life(Deaf())
    seconds = itertools.count()
    life.operator.reader._context.monotonic_ns = lambda: next(seconds) * 1_000_000_000
    life.read(1)
    life.operator.emit_max_watermark()
    count = len(life.output.rows)
    life.checkpoint()

    assert len(life.output.rows) == count


def test_nothing_is_emitted_after_a_suspending_savepoint():
    class Listens(Counting):
        def notify_checkpoint_complete(self, checkpoint_id):
            self.completed = checkpoint_id

    life = Life(Listens(1 << 40))
    life.read(1)
    life.checkpoint(5, checkpoint_pb2.SYNC_SAVEPOINT_SUSPEND)
    emitted, position = len(life.output.rows), life.function.next
    life.operator.notify_checkpoint_complete(5)

    assert life.function.completed == 5
    assert (len(life.output.rows), life.function.next) == (emitted, position)
    life.operator.close()


def test_a_closed_context_emits_nothing():
    class Closes(Cancellable):
        def run(self, ctx):
            ctx.collect(1)
            ctx.close()
            ctx.collect(2)
            ctx.emit_watermark(3)
            ctx.mark_as_temporarily_idle()

    life = Life(Closes())
    assert life.read_to_end() == [1]
    assert life.output.elements == []


def test_names_of_java_classes_and_functions_without_methods_are_refused():
    with pytest.raises(UnsupportedOperationError, match="no JVM and cannot run Java functions"):
        SourceFunction("org.example.MySource")

    class Empty(SourceFunction):
        pass

    with pytest.raises(UnsupportedOperationError, match=r"Empty has no method run\(ctx\)"):
        Empty().run(None)
    with pytest.raises(UnsupportedOperationError, match=r"Empty has no method cancel\(\)"):
        Empty().cancel()
    assert Empty().to_source().boundedness is Boundedness.CONTINUOUS_UNBOUNDED


def test_lock_is_reentrant_and_released_only_by_its_holder():
    condition = threading.Condition(threading.Lock())
    lock = CheckpointLock(condition)
    with lock, lock, condition:
        pass
    with condition:
        assert lock.try_acquire_for_task()
    lock.release_for_task()
    lock.release_for_task()
    with pytest.raises(RuntimeError, match="without holding it"):
        lock.release()

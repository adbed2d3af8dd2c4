from __future__ import annotations

import pickle

import pyarrow as pa
import pytest
from connector_fakes import TestingCoordinatorContext, TestingWriterContext

from flinkpy.common.errors import InternalError, JobExecutionError, RpcUnavailableError, TypeMismatchError, UserError
from flinkpy.common.typeinfo import Types
from flinkpy.common.types import Row, RowKind
from flinkpy.connectors import collect_sink
from flinkpy.connectors.collect_coordinator import ABANDONED_AFTER_MS, RELEASE_AFTER_MS, CollectCoordinator
from flinkpy.connectors.collect_iterator import CollectIterator
from flinkpy.connectors.collect_protocol import (
    CollectBatch,
    CollectConfirmed,
    CollectEnd,
    CollectStart,
    Guarantee,
    decode_payload,
    encode_payload,
)
from flinkpy.connectors.collect_sink import CollectSink
from flinkpy.records.batch import Batch


class Job:
    """A collect sink's writers, their coordinator and a client, connected without a cluster.

    Events are carried when `deliver` is called; the client's waiting does that, so an iterator runs the job.
    """

    def __init__(self, parallelism=1, input_type=None):
        self.input_type = input_type
        self.context = TestingCoordinatorContext(parallelism)
        self.coordinator = pickle.loads(pickle.dumps(CollectSink().coordinator_provider)).create(self.context)
        self.coordinator.start()
        self.contexts = [None] * parallelism
        self.writers = [None] * parallelism
        self.steps = []
        for subtask in range(parallelism):
            self.attempt(subtask, 0)

    def attempt(self, subtask, attempt_number):
        self.contexts[subtask] = TestingWriterContext(
            subtask, len(self.writers), attempt_number, input_type=self.input_type
        )
        self.writers[subtask] = CollectSink().create_writer(self.contexts[subtask])

    def deliver(self):
        for subtask, context in enumerate(self.contexts):
            events, context.events = context.events, []
            for event in events:
                self.coordinator.handle_event(subtask, context.attempt_number, event)
        for subtask, event in self.context.take_sent():
            self.writers[subtask].handle_event(pickle.loads(pickle.dumps(event)))

    def request(self, payload):
        answer = self.coordinator.handle_request(payload)
        self.deliver()
        return answer

    def wait(self, seconds):
        self.deliver()
        if self.steps:
            self.steps.pop(0)()

    def iterator(self, **arguments):
        return CollectIterator(self.request, wait=self.wait, **arguments)

    def write(self, values, subtask=0):
        self.writers[subtask].write(Batch(values))

    def end(self, subtask=0):
        self.writers[subtask].flush(True)


def test_results_arrive_in_order_and_the_writer_finishes_when_all_were_read():
    job = Job()
    closed = []
    job.steps = [lambda: job.write([1, 2]), lambda: job.write([3]), job.end]
    iterator = job.iterator(on_close=lambda: closed.append(True))
    assert next(iterator) == 1
    assert not job.writers[0].has_finished
    assert list(iterator) == [2, 3]
    assert job.writers[0].has_finished
    assert closed == [True]
    iterator.close()
    assert closed == [True]


def test_an_empty_result_ends():
    job = Job()
    job.steps = [lambda: job.write([]), job.end]
    assert list(job.iterator()) == []
    assert job.writers[0].has_finished


def test_several_writers_are_merged_and_all_must_end():
    job = Job(parallelism=2)
    job.write([1], subtask=0)
    job.write([2], subtask=1)
    job.end(0)
    iterator = job.iterator()
    assert {next(iterator), next(iterator)} == {1, 2}
    job.end(1)
    assert list(iterator) == []
    assert all(writer.has_finished for writer in job.writers)


def test_unread_result_blocks_the_writer_until_it_is_read():
    job = Job()
    rows = [f"{number:01000}" for number in range(500)]
    written = 0
    while job.writers[0].is_writable:
        job.write(rows)
        job.deliver()
        written += 1
        assert written < 100
    held_bytes = sum(len(payload) for writer in job.coordinator._writers.values() for payload in writer.held)
    assert held_bytes < collect_sink.MAX_UNACKED_BYTES + collect_sink.MAX_PAYLOAD_BYTES
    iterator = job.iterator()
    for _ in range(500 * written // 2):
        next(iterator)
    next(iterator)
    assert job.writers[0].is_writable
    assert job.contexts[0].writable_calls > 0


def test_many_tiny_batches_block_the_writer():
    job = Job()
    for number in range(collect_sink.MAX_UNACKED_BATCHES):
        assert job.writers[0].is_writable
        job.write([number])
    assert not job.writers[0].is_writable


def test_a_batch_too_large_for_one_message_is_sent_in_parts():
    job = Job()
    job.write(["x" * 10_000 + str(number) for number in range(500)])
    events = [event for event in job.contexts[0].events if isinstance(event, CollectBatch)]
    assert len(events) > 1
    assert all(len(event.payload) <= collect_sink.MAX_PAYLOAD_BYTES for event in events)
    job.end()
    assert [row[10_000:] for row in job.iterator()] == [str(number) for number in range(500)]


def test_record_too_large_for_one_message_is_sent_in_parts():
    job = Job()
    record = "".join(map(str, range(600_000)))
    job.write([1, record, 2])
    events = [event for event in job.contexts[0].events if isinstance(event, CollectBatch)]
    assert len(record) > 3 * collect_sink.MAX_PAYLOAD_BYTES
    assert all(len(event.payload) <= collect_sink.MAX_PAYLOAD_BYTES for event in events)
    job.end()
    assert list(job.iterator()) == [1, record, 2]


def test_record_beyond_the_option_is_an_error_that_names_both():
    writer = CollectSink(max_record_bytes=1_000).create_writer(TestingWriterContext())
    with pytest.raises(
        UserError, match=r"a record .* has 2\d\d\d bytes .*collect-sink.batch-size.max allows only 1000"
    ) as raised:
        writer.write(Batch(["x" * 2_000]))
    assert raised.value.details["option"] == "collect-sink.batch-size.max"


def test_closing_early_cancels_the_writer():
    job = Job()
    job.write([1, 2])
    iterator = job.iterator()
    assert next(iterator) == 1
    iterator.close()
    assert job.writers[0].is_writable
    assert job.writers[0].has_finished
    job.write([3])
    job.end()
    assert job.contexts[0].events == []
    with pytest.raises(StopIteration):
        next(iterator)


def test_a_writer_that_starts_after_the_client_closed_is_cancelled_when_it_is_ready():
    job = Job()
    job.iterator().close()
    job.coordinator.subtask_reset(0, None)
    job.attempt(0, 1)
    job.coordinator.subtask_ready(0)
    job.deliver()
    assert job.writers[0].has_finished


def test_a_lost_answer_is_given_again():
    job = Job()
    job.write([1])
    job.end()
    job.deliver()
    answers = iter(["lost", "kept", "lost", "kept", "kept"])

    def request(payload):
        answer = job.request(payload)
        if next(answers) == "lost":
            raise RpcUnavailableError("connection reset")
        return answer

    assert list(CollectIterator(request, wait=job.wait)) == [1]
    assert job.writers[0].has_finished


def test_error_without_retry_reaches_the_user_and_releases_the_job():
    job = Job()
    job.write([1])
    errors = [InternalError("the answer cannot be read")]

    def request(payload):
        if errors:
            raise errors.pop()
        return job.request(payload)

    iterator = CollectIterator(request)
    with pytest.raises(InternalError, match="cannot be read"):
        next(iterator)
    with pytest.raises(StopIteration):
        next(iterator)
    assert job.writers[0].has_finished


def test_an_unreachable_job_is_given_up_after_a_minute():
    waited = []

    def request(payload):
        raise RpcUnavailableError("nobody there")

    with pytest.raises(RpcUnavailableError):
        next(CollectIterator(request, wait=waited.append))
    assert 60 <= sum(waited) < 61


def test_a_client_that_never_closes_after_the_end_releases_the_job_by_a_timer():
    job = Job()
    job.write([1])
    job.end()
    job.deliver()
    calls = []

    def request(payload):
        calls.append(payload)
        if len(calls) == 2:
            raise RpcUnavailableError("the close request is lost")
        return job.request(payload)

    assert list(CollectIterator(request, wait=job.wait)) == [1]
    assert not job.writers[0].has_finished
    [(delay_ms, release)] = job.context.timers
    assert delay_ms == RELEASE_AFTER_MS
    release()
    job.deliver()
    assert job.writers[0].has_finished


def test_restart_before_anything_was_read_is_not_visible():
    job = Job()
    job.write([1, 2])
    job.deliver()
    job.coordinator.subtask_reset(0, None)
    job.attempt(0, 1)
    job.write([1, 2, 3])
    job.end()
    job.deliver()
    assert list(job.iterator()) == [1, 2, 3]


def test_a_restart_after_something_was_read_is_a_clear_error():
    job = Job()
    job.write([1, 2])
    job.deliver()
    iterator = job.iterator()
    assert next(iterator) == 1
    job.coordinator.subtask_reset(0, None)
    job.attempt(0, 1)
    assert next(iterator) == 2
    with pytest.raises(
        JobExecutionError, match="restarted from its beginning after a part of its result had been read"
    ):
        next(iterator)
    with pytest.raises(StopIteration):
        next(iterator)
    assert job.writers[0].has_finished


def test_a_full_reset_restarts_the_result_as_well():
    job = Job()
    job.write([1])
    job.deliver()
    job.coordinator.reset_to_checkpoint(None, None)
    job.attempt(0, 1)
    job.write([7])
    job.end()
    job.deliver()
    assert list(job.iterator()) == [7]


def test_late_and_duplicated_batches_are_dropped_and_a_lost_one_fails_the_job():
    context = TestingCoordinatorContext(1)
    coordinator = CollectCoordinator(context)
    first = CollectBatch(0, encode_payload(Batch([1]), None))
    coordinator.handle_event(0, 0, CollectStart("v0", 0, 0, Guarantee.NONE))
    coordinator.handle_event(0, 0, first)
    coordinator.subtask_reset(0, None)
    coordinator.handle_event(0, 0, CollectBatch(1, first.payload))
    for event in (CollectStart("v1", 0, 0, Guarantee.NONE), first, first, CollectEnd(1), CollectConfirmed(1)):
        coordinator.handle_event(0, 1, event)
    assert context.failures == []
    assert list(CollectIterator(coordinator.handle_request)) == [1]
    coordinator = CollectCoordinator(context)
    coordinator.handle_event(0, 0, CollectStart("v0", 0, 0, Guarantee.NONE))
    coordinator.handle_event(0, 0, CollectBatch(1, first.payload))
    assert "batch 0 was lost" in str(context.failures.pop())
    coordinator.handle_event(0, 1, first)
    assert "before CollectStart" in str(context.failures.pop())
    coordinator.handle_event(0, 0, "what?")
    assert isinstance(context.failures[0], InternalError)


def test_a_job_that_is_stopped_with_a_savepoint_gives_all_records_up_to_it():
    job = Job()
    job.write([1, 2])

    def stop():
        job.writers[0].snapshot_state(1)
        job.writers[0].notify_checkpoint_complete(1)
        job.writers[0].suspend()
        assert not job.writers[0].has_finished

    job.steps = [stop]
    assert list(job.iterator()) == [1, 2]
    assert job.writers[0].has_finished


def test_a_job_that_is_stopped_with_a_savepoint_does_not_wait_for_a_client_that_has_gone():
    job = Job()
    job.write([1])
    job.writers[0].snapshot_state(1)
    job.writers[0].notify_checkpoint_complete(1)
    job.writers[0].suspend()
    job.deliver()
    [(delay_ms, check)] = job.context.timers
    assert delay_ms == ABANDONED_AFTER_MS
    check()
    job.deliver()
    assert job.writers[0].has_finished
    with pytest.raises(UserError, match="were given up"):
        list(job.iterator())


def test_an_acknowledgement_of_an_older_attempt_is_dropped():
    job = Job()
    job.write([1])
    job.end()
    job.deliver()
    job.request = job.coordinator.handle_request
    assert list(job.iterator()) == [1]
    stale = job.context.take_sent()
    job.attempt(0, 1)
    job.write([1])
    for subtask, event in stale:
        job.writers[subtask].handle_event(event)
    assert not job.writers[0].has_finished


def test_a_typed_row_that_does_not_match_is_an_error_at_the_sink():
    job = Job(input_type=Types.LONG())
    with pytest.raises(TypeMismatchError, match="record 1"):
        job.write([1, "x"])


@pytest.mark.parametrize(
    ("values", "type_info", "expected"),
    [
        ([1, "a", None], None, [1, "a", None]),
        ([(1, "a")], Types.TUPLE([Types.INT(), Types.STRING()]), [(1, "a")]),
        ([(1, "a")], Types.ROW([Types.INT(), Types.STRING()]), [Row(1, "a")]),
        (
            [Row.of_kind(RowKind.DELETE, 1)],
            Types.ROW([Types.INT()]),
            [Row.of_kind(RowKind.DELETE, 1)],
        ),
        (pa.RecordBatch.from_pydict({"f0": [1, 2]}), Types.LONG(), [1, 2]),
        (pa.RecordBatch.from_pydict({"a": [1]}), None, [Row(a=1)]),
        ([object], Types.PICKLED_BYTE_ARRAY(), [object]),
    ],
)
def test_rows_and_columns_reach_the_client_unchanged(values, type_info, expected):
    assert decode_payload(encode_payload(Batch(values), type_info)) == expected


# -- with checkpoints ----------------------------------------------------------------------------------------------


class CheckpointedJob(Job):
    """Takes checkpoints, with exactly-once or at-least-once guarantees."""

    def __init__(self, parallelism=1, exactly_once=True):
        self.exactly_once = exactly_once
        self.states = {}
        super().__init__(parallelism)

    def attempt(self, subtask, attempt_number, states=None):
        context = TestingWriterContext(
            subtask,
            len(self.writers),
            attempt_number,
            is_checkpointing_enabled=True,
            is_exactly_once=self.exactly_once,
            waits_for_final_checkpoint=True,
        )
        self.contexts[subtask] = context
        sink = CollectSink()
        self.writers[subtask] = (
            sink.create_writer(context) if states is None else sink.restore_writer(context, pickle.loads(states))
        )

    def checkpoint(self, checkpoint_id, complete=True):
        self.states[checkpoint_id] = [pickle.dumps(writer.snapshot_state(checkpoint_id)) for writer in self.writers]
        if complete:
            self.complete(checkpoint_id)

    def complete(self, checkpoint_id):
        for writer in self.writers:
            writer.notify_checkpoint_complete(checkpoint_id)
        self.deliver()

    def restore(self, checkpoint_id, attempt_number, subtasks=None, new_coordinator=False):
        if new_coordinator:
            self.coordinator = CollectCoordinator(self.context)
            self.coordinator.reset_to_checkpoint(checkpoint_id, None)
            self.coordinator.start()
        for subtask in range(len(self.writers)) if subtasks is None else subtasks:
            self.coordinator.subtask_reset(subtask, checkpoint_id)
            self.attempt(subtask, attempt_number, self.states[checkpoint_id][subtask])
            self.coordinator.subtask_ready(subtask)

    def take(self, iterator, count):
        return [next(iterator) for _ in range(count)]


def test_records_are_returned_when_a_checkpoint_contains_them():
    job = CheckpointedJob()
    job.write([1, 2])
    job.checkpoint(1, complete=False)
    job.write([3])
    waits = []
    job.steps = [lambda: waits.append("nothing yet"), lambda: job.complete(1)]
    iterator = job.iterator()
    assert job.take(iterator, 2) == [1, 2]
    assert waits == ["nothing yet"]
    job.steps = [job.end, lambda: job.checkpoint(2)]
    assert list(iterator) == [3]
    assert job.writers[0].has_finished


def test_result_that_waits_for_its_checkpoint_does_not_block_the_writer():
    job = CheckpointedJob()
    rows = [f"{number:01000}" for number in range(1000)]
    job.steps = [lambda: job.write(rows)] * 20 + [lambda: job.checkpoint(1)]
    iterator = job.iterator()
    assert next(iterator) == rows[0]
    assert job.writers[0].is_writable


@pytest.mark.parametrize("new_coordinator", [False, True])
@pytest.mark.parametrize("fetched_before", [False, True])
def test_restart_is_not_visible(new_coordinator, fetched_before):
    job = CheckpointedJob()
    job.write([1])
    job.checkpoint(1)
    iterator = job.iterator()
    assert next(iterator) == 1
    job.write([2])
    if fetched_before:
        job.deliver()
        iterator._take(pickle.loads(job.request(pickle.dumps(iterator._next_request(1 << 20)))))
    job.checkpoint(2, complete=False)
    job.write([3, 4])
    job.deliver()
    if fetched_before:
        iterator._take(pickle.loads(job.request(pickle.dumps(iterator._next_request(1 << 20)))))
    # Checkpoint 2 is complete, but the sink was not notified.
    job.restore(2, attempt_number=1, new_coordinator=new_coordinator)
    job.write([30, 40])
    job.end()
    job.steps = [lambda: job.checkpoint(3)]
    assert list(iterator) == [2, 30, 40]
    assert job.writers[0].has_finished
    assert job.context.failures == []


def test_batches_that_the_client_acknowledged_before_the_checkpoint_are_not_sent_again():
    job = CheckpointedJob()
    job.write([1])
    job.deliver()
    iterator = job.iterator()
    for _ in range(2):
        iterator._take(pickle.loads(job.request(pickle.dumps(iterator._next_request(1 << 20)))))
    job.checkpoint(1, complete=False)
    [state] = pickle.loads(job.states[1][0])
    assert (state.next_sequence, state.unacked) == (1, ())
    job.restore(1, attempt_number=1, new_coordinator=True)
    job.end()
    job.steps = [lambda: job.checkpoint(2)]
    assert list(iterator) == [1]


def test_only_the_restarted_subtask_is_rolled_back():
    job = CheckpointedJob(parallelism=2)
    job.write(["a1"], subtask=0)
    job.write(["b1"], subtask=1)
    job.checkpoint(1)
    job.write(["a2"], subtask=0)
    job.write(["b2"], subtask=1)
    job.deliver()
    iterator = job.iterator()
    assert sorted(job.take(iterator, 2)) == ["a1", "b1"]
    job.restore(1, attempt_number=1, subtasks=[0])
    job.write(["A2"], subtask=0)
    job.end(0)
    job.end(1)
    job.steps = [lambda: job.checkpoint(2)]
    assert sorted(iterator) == ["A2", "b2"]


def test_restart_from_the_beginning_is_not_visible_before_records_were_returned():
    job = CheckpointedJob()
    job.write([1, 2])
    job.deliver()
    iterator = job.iterator()
    iterator._take(pickle.loads(job.request(pickle.dumps(iterator._next_request(1 << 20)))))
    job.coordinator.subtask_reset(0, None)
    job.attempt(0, 1)
    job.write([5])
    job.end()
    job.steps = [lambda: job.checkpoint(1)]
    assert list(iterator) == [5]


def test_restore_to_before_returned_records_is_a_clear_error():
    job = CheckpointedJob()
    job.write([1])
    job.checkpoint(1)
    job.write([2])
    job.checkpoint(2)
    iterator = job.iterator()
    assert job.take(iterator, 2) == [1, 2]
    job.restore(1, attempt_number=1)
    job.deliver()
    with pytest.raises(JobExecutionError, match="from a checkpoint before a part of its result"):
        next(iterator)


@pytest.mark.parametrize("exactly_once", [True, False])
@pytest.mark.parametrize("fetches", [1, 2, 3])
def test_restart_in_the_middle_of_a_large_record_is_not_visible(exactly_once, fetches):
    job = CheckpointedJob(exactly_once=exactly_once)
    record = "".join(map(str, range(900_000)))
    job.write([record])
    job.deliver()
    iterator = job.iterator()
    for _ in range(fetches):
        iterator._take(pickle.loads(job.request(pickle.dumps(iterator._next_request(2 << 20)))))
    job.checkpoint(1)
    for _ in range(fetches - 1):
        iterator._take(pickle.loads(job.request(pickle.dumps(iterator._next_request(2 << 20)))))
    job.restore(1, attempt_number=1, new_coordinator=True)
    job.write([2])
    job.end()
    job.steps = [lambda: job.checkpoint(2)]
    results = list(iterator)
    assert results == [record, 2] or (not exactly_once and results == [record, record, 2])
    assert job.context.failures == []


def test_at_least_once_returns_records_at_once_and_repeats_them_after_a_restart():
    job = CheckpointedJob(exactly_once=False)
    job.write([1])
    iterator = job.iterator()
    job.checkpoint(1)
    job.write([2])
    job.deliver()
    assert job.take(iterator, 2) == [1, 2]
    job.restore(1, attempt_number=1)
    job.write([2])
    job.end()
    job.steps = [lambda: job.checkpoint(2)]
    rest = list(iterator)
    assert rest in ([2], [1, 2])


def test_a_new_job_gets_what_the_client_of_the_old_one_did_not():
    old = CheckpointedJob(parallelism=2)
    old.write(["a"], subtask=0)
    old.write(["b"], subtask=1)
    old.checkpoint(1)
    job = CheckpointedJob()
    states = [state for part in old.states[1] for state in pickle.loads(part)]
    context = TestingWriterContext(job_id="fedcba9876543210", restored_checkpoint_id=1)
    job.contexts[0] = context
    job.writers[0] = CollectSink().restore_writer(context, states)
    job.context.take_sent()
    job.coordinator = CollectCoordinator(job.context)
    job.write(["c"])
    job.end()
    assert sorted(job.iterator()) == ["a", "b", "c"]


def test_a_closed_result_stays_closed_after_the_loss_of_the_coordinator():
    job = CheckpointedJob()
    job.iterator().close()
    state = job.coordinator.checkpoint(1)
    coordinator = CollectCoordinator(job.context)
    coordinator.reset_to_checkpoint(1, state)
    job.coordinator = coordinator
    job.attempt(0, 1)
    job.context.take_sent()
    coordinator.subtask_ready(0)
    job.deliver()
    assert job.writers[0].has_finished

from __future__ import annotations

import pytest

from flinkpy._proto import checkpoint_pb2
from flinkpy.common.checkpoint_failure_reason import CheckpointFailureReason as Reason
from flinkpy.records.elements import CheckpointBarrier
from flinkpy.streaming.io.checkpointing.barrier_handler import (
    MAX_PENDING,
    AbortCapture,
    AbortCheckpoint,
    BlockChannel,
    CheckpointBarrierHandler,
    ConvertQueuedBarriers,
    FinishCapture,
    SetAlignmentTimer,
    StartAlignment,
    StartCapture,
    TriggerCheckpoint,
    UnblockChannels,
)

ALIGNED = checkpoint_pb2.ALIGNED
UNALIGNED = checkpoint_pb2.UNALIGNED
FORCED = checkpoint_pb2.FORCED_ALIGNED
AT_LEAST_ONCE = checkpoint_pb2.AT_LEAST_ONCE


def barrier(checkpoint_id, alignment=ALIGNED, *, timeout_ms=0, timestamp_ms=1_000):
    options = checkpoint_pb2.CheckpointOptions(alignment=alignment, aligned_timeout_ms=timeout_ms)
    return CheckpointBarrier(checkpoint_id, timestamp_ms, options)


def kinds(effects):
    return [type(effect).__name__ for effect in effects]


def triggered(effects):
    return [
        (effect.barrier.checkpoint_id, effect.barrier.options.alignment, effect.has_capture)
        for effect in effects
        if isinstance(effect, TriggerCheckpoint)
    ]


def test_single_channel_triggers_at_its_barrier():
    handler = CheckpointBarrierHandler(1)

    effects = handler.on_barrier(0, barrier(1), 1_000)

    assert effects == [StartAlignment(1, 1_000), TriggerCheckpoint(barrier(1)), UnblockChannels()]
    assert handler.pending == []


def test_aligned_channels_are_blocked_until_the_last_barrier():
    handler = CheckpointBarrierHandler(3)

    assert handler.on_barrier(1, barrier(1), 1_000) == [StartAlignment(1, 1_000), BlockChannel(1)]
    assert handler.on_barrier(0, barrier(1), 1_000) == [BlockChannel(0)]
    assert handler.on_barrier(2, barrier(1), 1_000) == [TriggerCheckpoint(barrier(1)), UnblockChannels()]


def test_at_least_once_counts_barriers_and_blocks_no_channel():
    handler = CheckpointBarrierHandler(2)
    first, second = barrier(1, AT_LEAST_ONCE), barrier(2, AT_LEAST_ONCE)

    assert kinds(handler.on_barrier(0, first, 0)) == ["StartAlignment"]
    assert kinds(handler.on_barrier(0, second, 0)) == ["StartAlignment"]
    assert handler.pending == [1, 2]
    assert handler.on_barrier(1, first, 0) == [TriggerCheckpoint(first)]
    assert handler.on_barrier(1, second, 0) == [TriggerCheckpoint(second)]


def test_counted_checkpoint_is_aborted_if_a_channel_skips_it():
    handler = CheckpointBarrierHandler(2)
    handler.on_barrier(0, barrier(1, AT_LEAST_ONCE), 0)

    effects = handler.on_barrier(1, barrier(2, AT_LEAST_ONCE), 0)

    assert effects[0] == AbortCheckpoint(1, Reason.CHECKPOINT_DECLINED_SUBSUMED)
    assert handler.pending == [2]


def test_number_of_counted_checkpoints_is_limited():
    handler = CheckpointBarrierHandler(2)

    effects = [
        effect
        for checkpoint_id in range(1, MAX_PENDING + 3)
        for effect in handler.on_barrier(0, barrier(checkpoint_id, AT_LEAST_ONCE), 0)
    ]

    aborted = [effect.checkpoint_id for effect in effects if isinstance(effect, AbortCheckpoint)]
    assert aborted == [1, 2]
    assert len(handler.pending) == MAX_PENDING


def test_unaligned_checkpoint_is_taken_at_the_first_barrier():
    handler = CheckpointBarrierHandler(2)

    first = handler.on_barrier(0, barrier(1, UNALIGNED), 0)
    second = handler.on_barrier(1, barrier(1, UNALIGNED), 0)

    assert kinds(first) == ["StartAlignment", "StartCapture", "TriggerCheckpoint", "UnblockChannels"]
    assert triggered(first) == [(1, UNALIGNED, True)]
    assert second == [FinishCapture(1)]


def test_single_unaligned_channel_captures_the_overtaken_records():
    effects = CheckpointBarrierHandler(1).on_barrier(0, barrier(1, UNALIGNED), 0)

    assert kinds(effects)[1:] == ["StartCapture", "TriggerCheckpoint", "UnblockChannels", "FinishCapture"]


def test_unaligned_checkpoint_waits_for_channels_that_stay_aligned():
    handler = CheckpointBarrierHandler(3, aligned_only={2})

    assert handler.on_barrier(0, barrier(1, UNALIGNED), 0) == [StartAlignment(1, 1_000), BlockChannel(0)]
    effects = handler.on_barrier(2, barrier(1, FORCED), 0)
    assert kinds(effects) == ["StartCapture", "TriggerCheckpoint", "UnblockChannels"]
    assert triggered(effects) == [(1, UNALIGNED, True)]
    assert handler.on_barrier(1, barrier(1, UNALIGNED), 0) == [FinishCapture(1)]


def test_barrier_of_an_aligned_channel_may_start_an_unaligned_checkpoint():
    handler = CheckpointBarrierHandler(2, aligned_only={0})

    effects = handler.on_barrier(0, barrier(1, FORCED), 0)

    assert triggered(effects) == [(1, UNALIGNED, True)]
    assert handler.on_barrier(1, barrier(1, UNALIGNED), 0) == [FinishCapture(1)]


def test_checkpoint_keeps_its_alignment_if_all_channels_stay_aligned():
    handler = CheckpointBarrierHandler(2, aligned_only={0, 1})

    assert kinds(handler.on_barrier(0, barrier(1, FORCED), 0)) == ["StartAlignment", "BlockChannel"]
    assert triggered(handler.on_barrier(1, barrier(1, FORCED), 0)) == [(1, UNALIGNED, False)]
    handler.on_barrier(0, barrier(2, FORCED, timeout_ms=10), 0)
    assert triggered(handler.on_barrier(1, barrier(2, FORCED, timeout_ms=10), 0)) == [(2, ALIGNED, False)]


def test_alignment_turns_unaligned_after_the_timeout():
    handler = CheckpointBarrierHandler(3)

    first = handler.on_barrier(0, barrier(1, timeout_ms=300), 1_100)
    assert first[-1] == SetAlignmentTimer(1, 200)
    effects = handler.on_alignment_timeout(1)
    assert effects[:2] == [ConvertQueuedBarriers(1), StartCapture(1)]
    assert triggered(effects) == [(1, UNALIGNED, True)]
    assert handler.on_barrier(1, barrier(1, UNALIGNED), 2_000) == []
    assert handler.on_barrier(2, barrier(1, timeout_ms=300), 2_000) == [FinishCapture(1)]
    assert handler.on_alignment_timeout(1) == []


def test_late_alignment_turns_unaligned_at_once():
    handler = CheckpointBarrierHandler(2)

    effects = handler.on_barrier(0, barrier(1, timeout_ms=300), 1_300)

    assert kinds(effects) == [
        "StartAlignment",
        "BlockChannel",
        "ConvertQueuedBarriers",
        "StartCapture",
        "TriggerCheckpoint",
        "UnblockChannels",
    ]


def test_alignment_timeout_holds_if_the_sender_clock_is_ahead():
    handler = CheckpointBarrierHandler(3)
    effects = handler.on_barrier(0, barrier(1, timeout_ms=300, timestamp_ms=3_600_000), 1_000)
    assert [effect.delay_ms for effect in effects if isinstance(effect, SetAlignmentTimer)] == [300]


def test_timeout_after_the_alignment_is_ignored():
    handler = CheckpointBarrierHandler(2)
    handler.on_barrier(0, barrier(1, timeout_ms=300), 1_000)
    handler.on_barrier(1, barrier(1, timeout_ms=300), 1_000)

    assert handler.on_alignment_timeout(1) == []


def test_barrier_that_turned_unaligned_upstream_turns_the_alignment_unaligned():
    handler = CheckpointBarrierHandler(3)
    handler.on_barrier(0, barrier(1, timeout_ms=300), 1_000)

    effects = handler.on_barrier(1, barrier(1, UNALIGNED, timeout_ms=300), 1_100)

    assert kinds(effects) == ["ConvertQueuedBarriers", "StartCapture", "TriggerCheckpoint", "UnblockChannels"]
    assert handler.on_barrier(2, barrier(1, UNALIGNED), 1_100) == [FinishCapture(1)]


def test_newer_barrier_aborts_an_older_checkpoint_that_waits_for_the_channel():
    handler = CheckpointBarrierHandler(2)
    handler.on_barrier(0, barrier(1), 0)

    effects = handler.on_barrier(1, barrier(2), 0)

    assert effects == [
        UnblockChannels(),
        AbortCheckpoint(1, Reason.CHECKPOINT_DECLINED_SUBSUMED),
        StartAlignment(2, 1_000),
        BlockChannel(1),
    ]
    assert triggered(handler.on_barrier(0, barrier(2), 0)) == [(2, ALIGNED, False)]


def test_newer_unaligned_barrier_aborts_an_older_capture():
    handler = CheckpointBarrierHandler(2)
    handler.on_barrier(0, barrier(1, UNALIGNED), 0)

    effects = handler.on_barrier(0, barrier(2, UNALIGNED), 0)

    assert effects[:2] == [AbortCapture(1), AbortCheckpoint(1, Reason.CHECKPOINT_DECLINED_SUBSUMED)]
    assert triggered(effects) == [(2, UNALIGNED, True)]
    assert handler.on_barrier(1, barrier(1, UNALIGNED), 0) == []
    assert handler.on_barrier(1, barrier(2, UNALIGNED), 0) == [FinishCapture(2)]


@pytest.mark.parametrize("alignment", [ALIGNED, UNALIGNED, AT_LEAST_ONCE])
def test_late_and_repeated_barriers_are_ignored(alignment):
    handler = CheckpointBarrierHandler(2)
    for channel in (0, 1):
        handler.on_barrier(channel, barrier(5, alignment), 0)

    assert handler.on_barrier(0, barrier(5, alignment), 0) == []
    assert handler.on_barrier(1, barrier(4, alignment), 0) == []
    handler.on_barrier(0, barrier(6, alignment), 0)
    assert handler.on_barrier(0, barrier(6, alignment), 0) == []


@pytest.mark.parametrize("alignment", [ALIGNED, UNALIGNED, AT_LEAST_ONCE])
def test_ended_channel_counts_as_a_channel_with_a_barrier(alignment):
    handler = CheckpointBarrierHandler(3)
    handler.on_end_of_partition(2)
    first = handler.on_barrier(0, barrier(1, alignment), 0)

    last = handler.on_end_of_partition(1)

    assert [effect[0] for effect in triggered(first + last)] == [1]
    assert handler.pending == []
    assert isinstance(last[-1], FinishCapture | UnblockChannels | TriggerCheckpoint)


@pytest.mark.parametrize("alignment", [ALIGNED, UNALIGNED, AT_LEAST_ONCE])
def test_cancelled_checkpoint_is_aborted_and_its_other_barriers_are_ignored(alignment):
    handler = CheckpointBarrierHandler(3)
    handler.on_barrier(0, barrier(1, alignment), 0)

    effects = handler.on_cancel_marker(1, 1)

    assert effects[-1] == AbortCheckpoint(1, Reason.CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER)
    assert (UnblockChannels() in effects) == (alignment == ALIGNED)
    assert (AbortCapture(1) in effects) == (alignment == UNALIGNED)
    assert handler.on_barrier(2, barrier(1, alignment), 0) == []
    assert handler.on_cancel_marker(2, 1) == []


def test_checkpoint_can_be_cancelled_before_its_first_barrier():
    handler = CheckpointBarrierHandler(2)

    effects = handler.on_cancel_marker(0, 3)

    assert effects == [AbortCheckpoint(3, Reason.CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER)]
    assert handler.on_barrier(1, barrier(3), 0) == []
    assert kinds(handler.on_barrier(1, barrier(4), 0)) == ["StartAlignment", "BlockChannel"]


def test_cancel_marker_of_a_newer_checkpoint_aborts_an_older_one():
    handler = CheckpointBarrierHandler(2)
    handler.on_barrier(0, barrier(1), 0)

    effects = handler.on_cancel_marker(1, 2)

    assert [effect.checkpoint_id for effect in effects if isinstance(effect, AbortCheckpoint)] == [1, 2]


def test_abort_releases_the_channels_and_is_not_reported_back():
    handler = CheckpointBarrierHandler(2)
    handler.on_barrier(0, barrier(1), 0)

    assert handler.on_aborted(1) == [UnblockChannels(), AbortCheckpoint(1, None)]
    assert handler.on_barrier(1, barrier(1), 0) == []
    assert handler.on_aborted(1) == []


def test_abort_may_arrive_before_the_barrier():
    handler = CheckpointBarrierHandler(2)

    assert handler.on_aborted(2) == [AbortCheckpoint(2, None)]
    assert handler.on_barrier(0, barrier(2), 0) == []
    assert kinds(handler.on_barrier(0, barrier(1), 0)) == ["StartAlignment", "BlockChannel"]


def test_ends_of_channels_replace_barriers_after_all_producers_finished():
    handler = CheckpointBarrierHandler(2)
    handler.on_end_of_partition(0)

    assert handler.on_trigger(barrier(7, UNALIGNED)) == [StartAlignment(7, 1_000)]
    assert triggered(handler.on_end_of_partition(1)) == [(7, UNALIGNED, False)]
    assert triggered(handler.on_trigger(barrier(8))) == [(8, ALIGNED, False)]
    assert handler.on_trigger(barrier(8)) == []

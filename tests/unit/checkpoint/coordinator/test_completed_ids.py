from __future__ import annotations

from flinkpy.checkpoint.coordinator.checkpoint_coordinator import MAX_COMPLETED_IDS, CompletedIds


def test_a_checkpoint_that_is_not_completed_has_failed_unless_ids_were_forgotten():
    ids = CompletedIds()
    ids.add(5)
    assert not ids.is_known_failed(5)
    assert ids.is_known_failed(3)
    assert ids.is_known_failed(6)


def test_the_fate_of_checkpoints_older_than_the_remembered_ones_is_unknown():
    """State of a completed checkpoint would be deleted."""
    ids = CompletedIds()
    for number in range(MAX_COMPLETED_IDS + 1):
        ids.add(2 * number)
    assert not ids.is_known_failed(0), "the checkpoint was completed and is forgotten"
    assert not ids.is_known_failed(1)
    assert not ids.is_known_failed(2)
    assert ids.is_known_failed(3)
    assert not ids.is_known_failed(4)

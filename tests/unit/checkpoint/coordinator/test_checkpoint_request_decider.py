from __future__ import annotations

from flinkpy.checkpoint.coordinator.checkpoint_properties import PERIODIC
from flinkpy.checkpoint.coordinator.checkpoint_request_decider import CheckpointRequest, CheckpointRequestDecider


def test_the_older_of_two_simultaneous_requests_goes_first_even_if_it_is_requeued():
    """An earlier attempt may have been postponed, so the request is queued again behind the other."""
    decider = CheckpointRequestDecider(max_concurrent=1, min_pause_ms=0)
    older, newer = (CheckpointRequest(PERIODIC, 5, decider.next_number(), trigger_id=name) for name in "ab")
    decider.submit(newer)
    decider.submit(older)
    assert decider.choose(now_ms=9, is_triggering=False, num_pending=0, last_completion_ms=None) is older

from __future__ import annotations

import pytest
from coordinator_fakes import source_and_sink

from flinkpy.checkpoint.coordinator.checkpoint_plan import calculate_plan
from flinkpy.checkpoint.coordinator.checkpoint_properties import PERIODIC
from flinkpy.checkpoint.coordinator.checkpoint_request_decider import CheckpointRequest
from flinkpy.checkpoint.coordinator.pending_checkpoint import PendingCheckpoint, Phase
from flinkpy.common.errors import InvalidTransitionError


def pending_in(phase):
    plan = calculate_plan(source_and_sink(), after_tasks_finish=True)
    return PendingCheckpoint(7, PERIODIC, plan, 0, 1_000, CheckpointRequest(PERIODIC, 0, 0), phase)


@pytest.mark.parametrize(
    ("phase", "next_phase"),
    [
        (Phase.PREPARING, Phase.WAITING),
        (Phase.PREPARING, Phase.COMPLETED),
        (Phase.WAITING, Phase.COMPLETED),
        (Phase.FINALIZING, Phase.WAITING),
        (Phase.COMPLETED, Phase.ABORTED),
        (Phase.ABORTED, Phase.FINALIZING),
    ],
)
def test_a_checkpoint_skips_no_phase_and_leaves_no_final_phase(phase, next_phase):
    pending = pending_in(phase)
    with pytest.raises(InvalidTransitionError, match=f"checkpoint 7 cannot go from {phase.name} to {next_phase.name}"):
        pending.enter(next_phase)
    assert pending.phase is phase


def test_a_checkpoint_that_was_completed_or_aborted_is_over():
    assert [phase for phase in Phase if phase.is_over] == [Phase.COMPLETED, Phase.ABORTED]

"""The properties of each kind of checkpoint."""

from __future__ import annotations

import pytest

from flinkpy._proto import checkpoint_pb2 as pb
from flinkpy.checkpoint.coordinator.checkpoint_properties import FULL, PERIODIC, savepoint, stop_with_savepoint

STOP = stop_with_savepoint(pb.NATIVE, drain=False)
DRAIN = stop_with_savepoint(pb.NATIVE, drain=True)


def test_a_savepoint_whose_format_is_not_chosen_is_canonical():
    for of_format in (savepoint, lambda chosen: stop_with_savepoint(chosen, drain=True)):
        assert of_format(pb.SAVEPOINT_FORMAT_TYPE_UNSPECIFIED).format == pb.CANONICAL
        assert of_format(pb.NATIVE).format == pb.NATIVE


@pytest.mark.parametrize(
    ("properties", "description"),
    [
        (PERIODIC, "checkpoint"),
        (FULL, "checkpoint"),
        (savepoint(pb.NATIVE), "savepoint"),
        (STOP, "stop-with-savepoint"),
        (DRAIN, "stop-with-savepoint"),
    ],
)
def test_checkpoint_properties_have_a_description(properties, description):
    assert properties.description == description

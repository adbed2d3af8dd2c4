"""Snapshots in two steps: a short one on the task thread, which freezes, and a long one elsewhere, which writes.

Source: org.apache.flink.runtime.state.{SnapshotStrategy,Snapshotable}.
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from flinkpy.state.checkpoint_streams import CheckpointStreams

H_co = TypeVar("H_co", covariant=True)


class StateSnapshot(Protocol, Generic[H_co]):
    """State as it was when the snapshot was made, whatever the task does to it meanwhile.

    `write` is called at most once, on any thread; then, or instead, `release` once, on any thread, also after a failure
    or an abort. Only after `release` is the state as cheap to change as before.
    """

    def write(self, streams: CheckpointStreams) -> H_co | None:
        """Write it; None where there is nothing in it. Raises: CheckpointStorageError, FlinkError naming the state."""
        ...

    def release(self) -> None: ...

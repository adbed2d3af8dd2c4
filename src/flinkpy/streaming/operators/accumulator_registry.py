"""AccumulatorRegistry: the accumulators of one task, and their snapshots.

Functions add to accumulators on the task thread. Accumulators are pickled on the same thread, between two batches. So a
snapshot is consistent, and the user's code runs on no other thread.

Accumulators are part of checkpoints. A restored task continues with the values of the checkpoint, so the totals of a
job count every record once. A job that starts from the savepoint of another job counts from zero.

Source: org.apache.flink.runtime.accumulators.AccumulatorRegistry. Differs: in Flink accumulators are not part of
checkpoints, and values added before a failure are lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

import cloudpickle

from flinkpy.common.accumulators import Accumulator, AccumulatorFailure
from flinkpy.common.clock import Clock
from flinkpy.common.error_text import USER_ERRORS, describe
from flinkpy.common.errors import StateRestoreError, UnsupportedOperationError
from flinkpy.common.names import check_name
from flinkpy.state import pickling

#: The minimum time between two snapshots.
MIN_INTERVAL_NS = 1_000_000_000
#: Snapshots take at most this fraction (1/50) of the task's time.
MAX_SHARE = 50
#: The maximum pickled size of all accumulators of one task. They share one message with the task's other reports.
MAX_BYTES = 4 * 1024 * 1024

A = TypeVar("A", bound=Accumulator)


class AccumulatorRegistry:
    """Holds the accumulators of one task. Thread: task thread, except for `snapshot` and `wants_snapshot`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._accumulators: dict[str, Accumulator] = {}
        #: The pickled accumulators by name, from the last `take_snapshot`. Replaced, never changed. Any thread.
        self.snapshot: dict[str, bytes] = {}
        #: Accumulators of the checkpoint that no function has registered yet.
        self._restored: dict[str, Accumulator | AccumulatorFailure] = {}
        self._next_ns = 0
        self._is_asked_for = False

    def add(self, name: str, accumulator: Accumulator) -> None:
        """Registers an accumulator.

        Raises:
            UnsupportedOperationError: the task already has an accumulator of this name.
            UserError: the name is not allowed.
        """
        if not isinstance(accumulator, Accumulator):
            raise TypeError(f"accumulator {name!r} must be an Accumulator, not a {type(accumulator).__name__}")
        check_name(name, "the name of an accumulator")
        if name in self._accumulators:
            raise UnsupportedOperationError(f"accumulator {name!r} already exists: choose another name")
        restored = self._restored.get(name)
        if isinstance(restored, Accumulator):
            accumulator.merge(restored)
            del self._restored[name]
        self._accumulators[name] = accumulator

    def get(self, name: str) -> Accumulator | None:
        return self._accumulators.get(name)

    def get_or_add(self, name: str, kind: type[A]) -> A:
        """Returns the accumulator of this name, and creates it if needed.

        Raises: UnsupportedOperationError if the accumulator has another class than `kind`.
        """
        accumulator = self._accumulators.get(name)
        if accumulator is None:
            accumulator = kind()
            self.add(name, accumulator)
        if type(accumulator) is not kind:
            raise UnsupportedOperationError(
                f"accumulator {name!r} is a {type(accumulator).__name__}, not a {kind.__name__}"
            )
        return accumulator

    @property
    def is_empty(self) -> bool:
        return not self._accumulators and not self._restored

    def restore(self, snapshots: Iterable[Mapping[str, bytes]]) -> None:
        """Restores accumulators from the snapshots of one or several subtasks. Must come before any `add`.

        Raises: StateRestoreError if an accumulator cannot be loaded or merged.
        """
        for snapshot in snapshots:
            for name, data in snapshot.items():
                try:
                    accumulator = pickling.loads(data)
                    before = self._restored.get(name)
                    if before is None or isinstance(accumulator, AccumulatorFailure):
                        self._restored[name] = accumulator
                    elif isinstance(before, Accumulator):
                        before.merge(accumulator)
                except USER_ERRORS as error:
                    raise StateRestoreError(
                        f"accumulator {name!r} of the checkpoint cannot be restored: {describe(error)}"
                    ) from error

    def wants_snapshot(self) -> bool:
        """True if a snapshot is due. Returns True only once until that snapshot has been taken. Any thread."""
        if self.is_empty or self._is_asked_for or self._clock.monotonic_ns() < self._next_ns:
            return False
        self._is_asked_for = True
        return True

    def take_snapshot(self) -> None:
        """Takes a snapshot. Replaces an accumulator that cannot be pickled or is too large by an AccumulatorFailure."""
        began_ns = self._clock.monotonic_ns()
        taken: dict[str, bytes] = {}
        total = 0
        # Restored failures stay in the snapshot.
        for name, accumulator in {**self._accumulators, **self._restored}.items():
            try:
                data, reason = pickling.dumps(accumulator), ""
                if total + len(data) > MAX_BYTES:
                    reason = f"has {len(data)} bytes, but all accumulators of a task may only have {MAX_BYTES}"
            except USER_ERRORS as error:  # the user's own class
                data, reason = b"", f"cannot be pickled: {describe(error)}"
            if reason:
                data = cloudpickle.dumps(AccumulatorFailure(name, reason))
            total += len(data)
            taken[name] = data
        self.snapshot = taken
        ended_ns = self._clock.monotonic_ns()
        self._next_ns = ended_ns + max(MIN_INTERVAL_NS, MAX_SHARE * (ended_ns - began_ns))
        self._is_asked_for = False

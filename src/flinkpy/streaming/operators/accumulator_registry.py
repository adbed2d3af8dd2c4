"""AccumulatorRegistry: the accumulators that the functions of one task have made, and their snapshots.

The functions add to them on the task thread, and only there are they pickled: between two batches, so that a snapshot
shows one moment, and the user's own code runs on no other thread.

They are part of checkpoints: a task that is restored goes on with what had been added by then, so that the totals of a
job count every record once. A job that is started from the savepoint of another one counts anew.

Source: org.apache.flink.runtime.accumulators.AccumulatorRegistry. Differs: there accumulators are in no checkpoint, and
what was added before a failure is lost.
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

#: A snapshot is not taken more often than this.
MIN_INTERVAL_NS = 1_000_000_000
#: Nor so often that snapshots take more than 1/50 of the task's time.
MAX_SHARE = 50
#: Of all accumulators of one task, pickled: they travel in one message with what else the task reports.
MAX_BYTES = 4 * 1024 * 1024

A = TypeVar("A", bound=Accumulator)


class AccumulatorRegistry:
    """Thread: task thread, but for `snapshot` and `wants_snapshot`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._accumulators: dict[str, Accumulator] = {}
        #: By name, pickled, as of the last `take_snapshot`; replaced, never changed. Any thread.
        self.snapshot: dict[str, bytes] = {}
        #: From the checkpoint, until a function registers one of that name.
        self._restored: dict[str, Accumulator | AccumulatorFailure] = {}
        self._next_ns = 0
        self._is_asked_for = False

    def add(self, name: str, accumulator: Accumulator) -> None:
        """Raises: UnsupportedOperationError where a function of this task has one of that name, UserError where the
        name cannot be sent."""
        if not isinstance(accumulator, Accumulator):
            raise TypeError(f"accumulator {name!r} must be an Accumulator, not a {type(accumulator).__name__}")
        check_name(name, "the name of an accumulator")
        if name in self._accumulators:
            raise UnsupportedOperationError(f"the accumulator {name!r} already exists and cannot be added")
        restored = self._restored.get(name)
        if isinstance(restored, Accumulator):
            accumulator.merge(restored)
            del self._restored[name]
        self._accumulators[name] = accumulator

    def get(self, name: str) -> Accumulator | None:
        return self._accumulators.get(name)

    def get_or_add(self, name: str, kind: type[A]) -> A:
        """The accumulator of that name, made where there is none yet. Raises: UnsupportedOperationError where it is of
        another kind."""
        accumulator = self._accumulators.get(name)
        if accumulator is None:
            accumulator = kind()
            self.add(name, accumulator)
        if type(accumulator) is not kind:
            raise UnsupportedOperationError(
                f"the accumulator {name!r} is a {type(accumulator).__name__}, not a {kind.__name__}"
            )
        return accumulator

    @property
    def is_empty(self) -> bool:
        return not self._accumulators and not self._restored

    def restore(self, snapshots: Iterable[Mapping[str, bytes]]) -> None:
        """Go on from these snapshots, of one or several subtasks. Before any function registers an accumulator.

        Raises: StateRestoreError where one cannot be loaded or merged.
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
        """Whether it is time for the next one; True once until that has been taken. Any thread."""
        if self.is_empty or self._is_asked_for or self._clock.monotonic_ns() < self._next_ns:
            return False
        self._is_asked_for = True
        return True

    def take_snapshot(self) -> None:
        """One that cannot be pickled, or is too large, is replaced by an AccumulatorFailure; the task goes on."""
        began_ns = self._clock.monotonic_ns()
        taken: dict[str, bytes] = {}
        total = 0
        # A failure that was restored stays one.
        for name, accumulator in {**self._accumulators, **self._restored}.items():
            try:
                data, reason = pickling.dumps(accumulator), ""
                if total + len(data) > MAX_BYTES:
                    reason = f"has {len(data)} bytes; all of a task may have {MAX_BYTES}"
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

"""Key groups: the units in which keyed state is assigned to subtasks and moved between them.

A key belongs to key group `hash(key) % max_parallelism`, and key group g to subtask
`g * parallelism // max_parallelism`. The vectorised hash is in `flinkpy.records.key_hash`; this module
contains the arithmetic, which the control path needs too.

This module also validates the parallelism that a program sets.

Source: org.apache.flink.runtime.state.KeyGroupRangeAssignment.
"""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_LOWER_BOUND_MAX_PARALLELISM = 1 << 7
UPPER_BOUND_MAX_PARALLELISM = 1 << 15


@dataclass(frozen=True, slots=True)
class KeyGroupRange:
    """Key groups from `start` to `end`, both inclusive; empty if `end < start`."""

    start: int
    end: int

    def __len__(self) -> int:
        return max(0, self.end - self.start + 1)

    def __contains__(self, key_group: object) -> bool:
        return isinstance(key_group, int) and self.start <= key_group <= self.end


def default_max_parallelism(parallelism: int) -> int:
    """Returns Flink's default: 1.5 times the parallelism, rounded up to a power of two, within [128, 32768]."""
    wanted = parallelism + parallelism // 2
    rounded = 1 << (wanted - 1).bit_length() if wanted > 0 else 1
    return min(max(rounded, DEFAULT_LOWER_BOUND_MAX_PARALLELISM), UPPER_BOUND_MAX_PARALLELISM)


def operator_index(max_parallelism: int, parallelism: int, key_group: int) -> int:
    """Returns the index of the subtask that owns `key_group`."""
    return key_group * parallelism // max_parallelism


def key_group_range(max_parallelism: int, parallelism: int, subtask_index: int) -> KeyGroupRange:
    """Returns the key groups that the subtask owns."""
    start = (subtask_index * max_parallelism + parallelism - 1) // parallelism
    end = ((subtask_index + 1) * max_parallelism - 1) // parallelism
    return KeyGroupRange(start, end)


#: The parallelism of a JobVertex for which the JobMaster decides.
UNDECIDED_PARALLELISM = -1


def check_parallelism(parallelism: int) -> None:
    _check_range("parallelism", parallelism)


def check_max_parallelism(max_parallelism: int) -> None:
    _check_range("maximum parallelism", max_parallelism)


def _check_range(name: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"the {name} must be an int, not {value!r}")
    if not 1 <= value <= UPPER_BOUND_MAX_PARALLELISM:
        raise ValueError(f"The {name} must be from 1 to {UPPER_BOUND_MAX_PARALLELISM}, not {value}.")


def check_buffer_timeout(timeout_ms: int) -> None:
    if isinstance(timeout_ms, bool) or not isinstance(timeout_ms, int):
        raise TypeError(f"the buffer timeout must be an int (milliseconds), not {timeout_ms!r}")
    if timeout_ms < -1:
        raise ValueError(f"The buffer timeout must be -1 (only when full), 0 or more, not {timeout_ms}.")

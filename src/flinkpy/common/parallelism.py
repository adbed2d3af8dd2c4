"""Validation of numbers that a program sets on its environment or on an operator."""

from __future__ import annotations

from flinkpy.common.key_groups import UPPER_BOUND_MAX_PARALLELISM

#: The parallelism of a JobVertex for which the JobMaster decides.
UNDECIDED_PARALLELISM = -1


def check_parallelism(parallelism: int) -> None:
    if isinstance(parallelism, bool) or not isinstance(parallelism, int):
        raise TypeError(f"the parallelism must be an int, not {parallelism!r}")
    if not 1 <= parallelism <= UPPER_BOUND_MAX_PARALLELISM:
        raise ValueError(f"The parallelism must be from 1 to {UPPER_BOUND_MAX_PARALLELISM}, not {parallelism}.")


def check_max_parallelism(max_parallelism: int) -> None:
    if isinstance(max_parallelism, bool) or not isinstance(max_parallelism, int):
        raise TypeError(f"the maximum parallelism must be an int, not {max_parallelism!r}")
    if not 1 <= max_parallelism <= UPPER_BOUND_MAX_PARALLELISM:
        raise ValueError(
            f"The maximum parallelism must be from 1 to {UPPER_BOUND_MAX_PARALLELISM}, not {max_parallelism}."
        )


def check_buffer_timeout(timeout_ms: int) -> None:
    if isinstance(timeout_ms, bool) or not isinstance(timeout_ms, int):
        raise TypeError(f"the buffer timeout must be an int (milliseconds), not {timeout_ms!r}")
    if timeout_ms < -1:
        raise ValueError(f"The buffer timeout must be -1 (only when full), 0 or more, not {timeout_ms}.")

"""CheckpointConfig: how a job's checkpoints are taken. A view of `execution.checkpointing.*` in its configuration.

Source: pyflink.datastream.CheckpointConfig; what Java's class has beyond it is here too.
"""

from __future__ import annotations

from typing import Any

from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.common.time import Duration
from flinkpy.configuration import checkpointing_options as options
from flinkpy.configuration.options import ConfigOption, read_option
from flinkpy.datastream.checkpointing_mode import CheckpointingMode
from flinkpy.datastream.externalized_checkpoint_retention import ExternalizedCheckpointRetention

__all__ = ["CheckpointConfig"]

#: Flink's number for "any number of checkpoints may fail".
_UNLIMITED_FAILURES = 2_147_483_647


class CheckpointConfig:
    """Everything is read from and written to the configuration it was made with; times are in milliseconds."""

    def __init__(self, j_checkpoint_config: Configuration) -> None:
        self._configuration = j_checkpoint_config

    # -- whether and when ------------------------------------------------------------------------------------------

    def is_checkpointing_enabled(self) -> bool:
        return self.get_checkpoint_interval() > 0

    def disable_checkpointing(self) -> None:
        """No periodic checkpoints; savepoints work without them. Beyond PyFlink."""
        self._configuration.remove_config(options.INTERVAL.key)

    def get_checkpointing_mode(self) -> CheckpointingMode:
        return CheckpointingMode[read_option(self._configuration, options.MODE)]

    def set_checkpointing_mode(self, checkpointing_mode: CheckpointingMode) -> CheckpointConfig:
        if not isinstance(checkpointing_mode, CheckpointingMode):
            raise TypeError(f"a checkpointing mode must be a CheckpointingMode, not {checkpointing_mode!r}")
        return self._set(options.MODE, checkpointing_mode.name)

    def get_checkpoint_interval(self) -> int:
        """-1: there are no periodic checkpoints."""
        interval_ms = read_option(self._configuration, options.INTERVAL)
        return -1 if interval_ms is None else interval_ms

    def set_checkpoint_interval(self, checkpoint_interval: int) -> CheckpointConfig:
        """The time from the start of one checkpoint to the start of the next.

        Raises: ValueError below 10 ms.
        """
        _check_at_least("Checkpoint interval", checkpoint_interval, options.MINIMAL_CHECKPOINT_TIME_MS)
        return self._set_ms(options.INTERVAL, checkpoint_interval)

    def get_checkpoint_interval_during_backlog(self) -> int:
        """While a source reads a backlog; 0: no checkpoints meanwhile. Beyond PyFlink."""
        interval_ms = read_option(self._configuration, options.INTERVAL_DURING_BACKLOG)
        return self.get_checkpoint_interval() if interval_ms is None else interval_ms

    def set_checkpoint_interval_during_backlog(self, checkpoint_interval: int) -> CheckpointConfig:
        """Beyond PyFlink. Raises: ValueError where it is neither 0 nor at least 10 ms."""
        if checkpoint_interval != 0:
            _check_at_least("Checkpoint interval", checkpoint_interval, options.MINIMAL_CHECKPOINT_TIME_MS)
        return self._set_ms(options.INTERVAL_DURING_BACKLOG, checkpoint_interval)

    def get_checkpoint_timeout(self) -> int:
        return read_option(self._configuration, options.TIMEOUT)

    def set_checkpoint_timeout(self, checkpoint_timeout: int) -> CheckpointConfig:
        """Give a checkpoint up that takes longer. Raises: ValueError below 10 ms."""
        _check_at_least("Checkpoint timeout", checkpoint_timeout, options.MINIMAL_CHECKPOINT_TIME_MS)
        return self._set_ms(options.TIMEOUT, checkpoint_timeout)

    def get_min_pause_between_checkpoints(self) -> int:
        return read_option(self._configuration, options.MIN_PAUSE)

    def set_min_pause_between_checkpoints(self, min_pause_between_checkpoints: int) -> CheckpointConfig:
        """Time for which the job does nothing but its work between two checkpoints."""
        _check_whole_number("Pause value", min_pause_between_checkpoints)
        if min_pause_between_checkpoints < 0:
            raise ValueError("Pause value must be zero or positive")
        return self._set_ms(options.MIN_PAUSE, min_pause_between_checkpoints)

    def get_max_concurrent_checkpoints(self) -> int:
        return read_option(self._configuration, options.MAX_CONCURRENT_CHECKPOINTS)

    def set_max_concurrent_checkpoints(self, max_concurrent_checkpoints: int) -> CheckpointConfig:
        _check_whole_number("The maximum number of concurrent attempts", max_concurrent_checkpoints)
        if max_concurrent_checkpoints < 1:
            raise ValueError("The maximum number of concurrent attempts must be at least one.")
        return self._set(options.MAX_CONCURRENT_CHECKPOINTS, str(max_concurrent_checkpoints))

    # -- what a failed checkpoint does -----------------------------------------------------------------------------

    def is_fail_on_checkpointing_errors(self) -> bool:
        """Whether the first failed checkpoint restarts the job."""
        return self.get_tolerable_checkpoint_failure_number() == 0

    def set_fail_on_checkpointing_errors(self, fail_on_checkpointing_errors: bool) -> CheckpointConfig:
        """True: no checkpoint may fail; False: any number may."""
        return self.set_tolerable_checkpoint_failure_number(0 if fail_on_checkpointing_errors else _UNLIMITED_FAILURES)

    def get_tolerable_checkpoint_failure_number(self) -> int:
        return read_option(self._configuration, options.TOLERABLE_FAILED_CHECKPOINTS)

    def set_tolerable_checkpoint_failure_number(self, tolerable_checkpoint_failure_number: int) -> CheckpointConfig:
        """How many checkpoints may fail in a row before the job is restarted."""
        _check_whole_number("The tolerable failure checkpoint number", tolerable_checkpoint_failure_number)
        if tolerable_checkpoint_failure_number < 0:
            raise ValueError("The tolerable failure checkpoint number must be non-negative.")
        return self._set(options.TOLERABLE_FAILED_CHECKPOINTS, str(tolerable_checkpoint_failure_number))

    # -- what stays ------------------------------------------------------------------------------------------------

    def set_externalized_checkpoint_retention(
        self, retention_mode: ExternalizedCheckpointRetention
    ) -> CheckpointConfig:
        """Whether checkpoints outlive their job, so that another can be started from them."""
        if not isinstance(retention_mode, ExternalizedCheckpointRetention):
            raise TypeError(f"a retention must be an ExternalizedCheckpointRetention, not {retention_mode!r}")
        return self._set(options.EXTERNALIZED_CHECKPOINT_RETENTION, retention_mode.name)

    def is_externalized_checkpoints_enabled(self) -> bool:
        return (
            self.get_externalized_checkpoint_retention()
            is not ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS
        )

    def get_externalized_checkpoint_retention(self) -> ExternalizedCheckpointRetention | None:
        name = read_option(self._configuration, options.EXTERNALIZED_CHECKPOINT_RETENTION)
        return ExternalizedCheckpointRetention[name]

    # -- unaligned checkpoints -------------------------------------------------------------------------------------

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Only with EXACTLY_ONCE: at-least-once barriers wait for nothing anyway."""
        return self.get_checkpointing_mode() is CheckpointingMode.EXACTLY_ONCE and read_option(
            self._configuration, options.UNALIGNED
        )

    def enable_unaligned_checkpoints(self, enabled: bool = True) -> CheckpointConfig:
        """Let barriers overtake records, so that a slow operator does not hold checkpoints up."""
        return self._set_flag(options.UNALIGNED, enabled)

    def disable_unaligned_checkpoints(self) -> CheckpointConfig:
        return self.enable_unaligned_checkpoints(False)

    def set_aligned_checkpoint_timeout(self, alignment_timeout: Duration) -> CheckpointConfig:
        """With unaligned checkpoints: how long one stays aligned before its barriers overtake records."""
        if not isinstance(alignment_timeout, Duration):
            raise TypeError(f"a timeout must be a Duration, not {alignment_timeout!r}")
        return self._set_ms(options.ALIGNED_CHECKPOINT_TIMEOUT, alignment_timeout.to_millis())

    def get_aligned_checkpoint_timeout(self) -> Duration:
        return Duration.of_millis(read_option(self._configuration, options.ALIGNED_CHECKPOINT_TIMEOUT))

    def set_alignment_timeout(self, alignment_timeout: Duration) -> CheckpointConfig:
        """The older name of `set_aligned_checkpoint_timeout`."""
        return self.set_aligned_checkpoint_timeout(alignment_timeout)

    def get_alignment_timeout(self) -> Duration:
        """The older name of `get_aligned_checkpoint_timeout`."""
        return self.get_aligned_checkpoint_timeout()

    def set_force_unaligned_checkpoints(self, force_unaligned_checkpoints: bool = True) -> CheckpointConfig:
        """Even where a custom partitioner means that such a checkpoint cannot be rescaled."""
        return self._set_flag(options.UNALIGNED_FORCED, force_unaligned_checkpoints)

    def is_force_unaligned_checkpoints(self) -> bool:
        return read_option(self._configuration, options.UNALIGNED_FORCED)

    def set_max_subtasks_per_channel_state_file(self, max_subtasks_per_channel_state_file: int) -> CheckpointConfig:
        """Beyond PyFlink."""
        _check_at_least("The number of subtasks per file", max_subtasks_per_channel_state_file, 1, unit="")
        return self._set(
            options.UNALIGNED_MAX_SUBTASKS_PER_CHANNEL_STATE_FILE, str(max_subtasks_per_channel_state_file)
        )

    def get_max_subtasks_per_channel_state_file(self) -> int:
        """Beyond PyFlink."""
        return read_option(self._configuration, options.UNALIGNED_MAX_SUBTASKS_PER_CHANNEL_STATE_FILE)

    def enable_unaligned_checkpoints_interruptible_timers(self, enabled: bool = True) -> CheckpointConfig:
        """Let a barrier come between timers that fire together. Beyond PyFlink."""
        return self._set_flag(options.UNALIGNED_INTERRUPTIBLE_TIMERS, enabled)

    def is_unaligned_checkpoints_interruptible_timers_enabled(self) -> bool:
        """Beyond PyFlink."""
        return read_option(self._configuration, options.UNALIGNED_INTERRUPTIBLE_TIMERS)

    # -- what else Java has ----------------------------------------------------------------------------------------

    def set_pause_sources_until_first_checkpoint(self, pause: bool = True) -> CheckpointConfig:
        """Let sources wait with their first record for a completed checkpoint. Beyond PyFlink."""
        return self._set_flag(options.PAUSE_SOURCES_UNTIL_FIRST_CHECKPOINT, pause)

    def is_pause_sources_until_first_checkpoint(self) -> bool:
        """Beyond PyFlink."""
        return read_option(self._configuration, options.PAUSE_SOURCES_UNTIL_FIRST_CHECKPOINT)

    def enable_approximate_local_recovery(self, enabled: bool = True) -> CheckpointConfig:
        """Always raises where it is to be enabled: records would be lost without a word. Beyond PyFlink."""
        if enabled:
            raise UnsupportedOperationError(
                "enable_approximate_local_recovery: flinkpy does not trade records for a faster recovery"
            )
        return self

    def is_approximate_local_recovery_enabled(self) -> bool:
        """Beyond PyFlink."""
        return False

    # -- inside ----------------------------------------------------------------------------------------------------

    def _set(self, option: ConfigOption[Any], value: str) -> CheckpointConfig:
        self._configuration.set_string(option.key, value)
        return self

    def _set_ms(self, option: ConfigOption[Any], value_ms: int) -> CheckpointConfig:
        return self._set(option, f"{value_ms} ms")

    def _set_flag(self, option: ConfigOption[bool], value: bool) -> CheckpointConfig:
        self._configuration.set_boolean(option.key, value)
        return self


def _check_at_least(what: str, value: int, least: int, unit: str = " ms") -> None:
    _check_whole_number(what, value)
    if value < least:
        raise ValueError(f"{what} must be larger than or equal to {least}{unit}")


def _check_whole_number(what: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{what} must be an integer, not {value!r}")

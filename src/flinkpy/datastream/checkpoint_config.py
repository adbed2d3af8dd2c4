"""CheckpointConfig: the checkpoint settings of a job. A view of `execution.checkpointing.*` in its configuration.

Source: pyflink.datastream.CheckpointConfig, and the further methods of Java's class.
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
    """The checkpoint settings of an environment. Times are in milliseconds. Setters return this object.

    It keeps nothing itself: it reads and writes the configuration that it was created with.

    Example:
        ```
        config = env.get_checkpoint_config()
        config.set_checkpoint_interval(30_000).set_checkpoint_timeout(120_000)
        config.set_externalized_checkpoint_retention(ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION)
        ```
    """

    def __init__(self, j_checkpoint_config: Configuration) -> None:
        self._configuration = j_checkpoint_config

    # -- mode and times --------------------------------------------------------------------------------------------

    def is_checkpointing_enabled(self) -> bool:
        """Returns True if there are periodic checkpoints."""
        return self.get_checkpoint_interval() > 0

    def disable_checkpointing(self) -> None:
        """Disables periodic checkpoints. Savepoints still work. Beyond PyFlink."""
        self._configuration.remove_config(options.INTERVAL.key)

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """Returns EXACTLY_ONCE or AT_LEAST_ONCE."""
        return CheckpointingMode[read_option(self._configuration, options.MODE)]

    def set_checkpointing_mode(self, checkpointing_mode: CheckpointingMode) -> CheckpointConfig:
        """Sets the guarantee of checkpoints."""
        if not isinstance(checkpointing_mode, CheckpointingMode):
            raise TypeError(f"a checkpointing mode must be a CheckpointingMode, not {checkpointing_mode!r}")
        return self._set(options.MODE, checkpointing_mode.name)

    def get_checkpoint_interval(self) -> int:
        """Returns the checkpoint interval; -1 if there are no periodic checkpoints."""
        interval_ms = read_option(self._configuration, options.INTERVAL)
        return -1 if interval_ms is None else interval_ms

    def set_checkpoint_interval(self, checkpoint_interval: int) -> CheckpointConfig:
        """Sets the time from the start of one checkpoint to the start of the next.

        Raises:
            ValueError: it is below 10 ms.
        """
        _check_at_least("Checkpoint interval", checkpoint_interval, options.MINIMAL_CHECKPOINT_TIME_MS)
        return self._set_ms(options.INTERVAL, checkpoint_interval)

    def get_checkpoint_interval_during_backlog(self) -> int:
        """Returns the checkpoint interval while a source reads a backlog; 0 for no checkpoints. Beyond PyFlink."""
        interval_ms = read_option(self._configuration, options.INTERVAL_DURING_BACKLOG)
        return self.get_checkpoint_interval() if interval_ms is None else interval_ms

    def set_checkpoint_interval_during_backlog(self, checkpoint_interval: int) -> CheckpointConfig:
        """Sets the checkpoint interval while a source reads a backlog; 0 for no checkpoints. Beyond PyFlink.

        Raises:
            ValueError: it is neither 0 nor at least 10 ms.
        """
        if checkpoint_interval != 0:
            _check_at_least("Checkpoint interval", checkpoint_interval, options.MINIMAL_CHECKPOINT_TIME_MS)
        return self._set_ms(options.INTERVAL_DURING_BACKLOG, checkpoint_interval)

    def get_checkpoint_timeout(self) -> int:
        """Returns the time after which a checkpoint is aborted."""
        return read_option(self._configuration, options.TIMEOUT)

    def set_checkpoint_timeout(self, checkpoint_timeout: int) -> CheckpointConfig:
        """Sets the time after which a checkpoint is aborted.

        Raises:
            ValueError: it is below 10 ms.
        """
        _check_at_least("Checkpoint timeout", checkpoint_timeout, options.MINIMAL_CHECKPOINT_TIME_MS)
        return self._set_ms(options.TIMEOUT, checkpoint_timeout)

    def get_min_pause_between_checkpoints(self) -> int:
        """Returns the shortest time between the end of a checkpoint and the start of the next."""
        return read_option(self._configuration, options.MIN_PAUSE)

    def set_min_pause_between_checkpoints(self, min_pause_between_checkpoints: int) -> CheckpointConfig:
        """Sets the shortest time between the end of a checkpoint and the start of the next."""
        _check_whole_number("Pause value", min_pause_between_checkpoints)
        if min_pause_between_checkpoints < 0:
            raise ValueError("Pause value must be zero or positive")
        return self._set_ms(options.MIN_PAUSE, min_pause_between_checkpoints)

    def get_max_concurrent_checkpoints(self) -> int:
        """Returns the number of checkpoints that may be in progress at the same time."""
        return read_option(self._configuration, options.MAX_CONCURRENT_CHECKPOINTS)

    def set_max_concurrent_checkpoints(self, max_concurrent_checkpoints: int) -> CheckpointConfig:
        """Sets the number of checkpoints that may be in progress at the same time, at least 1."""
        _check_whole_number("The maximum number of concurrent attempts", max_concurrent_checkpoints)
        if max_concurrent_checkpoints < 1:
            raise ValueError("The maximum number of concurrent attempts must be at least one.")
        return self._set(options.MAX_CONCURRENT_CHECKPOINTS, str(max_concurrent_checkpoints))

    # -- failed checkpoints ----------------------------------------------------------------------------------------

    def is_fail_on_checkpointing_errors(self) -> bool:
        """Returns True if the first failed checkpoint restarts the job."""
        return self.get_tolerable_checkpoint_failure_number() == 0

    def set_fail_on_checkpointing_errors(self, fail_on_checkpointing_errors: bool) -> CheckpointConfig:
        """Makes any failed checkpoint (True) or no failed checkpoint (False) restart the job."""
        return self.set_tolerable_checkpoint_failure_number(0 if fail_on_checkpointing_errors else _UNLIMITED_FAILURES)

    def get_tolerable_checkpoint_failure_number(self) -> int:
        """Returns the number of checkpoints that may fail in a row before the job is restarted."""
        return read_option(self._configuration, options.TOLERABLE_FAILED_CHECKPOINTS)

    def set_tolerable_checkpoint_failure_number(self, tolerable_checkpoint_failure_number: int) -> CheckpointConfig:
        """Sets the number of checkpoints that may fail in a row before the job is restarted."""
        _check_whole_number("The tolerable failure checkpoint number", tolerable_checkpoint_failure_number)
        if tolerable_checkpoint_failure_number < 0:
            raise ValueError("The tolerable failure checkpoint number must be non-negative.")
        return self._set(options.TOLERABLE_FAILED_CHECKPOINTS, str(tolerable_checkpoint_failure_number))

    # -- retained checkpoints --------------------------------------------------------------------------------------

    def set_externalized_checkpoint_retention(
        self, retention_mode: ExternalizedCheckpointRetention
    ) -> CheckpointConfig:
        """Sets if checkpoints are kept after the end of their job, so that another job can start from them."""
        if not isinstance(retention_mode, ExternalizedCheckpointRetention):
            raise TypeError(f"a retention must be an ExternalizedCheckpointRetention, not {retention_mode!r}")
        return self._set(options.EXTERNALIZED_CHECKPOINT_RETENTION, retention_mode.name)

    def is_externalized_checkpoints_enabled(self) -> bool:
        """Returns True if checkpoints may be kept after the end of their job."""
        return (
            self.get_externalized_checkpoint_retention()
            is not ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS
        )

    def get_externalized_checkpoint_retention(self) -> ExternalizedCheckpointRetention | None:
        """Returns when checkpoints are kept after the end of their job."""
        name = read_option(self._configuration, options.EXTERNALIZED_CHECKPOINT_RETENTION)
        return ExternalizedCheckpointRetention[name]

    # -- unaligned checkpoints -------------------------------------------------------------------------------------

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Returns True if barriers may overtake records. False for AT_LEAST_ONCE, which aligns nothing."""
        return self.get_checkpointing_mode() is CheckpointingMode.EXACTLY_ONCE and read_option(
            self._configuration, options.UNALIGNED
        )

    def enable_unaligned_checkpoints(self, enabled: bool = True) -> CheckpointConfig:
        """Lets barriers overtake records, so that a slow operator does not delay checkpoints."""
        return self._set_flag(options.UNALIGNED, enabled)

    def disable_unaligned_checkpoints(self) -> CheckpointConfig:
        """Keeps barriers behind the records before them."""
        return self.enable_unaligned_checkpoints(False)

    def set_aligned_checkpoint_timeout(self, alignment_timeout: Duration) -> CheckpointConfig:
        """Sets how long an unaligned checkpoint stays aligned before its barriers overtake records."""
        if not isinstance(alignment_timeout, Duration):
            raise TypeError(f"a timeout must be a Duration, not {alignment_timeout!r}")
        return self._set_ms(options.ALIGNED_CHECKPOINT_TIMEOUT, alignment_timeout.to_millis())

    def get_aligned_checkpoint_timeout(self) -> Duration:
        """Returns how long an unaligned checkpoint stays aligned before its barriers overtake records."""
        return Duration.of_millis(read_option(self._configuration, options.ALIGNED_CHECKPOINT_TIMEOUT))

    def set_alignment_timeout(self, alignment_timeout: Duration) -> CheckpointConfig:
        """Sets the aligned checkpoint timeout, under its older name."""
        return self.set_aligned_checkpoint_timeout(alignment_timeout)

    def get_alignment_timeout(self) -> Duration:
        """Returns the aligned checkpoint timeout, under its older name."""
        return self.get_aligned_checkpoint_timeout()

    def set_force_unaligned_checkpoints(self, force_unaligned_checkpoints: bool = True) -> CheckpointConfig:
        """Allows unaligned checkpoints with custom partitioners, although they cannot be rescaled."""
        return self._set_flag(options.UNALIGNED_FORCED, force_unaligned_checkpoints)

    def is_force_unaligned_checkpoints(self) -> bool:
        """Returns True if unaligned checkpoints are allowed with custom partitioners."""
        return read_option(self._configuration, options.UNALIGNED_FORCED)

    def set_max_subtasks_per_channel_state_file(self, max_subtasks_per_channel_state_file: int) -> CheckpointConfig:
        """Sets the number of subtasks that share a file of in-flight records, at least 1. Beyond PyFlink."""
        _check_at_least("The number of subtasks per file", max_subtasks_per_channel_state_file, 1, unit="")
        return self._set(
            options.UNALIGNED_MAX_SUBTASKS_PER_CHANNEL_STATE_FILE, str(max_subtasks_per_channel_state_file)
        )

    def get_max_subtasks_per_channel_state_file(self) -> int:
        """Returns the number of subtasks that share a file of in-flight records. Beyond PyFlink."""
        return read_option(self._configuration, options.UNALIGNED_MAX_SUBTASKS_PER_CHANNEL_STATE_FILE)

    def enable_unaligned_checkpoints_interruptible_timers(self, enabled: bool = True) -> CheckpointConfig:
        """Lets a barrier be handled between timers that fire together. Beyond PyFlink."""
        return self._set_flag(options.UNALIGNED_INTERRUPTIBLE_TIMERS, enabled)

    def is_unaligned_checkpoints_interruptible_timers_enabled(self) -> bool:
        """Returns True if a barrier may be handled between timers that fire together. Beyond PyFlink."""
        return read_option(self._configuration, options.UNALIGNED_INTERRUPTIBLE_TIMERS)

    # -- further settings of Java's class ---------------------------------------------------------------------------

    def set_pause_sources_until_first_checkpoint(self, pause: bool = True) -> CheckpointConfig:
        """Makes sources hold back their first record until the first checkpoint has started. Beyond PyFlink."""
        return self._set_flag(options.PAUSE_SOURCES_UNTIL_FIRST_CHECKPOINT, pause)

    def is_pause_sources_until_first_checkpoint(self) -> bool:
        """Returns True if sources emit nothing until the first checkpoint has started. Beyond PyFlink."""
        return read_option(self._configuration, options.PAUSE_SOURCES_UNTIL_FIRST_CHECKPOINT)

    def enable_approximate_local_recovery(self, enabled: bool = True) -> CheckpointConfig:
        """Raises UnsupportedOperationError if `enabled` is True: records would be lost silently. Beyond PyFlink."""
        if enabled:
            raise UnsupportedOperationError(
                "enable_approximate_local_recovery: flinkpy does not trade records for a faster recovery"
            )
        return self

    def is_approximate_local_recovery_enabled(self) -> bool:
        """Returns False. Beyond PyFlink."""
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

"""Validation of a configuration; it reports all mistakes at once."""

from __future__ import annotations

from collections.abc import Callable

from flinkpy.common.errors import ConfigurationError
from flinkpy.configuration.options import AnyConfiguration, describe_bad_value, entries_of, read_option


def validate(configuration: AnyConfiguration) -> None:
    """Checks that every key is known, every value has the type of its option, and no two options contradict each other.

    Raises:
        ConfigurationError: with one line per mistake, sorted by key.
    """
    mistakes = _mistakes_of_single_options(configuration)
    if not mistakes:
        mistakes = [text for check in _RELATIONS if (text := check(configuration)) is not None]
    raise_mistakes(mistakes)


def raise_mistakes(mistakes: list[str]) -> None:
    """Raises one ConfigurationError for all `mistakes`, if there are any."""
    if len(mistakes) == 1:
        raise ConfigurationError(mistakes[0])
    if mistakes:
        listed = "".join(f"\n  - {text}" for text in mistakes)
        raise ConfigurationError(f"the configuration has {len(mistakes)} mistakes:{listed}")


def _mistakes_of_single_options(configuration: AnyConfiguration) -> list[str]:
    from flinkpy.configuration.registry import find_option, nearest_key

    mistakes = []
    for key, text in sorted(entries_of(configuration).items()):
        option = find_option(key)
        if option is None:
            nearest = nearest_key(key)
            hint = f"; did you mean `{nearest}`?" if nearest else ""
            mistakes.append(f"option `{key}` does not exist{hint}")
            continue
        try:
            option.parse(text)
        except ValueError as error:
            mistakes.append(describe_bad_value(key, text, option, error))
    return mistakes


def _heartbeat_interval_is_below_timeout(configuration: AnyConfiguration) -> str | None:
    from flinkpy.configuration.cluster_options import HEARTBEAT_INTERVAL, HEARTBEAT_TIMEOUT

    interval, timeout = read_option(configuration, HEARTBEAT_INTERVAL), read_option(configuration, HEARTBEAT_TIMEOUT)
    if interval < timeout:
        return None
    return (
        f"option `heartbeat.interval` ({interval} ms) must be smaller than `heartbeat.timeout` ({timeout} ms), "
        "or every process would be considered dead"
    )


def _network_memory_min_is_not_above_max(configuration: AnyConfiguration) -> str | None:
    from flinkpy.configuration.taskmanager_options import NETWORK_MEMORY_MAX, NETWORK_MEMORY_MIN

    least, most = read_option(configuration, NETWORK_MEMORY_MIN), read_option(configuration, NETWORK_MEMORY_MAX)
    if least <= most:
        return None
    return (
        f"option `taskmanager.memory.network.min` ({least} bytes) is above "
        f"`taskmanager.memory.network.max` ({most} bytes)"
    )


def _slots_min_is_not_above_max(configuration: AnyConfiguration) -> str | None:
    from flinkpy.configuration.resource_manager_options import MAX_SLOT_NUM, MIN_SLOT_NUM

    least, most = read_option(configuration, MIN_SLOT_NUM), read_option(configuration, MAX_SLOT_NUM)
    if least <= most:
        return None
    return f"option `slotmanager.number-of-slots.min` ({least}) is above `slotmanager.number-of-slots.max` ({most})"


def _max_parallelism_is_not_zero(configuration: AnyConfiguration) -> str | None:
    from flinkpy.configuration.pipeline_options import MAX_PARALLELISM

    if read_option(configuration, MAX_PARALLELISM) != 0:
        return None
    return "option `pipeline.max-parallelism` is 0: it must be -1 (derived) or at least 1"


def _checkpoint_interval_is_sensible(configuration: AnyConfiguration) -> str | None:
    from flinkpy.configuration import checkpointing_options as options

    least = options.MINIMAL_CHECKPOINT_TIME_MS
    for option in (options.INTERVAL, options.INTERVAL_DURING_BACKLOG):
        interval = read_option(configuration, option)
        if interval is not None and 0 < interval < least:
            return f"option `{option.key}` is {interval} ms: it must be 0 (no checkpoints) or at least {least} ms"
    usual = read_option(configuration, options.INTERVAL)
    during_backlog = read_option(configuration, options.INTERVAL_DURING_BACKLOG)
    if usual and during_backlog and during_backlog < usual:
        return (
            f"option `{options.INTERVAL_DURING_BACKLOG.key}` is {during_backlog} ms: it must be 0 (no checkpoints) or "
            f"at least `{options.INTERVAL.key}`, {usual} ms"
        )
    if during_backlog == 0 and read_option(configuration, options.PAUSE_SOURCES_UNTIL_FIRST_CHECKPOINT):
        return (
            f"option `{options.PAUSE_SOURCES_UNTIL_FIRST_CHECKPOINT.key}` waits for a checkpoint, but "
            f"`{options.INTERVAL_DURING_BACKLOG.key}` is 0, which allows none during a backlog"
        )
    return None


def _unaligned_checkpoints_are_exactly_once(configuration: AnyConfiguration) -> str | None:
    from flinkpy.configuration.checkpointing_options import MAX_CONCURRENT_CHECKPOINTS, MODE, UNALIGNED

    if not read_option(configuration, UNALIGNED):
        return None
    if read_option(configuration, MODE) != "EXACTLY_ONCE":
        return f"option `{UNALIGNED.key}` needs `{MODE.key}` EXACTLY_ONCE: at-least-once barriers are never aligned"
    if read_option(configuration, MAX_CONCURRENT_CHECKPOINTS) > 1:
        return f"option `{UNALIGNED.key}` needs `{MAX_CONCURRENT_CHECKPOINTS.key}` 1"
    return None


def _checkpoint_storage_has_its_directory(configuration: AnyConfiguration) -> str | None:
    from flinkpy.configuration.checkpointing_options import DIRECTORY, STORAGE

    if read_option(configuration, STORAGE) != "filesystem" or read_option(configuration, DIRECTORY):
        return None
    return f"option `{STORAGE.key}` is `filesystem`, but `{DIRECTORY.key}` is not set"


def _inlined_state_is_small(configuration: AnyConfiguration) -> str | None:
    from flinkpy.configuration.checkpointing_options import DATA_INLINE_THRESHOLD, MAX_INLINE_THRESHOLD_BYTES

    if read_option(configuration, DATA_INLINE_THRESHOLD) <= MAX_INLINE_THRESHOLD_BYTES:
        return None
    return f"option `{DATA_INLINE_THRESHOLD.key}` must be at most {MAX_INLINE_THRESHOLD_BYTES} bytes"


#: Checks of options against each other; they run only if every single option is valid.
_RELATIONS: tuple[Callable[[AnyConfiguration], str | None], ...] = (
    _heartbeat_interval_is_below_timeout,
    _network_memory_min_is_not_above_max,
    _slots_min_is_not_above_max,
    _max_parallelism_is_not_zero,
    _checkpoint_interval_is_sensible,
    _unaligned_checkpoints_are_exactly_once,
    _checkpoint_storage_has_its_directory,
    _inlined_state_is_small,
)

"""Validation of a configuration; it reports all mistakes at once."""

from __future__ import annotations

from collections.abc import Callable

from flinkpy.common.errors import ConfigurationError
from flinkpy.configuration import checkpointing_options as options
from flinkpy.configuration import cluster_options, pipeline_options, resource_manager_options, taskmanager_options
from flinkpy.configuration.external_resources import external_resources
from flinkpy.configuration.options import AnyConfiguration, describe_bad_value, entries_of, read_option
from flinkpy.configuration.task_executor_process_spec import process_spec


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
    interval = read_option(configuration, cluster_options.HEARTBEAT_INTERVAL)
    timeout = read_option(configuration, cluster_options.HEARTBEAT_TIMEOUT)
    if interval < timeout:
        return None
    return (
        f"option `heartbeat.interval` ({interval} ms) must be smaller than `heartbeat.timeout` ({timeout} ms), "
        "or every process would be considered dead"
    )


def _minimum_is_not_above_maximum(configuration: AnyConfiguration) -> str | None:
    for least, most, unit in (
        (taskmanager_options.NETWORK_MEMORY_MIN, taskmanager_options.NETWORK_MEMORY_MAX, " bytes"),
        (resource_manager_options.MIN_SLOT_NUM, resource_manager_options.MAX_SLOT_NUM, ""),
    ):
        minimum = read_option(configuration, least)
        maximum = read_option(configuration, most)
        if minimum > maximum:
            return f"option `{least.key}` ({minimum}{unit}) is above `{most.key}` ({maximum}{unit})"
    return None


def _memory_adds_up(configuration: AnyConfiguration) -> str | None:
    try:
        process_spec(configuration)
        external_resources(configuration)
    except ConfigurationError as error:
        return error.message
    return None


def _max_parallelism_is_not_zero(configuration: AnyConfiguration) -> str | None:
    if read_option(configuration, pipeline_options.MAX_PARALLELISM) != 0:
        return None
    return "option `pipeline.max-parallelism` is 0: it must be -1 (derived) or at least 1"


def _checkpoint_interval_is_sensible(configuration: AnyConfiguration) -> str | None:
    usual = read_option(configuration, options.INTERVAL)
    during_backlog = read_option(configuration, options.INTERVAL_DURING_BACKLOG)
    least = options.MINIMAL_CHECKPOINT_TIME_MS
    for option, interval in ((options.INTERVAL, usual), (options.INTERVAL_DURING_BACKLOG, during_backlog)):
        if interval is not None and 0 < interval < least:
            return f"option `{option.key}` is {interval} ms: it must be 0 (no checkpoints) or at least {least} ms"
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
    if not read_option(configuration, options.UNALIGNED):
        return None
    if read_option(configuration, options.MODE) != "EXACTLY_ONCE":
        return (
            f"option `{options.UNALIGNED.key}` needs `{options.MODE.key}` EXACTLY_ONCE: at-least-once barriers are "
            "never aligned"
        )
    if read_option(configuration, options.MAX_CONCURRENT_CHECKPOINTS) > 1:
        return f"option `{options.UNALIGNED.key}` needs `{options.MAX_CONCURRENT_CHECKPOINTS.key}` 1"
    return None


def _checkpoint_storage_has_its_directory(configuration: AnyConfiguration) -> str | None:
    if read_option(configuration, options.STORAGE) != "filesystem" or read_option(configuration, options.DIRECTORY):
        return None
    return f"option `{options.STORAGE.key}` is `filesystem`, but `{options.DIRECTORY.key}` is not set"


def _inlined_state_is_small(configuration: AnyConfiguration) -> str | None:
    if read_option(configuration, options.DATA_INLINE_THRESHOLD) <= options.MAX_INLINE_THRESHOLD_BYTES:
        return None
    return f"option `{options.DATA_INLINE_THRESHOLD.key}` must be at most {options.MAX_INLINE_THRESHOLD_BYTES} bytes"


#: Checks of options against each other; they run only if every single option is valid.
_RELATIONS: tuple[Callable[[AnyConfiguration], str | None], ...] = (
    _heartbeat_interval_is_below_timeout,
    _minimum_is_not_above_maximum,
    _memory_adds_up,
    _max_parallelism_is_not_zero,
    _checkpoint_interval_is_sensible,
    _unaligned_checkpoints_are_exactly_once,
    _checkpoint_storage_has_its_directory,
    _inlined_state_is_small,
)

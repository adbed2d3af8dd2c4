"""All that is wrong with a configuration, told at once."""

from __future__ import annotations

from collections.abc import Callable

from flinkpy.common.errors import ConfigurationError
from flinkpy.configuration.options import AnyConfiguration, describe_bad_value, entries_of, read_option


def validate(configuration: AnyConfiguration) -> None:
    """Returns where every key is known, every value is of its type, and no two contradict each other.

    Raises:
        ConfigurationError: one line for each mistake, in the order of the keys.
    """
    mistakes = _mistakes_of_single_options(configuration)
    if not mistakes:
        mistakes = [text for check in _RELATIONS if (text := check(configuration)) is not None]
    raise_mistakes(mistakes)


def raise_mistakes(mistakes: list[str]) -> None:
    """Raises one ConfigurationError for all `mistakes`; returns where there are none."""
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
    from flinkpy.configuration.heartbeat_options import HEARTBEAT_INTERVAL, HEARTBEAT_TIMEOUT

    interval, timeout = read_option(configuration, HEARTBEAT_INTERVAL), read_option(configuration, HEARTBEAT_TIMEOUT)
    if interval < timeout:
        return None
    return (
        f"option `heartbeat.interval` ({interval} ms) must be smaller than `heartbeat.timeout` ({timeout} ms), "
        "or every process would be taken for dead"
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
    return "option `pipeline.max-parallelism` is 0: it is -1 (derived) or at least 1"


#: Checks of options against each other; they run where each option by itself is right.
_RELATIONS: tuple[Callable[[AnyConfiguration], str | None], ...] = (
    _heartbeat_interval_is_below_timeout,
    _network_memory_min_is_not_above_max,
    _slots_min_is_not_above_max,
    _max_parallelism_is_not_zero,
)

"""The values of options of hints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flinkpy.common.errors import ConfigurationError, ValidationError

_RETRY_OPTIONS = ("retry-predicate", "retry-strategy", "fixed-delay", "max-attempts")
_LOOKUP_OPTIONS = ("table", "async", "output-mode", "capacity", "timeout", "shuffle", *_RETRY_OPTIONS)
LOOKUP_MISS = "lookup_miss"


def duration_ms(text: str) -> int:
    """Returns the milliseconds of a duration such as `1 d` or `10s`. Raises: ValidationError for other texts."""
    from flinkpy.configuration.values import parse_duration_ms

    try:
        return parse_duration_ms(text)
    except (ConfigurationError, ValueError) as error:
        raise ValidationError(f"Invalid duration '{text}' in a hint; write for example '1 h' or '30 s'.") from error


@dataclass(frozen=True, slots=True)
class LookupHint:
    """The options of LOOKUP. None for those that are not given.

    Source: org.apache.flink.table.api.config.LookupJoinHintOptions.

    Attributes:
        retry: (fixed delay in ms, attempts) if a key that finds nothing is looked up again.
        shuffle: True to send the rows of one key to one subtask, whose cache then knows it.
    """

    is_async: bool | None = None
    is_ordered: bool | None = None
    capacity: int | None = None
    timeout_ms: int | None = None
    retry: tuple[int, int] | None = None
    shuffle: bool = False

    @staticmethod
    def of(options: Sequence[tuple[str | None, str]]) -> LookupHint:
        """Reads the options. The last one of equal keys counts. Raises: ValidationError, which names a wrong one."""
        given = {key: value for key, value in options if key is not None}
        unknown = [key for key in given if key not in _LOOKUP_OPTIONS]
        if unknown:
            raise ValidationError(
                f"Invalid LOOKUP hint option: unsupported '{unknown[0]}'. Supported options: "
                f"{', '.join(_LOOKUP_OPTIONS)}"
            )
        if "table" not in given:
            raise ValidationError("Invalid LOOKUP hint: incomplete required option(s): [table]")
        timeout = given.get("timeout")
        return LookupHint(
            _boolean(given, "async"),
            _is_ordered(given.get("output-mode")),
            _positive(given, "capacity"),
            None if timeout is None else duration_ms(timeout),
            _retry(given),
            _boolean(given, "shuffle") or False,
        )


def _boolean(given: dict[str, str], key: str) -> bool | None:
    value = given.get(key)
    if value is None:
        return None
    if value.lower() not in ("true", "false"):
        raise ValidationError(f"Invalid LOOKUP hint options: '{key}' is true or false, not '{value}'.")
    return value.lower() == "true"


def _positive(given: dict[str, str], key: str) -> int | None:
    value = given.get(key)
    if value is None:
        return None
    if not value.isdecimal() or int(value) <= 0:
        raise ValidationError(f"Invalid LOOKUP hint option: {key} value should be positive integer but was {value}")
    return int(value)


def _is_ordered(mode: str | None) -> bool | None:
    if mode is None:
        return None
    name = mode.upper().replace("-", "_")
    if name not in ("ORDERED", "ALLOW_UNORDERED"):
        raise ValidationError(
            f"Invalid LOOKUP hint options: 'output-mode' is 'ordered' or 'allow_unordered', not '{mode}'."
        )
    return name == "ORDERED"


def _retry(given: dict[str, str]) -> tuple[int, int] | None:
    options = [key for key in _RETRY_OPTIONS if key in given]
    if not options:
        return None
    if len(options) < len(_RETRY_OPTIONS):
        raise ValidationError("Invalid LOOKUP hint: retry options can be both null or all not null")
    predicate, strategy = given["retry-predicate"], given["retry-strategy"]
    if predicate.lower() != LOOKUP_MISS:
        raise ValidationError(
            f"Invalid LOOKUP hint option: unsupported retry-predicate '{predicate}', only '{LOOKUP_MISS}' is supported "
            "currently"
        )
    if strategy.upper().replace("-", "_") != "FIXED_DELAY":
        raise ValidationError(f"Invalid LOOKUP hint options: 'retry-strategy' is 'fixed_delay', not '{strategy}'.")
    attempts = _positive(given, "max-attempts")
    assert attempts is not None
    return duration_ms(given["fixed-delay"]), attempts

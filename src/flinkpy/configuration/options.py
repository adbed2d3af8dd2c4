"""ConfigOption describes a configuration key; `read_option` is the only way to read its value.

Source: org.apache.flink.configuration.{ConfigOption,ConfigOptions}.
Differs: durations are `int` milliseconds and memory sizes `int` bytes, because arithmetic on plain integers is cheap.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar, cast, overload

from flinkpy.common.errors import ConfigurationError
from flinkpy.configuration import values
from flinkpy.configuration.key_aliases import aliases_of
from flinkpy.configuration.redaction import HIDDEN, is_sensitive

T = TypeVar("T")


class OptionType(enum.Enum):
    """The type of an option's value; the enum values are the names used in messages and documentation."""

    STRING = "string"
    INT = "integer"
    FLOAT = "number"
    BOOL = "boolean"
    DURATION = "duration"
    MEMORY = "memory size"
    ENUM = "enum"
    LIST = "list"
    MAP = "map"


#: `int()` also accepts underscores and digits of other scripts, which Flink rejects.
_INTEGER = re.compile(r"\s*[+-]?[0-9]+\s*")


def _parse_int(text: str) -> int:
    if _INTEGER.fullmatch(text) is None:
        raise ValueError("expected an integer")
    return int(text)


def _parse_float(text: str) -> float:
    try:
        return float(text.strip())
    except ValueError:
        raise ValueError("expected a number") from None


_PARSERS: dict[OptionType, Callable[[str], Any]] = {
    OptionType.STRING: str,
    OptionType.ENUM: str,
    OptionType.INT: _parse_int,
    OptionType.FLOAT: _parse_float,
    OptionType.BOOL: values.parse_boolean,
    OptionType.DURATION: values.parse_duration_ms,
    OptionType.MEMORY: values.parse_memory_bytes,
    OptionType.LIST: values.parse_list,
    OptionType.MAP: values.parse_map,
}


@dataclass(frozen=True, slots=True)
class ConfigOption(Generic[T]):
    """A configuration key with its type, default and description.

    Attributes:
        default: the value if the key is absent; None means "not set".
        fallback_keys: keys that flinkpy reads, in this order, if the key itself is absent. Flink's own fallback and
            deprecated keys come from `key_aliases` and are tried after them.
        choices: the values of an ENUM, in Flink's spelling. Matching ignores case and the difference of `-` and `_`.
        minimum, maximum: inclusive bounds of a numeric value, in the unit of the parsed value.
        has_effect: False if flinkpy checks the value and returns it through PyFlink's API, but does not act on it.
    """

    key: str
    type: OptionType
    default: T
    description: str
    fallback_keys: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    has_effect: bool = True

    @property
    def keys(self) -> tuple[str, ...]:
        """All keys of the option, in the order in which they are tried."""
        return (self.key, *self.fallback_keys, *(alias.key for alias in aliases_of(self.key)))

    def parse(self, text: str) -> T:
        """Returns the typed value of `text`. Raises: ValueError with the expected form."""
        if self.type is OptionType.ENUM:
            return cast(T, self._choice(text))
        value = _PARSERS[self.type](text)
        if self.minimum is not None and value < self.minimum:
            raise ValueError(f"expected {_bound(self, self.minimum)} or more")
        if self.maximum is not None and value > self.maximum:
            raise ValueError(f"expected {_bound(self, self.maximum)} or less")
        return cast(T, value)

    def _choice(self, text: str) -> str:
        wanted = text.strip().lower().replace("-", "_")
        for choice in self.choices:
            if choice.lower().replace("-", "_") == wanted:
                return choice
        raise ValueError(f"expected one of {', '.join(self.choices)}")

    @property
    def default_text(self) -> str:
        """The default as written in a configuration file, or `(none)`."""
        if self.default is None:
            return "(none)"
        if self.type is OptionType.DURATION:
            return values.format_duration(cast(int, self.default))
        if self.type is OptionType.MEMORY:
            return values.format_memory(cast(int, self.default))
        if self.type is OptionType.BOOL:
            return str(self.default).lower()
        if self.type is OptionType.LIST:
            return ";".join(cast("tuple[str, ...]", self.default)) or "(empty)"
        return str(self.default)


def _bound(option: ConfigOption[Any], bound: float) -> str:
    if option.type is OptionType.DURATION:
        return values.format_duration(int(bound))
    if option.type is OptionType.MEMORY:
        return values.format_memory(int(bound))
    return f"{bound:g}"


class ReadableConfiguration(Protocol):
    """The methods of `flinkpy.common.Configuration` that reading an option needs."""

    def contains_key(self, key: str) -> bool: ...

    def get_string(self, key: str, default_value: str) -> str: ...

    def key_set(self) -> Any: ...


AnyConfiguration = ReadableConfiguration | Mapping[str, str]


def entries_of(configuration: AnyConfiguration) -> dict[str, str]:
    """Returns all keys of a configuration with the text of their values."""
    if isinstance(configuration, Mapping):
        return {key: str(value) for key, value in configuration.items()}
    return {key: str(configuration.get_string(key, "")) for key in configuration.key_set()}


def raw_value(configuration: AnyConfiguration, option: ConfigOption[Any]) -> tuple[str, str] | None:
    """Returns the key and the text that an option is read from, or None if none of its keys is set."""
    for key in option.keys:
        if isinstance(configuration, Mapping):
            if key in configuration:
                return key, str(configuration[key])
        elif configuration.contains_key(key):
            return key, str(configuration.get_string(key, ""))
    return None


def is_set(configuration: AnyConfiguration, option: ConfigOption[Any]) -> bool:
    """True if the configuration has the option under any of its keys."""
    return raw_value(configuration, option) is not None


def read_option(configuration: AnyConfiguration, option: ConfigOption[T]) -> T:
    """Returns the typed value of `option`, or its default.

    Raises:
        ConfigurationError: the value is invalid; the message names the key, the value and the expected form.
    """
    found = raw_value(configuration, option)
    if found is None:
        return cast(T, _map_entries(configuration, option)) if option.type is OptionType.MAP else option.default
    key, text = found
    try:
        return option.parse(text)
    except ValueError as error:
        raise ConfigurationError(
            describe_bad_value(key, text, option, error),
            details={"option": key, "value": HIDDEN if is_sensitive(key) else text},
        ) from None


def _map_entries(configuration: AnyConfiguration, option: ConfigOption[Any]) -> dict[str, str]:
    """Returns the entries of a map written as separate keys, e.g. `pipeline.global-job-parameters.threads: 4`."""
    prefix = f"{option.key}."
    entries = {key: value for key, value in entries_of(configuration).items() if key.startswith(prefix)}
    return {key.removeprefix(prefix): value for key, value in entries.items()} or option.default


def describe_bad_value(key: str, text: str, option: ConfigOption[Any], error: ValueError) -> str:
    shown = HIDDEN if is_sensitive(key) else text
    return f"option `{key}` has the value `{shown}`: {error} (the type is {option.type.value})"


@overload
def string_option(key: str, default: str, description: str, *fallback_keys: str) -> ConfigOption[str]: ...
@overload
def string_option(key: str, default: None, description: str, *fallback_keys: str) -> ConfigOption[str | None]: ...
def string_option(key: str, default: str | None, description: str, *fallback_keys: str) -> ConfigOption[Any]:
    return ConfigOption(key, OptionType.STRING, default, description, fallback_keys)


@overload
def int_option(
    key: str, default: int, description: str, *fallback_keys: str, minimum: int | None = ..., maximum: int | None = ...
) -> ConfigOption[int]: ...
@overload
def int_option(
    key: str, default: None, description: str, *fallback_keys: str, minimum: int | None = ..., maximum: int | None = ...
) -> ConfigOption[int | None]: ...
def int_option(
    key: str,
    default: int | None,
    description: str,
    *fallback_keys: str,
    minimum: int | None = None,
    maximum: int | None = None,
) -> ConfigOption[Any]:
    return ConfigOption(key, OptionType.INT, default, description, fallback_keys, (), minimum, maximum)


def float_option(
    key: str,
    default: float,
    description: str,
    *fallback_keys: str,
    minimum: float | None = None,
    maximum: float | None = None,
) -> ConfigOption[float]:
    return ConfigOption(key, OptionType.FLOAT, default, description, fallback_keys, (), minimum, maximum)


def bool_option(key: str, default: bool, description: str, *fallback_keys: str) -> ConfigOption[bool]:
    return ConfigOption(key, OptionType.BOOL, default, description, fallback_keys)


@overload
def duration_option(
    key: str, default: str, description: str, *fallback_keys: str, minimum_ms: int | None = ...
) -> ConfigOption[int]: ...
@overload
def duration_option(
    key: str, default: None, description: str, *fallback_keys: str, minimum_ms: int | None = ...
) -> ConfigOption[int | None]: ...
def duration_option(
    key: str, default: str | None, description: str, *fallback_keys: str, minimum_ms: int | None = None
) -> ConfigOption[Any]:
    """Returns an option whose value is `int` milliseconds."""
    parsed = None if default is None else values.parse_duration_ms(default)
    return ConfigOption(key, OptionType.DURATION, parsed, description, fallback_keys, (), minimum_ms)


@overload
def memory_option(
    key: str, default: str, description: str, *fallback_keys: str, minimum_bytes: int | None = ...
) -> ConfigOption[int]: ...
@overload
def memory_option(
    key: str, default: None, description: str, *fallback_keys: str, minimum_bytes: int | None = ...
) -> ConfigOption[int | None]: ...
def memory_option(
    key: str, default: str | None, description: str, *fallback_keys: str, minimum_bytes: int | None = None
) -> ConfigOption[Any]:
    """Returns an option whose value is `int` bytes."""
    parsed = None if default is None else values.parse_memory_bytes(default)
    return ConfigOption(key, OptionType.MEMORY, parsed, description, fallback_keys, (), minimum_bytes)


@overload
def enum_option(
    key: str, choices: tuple[str, ...], default: str, description: str, *fallback_keys: str
) -> ConfigOption[str]: ...
@overload
def enum_option(
    key: str, choices: tuple[str, ...], default: None, description: str, *fallback_keys: str
) -> ConfigOption[str | None]: ...
def enum_option(
    key: str, choices: tuple[str, ...], default: str | None, description: str, *fallback_keys: str
) -> ConfigOption[Any]:
    """Returns an option whose value is one of `choices`, in the spelling given here."""
    return ConfigOption(key, OptionType.ENUM, default, description, fallback_keys, choices)


def without_effect(option: ConfigOption[T]) -> ConfigOption[T]:
    """Returns the option with `has_effect` False: users get a warning, and the documentation omits it."""
    return replace(option, has_effect=False)


def list_option(
    key: str, default: tuple[str, ...], description: str, *fallback_keys: str
) -> ConfigOption[tuple[str, ...]]:
    return ConfigOption(key, OptionType.LIST, default, description, fallback_keys)


def map_option(key: str, description: str, *fallback_keys: str) -> ConfigOption[dict[str, str]]:
    return ConfigOption(key, OptionType.MAP, {}, description, fallback_keys)

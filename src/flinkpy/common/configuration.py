"""Configuration: keys and values, with PyFlink's API.

Values keep the Python type they were set with, and are converted when they are read. `to_dict` and the wire format
contain only strings. `flinkpy.configuration` defines the existing keys, their types and defaults.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

from flinkpy.common.errors import ConfigurationError

__all__ = ["Configuration"]

_TRUE = "true"
_FALSE = "false"


class Configuration:
    """A mutable mapping from option keys to values. Only one thread may write to it.

    Example:
        config = Configuration()
        config.set_string("execution.checkpointing.interval", "10 s")
        env = StreamExecutionEnvironment.get_execution_environment(config)


    Source: org.apache.flink.configuration.Configuration, pyflink.common.Configuration.
    """

    def __init__(self, other: Configuration | None = None, j_configuration: object = None) -> None:
        if j_configuration is not None:
            raise ConfigurationError("a Java configuration cannot be used: flinkpy has no JVM")
        self._values: dict[str, Any] = dict(other._values) if other is not None else {}

    @classmethod
    def from_dict(cls, map: dict[str, str]) -> Configuration:
        """Returns a configuration with these entries; values keep their types."""
        configuration = cls()
        for key, value in map.items():
            configuration._values[str(key)] = value
        return configuration

    def get_string(self, key: str, default_value: str) -> str:
        """Returns the value of the key as text, or the default if the key is absent."""
        if key not in self._values:
            return default_value
        return _to_string(self._values[key])

    def set_string(self, key: str, value: str) -> Configuration:
        return self._set(key, str(value))

    @staticmethod
    def parse_list_value(value: str) -> list[str]:
        """Returns the elements of a list option in YAML form or as `a;b;c`; an empty string has no elements."""
        if not value:
            return []
        import yaml

        try:
            parsed = yaml.safe_load(value)
        except yaml.YAMLError:
            parsed = None
        if isinstance(parsed, list):
            return [element if isinstance(element, str) else str(element) for element in parsed]
        return value.split(";")

    def get_integer(self, key: str, default_value: int) -> int:
        """Returns the value as an int, or the default. Raises: ConfigurationError if it is not an integer."""
        if key not in self._values:
            return default_value
        value = self._values[key]
        if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
            raise _unparsable(key, value, "an integer")
        try:
            return int(value)
        except (TypeError, ValueError) as error:
            raise _unparsable(key, value, "an integer") from error

    def set_integer(self, key: str, value: int) -> Configuration:
        return self._set(key, int(value))

    def get_boolean(self, key: str, default_value: bool) -> bool:
        """Returns the value as a bool, or the default. Raises: ConfigurationError if it is neither true nor false."""
        if key not in self._values:
            return default_value
        text = _to_string(self._values[key]).strip().lower()
        if text not in (_TRUE, _FALSE):
            raise _unparsable(key, self._values[key], "true or false")
        return text == _TRUE

    def set_boolean(self, key: str, value: bool) -> Configuration:
        return self._set(key, bool(value))

    def get_float(self, key: str, default_value: float) -> float:
        """Returns the value as a float, or the default. Raises: ConfigurationError if it is not a number."""
        if key not in self._values:
            return default_value
        value = self._values[key]
        if isinstance(value, bool):
            raise _unparsable(key, value, "a number")
        try:
            return float(value)
        except (TypeError, ValueError) as error:
            raise _unparsable(key, value, "a number") from error

    def set_float(self, key: str, value: float) -> Configuration:
        return self._set(key, float(value))

    def get_bytearray(self, key: str, default_value: bytearray) -> bytearray:
        """Returns the value as bytes; text is decoded from base64. Raises: ConfigurationError if it is not base64."""
        if key not in self._values:
            return default_value
        value = self._values[key]
        if isinstance(value, (bytes, bytearray)):
            return bytearray(value)
        try:
            return bytearray(base64.b64decode(_to_string(value), validate=True))
        except (binascii.Error, ValueError) as error:
            raise _unparsable(key, value, "bytes (base64)") from error

    def set_bytearray(self, key: str, value: bytearray) -> Configuration:
        return self._set(key, bytearray(value))

    def key_set(self) -> set[str]:
        return set(self._values)

    def add_all_to_dict(self, target_dict: dict[str, Any]) -> None:
        """Copies all entries into `target_dict`; values keep their types."""
        target_dict.update(self._values)

    def add_all(self, other: Configuration, prefix: str | None = None) -> Configuration:
        """Adds all entries of `other`, with `prefix` before each key."""
        for key, value in other._values.items():
            self._values[(prefix or "") + key] = value
        return self

    def contains_key(self, key: str) -> bool:
        return key in self._values

    def to_dict(self) -> dict[str, str]:
        """Returns all entries as strings in the form of a configuration file."""
        return {key: _to_string(value) for key, value in self._values.items()}

    def remove_config(self, key: str) -> bool:
        """Removes the key; returns True if it was present."""
        return self._values.pop(key, _ABSENT) is not _ABSENT

    def _set(self, key: str, value: Any) -> Configuration:
        if not isinstance(key, str) or not key:
            raise ConfigurationError(f"a configuration key must be a non-empty string, not {key!r}")
        self._values[key] = value
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Configuration:
        return Configuration(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Configuration) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(frozenset(self.to_dict().items()))

    def __str__(self) -> str:
        return "{" + ", ".join(f"{key}={value}" for key, value in self.to_dict().items()) + "}"

    __repr__ = __str__


_ABSENT = object()


def _to_string(value: Any) -> str:
    if isinstance(value, bool):
        return _TRUE if value else _FALSE
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(bytes(value)).decode("ascii")
    if isinstance(value, (list, tuple)):
        return ";".join(_to_string(element) for element in value)
    return str(value)


def _unparsable(key: str, value: Any, wanted: str) -> ConfigurationError:
    return ConfigurationError(f"{key}: {value!r} is not {wanted}", details={"option": key, "value": str(value)})

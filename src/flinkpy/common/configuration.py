"""Configuration: Flink's keys with their values, as PyFlink's users know it.

Values keep the Python type they were set with and are converted when read; `to_dict` and the wire have strings only.
What keys exist, their types and defaults is `flinkpy.configuration`'s business.
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
    """A mutable mapping from option key to value. Not safe for writing from several threads.

    Source: org.apache.flink.configuration.Configuration, pyflink.common.Configuration.
    """

    def __init__(self, other: Configuration | None = None, j_configuration: object = None) -> None:
        if j_configuration is not None:
            raise ConfigurationError("a Java configuration cannot be used: flinkpy has no JVM")
        self._values: dict[str, Any] = dict(other._values) if other is not None else {}

    @classmethod
    def from_dict(cls, map: dict[str, str]) -> Configuration:
        """A configuration with these entries; values that are no strings keep their type."""
        configuration = cls()
        for key, value in map.items():
            configuration._values[str(key)] = value
        return configuration

    def get_string(self, key: str, default_value: str) -> str:
        if key not in self._values:
            return default_value
        return _to_string(self._values[key])

    def set_string(self, key: str, value: str) -> Configuration:
        return self._set(key, str(value))

    @staticmethod
    def parse_list_value(value: str) -> list[str]:
        """The elements of a list option: YAML flow or block form, or `a;b;c` as it is; an empty string has none."""
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
        if key not in self._values:
            return default_value
        text = _to_string(self._values[key]).strip().lower()
        if text not in (_TRUE, _FALSE):
            raise _unparsable(key, self._values[key], "true or false")
        return text == _TRUE

    def set_boolean(self, key: str, value: bool) -> Configuration:
        return self._set(key, bool(value))

    def get_float(self, key: str, default_value: float) -> float:
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
        """Put all entries into `target_dict`, with the types they were set with."""
        target_dict.update(self._values)

    def add_all(self, other: Configuration, prefix: str | None = None) -> Configuration:
        """Take over all entries of `other`, each key with `prefix` before it."""
        for key, value in other._values.items():
            self._values[(prefix or "") + key] = value
        return self

    def contains_key(self, key: str) -> bool:
        return key in self._values

    def to_dict(self) -> dict[str, str]:
        """All entries as strings, as they would stand in a configuration file."""
        return {key: _to_string(value) for key, value in self._values.items()}

    def remove_config(self, key: str) -> bool:
        """Drop the key; whether it was there."""
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

"""ConfigOptions: options that a program declares. Source: pyflink.common.config_options.

Differs: these are only for user code; flinkpy's own options are in `flinkpy.configuration`.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

__all__ = ["ConfigOption", "ConfigOptions"]

T = TypeVar("T")


class ConfigOption(Generic[T]):
    """A configuration key with the type of its value and an optional default."""

    def __init__(self, j_config_option: tuple[str, type, T | None]) -> None:
        self._key, self._value_type, self._default_value = j_config_option

    @property
    def key(self) -> str:
        return self._key

    @property
    def value_type(self) -> type:
        return self._value_type

    @property
    def default(self) -> T | None:
        return self._default_value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConfigOption) and self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"ConfigOption({self._key!r}, {self._value_type.__name__}, default={self._default_value!r})"

    def _parts(self) -> tuple[Any, ...]:
        return self._key, self._value_type, self._default_value


class ConfigOptions:
    """Builds config options.

    Example:
        THREADS = ConfigOptions.key("my.threads").int_type().default_value(4)
    """

    def __init__(self, j_config_options: Any) -> None:
        self._config_options = j_config_options

    @staticmethod
    def key(key: str) -> ConfigOptions.OptionBuilder:
        return ConfigOptions.OptionBuilder(key)

    class OptionBuilder:
        def __init__(self, j_option_builder: str) -> None:
            self._key = j_option_builder

        def boolean_type(self) -> ConfigOptions.TypedConfigOptionBuilder[bool]:
            return ConfigOptions.TypedConfigOptionBuilder((self._key, bool))

        def int_type(self) -> ConfigOptions.TypedConfigOptionBuilder[int]:
            return ConfigOptions.TypedConfigOptionBuilder((self._key, int))

        def long_type(self) -> ConfigOptions.TypedConfigOptionBuilder[int]:
            return ConfigOptions.TypedConfigOptionBuilder((self._key, int))

        def float_type(self) -> ConfigOptions.TypedConfigOptionBuilder[float]:
            return ConfigOptions.TypedConfigOptionBuilder((self._key, float))

        def double_type(self) -> ConfigOptions.TypedConfigOptionBuilder[float]:
            return ConfigOptions.TypedConfigOptionBuilder((self._key, float))

        def string_type(self) -> ConfigOptions.TypedConfigOptionBuilder[str]:
            return ConfigOptions.TypedConfigOptionBuilder((self._key, str))

    class TypedConfigOptionBuilder(Generic[T]):
        def __init__(self, j_typed_config_option_builder: tuple[str, type]) -> None:
            self._key, self._value_type = j_typed_config_option_builder

        def default_value(self, value: T) -> ConfigOption[T]:
            """Returns the option. Raises: TypeError if the default does not have the option's type."""
            accepted = (int, float) if self._value_type is float else self._value_type
            if not isinstance(value, accepted) or (isinstance(value, bool) and self._value_type is not bool):
                raise TypeError(f"{self._key}: the default {value!r} is not of type {self._value_type.__name__}")
            return ConfigOption((self._key, self._value_type, value))

        def no_default_value(self) -> ConfigOption[str]:
            return ConfigOption((self._key, self._value_type, None))

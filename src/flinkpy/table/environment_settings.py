"""EnvironmentSettings: how a TableEnvironment is created. Source: pyflink.table.environment_settings."""

from __future__ import annotations

from flinkpy.common.configuration import Configuration
from flinkpy.configuration.execution_options import RUNTIME_MODE
from flinkpy.configuration.options import read_option
from flinkpy.configuration.table_options import BUILTIN_CATALOG_NAME, BUILTIN_DATABASE_NAME

__all__ = ["EnvironmentSettings"]


class EnvironmentSettings:
    """The mode, the built-in catalog and the configuration of a TableEnvironment.

    Example:
        >>> settings = EnvironmentSettings.new_instance().in_streaming_mode().build()
    """

    class Builder:
        """Collects the settings. Each method returns the builder."""

        def __init__(self) -> None:
            self._configuration = Configuration()
            self._is_streaming: bool | None = None

        def with_configuration(self, config: Configuration) -> EnvironmentSettings.Builder:
            """Adds the options of a configuration."""
            self._configuration.add_all(config)
            return self

        def in_batch_mode(self) -> EnvironmentSettings.Builder:
            self._is_streaming = False
            return self

        def in_streaming_mode(self) -> EnvironmentSettings.Builder:
            self._is_streaming = True
            return self

        def with_built_in_catalog_name(self, built_in_catalog_name: str) -> EnvironmentSettings.Builder:
            self._configuration.set_string(BUILTIN_CATALOG_NAME.key, built_in_catalog_name)
            return self

        def with_built_in_database_name(self, built_in_database_name: str) -> EnvironmentSettings.Builder:
            self._configuration.set_string(BUILTIN_DATABASE_NAME.key, built_in_database_name)
            return self

        def build(self) -> EnvironmentSettings:
            configuration = Configuration()
            configuration.add_all(self._configuration)
            if self._is_streaming is not None:
                configuration.set_string(RUNTIME_MODE.key, "STREAMING" if self._is_streaming else "BATCH")
            return EnvironmentSettings(configuration)

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    def get_built_in_catalog_name(self) -> str:
        return read_option(self._configuration, BUILTIN_CATALOG_NAME)

    def get_built_in_database_name(self) -> str:
        return read_option(self._configuration, BUILTIN_DATABASE_NAME)

    def is_streaming_mode(self) -> bool:
        return read_option(self._configuration, RUNTIME_MODE) == "STREAMING"

    def get_configuration(self) -> Configuration:
        return self._configuration

    @staticmethod
    def new_instance() -> EnvironmentSettings.Builder:
        return EnvironmentSettings.Builder()

    @staticmethod
    def from_configuration(config: Configuration) -> EnvironmentSettings:
        return EnvironmentSettings.new_instance().with_configuration(config).build()

    @staticmethod
    def in_streaming_mode() -> EnvironmentSettings:
        return EnvironmentSettings.new_instance().in_streaming_mode().build()

    @staticmethod
    def in_batch_mode() -> EnvironmentSettings:
        return EnvironmentSettings.new_instance().in_batch_mode().build()

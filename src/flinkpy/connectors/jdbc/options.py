"""Options of the JDBC sinks: JdbcConnectionOptions and JdbcExecutionOptions.

Source: org.apache.flink.connector.jdbc.{JdbcConnectionOptions,JdbcExecutionOptions}.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, repr=False)
class JdbcConnectionOptions:
    """The address and credentials of a database. Create it with JdbcConnectionOptionsBuilder.

    Attributes:
        connection_factory: returns a DB-API connection, for databases whose URL flinkpy does not know.
        paramstyle: the placeholder style of the driver behind `connection_factory`.

    Example:
        >>> builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder()
        >>> options = builder.with_url("jdbc:postgresql://db:5432/orders").with_user_name("flink").build()
    """

    url: str
    driver_name: str | None = None
    user_name: str | None = None
    password: str | None = None
    connection_factory: Callable[[], Any] | None = None
    paramstyle: str | None = None

    def __repr__(self) -> str:
        return f"JdbcConnectionOptions({self.url!r}, user_name={self.user_name!r})"

    def get_db_url(self) -> str:
        return self.url

    def get_driver_name(self) -> str | None:
        return self.driver_name

    def get_user_name(self) -> str | None:
        return self.user_name

    def get_password(self) -> str | None:
        return self.password

    class JdbcConnectionOptionsBuilder:
        """Builds JdbcConnectionOptions. Only the URL is required."""

        def __init__(self) -> None:
            self._values: dict[str, Any] = {}

        def with_url(self, url: str) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """Sets the JDBC URL.

            Args:
                url: such as `jdbc:postgresql://host:port/database`, `jdbc:mysql://...`, `jdbc:mariadb://...`,
                    `jdbc:sqlite:path` or `jdbc:duckdb:path`.
            """
            return self._with("url", url)

        def with_driver_name(self, driver_name: str) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """Sets the Python module of the driver. The class name of a Java driver is accepted and ignored."""
            return self._with("driver_name", driver_name)

        def with_user_name(self, user_name: str) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            return self._with("user_name", user_name)

        def with_password(self, password: str) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            return self._with("password", password)

        def with_connection_factory(
            self, factory: Callable[[], Any], paramstyle: str
        ) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """Connects to any database that has a DB-API 2.0 driver. Beyond PyFlink.

            Args:
                factory: a function without arguments that returns a new connection. Called in each task.
                paramstyle: the `paramstyle` of the driver's module: qmark, numeric, named, format or pyformat.

            Raises:
                TypeError: `factory` is not callable.
            """
            if not callable(factory):
                raise TypeError("with_connection_factory: the factory must be callable")
            return self._with("connection_factory", factory)._with("paramstyle", paramstyle)

        def build(self) -> JdbcConnectionOptions:
            """Returns the options. Raises: ValueError if there is neither a URL nor a connection factory."""
            if "url" not in self._values:
                if "connection_factory" not in self._values:
                    raise ValueError("JdbcConnectionOptions: the URL is missing; call with_url")
                self._values["url"] = "jdbc:custom"
            return JdbcConnectionOptions(**self._values)

        def _with(self, name: str, value: Any) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            if name != "connection_factory" and not isinstance(value, str):
                raise TypeError(f"JdbcConnectionOptions: {value!r} is not a string")
            self._values[name] = value
            return self


class JdbcExecutionOptions:
    """The sizes, intervals and retries of batches. Rows are always written before a checkpoint.

    Args:
        batch_size: the number of rows in a batch; 0 means no limit.
        batch_interval_ms: the longest time in milliseconds that a row waits; 0 means no limit.
        max_retries: how often a failed batch is tried again.
    """

    DEFAULT_MAX_RETRY_TIMES = 3
    DEFAULT_INTERVAL_MILLIS = 0
    DEFAULT_SIZE = 5_000

    def __init__(
        self,
        batch_size: int = DEFAULT_SIZE,
        batch_interval_ms: int = DEFAULT_INTERVAL_MILLIS,
        max_retries: int = DEFAULT_MAX_RETRY_TIMES,
    ) -> None:
        self._batch_size = batch_size
        self._batch_interval_ms = batch_interval_ms
        self._max_retries = max_retries

    def get_batch_interval_ms(self) -> int:
        return self._batch_interval_ms

    def get_batch_size(self) -> int:
        return self._batch_size

    def get_max_retries(self) -> int:
        return self._max_retries

    @staticmethod
    def defaults() -> JdbcExecutionOptions:
        return JdbcExecutionOptions()

    @staticmethod
    def builder() -> JdbcExecutionOptions.Builder:
        return JdbcExecutionOptions.Builder()

    class Builder:
        """Builds JdbcExecutionOptions."""

        def __init__(self) -> None:
            self._size = JdbcExecutionOptions.DEFAULT_SIZE
            self._interval_ms = JdbcExecutionOptions.DEFAULT_INTERVAL_MILLIS
            self._max_retries = JdbcExecutionOptions.DEFAULT_MAX_RETRY_TIMES

        def with_batch_size(self, size: int) -> JdbcExecutionOptions.Builder:
            """Sets the number of rows in a batch. With 0 a batch ends at the interval or the checkpoint only."""
            self._size = _checked("with_batch_size", size)
            return self

        def with_batch_interval_ms(self, interval_ms: int) -> JdbcExecutionOptions.Builder:
            """Sets the longest time in milliseconds that a row waits; 0 means no limit."""
            self._interval_ms = _checked("with_batch_interval_ms", interval_ms)
            return self

        def with_max_retries(self, max_retries: int) -> JdbcExecutionOptions.Builder:
            """Sets how often a failed batch is tried again."""
            self._max_retries = _checked("with_max_retries", max_retries)
            return self

        def build(self) -> JdbcExecutionOptions:
            return JdbcExecutionOptions(self._size, self._interval_ms, self._max_retries)


def _checked(method: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{method}: {value!r} must be an int of 0 or more")
    return value

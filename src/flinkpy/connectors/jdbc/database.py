"""Database and BatchStatement: the driver that a JDBC URL selects, and a statement in that driver's form."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from flinkpy.common.errors import ConfigurationError, JdbcError, UnsupportedOperationError
from flinkpy.common.types import Row
from flinkpy.connectors.jdbc.options import JdbcConnectionOptions

PARAM_STYLES = ("qmark", "numeric", "named", "format", "pyformat")

#: A quoted text, a quoted name, a comment, or a placeholder.
_TOKEN = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`(?:[^`]|``)*`|--[^\n]*|/\*.*?\*/|\?", re.DOTALL)


@dataclass(frozen=True)
class _Driver:
    """A DB-API driver. `package` is its name for pip; `arguments` returns the arguments of its `connect`."""

    module: str
    package: str
    arguments: Callable[[JdbcConnectionOptions], dict[str, Any]]


def _server_arguments(options: JdbcConnectionOptions, database: str) -> dict[str, Any]:
    """Returns the arguments for a URL of the form `jdbc:kind://host:port/database?key=value`."""
    url = urlsplit(options.url.removeprefix("jdbc:"))
    named = {
        "host": url.hostname,
        "port": url.port,
        "user": options.user_name,
        "password": options.password,
        database: unquote(url.path.lstrip("/")) or None,
    }
    return {**{key: value for key, value in named.items() if value is not None}, **dict(parse_qsl(url.query))}


def _file_arguments(options: JdbcConnectionOptions) -> dict[str, Any]:
    return {"database": options.url.split(":", 2)[2]}


_DRIVERS = {
    "postgresql": _Driver("psycopg", "psycopg[binary]", lambda options: _server_arguments(options, "dbname")),
    "mysql": _Driver("pymysql", "pymysql", lambda options: _server_arguments(options, "database")),
    "mariadb": _Driver("pymysql", "pymysql", lambda options: _server_arguments(options, "database")),
    "sqlite": _Driver("sqlite3", "", _file_arguments),
    "duckdb": _Driver("duckdb", "duckdb", _file_arguments),
}


class Database:
    """A database and the driver for it. Raises: ConfigurationError if the URL is invalid or its kind is unknown."""

    def __init__(self, options: JdbcConnectionOptions) -> None:
        self._options = options
        self._driver: _Driver | None = None
        if options.connection_factory is not None:
            if options.paramstyle not in PARAM_STYLES:
                raise ConfigurationError(f"paramstyle is one of {', '.join(PARAM_STYLES)}, not {options.paramstyle!r}")
            return
        parts = options.url.split(":", 2)
        if len(parts) < 3 or parts[0] != "jdbc":
            raise ConfigurationError(f"{options.url!r} is not a JDBC URL, such as jdbc:postgresql://host:5432/database")
        self._driver = _DRIVERS.get(parts[1])
        if self._driver is None:
            raise ConfigurationError(
                f"{options.url!r}: flinkpy knows drivers for {', '.join(_DRIVERS)}; for another database call "
                "JdbcConnectionOptionsBuilder.with_connection_factory"
            )

    @property
    def url(self) -> str:
        """The URL without its parameters, which may contain secrets."""
        return self._options.url.partition("?")[0]

    def connect(self) -> Any:
        """Opens a DB-API connection with transactions.

        Raises: UnsupportedOperationError if the driver is not installed; any error of the driver.
        """
        if self._options.connection_factory is not None:
            return self._options.connection_factory()
        assert self._driver is not None
        return self._module().connect(**self._driver.arguments(self._options))

    @property
    def is_postgresql(self) -> bool:
        return self._driver is _DRIVERS["postgresql"]

    @property
    def paramstyle(self) -> str:
        """The form of placeholders in statements for the driver, as DB-API defines it."""
        style: str = self._options.paramstyle or self._module().paramstyle
        return style

    def _module(self) -> Any:
        assert self._driver is not None
        name = self._options.driver_name
        # Programs for PyFlink give the class of a Java driver. It is ignored, because the URL selects the module.
        module = name if name is not None and _is_module(name) else self._driver.module
        try:
            return importlib.import_module(module)
        except ImportError as error:
            raise UnsupportedOperationError(
                f"{self.url} needs the driver {module}: pip install '{self._driver.package or module}'"
            ) from error


def _is_module(name: str) -> bool:
    return name.rpartition(".")[2].islower()


def number_of_placeholders(sql: str) -> int:
    return sum(token.group() == "?" for token in _TOKEN.finditer(sql))


def with_placeholders(sql: str, paramstyle: str) -> str:
    """Replaces each `?` outside of quotes and comments by a placeholder in the given style.

    >>> with_placeholders("INSERT INTO t VALUES (?, '?', ?)", "format")
    "INSERT INTO t VALUES (%s, '?', %s)"
    """
    if paramstyle == "qmark":
        return sql
    number = 0

    def replaced(token: re.Match[str]) -> str:
        nonlocal number
        if token.group() != "?":
            return token.group()
        number += 1
        return {"numeric": f":{number}", "named": f":p{number}"}.get(paramstyle, "%s")

    if paramstyle in ("format", "pyformat"):
        sql = sql.replace("%", "%%")
    return _TOKEN.sub(replaced, sql)


_ROW_CHARACTERS = 200  # errors quote at most this much of a row


class BatchStatement:
    """A statement that is executed for many rows. Thread: task thread."""

    def __init__(self, database: Database, sql: str) -> None:
        style = database.paramstyle
        self._database = database
        self._sql = sql
        self._statement = with_placeholders(sql, style)
        self._is_named = style == "named"

    def parameters(self, record: Any) -> Any:
        """Returns the parameters of the statement for a record: its fields, or the record itself."""
        values = tuple(record) if isinstance(record, (Row, tuple, list)) else (record,)
        return {f"p{number}": value for number, value in enumerate(values, 1)} if self._is_named else values

    @property
    def sql(self) -> str:
        """The statement with `?` for each parameter."""
        return self._sql

    def query(self, cursor: Any, values: tuple[Any, ...]) -> None:
        """Executes the statement with the given parameters. The cursor then has its rows. Raises: JdbcError."""
        try:
            if values:
                cursor.execute(self._statement, self.parameters(values))
            else:
                # Without parameters, drivers take a % in the statement as it is.
                cursor.execute(self._sql)
        except Exception as error:
            raise self.error(error) from error

    def execute(self, connection: Any, rows: list[Any]) -> None:
        """Executes the statement for all rows in the open transaction, or begins one. Raises: errors of the driver."""
        cursor = connection.cursor()
        try:
            cursor.executemany(self._statement, rows)
        finally:
            cursor.close()

    def error(self, error: Exception, row: Any = None) -> JdbcError:
        """Returns a JdbcError that names the statement, the database and, if known, the row."""
        shown = ""
        if row is not None:
            text = repr(row)
            shown = f", row {text if len(text) <= _ROW_CHARACTERS else text[:_ROW_CHARACTERS] + '...'}"
        return JdbcError(
            f"{self._database.url}, statement {self._sql!r}{shown}: {type(error).__name__}: {error}".rstrip(),
            details={"url": self._database.url, "sqlstate": str(getattr(error, "sqlstate", "") or "")},
        )

    def culprit(self, connection: Any, rows: list[Any]) -> tuple[Any, Exception] | None:
        """Returns the first row that the database refuses, with the error; None if it accepts all rows.

        Executes the rows one by one, and rolls back afterwards.
        """
        cursor = connection.cursor()
        try:
            for row in rows:
                try:
                    cursor.execute(self._statement, row)
                except Exception as error:  # noqa: BLE001 - a driver's errors have no common base but this
                    return row, error
        finally:
            cursor.close()
            connection.rollback()
        return None

"""Database: which driver a URL means, and how it wants its statements."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from flinkpy.common.errors import ConfigurationError, UnsupportedOperationError
from flinkpy.connectors.jdbc.options import JdbcConnectionOptions

PARAM_STYLES = ("qmark", "numeric", "named", "format", "pyformat")

#: A quoted text, a quoted name, a comment, or a placeholder.
_TOKEN = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/|\?", re.DOTALL)


@dataclass(frozen=True)
class _Driver:
    """`package`: what to install for `module`. `arguments(options)`: of its `connect`."""

    module: str
    package: str
    arguments: Callable[[JdbcConnectionOptions], dict[str, Any]]


def _of_server(options: JdbcConnectionOptions, database: str) -> dict[str, Any]:
    """Of `jdbc:kind://host:port/database?key=value`."""
    url = urlsplit(options.url.removeprefix("jdbc:"))
    named = {
        "host": url.hostname,
        "port": url.port,
        "user": options.user_name,
        "password": options.password,
        database: unquote(url.path.lstrip("/")) or None,
    }
    return {**{key: value for key, value in named.items() if value is not None}, **dict(parse_qsl(url.query))}


def _of_file(options: JdbcConnectionOptions) -> dict[str, Any]:
    return {"database": options.url.split(":", 2)[2]}


_DRIVERS = {
    "postgresql": _Driver("psycopg", "psycopg[binary]", lambda options: _of_server(options, "dbname")),
    "mysql": _Driver("pymysql", "pymysql", lambda options: _of_server(options, "database")),
    "mariadb": _Driver("pymysql", "pymysql", lambda options: _of_server(options, "database")),
    "sqlite": _Driver("sqlite3", "", _of_file),
    "duckdb": _Driver("duckdb", "duckdb", _of_file),
}


class Database:
    """Raises: ConfigurationError where the URL is not one, or of a kind that has no driver here."""

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
                f"{options.url!r}: there are drivers for {', '.join(_DRIVERS)}; give another database's with "
                "JdbcConnectionOptionsBuilder.with_connection_factory"
            )

    @property
    def url(self) -> str:
        """Without what a message must not show."""
        return self._options.url.partition("?")[0]

    def connect(self) -> Any:
        """A DB-API connection, with transactions.

        Raises: UnsupportedOperationError where the driver is not installed; what the driver raises.
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
        """How the driver writes placeholders."""
        style: str = self._options.paramstyle or self._module().paramstyle
        return style

    def _module(self) -> Any:
        assert self._driver is not None
        name = self._options.driver_name
        # A Java driver's class, as a program for PyFlink names it, says nothing that the URL does not say.
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
    """`?` outside of quotes and comments becomes what the style wants.

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

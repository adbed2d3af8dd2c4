"""JdbcCatalog: the databases and tables of a PostgreSQL server by name, without declarations.

A table is named with its schema, as in `public.orders`; without one it is in the schema `public`. The catalog can only
be read, but its tables can be written.

Source: org.apache.flink.connector.jdbc.postgres.database.catalog.{PostgresCatalog, PostgresTypeMapper}. Differs: there
is no catalog for other databases.
"""

from __future__ import annotations

import re
from typing import Any

from flinkpy.common.errors import CatalogError, FlinkError, UnsupportedOperationError, ValidationError
from flinkpy.connectors.jdbc.database import BatchStatement, Database
from flinkpy.connectors.jdbc.options import JdbcConnectionOptions
from flinkpy.sql.types import logical_types as types
from flinkpy.sql.types.logical_types import LogicalType
from flinkpy.table.catalog.catalog import Catalog
from flinkpy.table.catalog.catalog_factories import CatalogFactory
from flinkpy.table.catalog.catalog_tables import CatalogDatabase, CatalogTable, CatalogView
from flinkpy.table.catalog.identifiers import ObjectPath
from flinkpy.table.schema import Schema

_DEFAULT_SCHEMA = "public"
#: Schemas of the server itself, and of systems built on PostgreSQL.
_BUILT_IN_SCHEMAS = ("pg_toast", "pg_catalog", "information_schema")
_DATABASES = "SELECT datname FROM pg_database WHERE NOT datistemplate AND datallowconn ORDER BY datname"
_TABLES = (
    "SELECT table_schema, table_name FROM information_schema.tables WHERE table_type IN ('BASE TABLE', 'VIEW') "
    "ORDER BY table_schema, table_name"
)
_COLUMNS = """
SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, COALESCE(i.position, 0)
FROM pg_attribute a
JOIN pg_class c ON c.oid = a.attrelid
JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN (
  SELECT indrelid, column_number, position
  FROM pg_index, unnest(indkey::int2[]) WITH ORDINALITY AS k (column_number, position)
  WHERE indisprimary
) i ON i.indrelid = c.oid AND i.column_number = a.attnum
WHERE n.nspname = ? AND c.relname = ? AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum
"""
_TYPE = re.compile(
    r"(?P<name>[a-z ]+?)(?:\((?P<arguments>[\d,-]+)\))?(?P<rest> with(?:out)? time zone)?(?P<array>\[\])?"
)
_PLAIN: dict[str, LogicalType] = {
    "boolean": types.BooleanType(),
    "smallint": types.SmallIntType(),
    "integer": types.IntType(),
    "bigint": types.BigIntType(),
    "real": types.FloatType(),
    "double precision": types.DoubleType(),
    "text": types.VarCharType(),
    "uuid": types.VarCharType(),
    "bytea": types.VarBinaryType(),
    "date": types.DateType(),
}
#: Precision of times without one, in PostgreSQL.
_TIME_DIGITS = 6


class JdbcCatalogFactory(CatalogFactory):
    """`'type' = 'jdbc'`."""

    identifier = "jdbc"
    required_options = ("base-url", "default-database", "username", "password")

    def create_catalog(self, name: str, options: dict[str, str]) -> Catalog:
        user, password = options["username"], options["password"]
        return JdbcCatalog(name, options["default-database"], user, password, options["base-url"])


class JdbcCatalog(Catalog):
    """Asks the server whenever something is looked up.

    Args:
        base_url: the URL without a database, such as `jdbc:postgresql://host:5432`.

    Raises: ValidationError if it is not a URL of PostgreSQL.
    """

    def __init__(self, name: str, default_database: str, username: str, password: str, base_url: str) -> None:
        super().__init__(name, default_database)
        if not base_url.startswith("jdbc:postgresql://"):
            raise ValidationError(
                f"The catalog {name} can only be one of PostgreSQL: 'base-url' must begin with jdbc:postgresql://, but "
                f"is '{base_url}'",
                details={"option": "base-url", "value": base_url},
            )
        self._username = username
        self._password = password
        self._base_url = base_url.rstrip("/")

    def open(self) -> None:
        self._ask(self.get_default_database(), "SELECT 1")

    def list_databases(self) -> list[str]:
        return [name for (name,) in self._ask(self.get_default_database(), _DATABASES)]

    def get_database(self, database_name: str) -> CatalogDatabase:
        self._check_database(database_name)
        return CatalogDatabase()

    def list_tables(self, database_name: str) -> list[str]:
        self._check_database(database_name)
        found = self._ask(database_name, _TABLES)
        return [f"{schema}.{table}" for schema, table in found if schema not in _BUILT_IN_SCHEMAS]

    def list_views(self, database_name: str) -> list[str]:
        return []

    def table_exists(self, table_path: ObjectPath) -> bool:
        return self.database_exists(table_path.database_name) and bool(self._columns(table_path))

    def get_table(self, table_path: ObjectPath) -> CatalogTable | CatalogView:
        columns = self._columns(table_path) if self.database_exists(table_path.database_name) else []
        if not columns:
            raise CatalogError(f"Table (or view) {table_path} does not exist in Catalog {self.name}.")
        builder = Schema.new_builder()
        for column, text, is_not_null, _ in columns:
            kind = type_of(text)
            if kind is None:
                raise UnsupportedOperationError(
                    f"Doesn't support Postgres type '{text}' of column '{column}' of table {table_path} yet: declare a "
                    "table of the connector jdbc without this column"
                )
            builder.column(column, kind.not_null() if is_not_null else kind)
        keys = [column for column, *_, place in sorted(columns, key=lambda each: each[3]) if place]
        if keys:
            builder.primary_key(*keys)
        schema, table = _schema_and_table(table_path)
        options = {
            "connector": "jdbc",
            "url": self._url(table_path.database_name),
            "table-name": f"{schema}.{table}",
            "username": self._username,
            "password": self._password,
        }
        return CatalogTable(builder.build(), options)

    def _columns(self, table_path: ObjectPath) -> list[Any]:
        return self._ask(table_path.database_name, _COLUMNS, _schema_and_table(table_path))

    def _url(self, database: str) -> str:
        return f"{self._base_url}/{database}"

    def _check_database(self, name: str) -> None:
        if not self.database_exists(name):
            raise CatalogError(f"Database {name} does not exist in Catalog {self.name}.")

    def _ask(self, database_name: str, sql: str, parameters: tuple[Any, ...] = ()) -> list[Any]:
        """Returns the rows of a query. Raises: CatalogError if the server cannot be asked."""
        database = Database(JdbcConnectionOptions(self._url(database_name), None, self._username, self._password))
        try:
            connection = database.connect()
        except FlinkError:
            raise
        except Exception as error:
            raise CatalogError(f"Catalog {self.name}: {self._url(database_name)} cannot be reached: {error}") from error
        try:
            cursor = connection.cursor()
            BatchStatement(database, sql).query(cursor, parameters)
            return list(cursor.fetchall())
        finally:
            connection.close()


def _schema_and_table(path: ObjectPath) -> tuple[str, str]:
    schema, separator, table = path.object_name.partition(".")
    return (schema, table) if separator else (_DEFAULT_SCHEMA, schema)


def type_of(text: str) -> LogicalType | None:
    """Returns the type of a column, as `format_type` of PostgreSQL names it; None if there is none such.

    >>> str(type_of("numeric(6,2)"))
    'DECIMAL(6, 2)'
    """
    found = _TYPE.fullmatch(text)
    if found is None:
        return None
    arguments = [int(each) for each in (found["arguments"] or "").split(",") if each]
    kind = _scalar_of(found["name"], found["rest"] or "", arguments)
    return types.ArrayType(kind) if kind is not None and found["array"] else kind


def _scalar_of(name: str, rest: str, arguments: list[int]) -> LogicalType | None:
    if name.endswith((" without time zone", " with time zone")):
        name, _, rest = name.partition(" ")
    match name:
        case "numeric":
            if not arguments:
                return types.DecimalType(types.MAX_DECIMAL_PRECISION, 18)
            precision, scale = arguments
            return types.DecimalType(precision, scale) if 0 <= scale <= precision <= 38 else None
        case "character":
            return types.CharType(arguments[0] if arguments else 1)
        case "character varying":
            return types.VarCharType(*arguments)
        case "timestamp":
            digits = arguments[0] if arguments else _TIME_DIGITS
            is_zoned = rest.strip() == "with time zone"
            return types.LocalZonedTimestampType(digits) if is_zoned else types.TimestampType(digits)
        case "time":
            return None if rest.strip() == "with time zone" else types.TimeType(arguments[0] if arguments else 6)
    return _PLAIN.get(name)

"""JdbcDialect: the SQL that differs between databases: quotes of names, and statements that insert or replace a row.

Source: org.apache.flink.connector.jdbc.core.database.dialect.JdbcDialect. Differs: every known database can insert or
replace a row in one statement, so none is asked first if a row exists.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class JdbcDialect:
    """The SQL of one kind of database.

    Attributes:
        name: the kind, as in the URL.
        quote: the character around names.
        has_on_conflict: True for `ON CONFLICT ... DO UPDATE`, False for `ON DUPLICATE KEY UPDATE`.
        stores_times_as_text: True if the driver takes decimals, dates and times as text only.
    """

    name: str
    quote: str = '"'
    has_on_conflict: bool = True
    stores_times_as_text: bool = False

    def quoted(self, name: str) -> str:
        """Returns an identifier in quotes, which an embedded quote cannot end."""
        return self.quote + name.replace(self.quote, self.quote * 2) + self.quote

    def table(self, path: str) -> str:
        """Returns the quoted name of a table, which may have a schema before a dot."""
        return ".".join(map(self.quoted, path.split(".")))

    def select(self, table: str, columns: Sequence[str]) -> str:
        return f"SELECT {self._list(columns)} FROM {self.table(table)}"

    def insert(self, table: str, columns: Sequence[str]) -> str:
        """Returns the statement that adds a row, with one `?` per column."""
        return f"INSERT INTO {self.table(table)}({self._list(columns)}) VALUES ({', '.join('?' * len(columns))})"

    def upsert(self, table: str, columns: Sequence[str], keys: Sequence[str]) -> str:
        """Returns the statement that adds a row or replaces the one with its key, with one `?` per column.

        The database needs a primary key or unique index of exactly the key columns.
        """
        others = [self.quoted(name) for name in columns if name not in keys]
        if self.has_on_conflict:
            values = ", ".join(f"{name}=EXCLUDED.{name}" for name in others)
            action = f"UPDATE SET {values}" if others else "NOTHING"
            return f"{self.insert(table, columns)} ON CONFLICT ({self._list(keys)}) DO {action}"
        # Without other columns a key is set to itself, so that the statement stays valid.
        values = ", ".join(f"{name}=VALUES({name})" for name in others or [self.quoted(keys[0])])
        return f"{self.insert(table, columns)} ON DUPLICATE KEY UPDATE {values}"

    def delete(self, table: str, keys: Sequence[str]) -> str:
        """Returns the statement that deletes the row with a key, with one `?` per key column."""
        return f"DELETE FROM {self.table(table)} WHERE {self.equal(keys)}"

    def delete_all(self, table: str) -> str:
        """Returns the statement that deletes all rows, which every database has and can take back."""
        return f"DELETE FROM {self.table(table)}"

    def equal(self, keys: Sequence[str]) -> str:
        return " AND ".join(f"{self.quoted(name)} = ?" for name in keys)

    def _list(self, names: Sequence[str]) -> str:
        return ", ".join(map(self.quoted, names))


_STANDARD = JdbcDialect("postgresql")
_MYSQL = JdbcDialect("mysql", "`", has_on_conflict=False)
_DIALECTS = {
    "postgresql": _STANDARD,
    "mysql": _MYSQL,
    "mariadb": _MYSQL,
    "sqlite": JdbcDialect("sqlite", stores_times_as_text=True),
    "duckdb": JdbcDialect("duckdb"),
}


def dialect_of(url: str) -> JdbcDialect:
    """Returns the dialect of the database of a JDBC URL, or standard SQL."""
    return _DIALECTS.get(url.split(":", 2)[1] if url.startswith("jdbc:") else "", _STANDARD)

"""BatchStatement: one statement for many rows."""

from __future__ import annotations

from typing import Any

from flinkpy.common.errors import JdbcError
from flinkpy.common.types import Row
from flinkpy.connectors.jdbc.database import Database, with_placeholders

_ROW_CHARACTERS = 200  # a row quoted in an error is cut here


class BatchStatement:
    """Thread: task thread."""

    def __init__(self, database: Database, sql: str) -> None:
        style = database.paramstyle
        self._database = database
        self._sql = sql
        self._statement = with_placeholders(sql, style)
        self._is_named = style == "named"

    def parameters(self, record: Any) -> Any:
        """Of a record: its fields, or itself."""
        values = tuple(record) if isinstance(record, (Row, tuple, list)) else (record,)
        return {f"p{number}": value for number, value in enumerate(values, 1)} if self._is_named else values

    def execute(self, connection: Any, rows: list[Any]) -> None:
        """All rows, in the transaction that is open, or that this begins. Raises what the driver raises."""
        cursor = connection.cursor()
        try:
            cursor.executemany(self._statement, rows)
        finally:
            cursor.close()

    def error(self, error: Exception, row: Any = None) -> JdbcError:
        """`error` of the driver, with the statement, the database, and the row where it is known."""
        shown = ""
        if row is not None:
            text = repr(row)
            shown = f", row {text if len(text) <= _ROW_CHARACTERS else text[:_ROW_CHARACTERS] + '...'}"
        return JdbcError(
            f"{self._database.url}, statement {self._sql!r}{shown}: {type(error).__name__}: {error}".rstrip(),
            details={"url": self._database.url, "sqlstate": str(getattr(error, "sqlstate", "") or "")},
        )

    def culprit(self, connection: Any, rows: list[Any]) -> tuple[Any, Exception] | None:
        """The first row that the database refuses, and why; nothing is kept of the try. None: it takes them all."""
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

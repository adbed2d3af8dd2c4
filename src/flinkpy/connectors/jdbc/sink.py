"""The sinks of the connector: at least once, and exactly once."""

from __future__ import annotations

from typing import Any

from flinkpy.common.composite_typeinfo import RowTypeInfo
from flinkpy.common.errors import ConfigurationError
from flinkpy.connector_api.sink import Committer, SinkBase, SinkWriter, WriterContext
from flinkpy.connectors.jdbc.database import Database, number_of_placeholders
from flinkpy.connectors.jdbc.options import JdbcConnectionOptions, JdbcExecutionOptions


class JdbcStatementSink(SinkBase):
    """Executes a statement for every row.

    Args:
        sql: with a `?` for each field of the rows, in their order.
        is_exactly_once: by two-phase commit; see `flinkpy.connectors.jdbc.two_phase`.

    Raises: ConfigurationError where the statement does not have as many placeholders as `type_info` has fields.
    """

    def __init__(
        self,
        sql: str,
        type_info: RowTypeInfo,
        connection_options: JdbcConnectionOptions,
        execution_options: JdbcExecutionOptions,
        is_exactly_once: bool = False,
    ) -> None:
        if not isinstance(sql, str):
            raise TypeError(f"a statement is a string, not {sql!r}")
        placeholders, fields = number_of_placeholders(sql), len(type_info.get_field_types())
        if placeholders != fields:
            raise ConfigurationError(f"{sql!r} has {placeholders} placeholders, and the rows have {fields} fields")
        self._sql = sql
        self._database = Database(connection_options)
        self._options = execution_options
        self._is_exactly_once = is_exactly_once

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return self.restore_writer(context, [])

    def restore_writer(self, context: WriterContext, states: list[Any]) -> SinkWriter:
        if self._is_exactly_once:
            from flinkpy.connectors.jdbc.two_phase import TwoPhaseWriter

            return TwoPhaseWriter(self._database, self._sql, self._options, context, states)
        from flinkpy.connectors.jdbc.writer import JdbcWriter

        return JdbcWriter(self._database, self._sql, self._options, context)

    @property
    def commits_at_checkpoints(self) -> bool:
        return self._is_exactly_once

    def create_committer(self) -> Committer | None:
        if not self._is_exactly_once:
            return None
        from flinkpy.connectors.jdbc.two_phase import TwoPhaseCommitter

        return TwoPhaseCommitter(self._database, self._sql)

    def __repr__(self) -> str:
        return f"JdbcSink({self._database.url}, {self._sql!r})"

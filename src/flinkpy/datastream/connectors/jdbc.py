"""Rows into a database. PyFlink's `pyflink.datastream.connectors.jdbc`, on the DB-API 2.0 drivers of Python."""

from __future__ import annotations

from typing import Any

from flinkpy.common.composite_typeinfo import RowTypeInfo
from flinkpy.connectors.jdbc.options import JdbcConnectionOptions, JdbcExecutionOptions
from flinkpy.connectors.jdbc.sink import JdbcStatementSink
from flinkpy.datastream.functions import SinkFunction

__all__ = ["JdbcConnectionOptions", "JdbcExecutionOptions", "JdbcSink"]


class JdbcSink(SinkFunction):
    """Executes a statement for every row; made by `sink` or `exactly_once_sink`, used with `add_sink`."""

    def __init__(self, j_jdbc_sink: JdbcStatementSink) -> None:
        super().__init__()
        self._sink = j_jdbc_sink

    @staticmethod
    def sink(
        sql: str,
        type_info: RowTypeInfo,
        jdbc_connection_options: JdbcConnectionOptions,
        jdbc_execution_options: JdbcExecutionOptions | None = None,
    ) -> JdbcSink:
        """At least once: make the statement one that may come twice (an upsert).

        Args:
            sql: with a `?` for each field of the rows.
        """
        options = jdbc_execution_options or JdbcExecutionOptions.defaults()
        return JdbcSink(JdbcStatementSink(sql, type_info, jdbc_connection_options, options))

    @staticmethod
    def exactly_once_sink(
        sql: str,
        type_info: RowTypeInfo,
        jdbc_connection_options: JdbcConnectionOptions,
        jdbc_execution_options: JdbcExecutionOptions | None = None,
    ) -> JdbcSink:
        """Rows become visible with the checkpoint that has them, each once. Beyond PyFlink; Java's `exactlyOnceSink`.

        The driver must have DB-API's two-phase commit, as psycopg has; PostgreSQL wants `max_prepared_transactions` of
        more than twice the parallelism. Without checkpoints rows become visible at the end of the input. The batch
        interval and the retries of the options mean nothing here: a batch that fails takes the job back to its last
        checkpoint.
        """
        options = jdbc_execution_options or JdbcExecutionOptions.defaults()
        return JdbcSink(JdbcStatementSink(sql, type_info, jdbc_connection_options, options, is_exactly_once=True))

    def to_sink(self) -> Any:
        return self._sink

"""SQL databases. PyFlink's `pyflink.datastream.connectors.jdbc`, with Python's DB-API 2.0 drivers.

JdbcSource is beyond PyFlink. It has the names of Flink's Java class.
"""

from __future__ import annotations

from typing import Any

from flinkpy.common.typeinfo import RowTypeInfo
from flinkpy.connectors.jdbc.options import JdbcConnectionOptions, JdbcExecutionOptions
from flinkpy.connectors.jdbc.sink import JdbcStatementSink
from flinkpy.connectors.jdbc.source import JdbcNumericBetweenParametersProvider, JdbcSource, JdbcSourceBuilder
from flinkpy.connectors.sink_function import SinkFunction

__all__ = [
    "JdbcConnectionOptions",
    "JdbcExecutionOptions",
    "JdbcNumericBetweenParametersProvider",
    "JdbcSink",
    "JdbcSource",
    "JdbcSourceBuilder",
]


class JdbcSink(SinkFunction):
    """Executes a statement for every row, for `add_sink`. `sink` and `exactly_once_sink` create it."""

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
        """Returns a sink that writes each row at least once. The statement should be idempotent, such as an upsert.

        Args:
            sql: the statement, with a `?` for each field of the rows.
            type_info: the type of the rows.
            jdbc_connection_options: the driver, the URL and the credentials.
            jdbc_execution_options: the batch size, the batch interval and the retries.
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
        """Returns a sink that writes each row exactly once. Beyond PyFlink (Java's `exactlyOnceSink`).

        Rows become visible when the checkpoint that contains them completes; without checkpoints, at the end of the
        input. The driver must support the two-phase commit of DB-API, as psycopg does. PostgreSQL needs
        `max_prepared_transactions` of more than twice the parallelism. The batch interval and the retries of the
        options have no effect: after a failed batch the job restarts from its last checkpoint.
        """
        options = jdbc_execution_options or JdbcExecutionOptions.defaults()
        return JdbcSink(JdbcStatementSink(sql, type_info, jdbc_connection_options, options, is_exactly_once=True))

    def to_sink(self) -> Any:
        return self._sink

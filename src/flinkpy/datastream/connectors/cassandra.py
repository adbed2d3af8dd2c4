"""The sink of Apache Cassandra: PyFlink's `pyflink.datastream.connectors.cassandra`.

It needs `pip install 'flinkpy[cassandra]'`.
"""

from __future__ import annotations

import logging
from typing import Any

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.common.time import Duration
from flinkpy.connectors.cassandra.options import (
    CassandraCommitter,
    CassandraFailureHandler,
    ClusterBuilder,
    ConsistencyLevel,
    HostBuilder,
    MapperOptions,
)
from flinkpy.connectors.cassandra.sink import QuerySink

__all__ = [
    "CassandraCommitter",
    "CassandraFailureHandler",
    "CassandraSink",
    "ClusterBuilder",
    "ConsistencyLevel",
    "MapperOptions",
]

_logger = logging.getLogger(__name__)


class CassandraSink:
    """The end of a stream that writes to Cassandra.

    Example:
        ```
        CassandraSink.add_sink(rows).set_query("INSERT INTO k.t (a, b) VALUES (?, ?);").set_host("localhost").build()
        ```
    """

    def __init__(self, j_cassandra_sink: Any) -> None:
        self._sink = j_cassandra_sink

    def name(self, name: str) -> CassandraSink:
        self._sink.name(name)
        return self

    def uid(self, uid: str) -> CassandraSink:
        self._sink.uid(uid)
        return self

    def set_uid_hash(self, uid_hash: str) -> CassandraSink:
        self._sink.set_uid_hash(uid_hash)
        return self

    def set_parallelism(self, parallelism: int) -> CassandraSink:
        self._sink.set_parallelism(parallelism)
        return self

    def disable_chaining(self) -> CassandraSink:
        self._sink.disable_chaining()
        return self

    def slot_sharing_group(self, slot_sharing_group: str) -> CassandraSink:
        self._sink.slot_sharing_group(slot_sharing_group)
        return self

    @staticmethod
    def add_sink(input: Any) -> CassandraSinkBuilder:
        """Returns a builder of a sink.

        Args:
            input: a DataStream of Rows or tuples.
        """
        return CassandraSink.CassandraSinkBuilder(input)

    class CassandraSinkBuilder:
        """Builds a CassandraSink. A query and a host are required."""

        def __init__(self, j_cassandra_sink_builder: Any) -> None:
            self._stream = j_cassandra_sink_builder
            self._query: str | None = None
            self._builder: ClusterBuilder | None = None
            self._settings: dict[str, Any] = {}

        def set_query(self, query: str) -> CassandraSink.CassandraSinkBuilder:
            """Sets the query, with a `?` for each field of the records.

            After a failure it may be executed again for the same records, so it should be idempotent.

            Args:
                query: a statement such as `INSERT INTO keyspace.table (a, b) VALUES (?, ?);`.
            """
            self._query = query
            return self

        def set_host(self, host: str, port: int = 9042) -> CassandraSink.CassandraSinkBuilder:
            self._reach()
            self._builder = HostBuilder(host, port)
            return self

        def set_cluster_builder(self, builder: ClusterBuilder) -> CassandraSink.CassandraSinkBuilder:
            """Sets a builder of the connection, for several hosts, credentials or TLS."""
            if not isinstance(builder, ClusterBuilder):
                raise TypeError(f"{builder!r} is not a ClusterBuilder")
            self._reach()
            self._builder = builder
            return self

        def enable_write_ahead_log(
            self, committer: CassandraCommitter | None = None
        ) -> CassandraSink.CassandraSinkBuilder:
            """Executes the query only for records of completed checkpoints, which store the records until then."""
            self._settings.update(has_log=True, log_committer=committer)
            return self

        def set_mapper_options(self, options: MapperOptions) -> CassandraSink.CassandraSinkBuilder:
            given = options.options
            if "consistency_level" in given:
                self._settings["consistency_level"] = given["consistency_level"].value
            if "tracing" in given:
                self._settings["is_traced"] = given["tracing"]
            if not given.get("save_null_fields", True):
                self._settings["ignores_null_fields"] = True
            ignored = sorted({"ttl", "timestamp", "if_not_exists"}.intersection(given))
            if ignored:
                _logger.warning("CassandraSink: %s have no effect: put them into the query", ", ".join(ignored))
            return self

        def set_failure_handler(self, failure_handler: CassandraFailureHandler) -> CassandraSink.CassandraSinkBuilder:
            if not isinstance(failure_handler, CassandraFailureHandler):
                raise TypeError(f"{failure_handler!r} is not a CassandraFailureHandler")
            self._settings["failure_handler"] = failure_handler
            return self

        def set_max_concurrent_requests(
            self, max_concurrent_requests: int, duration: Duration | None = None
        ) -> CassandraSink.CassandraSinkBuilder:
            """Sets the number of concurrent requests of a subtask; 1024 by default.

            Args:
                max_concurrent_requests: the number. The task waits while this number of requests is running.
                duration: the longest time that the task waits.
            """
            if max_concurrent_requests <= 0:
                raise ValueError("Max concurrent requests is expected to be positive")
            self._settings["max_concurrent_requests"] = max_concurrent_requests
            self._settings["request_timeout_s"] = None if duration is None else duration.to_millis() / 1000
            return self

        def enable_ignore_null_fields(self) -> CassandraSink.CassandraSinkBuilder:
            """Leaves the columns of fields that are None unchanged, without tombstones."""
            self._settings["ignores_null_fields"] = True
            return self

        def build(self) -> CassandraSink:
            """Adds the sink to the stream. Raises: ValueError if the query or the host is missing."""
            if not self._query:
                raise ValueError("Query must not be null or empty.")
            if self._builder is None:
                raise ValueError(
                    "Cassandra host information must be supplied using either set_host() or set_cluster_builder()."
                )
            sink = self._stream.sink_to(QuerySink(self._query, self._builder, **self._settings))
            # In Flink this is a SinkFunction, and the name of its operator does not end with ": Writer".
            sink.transformation.name = "Sink: Unnamed"
            return CassandraSink(sink).name("Cassandra Sink")

        def _reach(self) -> None:
            if self._builder is not None:
                raise UnsupportedOperationError(
                    "ClusterBuilder was already set. You must use either set_host() or set_cluster_builder()."
                )


CassandraSinkBuilder = CassandraSink.CassandraSinkBuilder

"""Options of the Cassandra sink: cluster builders, mapper options, committer and failure handler.

Source: org.apache.flink.streaming.connectors.cassandra.{ClusterBuilder,MapperOptions,CassandraCommitter,
CassandraFailureHandler}.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from flinkpy.connectors.cassandra.client import CassandraClient, DriverClient, load_driver


class ConsistencyLevel(Enum):
    """The number of replicas that must have answered a request."""

    ANY = 0
    ONE = 1
    TWO = 2
    THREE = 3
    QUORUM = 4
    ALL = 5
    LOCAL_QUORUM = 6
    EACH_QUORUM = 7
    SERIAL = 8
    LOCAL_SERIAL = 9
    LOCAL_ONE = 10


class MapperOptions:
    """Options that belong to Java's object mapper in Flink. Here records are always written by a query.

    The consistency level, tracing and `save_null_fields` apply to the query. Write a time to live, a timestamp and
    IF NOT EXISTS into the text of the query.
    """

    def __init__(self) -> None:
        self.options: dict[str, Any] = {}

    def ttl(self, ttl: int) -> MapperOptions:
        """Has no effect: write `USING TTL` in the query."""
        return self._set(ttl=ttl)

    def timestamp(self, timestamp: int) -> MapperOptions:
        """Has no effect: write `USING TIMESTAMP` in the query."""
        return self._set(timestamp=timestamp)

    def consistency_level(self, cl: ConsistencyLevel) -> MapperOptions:
        """Sets the consistency level of the query."""
        if not isinstance(cl, ConsistencyLevel):
            raise TypeError(f"{cl!r} is not a ConsistencyLevel")
        return self._set(consistency_level=cl)

    def tracing(self, enabled: bool) -> MapperOptions:
        """Enables or disables tracing of the requests."""
        return self._set(tracing=enabled)

    def save_null_fields(self, enabled: bool) -> MapperOptions:
        """Sets whether a None is written. If not, the field stays unchanged, as with `enable_ignore_null_fields`."""
        return self._set(save_null_fields=enabled)

    def if_not_exists(self, enabled: bool) -> MapperOptions:
        """Has no effect: write `IF NOT EXISTS` in the query."""
        return self._set(if_not_exists=enabled)

    def _set(self, **values: Any) -> MapperOptions:
        self.options.update(values)
        return self


class ClusterBuilder:
    """Creates the connection to the cluster in each task.

    Args:
        j_cluster_builder: a callable without arguments that returns a `cassandra.cluster.Cluster`.
    """

    def __init__(self, j_cluster_builder: Callable[[], Any]) -> None:
        if not callable(j_cluster_builder):
            raise TypeError(
                f"{j_cluster_builder!r} is not a callable that returns a cassandra.cluster.Cluster; flinkpy has no JVM "
                "and cannot use a ClusterBuilder written in Java"
            )
        self._make_cluster = j_cluster_builder

    def new_client(self, consistency_level: int | None, is_traced: bool) -> CassandraClient:
        return DriverClient(self._make_cluster, consistency_level, is_traced)


class HostBuilder(ClusterBuilder):
    """Connects to one host."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(self._cluster)
        self._host = host
        self._port = port

    def _cluster(self) -> Any:
        load_driver()
        from cassandra.cluster import Cluster

        return Cluster([self._host], self._port)


class CassandraCommitter:
    """Records in a table which parts of the write-ahead log have been written, so that they are not written again."""

    _TTL_S = 30 * 24 * 3600

    def __init__(self, j_checkpoint_committer: ClusterBuilder, key_space: str = "flink_auxiliary") -> None:
        self._builder = j_checkpoint_committer
        self._table = f"{key_space}.flinkpy_commits"
        self._key_space = key_space
        self._client: CassandraClient | None = None

    @staticmethod
    def default_checkpoint_committer(builder: ClusterBuilder, key_space: str | None = None) -> CassandraCommitter:
        """Returns a committer whose rows expire after 30 days. Creates key space and table if needed.

        Args:
            builder: connects to the cluster.
            key_space: the key space of the table; None for `flink_auxiliary`.
        """
        if not isinstance(builder, ClusterBuilder):
            raise TypeError(f"{builder!r} is not a ClusterBuilder")
        return CassandraCommitter(builder, key_space or "flink_auxiliary")

    def is_committed(self, commit_id: str) -> bool:
        """True if the part of the log has been written. Raises: CassandraError."""
        return bool(self._open().execute(f"SELECT id FROM {self._table} WHERE id = %s", (commit_id,)))

    def mark_committed(self, commit_id: str) -> None:
        """Records that the part of the log has been written. Raises: CassandraError."""
        self._open().execute(f"INSERT INTO {self._table} (id) VALUES (%s) USING TTL {self._TTL_S}", (commit_id,))

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _open(self) -> CassandraClient:
        if self._client is None:
            self._client = self._builder.new_client(None, False)
            self._client.execute(
                f"CREATE KEYSPACE IF NOT EXISTS {self._key_space} "
                "WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
            )
            self._client.execute(f"CREATE TABLE IF NOT EXISTS {self._table} (id text PRIMARY KEY)")
        return self._client

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_client": None}


class CassandraFailureHandler:
    """Handles the error of a record.

    Args:
        j_cassandra_failure_handler: a callable that takes the error. It raises an error to fail the job, or returns to
            drop the record.
    """

    def __init__(self, j_cassandra_failure_handler: Callable[[BaseException], None]) -> None:
        if not callable(j_cassandra_failure_handler):
            raise TypeError(
                f"{j_cassandra_failure_handler!r} is not a callable (error) -> None; flinkpy has no JVM and cannot use "
                "a handler written in Java"
            )
        self.on_failure = j_cassandra_failure_handler

    @staticmethod
    def no_op() -> CassandraFailureHandler:
        """Returns the default handler, which fails the job."""
        return CassandraFailureHandler(_fail)


def _fail(error: BaseException) -> None:
    raise error

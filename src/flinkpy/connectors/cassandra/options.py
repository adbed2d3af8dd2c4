"""How to reach a cluster, and what to do with what it refuses.

Source: org.apache.flink.streaming.connectors.cassandra.{ClusterBuilder,MapperOptions,CassandraCommitter,
CassandraFailureHandler}.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from flinkpy.connectors.cassandra.client import CassandraClient, DriverClient, load_driver


class ConsistencyLevel(Enum):
    """How many replicas must have answered."""

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
    """Of Java's object mapper, which has no place here: records are written by a query. The consistency level, tracing
    and `save_null_fields` are those of the query; a time to live, a timestamp and `if_not_exists` stand in its text.
    """

    def __init__(self) -> None:
        self.options: dict[str, Any] = {}

    def ttl(self, ttl: int) -> MapperOptions:
        """Kept only: write `USING TTL` in the query."""
        return self._set(ttl=ttl)

    def timestamp(self, timestamp: int) -> MapperOptions:
        """Kept only: write `USING TIMESTAMP` in the query."""
        return self._set(timestamp=timestamp)

    def consistency_level(self, cl: ConsistencyLevel) -> MapperOptions:
        if not isinstance(cl, ConsistencyLevel):
            raise TypeError(f"{cl!r} is not a ConsistencyLevel")
        return self._set(consistency_level=cl)

    def tracing(self, enabled: bool) -> MapperOptions:
        return self._set(tracing=enabled)

    def save_null_fields(self, enabled: bool) -> MapperOptions:
        """False: a field that is None stays what it was. As `enable_ignore_null_fields`."""
        return self._set(save_null_fields=enabled)

    def if_not_exists(self, enabled: bool) -> MapperOptions:
        """Kept only: write `IF NOT EXISTS` in the query."""
        return self._set(if_not_exists=enabled)

    def _set(self, **values: Any) -> MapperOptions:
        self.options.update(values)
        return self


class ClusterBuilder:
    """A callable without arguments that gives a `cassandra.cluster.Cluster`; it is called in each task."""

    def __init__(self, j_cluster_builder: Callable[[], Any]) -> None:
        if not callable(j_cluster_builder):
            raise TypeError(
                f"{j_cluster_builder!r} is not a callable that gives a cassandra.cluster.Cluster; flinkpy has no JVM "
                "for a ClusterBuilder of Java"
            )
        self._make_cluster = j_cluster_builder

    def new_client(self, consistency_level: int | None, is_traced: bool) -> CassandraClient:
        return DriverClient(self._make_cluster, consistency_level, is_traced)


class HostBuilder(ClusterBuilder):
    def __init__(self, host: str, port: int) -> None:
        super().__init__(self._cluster)
        self._host = host
        self._port = port

    def _cluster(self) -> Any:
        load_driver()
        from cassandra.cluster import Cluster

        return Cluster([self._host], self._port)


class CassandraCommitter:
    """A table that has what the write-ahead log has written, so that it is not written again after a failure."""

    _TTL_S = 30 * 24 * 3600

    def __init__(self, j_checkpoint_committer: ClusterBuilder, key_space: str = "flink_auxiliary") -> None:
        self._builder = j_checkpoint_committer
        self._table = f"{key_space}.flinkpy_commits"
        self._key_space = key_space
        self._client: CassandraClient | None = None

    @staticmethod
    def default_checkpoint_committer(builder: ClusterBuilder, key_space: str | None = None) -> CassandraCommitter:
        """Makes key space (`flink_auxiliary`) and table where they are not there; rows go after 30 days."""
        if not isinstance(builder, ClusterBuilder):
            raise TypeError(f"{builder!r} is not a ClusterBuilder")
        return CassandraCommitter(builder, key_space or "flink_auxiliary")

    def is_committed(self, commit_id: str) -> bool:
        """Raises: CassandraError."""
        return bool(self._open().execute(f"SELECT id FROM {self._table} WHERE id = %s", (commit_id,)))

    def mark_committed(self, commit_id: str) -> None:
        """Raises: CassandraError."""
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
    """A callable that takes the error of a record: it raises one to fail the job, or returns to go on without it."""

    def __init__(self, j_cassandra_failure_handler: Callable[[BaseException], None]) -> None:
        if not callable(j_cassandra_failure_handler):
            raise TypeError(
                f"{j_cassandra_failure_handler!r} is not a callable (error) -> None; flinkpy has no JVM for a handler "
                "of Java"
            )
        self.on_failure = j_cassandra_failure_handler

    @staticmethod
    def no_op() -> CassandraFailureHandler:
        """Fails the job. The default."""
        return CassandraFailureHandler(_fail)


def _fail(error: BaseException) -> None:
    raise error

"""The Cassandra sink with a fake cluster behind the interface to the driver."""

from __future__ import annotations

import pickle
import sys
import threading
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from connector_fakes import TestingWriterContext
from operator_fakes import SinkLife

from flinkpy.common import Configuration, Duration, Row, Types
from flinkpy.common.errors import CassandraError, TypeMismatchError, UnsupportedOperationError
from flinkpy.connectors.cassandra import sink as sink_module
from flinkpy.connectors.cassandra.client import CassandraClient, DriverClient
from flinkpy.datastream import StreamExecutionEnvironment
from flinkpy.datastream.connectors.cassandra import (
    CassandraCommitter,
    CassandraFailureHandler,
    CassandraSink,
    ClusterBuilder,
    ConsistencyLevel,
    MapperOptions,
)
from flinkpy.records.batch import Batch

QUERY = "INSERT INTO k.users (name, id) VALUES (?, ?);"
UNSET = "unset"


class FakeCluster:
    """Attributes:
    rows: what was executed. errors: for the next requests. held: answers, where `holds`. statements: of `execute`.
    """

    def __init__(self) -> None:
        self.rows: list[list[Any]] = []
        self.errors: list[BaseException | None] = []
        self.holds = False
        self.held: list[Callable[[], None]] = []
        self.statements: list[str] = []
        self.committed: set[str] = set()
        self.open = 0
        self.levels: list[tuple[int | None, bool]] = []

    def release(self) -> None:
        held, self.held = self.held, []
        for answer in held:
            answer()


class FakeClient(CassandraClient):
    unset = UNSET

    def __init__(self, cluster: FakeCluster) -> None:
        self._cluster = cluster
        cluster.open += 1

    def prepare(self, query: str) -> int:
        return query.count("?")

    def execute_async(self, values: Sequence[Any], on_done: Callable[[BaseException | None], None]) -> None:
        if any(isinstance(value, complex) for value in values):
            raise TypeError("no column is complex")
        cluster = self._cluster
        error = cluster.errors.pop(0) if cluster.errors else None

        def answer() -> None:
            if error is None:
                cluster.rows.append(list(values))
            on_done(error)

        if cluster.holds:
            cluster.held.append(answer)
        else:
            answer()

    def execute(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        self._cluster.statements.append(query.split(" (")[0])
        if query.startswith("SELECT"):
            return [row for row in values if row in self._cluster.committed]
        if query.startswith("INSERT"):
            self._cluster.committed.update(values)
        return []

    def close(self) -> None:
        self._cluster.open -= 1


class FakeBuilder(ClusterBuilder):
    def __init__(self, cluster: FakeCluster) -> None:
        super().__init__(lambda: None)
        self.cluster = cluster

    def new_client(self, consistency_level: int | None, is_traced: bool) -> CassandraClient:
        self.cluster.levels.append((consistency_level, is_traced))
        return FakeClient(self.cluster)


class Stream:
    """Keeps the sink that a builder gives it."""

    def sink_to(self, sink: Any) -> Any:
        self.sink = sink
        return SimpleNamespace(name=lambda name: None, transformation=SimpleNamespace(name=""))


def sink_of(cluster: FakeCluster, change: Callable[[Any], Any] = lambda builder: builder) -> Any:
    stream = Stream()
    change(CassandraSink.add_sink(stream).set_query(QUERY).set_cluster_builder(FakeBuilder(cluster))).build()
    return stream.sink


class Writing:
    def __init__(self, cluster: FakeCluster, change: Callable[[Any], Any] = lambda builder: builder) -> None:
        self.writer = sink_of(cluster, change).create_writer(TestingWriterContext())

    def __enter__(self) -> Any:
        return self.writer

    def __exit__(self, *_: object) -> None:
        self.writer.close()


def test_cassandra_sink() -> None:
    """The program of PyFlink's own test."""
    env = StreamExecutionEnvironment(Configuration())
    type_info = Types.ROW([Types.STRING(), Types.INT()])
    stream = env.from_collection([("ab", 1), ("bdc", 2), ("cfgs", 3), ("deeefg", 4)], type_info=type_info)
    builder = CassandraSink.add_sink(stream).set_query("query").set_host("localhost", 9876)
    builder.set_max_concurrent_requests(1).enable_ignore_null_fields()
    options = MapperOptions().ttl(1).timestamp(100).tracing(True).if_not_exists(False)
    options.consistency_level(ConsistencyLevel.ANY).save_null_fields(True)
    sink = builder.set_mapper_options(options).build()
    assert sink.name("cassandra_sink").set_parallelism(3).disable_chaining() is sink
    assert sink.uid("my-uid").set_uid_hash("f" * 32).slot_sharing_group("group") is sink
    transformation = sink._sink.transformation
    assert (transformation.name, transformation.parallelism) == ("Sink: cassandra_sink", 3)


def test_the_query_is_executed_for_every_row_or_tuple() -> None:
    cluster = FakeCluster()
    with Writing(cluster) as writer:
        writer.write(Batch([Row("ada", 1), ("luna", 2), Row(name="eve", id=3), ["max", None]]))
        writer.flush(False)
        assert cluster.open == 1
    assert cluster.rows == [["ada", 1], ["luna", 2], ["eve", 3], ["max", None]]
    assert cluster.open == 0


def test_checkpoint_waits_for_running_requests() -> None:
    cluster = FakeCluster()
    cluster.holds = True
    with Writing(cluster) as writer:
        writer.write(Batch([("a", 1), ("b", 2)]))
        flushed = threading.Event()
        thread = threading.Thread(target=lambda: (writer.flush(False), flushed.set()))
        thread.start()
        assert not flushed.is_set()
        cluster.release()
        thread.join(10)
        assert flushed.is_set()
    assert cluster.rows == [["a", 1], ["b", 2]]


def test_number_of_running_requests_is_limited() -> None:
    cluster = FakeCluster()
    cluster.holds = True
    change = lambda builder: builder.set_max_concurrent_requests(2, Duration.of_millis(1))  # noqa: E731
    with Writing(cluster, change) as writer, pytest.raises(CassandraError, match=r"2 requests are running.*0\.001 s"):
        writer.write(Batch([("a", 1), ("b", 2), ("c", 3)]))
    assert len(cluster.held) == 2


def test_a_request_that_fails_fails_the_job_and_names_the_row() -> None:
    cluster = FakeCluster()
    cluster.errors = [None, OSError("no replica")]
    with (
        Writing(cluster) as writer,
        pytest.raises(CassandraError, match=r"users.* with \('b', 2\): OSError: no replica"),
    ):
        writer.write(Batch([("a", 1), ("b", 2)]))
        writer.flush(False)


def test_failure_handler_may_drop_a_record() -> None:
    cluster = FakeCluster()
    cluster.errors = [OSError("no replica")]
    seen: list[BaseException] = []
    change = lambda builder: builder.set_failure_handler(CassandraFailureHandler(seen.append))  # noqa: E731
    with Writing(cluster, change) as writer:
        writer.write(Batch([("a", 1), ("b", 2)]))
        writer.flush(True)
    assert cluster.rows == [["b", 2]]
    assert [type(error.__cause__) for error in seen] == [OSError]
    with pytest.raises(OSError, match="x"):
        CassandraFailureHandler.no_op().on_failure(OSError("x"))


@pytest.mark.parametrize(
    "change",
    [
        lambda builder: builder.enable_ignore_null_fields(),
        lambda builder: builder.set_mapper_options(MapperOptions().save_null_fields(False)),
    ],
)
def test_none_fields_can_be_left_unchanged(change: Callable[[Any], Any]) -> None:
    cluster = FakeCluster()
    with Writing(cluster, change) as writer:
        writer.write(Batch([("a", None)]))
        writer.flush(True)
    assert cluster.rows == [["a", UNSET]]


def test_consistency_level_and_tracing_apply_to_the_query() -> None:
    cluster = FakeCluster()
    options = MapperOptions().consistency_level(ConsistencyLevel.LOCAL_QUORUM).tracing(True)
    with Writing(cluster, lambda builder: builder.set_mapper_options(options)):
        assert cluster.levels == [(6, True)]


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (("a",), "has 1 fields, and .* has 2 placeholders"),
        ("ab", "takes Rows and tuples"),
        (("a", 1j), "no column is complex"),
    ],
)
def test_error_names_a_record_that_does_not_fit(record: Any, message: str) -> None:
    with Writing(FakeCluster()) as writer, pytest.raises(TypeMismatchError, match=message):
        writer.write(Batch([record]))


# -- write-ahead log ---------------------------------------------------------------------------------------------


def test_a_sink_with_a_log_writes_rows_when_their_checkpoint_is_complete() -> None:
    cluster = FakeCluster()
    sink = sink_of(cluster, lambda builder: builder.enable_write_ahead_log())
    life = SinkLife(sink)
    life.write(("a", 1), ("b", 2))
    life.checkpoint(1)
    life.write(("c", 3))
    assert cluster.rows == []
    life.operator.notify_checkpoint_complete(1)
    assert cluster.rows == [["a", 1], ["b", 2]]


def test_restore_writes_the_records_of_the_checkpoint_only() -> None:
    cluster = FakeCluster()
    sink = sink_of(cluster, lambda builder: builder.enable_write_ahead_log())
    life = SinkLife(sink)
    life.write(("a", 1))
    state = life.checkpoint(1)
    life.write(("lost", 2))
    SinkLife(sink, state)
    assert cluster.rows == [["a", 1]]


def test_committer_skips_records_written_before_a_failure() -> None:
    cluster = FakeCluster()
    committer = CassandraCommitter.default_checkpoint_committer(FakeBuilder(cluster), "mine")
    sink = sink_of(cluster, lambda builder: builder.enable_write_ahead_log(committer))
    life = SinkLife(sink)
    life.write(("a", 1))
    state = life.checkpoint(1)
    life.operator.notify_checkpoint_complete(1)
    assert cluster.statements[:2] == [
        "CREATE KEYSPACE IF NOT EXISTS mine WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE IF NOT EXISTS mine.flinkpy_commits",
    ]
    SinkLife(sink, state)
    assert cluster.rows == [["a", 1]]


# -- mistakes, and the driver ------------------------------------------------------------------------------------


def test_builder_refuses_invalid_settings() -> None:
    def builder() -> Any:
        return CassandraSink.add_sink(Stream())

    with pytest.raises(ValueError, match="Query must not be"):
        builder().set_host("localhost").build()
    with pytest.raises(ValueError, match="host information"):
        builder().set_query(QUERY).build()
    with pytest.raises(UnsupportedOperationError, match="already set"):
        builder().set_host("localhost").set_cluster_builder(FakeBuilder(FakeCluster()))
    with pytest.raises(ValueError, match="positive"):
        builder().set_max_concurrent_requests(0)
    for wrapper in (ClusterBuilder, CassandraFailureHandler):
        with pytest.raises(TypeError, match="no JVM"):
            wrapper(object())


def test_a_sink_by_its_host_can_be_sent_to_a_task() -> None:
    stream = Stream()
    CassandraSink.add_sink(stream).set_query(QUERY).set_host("localhost").build()
    assert pickle.loads(pickle.dumps(stream.sink)).query == QUERY
    assert stream.sink.max_concurrent_requests == sink_module.DEFAULT_MAX_CONCURRENT_REQUESTS


def test_error_names_the_extra_of_a_missing_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cassandra", None)
    stream = Stream()
    CassandraSink.add_sink(stream).set_query(QUERY).set_host("localhost").build()
    with pytest.raises(UnsupportedOperationError, match=r"flinkpy\[cassandra\]"):
        stream.sink.create_writer(TestingWriterContext())


def test_client_calls_the_driver_correctly() -> None:
    """Uses the driver itself if it is installed. No server listens at the port."""
    pytest.importorskip("cassandra", reason="NOT TESTED: needs cassandra-driver")
    from cassandra.cluster import Cluster

    with pytest.raises(CassandraError, match="cannot connect to Cassandra: NoHostAvailable"):
        DriverClient(lambda: Cluster(["127.0.0.1"], 1, connect_timeout=1))

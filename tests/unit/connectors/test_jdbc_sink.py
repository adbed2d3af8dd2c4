"""The JDBC sink: statements, batches, retries and what users get wrong; on SQLite, which every Python has."""

from __future__ import annotations

import logging
import sqlite3
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from connector_fakes import TestingWriterContext

from flinkpy.common import Row, Types
from flinkpy.common.errors import ConfigurationError, JdbcError, UnsupportedOperationError
from flinkpy.connectors.jdbc.database import number_of_placeholders, with_placeholders
from flinkpy.connectors.jdbc.sink import JdbcStatementSink
from flinkpy.connectors.jdbc.two_phase import JdbcCommittable, PreparedBranch
from flinkpy.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcExecutionOptions, JdbcSink
from flinkpy.records.batch import Batch
from flinkpy.streaming.operators.committables import Committables

BOOK = Types.ROW([Types.INT(), Types.STRING()])
INSERT = "INSERT INTO books (id, title) VALUES (?, ?)"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "books.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE books (id INTEGER PRIMARY KEY, title TEXT NOT NULL)")
    connection.close()
    return path


def books(path: Path) -> list[tuple[int, str]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute("SELECT id, title FROM books ORDER BY id").fetchall()
    finally:
        connection.close()


def connection_options(path: Path) -> JdbcConnectionOptions:
    return JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(f"jdbc:sqlite:{path}").build()


def execution_options(size: int = 2, interval_ms: int = 0, retries: int = 0) -> JdbcExecutionOptions:
    builder = JdbcExecutionOptions.builder().with_batch_size(size).with_batch_interval_ms(interval_ms)
    return builder.with_max_retries(retries).build()


class Writing:
    """A writer with its sink and context."""

    def __init__(self, sink: Any, context: TestingWriterContext | None = None) -> None:
        self.context = context or TestingWriterContext(input_type=BOOK)
        self.writer = sink.create_writer(self.context)

    def __enter__(self) -> Any:
        return self.writer

    def __exit__(self, *_: object) -> None:
        self.writer.close()


def rows(*titles: str, first: int = 0) -> Batch:
    return Batch([Row(number, title) for number, title in enumerate(titles, first)])


def test_rows_become_visible_a_batch_at_a_time(path: Path) -> None:
    sink = JdbcSink.sink(INSERT, BOOK, connection_options(path), execution_options(size=2)).to_sink()
    with Writing(sink) as writer:
        writer.write(rows("a", "b", "c"))
        writer.wait_until_written()
        assert books(path) == [(0, "a"), (1, "b")]
        writer.flush(False)
        assert books(path) == [(0, "a"), (1, "b"), (2, "c")]


def test_buffered_rows_are_written_after_the_interval(path: Path) -> None:
    sink = JdbcSink.sink(INSERT, BOOK, connection_options(path), execution_options(size=100, interval_ms=50)).to_sink()
    writing = Writing(sink)
    with writing as writer:
        writer.write(rows("a"))
        ((delay_ms, action),) = writing.context.timers
        assert delay_ms == 50
        assert books(path) == []
        action(0)
        writer.wait_until_written()
        assert books(path) == [(0, "a")]
        assert len(writing.context.timers) == 2, "the next interval has begun"


def test_columns_tuples_and_single_values_are_written_as_rows(path: Path) -> None:
    import pyarrow as pa

    sink = JdbcSink.sink(INSERT, BOOK, connection_options(path), execution_options()).to_sink()
    with Writing(sink) as writer:
        writer.write(Batch(pa.record_batch({"f0": pa.array([1], pa.int32()), "f1": ["in columns"]})))
        writer.write(Batch([(2, "a tuple")]))
        writer.flush(True)
    title = JdbcSink.sink("UPDATE books SET title = ?", Types.ROW([Types.STRING()]), connection_options(path)).to_sink()
    with Writing(title, TestingWriterContext(input_type=Types.STRING())) as writer:
        writer.write(Batch(["alone"]))
        writer.flush(True)
    assert books(path) == [(1, "alone"), (2, "alone")]


def test_refused_row_is_named_and_its_batch_rolled_back(path: Path) -> None:
    sink = JdbcSink.sink(INSERT, BOOK, connection_options(path), execution_options(size=3, retries=5)).to_sink()
    with Writing(sink) as writer, pytest.raises(JdbcError, match=r"books\.db.*INSERT.*\(7, None\).*NOT NULL"):
        writer.write(Batch([Row(1, "a"), Row(7, None), Row(8, "c")]))
        writer.flush(False)
    assert books(path) == []


class Flaky:
    """Connections that break `failures` times."""

    def __init__(self, path: Path, failures: int) -> None:
        self.path = path
        self.failures = failures
        self.connections = 0

    def __call__(self) -> Any:
        self.connections += 1
        return _FlakyConnection(self)


class _FlakyConnection:
    def __init__(self, owner: Flaky) -> None:
        self._owner = owner
        self._connection = sqlite3.connect(owner.path)

    def cursor(self) -> Any:
        if self._owner.failures:
            self._owner.failures -= 1
            raise sqlite3.OperationalError("the server closed the connection")
        return self._connection.cursor()

    def commit(self) -> None:
        self._connection.commit()

    def close(self) -> None:
        self._connection.close()


def test_a_broken_connection_is_replaced_and_the_batch_written_once(path: Path) -> None:
    flaky = Flaky(path, failures=2)
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_connection_factory(flaky, "qmark")
    sink = JdbcSink.sink(INSERT, BOOK, builder.build(), execution_options(size=2, retries=2)).to_sink()
    with Writing(sink) as writer:
        writer.write(rows("a", "b"))
        writer.wait_until_written()
        assert writer.send_metrics.num_bytes is None
        failed_rows = writer.send_metrics.num_errors
    assert flaky.connections == 3
    assert failed_rows == 4
    assert books(path) == [(0, "a"), (1, "b")]


def test_unreachable_database_fails_the_job_after_the_last_try(path: Path) -> None:
    flaky = Flaky(path, failures=10)
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_connection_factory(flaky, "qmark")
    sink = JdbcSink.sink(INSERT, BOOK, builder.build(), execution_options(size=1, retries=1)).to_sink()
    with Writing(sink) as writer, pytest.raises(JdbcError, match="the server closed the connection"):
        writer.write(rows("a"))
        writer.wait_until_written()
    assert flaky.failures == 8


@pytest.mark.parametrize(
    ("style", "expected"),
    [
        ("qmark", "INSERT INTO t VALUES (?, '?', ?, '100%') -- really?"),
        ("format", "INSERT INTO t VALUES (%s, '?', %s, '100%%') -- really?"),
        ("pyformat", "INSERT INTO t VALUES (%s, '?', %s, '100%%') -- really?"),
        ("numeric", "INSERT INTO t VALUES (:1, '?', :2, '100%') -- really?"),
        ("named", "INSERT INTO t VALUES (:p1, '?', :p2, '100%') -- really?"),
    ],
)
def test_placeholders_outside_of_quotes_and_comments_are_converted(style: str, expected: str) -> None:
    sql = "INSERT INTO t VALUES (?, '?', ?, '100%') -- really?"
    assert with_placeholders(sql, style) == expected
    assert number_of_placeholders(sql) == 2


def test_named_placeholders_get_their_values(path: Path) -> None:
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder()
    options = builder.with_connection_factory(lambda: sqlite3.connect(path), "named").build()
    with Writing(JdbcSink.sink(INSERT, BOOK, options).to_sink()) as writer:
        writer.write(rows("a"))
        writer.flush(True)
    assert books(path) == [(0, "a")]


def test_constructor_refuses_invalid_settings(path: Path) -> None:
    options = connection_options(path)
    with pytest.raises(ConfigurationError, match="2 placeholders, and the rows have 1 fields"):
        JdbcSink.sink(INSERT, Types.ROW([Types.INT()]), options)
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder()
    with pytest.raises(ConfigurationError, match="drivers for postgresql, mysql"):
        JdbcSink.sink(INSERT, BOOK, builder.with_url("jdbc:db2://host/db").build())
    with pytest.raises(ConfigurationError, match="not a JDBC URL"):
        JdbcSink.sink(INSERT, BOOK, builder.with_url("postgres://host/db").build())
    with pytest.raises(ValueError, match="the URL is missing"):
        JdbcConnectionOptions.JdbcConnectionOptionsBuilder().build()
    with pytest.raises(ValueError, match="with_batch_size: -1"):
        JdbcExecutionOptions.builder().with_batch_size(-1)


def test_a_missing_driver_is_named_with_what_to_install() -> None:
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url("jdbc:mysql://host/db")
    sink = JdbcStatementSink(INSERT, BOOK, builder.with_driver_name("no_such_driver").build(), execution_options())
    with pytest.raises(UnsupportedOperationError, match="pip install 'pymysql'"):
        sink.create_writer(TestingWriterContext(input_type=BOOK))


def test_the_name_of_a_java_driver_is_accepted_and_a_password_is_not_shown(path: Path) -> None:
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(f"jdbc:sqlite:{path}")
    options = builder.with_driver_name("org.sqlite.JDBC").with_user_name("me").with_password("secret").build()
    assert (options.get_driver_name(), options.get_user_name(), options.get_password()) == (
        "org.sqlite.JDBC",
        "me",
        "secret",
    )
    assert "secret" not in repr(options)
    with Writing(JdbcSink.sink(INSERT, BOOK, options).to_sink()) as writer:
        writer.write(rows("a"))
        writer.flush(True)
    assert books(path) == [(0, "a")]


def test_defaults_are_flinks() -> None:
    defaults = JdbcExecutionOptions.defaults()
    assert (defaults.get_batch_size(), defaults.get_batch_interval_ms(), defaults.get_max_retries()) == (5000, 0, 3)


# -- two-phase commit --------------------------------------------------------------------------------------------


class FakePostgres:
    """The driver module and the server: prepared transactions by xid, and the outcome of ended ones by number."""

    paramstyle = "pyformat"

    def __init__(self) -> None:
        self.prepared: dict[tuple[int, str, str], int] = {}
        self.outcomes: dict[int, str] = {}
        self.next_id = 100

    def connect(self, **_: Any) -> FakePostgresConnection:
        return FakePostgresConnection(self)

    def end(self, outcome: str, xid: tuple[int, str, str] | None = None) -> None:
        """Ends a prepared transaction, as COMMIT PREPARED or ROLLBACK PREPARED do."""
        xid = xid or next(iter(self.prepared))
        self.outcomes[self.prepared.pop(xid)] = outcome


class FakePostgresConnection:
    def __init__(self, server: FakePostgres) -> None:
        self.server = server
        self.begun: tuple[int, str, str] | None = None
        self.answer: Any = None
        self.is_in_transaction = False

    def xid(self, *parts: Any) -> Any:
        return parts

    def tpc_recover(self) -> list[Any]:
        return list(self.server.prepared)

    def tpc_begin(self, xid: Any) -> None:
        self.begun = xid
        self.server.next_id += 1

    def tpc_prepare(self) -> None:
        assert self.begun is not None
        self.server.prepared[self.begun] = self.server.next_id

    def tpc_commit(self, xid: Any) -> None:
        assert not self.is_in_transaction, "psycopg refuses this"
        self.server.end("committed", xid)

    def cursor(self) -> FakePostgresConnection:
        return self

    def executemany(self, _: str, rows: list[Any]) -> None:
        assert rows

    def execute(self, query: str) -> None:
        self.is_in_transaction = True
        if query == "SELECT txid_current()":
            self.answer = self.server.next_id
        else:
            [number] = [number for number in self.server.outcomes if f"txid_status({number})" in query] or [None]
            self.answer = None if number is None else self.server.outcomes[number]

    def fetchone(self) -> tuple[Any, ...]:
        return (self.answer,)

    def rollback(self) -> None:
        self.is_in_transaction = False

    def close(self) -> None:
        return


@pytest.fixture
def postgres(monkeypatch: pytest.MonkeyPatch) -> FakePostgres:
    server = FakePostgres()
    monkeypatch.setitem(sys.modules, "fake_postgres", SimpleNamespace(connect=server.connect, paramstyle="pyformat"))
    return server


def exactly_once_sink() -> Any:
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url("jdbc:postgresql://host:5432/db")
    return JdbcSink.exactly_once_sink(INSERT, BOOK, builder.with_driver_name("fake_postgres").build()).to_sink()


def prepared_by(sink: Any, *batches: Batch) -> list[Any]:
    """Writes each batch, with a checkpoint behind it; returns the committables."""
    with Writing(sink) as writer:
        committables = []
        for batch in batches:
            writer.write(batch)
            writer.flush(False)
            committables += writer.prepare_commit()
    return committables


def commit(sink: Any, committables: list[Any]) -> None:
    pending = Committables()
    pending.add(1, committables)
    pending.commit_up_to(1, sink.create_committer(), 0)


def test_a_prepared_transaction_rolled_back_by_hand_is_logged_as_lost(
    postgres: FakePostgres, caplog: pytest.LogCaptureFixture
) -> None:
    sink = exactly_once_sink()
    committables = prepared_by(sink, rows("a"), rows("b", first=1))
    postgres.end("aborted")
    commit(sink, committables)
    assert list(postgres.outcomes.values()) == ["aborted", "committed"], "the second one is committed all the same"
    [record] = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None
    assert "branch '0/1/0', was rolled back outside of flinkpy. Its rows are lost." in str(record.exc_info[1])


def test_a_transaction_that_an_earlier_attempt_committed_is_committed_silently(
    postgres: FakePostgres, caplog: pytest.LogCaptureFixture
) -> None:
    sink = exactly_once_sink()
    committables = prepared_by(sink, rows("a"))
    commit(sink, committables)
    commit(sink, committables)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.parametrize("has_number", [True, False], ids=["number is too old", "stored by an earlier release"])
def test_a_transaction_whose_outcome_is_unknown_is_named_in_an_error(
    postgres: FakePostgres, caplog: pytest.LogCaptureFixture, has_number: bool
) -> None:
    branch = PreparedBranch("flinkpy-job-0", "0/1/7")
    commit(exactly_once_sink(), [JdbcCommittable(branch, 5) if has_number else branch])
    [record] = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert record.levelno == logging.ERROR
    assert "branch '0/1/7', is not prepared any more" in record.getMessage()

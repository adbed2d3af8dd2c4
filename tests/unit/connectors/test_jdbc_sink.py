"""The JDBC sink: statements, batches, retries and what users get wrong; on SQLite, which every Python has."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from connector_fakes import TestingWriterContext

from flinkpy.common import Row, Types
from flinkpy.common.errors import ConfigurationError, JdbcError, UnsupportedOperationError
from flinkpy.connectors.jdbc.database import number_of_placeholders, with_placeholders
from flinkpy.connectors.jdbc.sink import JdbcStatementSink
from flinkpy.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcExecutionOptions, JdbcSink
from flinkpy.records.batch import Batch

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
    """A writer at work."""

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
        assert books(path) == [(0, "a"), (1, "b")]
        writer.flush(False)
        assert books(path) == [(0, "a"), (1, "b"), (2, "c")]


def test_what_waits_is_written_when_the_interval_has_passed(path: Path) -> None:
    sink = JdbcSink.sink(INSERT, BOOK, connection_options(path), execution_options(size=100, interval_ms=50)).to_sink()
    writing = Writing(sink)
    with writing as writer:
        writer.write(rows("a"))
        ((delay_ms, action),) = writing.context.timers
        assert delay_ms == 50
        assert books(path) == []
        action(0)
        assert books(path) == [(0, "a")]
        assert len(writing.context.timers) == 2, "the next interval has begun"


def test_columns_tuples_and_single_values_are_rows_too(path: Path) -> None:
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


def test_a_row_that_the_database_refuses_is_named_and_nothing_of_its_batch_is_kept(path: Path) -> None:
    sink = JdbcSink.sink(INSERT, BOOK, connection_options(path), execution_options(size=3, retries=5)).to_sink()
    with Writing(sink) as writer, pytest.raises(JdbcError, match=r"books\.db.*INSERT.*\(7, None\).*NOT NULL"):
        writer.write(Batch([Row(1, "a"), Row(7, None), Row(8, "c")]))
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
    assert flaky.connections == 3
    assert books(path) == [(0, "a"), (1, "b")]


def test_a_database_that_stays_away_fails_the_job_after_the_last_try(path: Path) -> None:
    flaky = Flaky(path, failures=10)
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_connection_factory(flaky, "qmark")
    sink = JdbcSink.sink(INSERT, BOOK, builder.build(), execution_options(size=1, retries=1)).to_sink()
    with Writing(sink) as writer, pytest.raises(JdbcError, match="the server closed the connection"):
        writer.write(rows("a"))
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
def test_placeholders_become_those_of_the_driver_outside_of_quotes_and_comments(style: str, expected: str) -> None:
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


def test_mistakes_are_told_when_the_sink_is_made(path: Path) -> None:
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

"""The JDBC sink writes into a real PostgreSQL: at least once with upserts, exactly once by its two-phase commit."""

from __future__ import annotations

import datetime
import decimal
import logging
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from clusters import RunningCluster, StartCluster
from job_support import environment, wait_until
from postgresql_server import connect, postgresql
from verifying.sequence_source import SequencePerKeySource

from flinkpy.common import Row, Types, WatermarkStrategy
from flinkpy.common.errors import JobExecutionError
from flinkpy.common.failpoints import SPECIFICATION_VARIABLE, TOKENS_VARIABLE
from flinkpy.datastream.connectors.jdbc import (
    JdbcConnectionOptions,
    JdbcExecutionOptions,
    JdbcNumericBetweenParametersProvider,
    JdbcSink,
    JdbcSource,
)
from flinkpy.records.batch import Batch
from flinkpy.streaming.operators.committables import Committables

KEYS, RECORDS_PER_KEY = 10, 100
SETTINGS = {
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "20",
    "restart-strategy.fixed-delay.delay": "50 ms",
    "execution.checkpointing.interval": "150 ms",
}
PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    # Not below pytest's directories, which only their owner may enter: the server is another user.
    with tempfile.TemporaryDirectory(prefix="flinkpy-postgresql-") as directory, postgresql(Path(directory)) as running:
        yield running


def options(url: str) -> JdbcConnectionOptions:
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(url)
    return builder.with_user_name("flink").with_password("secret").with_driver_name("org.postgresql.Driver").build()


def ask(url: str, sql: str) -> list[tuple[Any, ...]]:
    with connect(url) as connection:
        cursor = connection.execute(sql)
        return cursor.fetchall() if cursor.description else []


def test_values_of_every_type_arrive_and_upserts_may_be_repeated(shared_cluster: RunningCluster, url: str) -> None:
    ask(url, "CREATE TABLE kinds (id int PRIMARY KEY, name text, price numeric, day date, at timestamp, raw bytea)")
    kinds = [Types.INT(), Types.STRING(), Types.BIG_DEC(), Types.SQL_DATE(), Types.SQL_TIMESTAMP()]
    row_type = Types.ROW([*kinds, Types.PRIMITIVE_ARRAY(Types.BYTE())])
    moment = datetime.datetime(2026, 1, 2, 3, 4, 5, 678000)
    rows = [
        Row(1, "eins ü '?", decimal.Decimal("1.50"), moment.date(), moment, b"\x00\xff"),
        Row(2, None, None, None, None, None),
        Row(1, "again", decimal.Decimal("2"), moment.date(), moment, b""),
    ]
    env = environment(shared_cluster, 1)
    sql = "INSERT INTO kinds VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET name = EXCLUDED.name"
    execution = JdbcExecutionOptions.builder().with_batch_size(2).build()
    env.from_collection(rows, row_type).add_sink(JdbcSink.sink(sql, row_type, options(url), execution))
    env.execute("kinds")
    assert ask(url, "SELECT id, name, price, day, at, raw FROM kinds ORDER BY id") == [
        (1, "again", decimal.Decimal("1.50"), moment.date(), moment, b"\x00\xff"),
        (2, None, None, None, None, None),
    ]


def test_a_refused_row_fails_the_job_and_the_error_names_it(shared_cluster: RunningCluster, url: str) -> None:
    ask(url, "CREATE TABLE positive (number int CHECK (number > 0))")
    env = environment(shared_cluster, 1)
    numbers = env.from_collection([(1,), (-5,), (2,)], Types.TUPLE([Types.INT()]))
    numbers.add_sink(JdbcSink.sink("INSERT INTO positive VALUES (?)", Types.ROW([Types.INT()]), options(url)))
    with pytest.raises(JobExecutionError, match=r"row \(-5,\).*violates check constraint"):
        env.execute("refused")
    assert ask(url, "SELECT count(*) FROM positive") == [(0,)]


@pytest.mark.parametrize("point", [pytest.param("jdbc.after_prepare", marks=pytest.mark.chaos), "jdbc.after_commit"])
def test_each_row_is_written_once_even_if_a_process_dies_between_the_two_phases(
    start_cluster: StartCluster, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    table = point.replace(".", "_")
    ask(url, f"CREATE TABLE {table} (key bigint, number bigint)")
    tokens, hurry = tmp_path / "tokens", tmp_path / "hurry"
    tokens.mkdir()
    monkeypatch.setenv(SPECIFICATION_VARIABLE, f"{point}=crash")
    monkeypatch.setenv(TOKENS_VARIABLE, str(tokens))
    cluster = start_cluster(2, restart_services=True)
    env = environment(cluster, 2, **SETTINGS, **{"execution.checkpointing.dir": str(tmp_path / "checkpoints")})
    source = SequencePerKeySource(KEYS, RECORDS_PER_KEY, 300, hurry)
    records = env.from_source(source, WatermarkStrategy.no_watermarks(), "sequences", PAIR).uid("sequences")
    row_type = Types.ROW([Types.LONG(), Types.LONG()])
    sink = JdbcSink.exactly_once_sink(f"INSERT INTO {table} VALUES (?, ?)", row_type, options(url))
    records.rebalance().add_sink(sink).uid("sink")
    client = env.execute_async("exactly once")
    wait_until(lambda: ask(url, f"SELECT 1 FROM {table} LIMIT 1"), "rows are committed")
    for number in range(2):
        (tokens / f"{point}.{number}").touch()
    wait_until(lambda: not list(tokens.iterdir()), f"two processes died at {point}")
    hurry.touch()
    client.get_job_execution_result().result()

    expected = {(key, number) for key in range(KEYS) for number in range(RECORDS_PER_KEY)}
    assert Counter(ask(url, f"SELECT key, number FROM {table}")) == Counter(expected)
    assert ask(url, "SELECT gid FROM pg_prepared_xacts") == []


def test_without_checkpoints_rows_become_visible_at_the_end(shared_cluster: RunningCluster, url: str) -> None:
    ask(url, "CREATE TABLE at_the_end (number int)")
    env = environment(shared_cluster, 1)
    numbers = env.from_collection([(number,) for number in range(10)], Types.TUPLE([Types.INT()]))
    row_type = Types.ROW([Types.INT()])
    numbers.add_sink(JdbcSink.exactly_once_sink("INSERT INTO at_the_end VALUES (?)", row_type, options(url)))
    env.execute("at the end")
    assert ask(url, "SELECT count(*), sum(number) FROM at_the_end") == [(10, 45)]


def test_a_prepared_transaction_that_is_rolled_back_by_hand_is_reported(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    ask(url, "CREATE TABLE by_hand (number int)")
    row_type = Types.ROW([Types.INT()])
    sink = JdbcSink.exactly_once_sink("INSERT INTO by_hand VALUES (?)", row_type, options(url)).to_sink()
    context: Any = SimpleNamespace(
        job_id="by-hand", subtask_index=0, parallelism=1, restored_checkpoint_id=None, input_type=row_type
    )
    writer = sink.create_writer(context)
    pending = Committables()
    for number in range(3):
        writer.write(Batch([Row(number)]))
        writer.flush(False)
        pending.add(1, writer.prepare_commit())
    writer.close()
    gids = sorted(gid for (gid,) in ask(url, "SELECT gid FROM pg_prepared_xacts"))
    ask(url, f"ROLLBACK PREPARED '{gids[0]}'")
    ask(url, f"COMMIT PREPARED '{gids[1]}'")
    committer = sink.create_committer()
    pending.commit_up_to(1, committer, 0)
    committer.close()
    assert sorted(ask(url, "SELECT number FROM by_hand")) == [(1,), (2,)]
    [record] = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert record.exc_info is not None
    assert "branch '0/1/0', was rolled back outside of flinkpy. Its rows are lost." in str(record.exc_info[1])


def test_queries_are_read_side_by_side(shared_cluster: RunningCluster, url: str) -> None:
    """More rows than one fetch returns, in three queries whose text has a percent sign."""
    ask(url, "CREATE TABLE numbers AS SELECT id, 'n' || id AS name FROM generate_series(1, 5000) id")
    row_type = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])
    builder = JdbcSource.builder().set_connection_options(options(url)).set_type_information(row_type)
    builder.set_sql("SELECT id, name FROM numbers WHERE id BETWEEN ? AND ? AND name LIKE 'n%' ORDER BY id")
    builder.set_jdbc_parameter_values_provider(JdbcNumericBetweenParametersProvider(1, 5000).of_batch_num(3))
    env = environment(shared_cluster, 2)
    stream = env.from_source(builder.build(), WatermarkStrategy.no_watermarks(), "numbers")
    with stream.execute_and_collect() as results:
        assert sorted((row.id, row.name) for row in results) == [(number, f"n{number}") for number in range(1, 5001)]

from __future__ import annotations

import sqlite3

import pytest
from reading import check_every_batch_boundary

from flinkpy.common.errors import ConfigurationError, JdbcError
from flinkpy.common.typeinfo import Types
from flinkpy.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcNumericBetweenParametersProvider, JdbcSource

TYPE = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])


@pytest.fixture
def options(tmp_path):
    path = tmp_path / "orders.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)")
        connection.executemany("INSERT INTO t VALUES (?, ?)", [(number, f"n{number}") for number in range(1, 31)])
    connection.close()
    return JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(f"jdbc:sqlite:{path}").build()


def source(options, sql="SELECT id, name FROM t WHERE id BETWEEN ? AND ? ORDER BY id", num=4):
    builder = JdbcSource.builder().set_connection_options(options).set_sql(sql).set_type_information(TYPE)
    if "?" in sql:
        builder.set_jdbc_parameter_values_provider(JdbcNumericBetweenParametersProvider(1, 30).of_batch_num(num))
    return builder.set_result_set_fetch_size(7).build()


def test_queries_read_all_rows_and_resume_at_every_batch(options):
    read = source(options)
    assert check_every_batch_boundary(read, read.list_splits(), 3) == [
        (number, f"n{number}") for number in range(1, 31)
    ]
    assert read.infer_parallelism(8) == 4
    whole = source(options, "SELECT id, name FROM t ORDER BY id")
    assert len(check_every_batch_boundary(whole, whole.list_splits(), 100)) == 30


@pytest.mark.parametrize("num", [1, 2, 3, 7, 10, 50])
def test_ranges_cover_each_value_once(num):
    ranges = JdbcNumericBetweenParametersProvider(-4, 5).of_batch_num(num).get_parameter_values()
    assert [value for first, last in ranges for value in range(first, last + 1)] == list(range(-4, 6))
    assert len(ranges) == min(num, 10)


def test_ranges_have_at_most_the_given_size():
    ranges = JdbcNumericBetweenParametersProvider(1, 10).of_batch_size(4).get_parameter_values()
    assert ranges == [(1, 4), (5, 7), (8, 10)]


def test_errors_name_the_query(options):
    with pytest.raises(JdbcError, match="SELECT id, name FROM nothing"):
        broken = source(options, "SELECT id, name FROM nothing")
        check_every_batch_boundary(broken, broken.list_splits(), 3)
    with pytest.raises(ConfigurationError, match="returns 1 columns, not 2"):
        narrow = source(options, "SELECT id FROM t")
        check_every_batch_boundary(narrow, narrow.list_splits(), 3)
    with pytest.raises(ConfigurationError, match="has 1 placeholders"):
        source(options, "SELECT id, name FROM t WHERE id > ?")
    with pytest.raises(ConfigurationError, match="needs connection options"):
        JdbcSource.builder().build()

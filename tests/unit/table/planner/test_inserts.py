"""INSERT: which column a value goes to, and which INSERTs cannot be in first statement set."""

from __future__ import annotations

import pytest

from flinkpy.common.errors import ValidationError
from flinkpy.table import EnvironmentSettings, TableEnvironment


@pytest.fixture
def tables() -> TableEnvironment:
    made = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    rows = "WITH ('connector' = 'datagen', 'number-of-rows' = '1')"
    made.execute_sql(f"CREATE TABLE n (a INT, s STRING, t TIMESTAMP_LTZ(3)) {rows}")
    made.execute_sql(
        """
        CREATE TABLE k (happened TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', a INT, s STRING)
        WITH ('connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'x:1', 'format' = 'json')
        """
    )
    for name, path in {"first": "/x", "same": "file:///x/", "other": "/y"}.items():
        made.execute_sql(
            f"CREATE TABLE {name} (a INT, d STRING) PARTITIONED BY (d) "
            f"WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv')"
        )
    return made


@pytest.mark.parametrize(
    ("insert", "written"),
    [
        ("INSERT INTO k SELECT t, a, s FROM n", "database.k], fields=[a, s, t])"),
        ("INSERT INTO k (s, happened, a) SELECT s, t, a FROM n", "database.k], fields=[a, s, t])"),
        ("INSERT INTO k (happened) SELECT t FROM n", "null:INTEGER AS a"),
        ("INSERT INTO first PARTITION (d = 'x') (a) SELECT a FROM n", "'x':VARCHAR"),
        ("INSERT INTO first PARTITION (d = 'x') SELECT a FROM n", "'x':VARCHAR"),
    ],
)
def test_values_go_to_columns_by_declaration_or_by_name(tables: TableEnvironment, insert: str, written: str) -> None:
    assert written in tables.explain_sql(insert)


@pytest.mark.parametrize(
    ("insert", "message"),
    [
        ("INSERT INTO first (a, a) SELECT a, a FROM n", "column 23: Target column 'a' is assigned more than once"),
        (
            "INSERT INTO first PARTITION (d = 'x', d = 'y') SELECT a FROM n",
            "column 39: Target column 'd' is assigned more than once",
        ),
        (
            "INSERT INTO first PARTITION (d = 'x') (a, d) SELECT a FROM n",
            "Target column 'd' is assigned more than once",
        ),
        (
            "INSERT INTO first PARTITION (a = 1) SELECT s FROM n",
            "column 30: Static partition column 'a' should be in the partition keys list [d] for table '",
        ),
    ],
)
def test_a_target_that_is_named_twice_or_is_no_partition_key_is_refused(
    tables: TableEnvironment, insert: str, message: str
) -> None:
    with pytest.raises(ValidationError) as error:
        tables.explain_sql(insert)
    assert message in str(error.value)


def test_a_set_that_overwrites_the_same_files_twice_is_refused(tables: TableEnvironment) -> None:
    inserts = "INSERT OVERWRITE first SELECT a, s FROM n; INSERT INTO same SELECT a, s FROM n;"
    with pytest.raises(ValidationError, match=r"'.*\.first' and '.*\.same' have the same files"):
        tables.execute_sql(f"EXPLAIN STATEMENT SET BEGIN {inserts} END")


@pytest.mark.parametrize(
    "inserts",
    [
        "INSERT OVERWRITE first SELECT a, s FROM n; INSERT OVERWRITE other SELECT a, s FROM n;",
        "INSERT INTO first SELECT a, s FROM n; INSERT INTO same SELECT a, s FROM n;",
        " ".join(f"INSERT OVERWRITE first PARTITION (d = '{day}') SELECT a FROM n;" for day in "xy"),
    ],
)
def test_other_sets_are_accepted(tables: TableEnvironment, inserts: str) -> None:
    tables.execute_sql(f"EXPLAIN STATEMENT SET BEGIN {inserts} END")

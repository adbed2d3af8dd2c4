"""Compiled plans and savepoints of SQL: a job continues with its state."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from clusters import RunningCluster
from job_support import environment, wait_until

from flinkpy.common.errors import JobExecutionError, TableProgramError, ValidationError
from flinkpy.table import PlanReference, StreamTableEnvironment

#: Each id is written once, so a job that has lost its state would write the ids of the first run again.
FIRST_OF_EACH = """
INSERT INTO firsts SELECT id FROM (
  SELECT id, ROW_NUMBER() OVER (PARTITION BY id ORDER BY arrived) AS place
  FROM (SELECT id, PROCTIME() AS arrived FROM ids)
) WHERE place = 1
"""


class Job:
    """Tables in a folder, and jobs that write `firsts`."""

    def __init__(self, cluster: RunningCluster, folder: Path) -> None:
        self.folder = folder
        self._cluster = cluster
        (folder / "ids").mkdir(parents=True)

    def add(self, name: str, *ids: int) -> None:
        """Adds a file to the table that the job reads."""
        hidden = self.folder / "ids" / f".{name}"
        hidden.write_text("".join(f"{each}\n" for each in ids))
        hidden.rename(self.folder / "ids" / name)

    def tables(self, **settings: str) -> StreamTableEnvironment:
        checkpointing = {
            "execution.checkpointing.interval": "100 ms",
            "execution.checkpointing.dir": str(self.folder / "checkpoints"),
        }
        made = StreamTableEnvironment.create(environment(self._cluster, 2, **checkpointing, **settings))
        for name, options in {
            "ids": ", 'source.monitor-interval' = '100 ms'",
            "firsts": "",
            "others": "",
        }.items():
            made.execute_sql(
                f"CREATE TABLE {name} (id BIGINT) WITH ('connector' = 'filesystem', 'path' = '{self.folder / name}', "
                f"'format' = 'csv'{options})"
            )
        return made

    def written(self) -> Counter[int]:
        files = [each for each in (self.folder / "firsts").rglob("*") if each.is_file() and each.name[0] not in "._"]
        return Counter(int(line) for each in files for line in each.read_text().splitlines())

    def wait_for(self, *ids: int) -> None:
        wait_until(lambda: set(ids) <= set(self.written()), f"the ids {ids}")

    def stop(self, result: Any) -> str:
        """Stops a job with a savepoint and returns its path."""
        client = result.get_job_client()
        return str(self._cluster.client.stop_with_savepoint(str(client.get_job_id()), str(self.folder / "savepoints")))

    def cancel(self, result: Any) -> None:
        self._cluster.client.cancel_job(str(result.get_job_client().get_job_id()))


@pytest.fixture
def job(shared_cluster: RunningCluster, tmp_path: Path) -> Job:
    made = Job(shared_cluster, tmp_path)
    made.add("a.csv", 1, 2, 2)
    return made


def test_a_compiled_plan_continues_from_a_savepoint(job: Job) -> None:
    """The second session has other statements and options, but the plan's operators find their state by their uids."""
    path = job.folder / "plan.json"
    first = job.tables()
    first.execute_sql(f"COMPILE PLAN '{path}' FOR {FIRST_OF_EACH}")
    result = first.execute_sql(f"EXECUTE PLAN '{path}'")
    job.wait_for(1, 2)
    savepoint = job.stop(result)
    job.add("b.csv", 2, 3)
    second = job.tables(**{"execution.state-recovery.path": savepoint, "table.exec.state.ttl": "1 h"})
    second.execute_sql("DROP TABLE firsts")
    again = second.execute_plan(PlanReference.from_file(path))
    job.wait_for(3)
    job.cancel(again)
    assert job.written() == {1: 1, 2: 1, 3: 1}


@pytest.mark.parametrize("generation", ["PLAN_ONLY", "ALWAYS"])
def test_the_same_statements_continue_from_a_savepoint_with_one_insert_more(job: Job, generation: str) -> None:
    uids = {"table.exec.uid.generation": generation}
    result = job.tables(**uids).execute_sql(FIRST_OF_EACH)
    job.wait_for(1, 2)
    savepoint = job.stop(result)
    job.add("b.csv", 2, 3)
    second = job.tables(**{"execution.state-recovery.path": savepoint}, **uids).create_statement_set()
    second.add_insert_sql(FIRST_OF_EACH).add_insert_sql("INSERT INTO others VALUES (7)")
    again = second.execute()
    job.wait_for(3)
    job.cancel(again)
    assert job.written() == {1: 1, 2: 1, 3: 1}


def test_a_plan_file_is_not_overwritten(job: Job) -> None:
    path = job.folder / "plan.json"
    tables = job.tables()
    tables.execute_sql(f"COMPILE PLAN '{path}' FOR {FIRST_OF_EACH}")
    with pytest.raises(TableProgramError, match=r"Cannot overwrite the plan file .*table\.plan\.force-recompile"):
        tables.execute_sql(f"COMPILE PLAN '{path}' FOR {FIRST_OF_EACH}")
    before = path.read_text()
    tables.execute_sql(f"COMPILE PLAN '{path}' IF NOT EXISTS FOR INSERT INTO firsts VALUES (1)")
    assert path.read_text() == before


def test_conflicts_of_a_primary_key_keep_the_first_row_or_fail_the_job(job: Job) -> None:
    database = job.folder / "conflicts.db"
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("CREATE TABLE items (item TEXT PRIMARY KEY, id INTEGER)")
    (job.folder / "orders").mkdir()
    orders = ["2024-01-01 00:00:01,apple,1", "2024-01-01 00:00:02,pear,2", "2024-01-01 00:00:03,apple,3"]
    (job.folder / "orders" / "a.csv").write_text("\n".join(orders) + "\n")
    tables = job.tables()
    tables.execute_sql(
        f"""
        CREATE TABLE orders (ts TIMESTAMP(3), item STRING, id BIGINT, WATERMARK FOR ts AS ts)
        WITH ('connector' = 'filesystem', 'path' = '{job.folder / "orders"}', 'format' = 'csv')
        """
    )
    tables.execute_sql(
        f"""
        CREATE TABLE items (item STRING, id BIGINT, PRIMARY KEY (item) NOT ENFORCED)
        WITH ('connector' = 'jdbc', 'url' = 'jdbc:sqlite:{database}', 'table-name' = 'items')
        """
    )
    insert = "INSERT INTO items SELECT item, id FROM orders"
    with pytest.raises(ValidationError, match="Please specify an ON CONFLICT clause"):
        tables.execute_sql(insert)
    tables.execute_sql(f"{insert} ON CONFLICT DO NOTHING").wait()
    with closing(sqlite3.connect(database)) as connection:
        assert sorted(connection.execute("SELECT item, id FROM items")) == [("apple", 1), ("pear", 2)]
    with pytest.raises(JobExecutionError, match=r"Primary key constraint violation.*item='apple'"):
        tables.execute_sql(f"{insert} ON CONFLICT DO ERROR").wait()

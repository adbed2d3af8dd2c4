"""Materialized tables: their definitions, the jobs that statements start and stop, and the errors of wrong ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flinkpy.common.errors import FlinkError, JobNotFoundError, UnsupportedOperationError, ValidationError
from flinkpy.common.states import JobState
from flinkpy.table import EnvironmentSettings, TableEnvironment
from flinkpy.table.catalog.materialized_table import CatalogMaterializedTable, RefreshMode, RefreshStatus
from flinkpy.table.materialized_table_manager import RefreshSession

SUMS = "SELECT a, SUM(b) AS total FROM n GROUP BY a"


class Cluster:
    """Remembers which jobs are submitted and stopped, and with which options."""

    def __init__(self, tables: TableEnvironment) -> None:
        self._configuration = tables.get_config().get_configuration()
        self.jobs: dict[str, JobState] = {}
        self.submitted: list[tuple[str, str, dict[str, str]]] = []
        self.error: FlinkError | None = None

    def submit(self, statement: str, name: str) -> str:
        if self.error is not None:
            raise self.error
        self.submitted.append((statement, name, self._configuration.to_dict()))
        job_id = f"job{len(self.jobs)}"
        self.jobs[job_id] = JobState.RUNNING
        return job_id

    def client(self) -> Cluster:
        return self

    def close(self) -> None:
        return

    def stop_with_savepoint(self, job_id: str, directory: str) -> str:
        self._end(job_id, JobState.FINISHED)
        return f"{directory}/savepoint-{job_id}"

    def cancel_job(self, job_id: str) -> None:
        self._end(job_id, JobState.CANCELED)

    def wait_for_result(self, job_id: str) -> None:
        assert self.jobs[job_id].is_terminal

    def request_job_status(self, job_id: str) -> JobState:
        return self.jobs[job_id]

    def _end(self, job_id: str, state: JobState) -> None:
        if self.jobs[job_id].is_terminal:
            raise JobNotFoundError(f"job {job_id} has ended")
        self.jobs[job_id] = state


class Session:
    """A session whose jobs run on a fake cluster."""

    def __init__(self) -> None:
        self.tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
        self.cluster = Cluster(self.tables)
        statements = self.tables._materialized_tables
        manager: Any = statements._manager
        manager._session = RefreshSession(
            self.tables._catalogs,
            self.tables.get_config().get_configuration(),
            self.cluster.submit,
            self.cluster.client,  # type: ignore[arg-type]
        )
        self.run("CREATE TABLE n (a INT, b BIGINT, c STRING) WITH ('connector' = 'datagen')")

    def run(self, statement: str) -> list[tuple[Any, ...]]:
        with self.tables.execute_sql(statement).collect() as rows:
            return [tuple(row) for row in rows]

    def create(self, clauses: str = "", query: str = SUMS) -> None:
        self.run(f"CREATE MATERIALIZED TABLE m WITH ('connector' = 'print') {clauses} AS {query}")

    @property
    def table(self) -> CatalogMaterializedTable:
        found = self.tables._catalogs.get_table_or_error(("m",)).table
        assert isinstance(found, CatalogMaterializedTable)
        return found


@pytest.fixture
def session() -> Session:
    return Session()


def test_a_short_freshness_starts_a_streaming_job_with_checkpoints(session: Session) -> None:
    session.create("FRESHNESS = INTERVAL '30' SECOND")
    ((statement, name, options),) = session.cluster.submitted
    assert statement.startswith("INSERT INTO `default_catalog`.`default_database`.`m` SELECT")
    assert name == "Materialized_table_`default_catalog`.`default_database`.`m`_continuous_refresh_job"
    assert options["execution.checkpointing.interval"] == "30000 ms"
    assert options["execution.runtime-mode"] == "STREAMING"
    assert "execution.checkpointing.interval" not in session.tables.get_config().get_configuration().to_dict()
    assert session.table.status is RefreshStatus.ACTIVATED and session.table.handler is not None
    assert session.run("SHOW MATERIALIZED TABLES") == [("m",)]
    assert [row[:2] for row in session.run("DESCRIBE m")] == [("a", "INT"), ("total", "BIGINT")]


def test_an_interval_of_checkpoints_that_the_user_set_is_kept(session: Session) -> None:
    session.run("SET 'execution.checkpointing.interval' = '5 s'")
    session.create()
    assert session.cluster.submitted[0][2]["execution.checkpointing.interval"] == "5 s"
    assert str(session.table.freshness) == "INTERVAL '3' MINUTE"


def test_a_long_freshness_means_full_refreshes_by_hand(session: Session) -> None:
    session.create("FRESHNESS = INTERVAL '1' DAY")
    assert session.table.refresh_mode is RefreshMode.FULL and not session.cluster.submitted
    for action in ("SUSPEND", "RESUME"):
        with pytest.raises(UnsupportedOperationError, match=r"workflow scheduler must be configured.* SQL gateway"):
            session.run(f"ALTER MATERIALIZED TABLE m {action}")
    assert session.run("ALTER MATERIALIZED TABLE m REFRESH") == [("job0",)]
    statement, name, options = session.cluster.submitted[0]
    assert statement.startswith("INSERT OVERWRITE `default_catalog`.`default_database`.`m` SELECT * FROM (SELECT")
    assert name.endswith("one_time_refresh_job") and options["execution.runtime-mode"] == "BATCH"


def test_a_partition_is_refreshed_alone(session: Session) -> None:
    session.create("REFRESH_MODE = CONTINUOUS", "SELECT a, c FROM n")
    with pytest.raises(ValidationError, match="unknown partition keys:\n\nc"):
        session.run("ALTER MATERIALIZED TABLE m REFRESH PARTITION (c = 'x')")
    session.run("DROP MATERIALIZED TABLE m")
    session.run(
        "CREATE MATERIALIZED TABLE m PARTITIONED BY (c, a) WITH ('connector' = 'print') REFRESH_MODE = FULL "
        "AS SELECT a, c FROM n"
    )
    session.run("ALTER MATERIALIZED TABLE m REFRESH PARTITION (c = 'x''y', a = 1)")
    assert session.cluster.submitted[-1][0].endswith(" WHERE `c` = 'x''y' AND `a` = CAST('1' AS INT)")


def test_a_suspended_table_resumes_from_its_savepoint(session: Session, tmp_path: Path) -> None:
    session.create()
    with pytest.raises(ValidationError, match="Savepoint directory is not configured"):
        session.run("ALTER MATERIALIZED TABLE m SUSPEND")
    session.run(f"SET 'execution.checkpointing.savepoint-dir' = '{tmp_path}'")
    session.run("ALTER MATERIALIZED TABLE m SUSPEND")
    assert session.table.status is RefreshStatus.SUSPENDED
    with pytest.raises(ValidationError, match="has been suspended, jobId is job0"):
        session.run("ALTER MATERIALIZED TABLE m SUSPEND")
    session.run("ALTER MATERIALIZED TABLE m RESUME WITH ('print-identifier' = 'x')")
    statement, _, options = session.cluster.submitted[1]
    assert "/*+ OPTIONS('print-identifier' = 'x') */" in statement
    assert options["execution.state-recovery.path"] == f"{tmp_path}/savepoint-job0"
    with pytest.raises(ValidationError, match="has been resumed, jobId is job1"):
        session.run("ALTER MATERIALIZED TABLE m RESUME")


def test_a_table_whose_job_has_ended_can_be_resumed(session: Session) -> None:
    session.create()
    session.cluster.jobs["job0"] = JobState.FAILED
    session.run("ALTER MATERIALIZED TABLE m RESUME")
    assert session.table.handler is not None and session.table.handler.job_id == "job1"


def test_dropping_a_table_cancels_its_job(session: Session) -> None:
    session.create()
    session.run("DROP MATERIALIZED TABLE m")
    assert session.cluster.jobs == {"job0": JobState.CANCELED}
    session.run("DROP MATERIALIZED TABLE IF EXISTS m")
    with pytest.raises(ValidationError, match=r"Materialized table .*m.* doesn't exist"):
        session.run("DROP MATERIALIZED TABLE m")


def test_a_table_whose_job_cannot_start_is_not_created(session: Session) -> None:
    session.cluster.error = ValidationError("no")
    with pytest.raises(ValidationError, match="no"):
        session.create()
    assert session.run("SHOW MATERIALIZED TABLES") == []


def test_another_query_may_add_columns_and_starts_without_state(session: Session, tmp_path: Path) -> None:
    session.run(f"SET 'execution.checkpointing.savepoint-dir' = '{tmp_path}'")
    session.create()
    query = "SELECT a, SUM(b) AS total, COUNT(*) AS amount FROM n GROUP BY a"
    session.run(f"CREATE OR ALTER MATERIALIZED TABLE m WITH ('connector' = 'print') AS {query}")
    assert session.cluster.jobs == {"job0": JobState.FINISHED, "job1": JobState.RUNNING}
    assert "execution.state-recovery.path" not in session.cluster.submitted[1][2]
    assert [row[:3] for row in session.run("DESCRIBE m")][2] == ("amount", "BIGINT", "TRUE")
    with pytest.raises(UnsupportedOperationError, match="cannot change WITH, REFRESH_MODE of the existing table"):
        session.run(
            "CREATE OR ALTER MATERIALIZED TABLE m WITH ('connector' = 'blackhole') REFRESH_MODE = FULL AS " + query
        )
    with pytest.raises(ValidationError, match="only support appending columns at the end"):
        session.run("ALTER MATERIALIZED TABLE m AS SELECT b FROM n")
    with pytest.raises(ValidationError, match="columns cannot be dropped"):
        session.run(f"ALTER MATERIALIZED TABLE m AS {SUMS}")


def test_a_table_is_shown_with_its_refresh(session: Session) -> None:
    session.create("FRESHNESS = INTERVAL '2' HOUR REFRESH_MODE = CONTINUOUS", "SELECT a FROM n")
    text = session.run("SHOW CREATE MATERIALIZED TABLE m")[0][0]
    assert text.startswith("CREATE MATERIALIZED TABLE `default_catalog`.`default_database`.`m` (\n  `a` INT\n)\n")
    assert "FRESHNESS = INTERVAL '2' HOUR\nREFRESH_MODE = CONTINUOUS\nAS SELECT" in text
    with pytest.raises(ValidationError, match="use SHOW CREATE MATERIALIZED TABLE instead"):
        session.run("SHOW CREATE TABLE m")


@pytest.mark.parametrize(
    ("statement", "error", "message"),
    [
        (
            "CREATE MATERIALIZED TABLE x FRESHNESS = INTERVAL '1' MONTH AS SELECT 1",
            ValidationError,
            "support SECOND",
        ),
        ("CREATE MATERIALIZED TABLE x FRESHNESS = INTERVAL -'1' DAY AS SELECT 1", ValidationError, "positive integer"),
        ("CREATE MATERIALIZED TABLE m AS SELECT 1 AS a", ValidationError, "already exists"),
        ("CREATE MATERIALIZED TABLE x START_MODE = FROM_NOW AS SELECT 1", UnsupportedOperationError, "FROM_NOW"),
        ("ALTER MATERIALIZED TABLE n SUSPEND", ValidationError, "is no materialized table"),
        ("ALTER MATERIALIZED TABLE x SUSPEND", ValidationError, "x.* doesn't exist"),
        ("ALTER MATERIALIZED TABLE m SET FRESHNESS = INTERVAL '1' DAY", UnsupportedOperationError, "SetFreshness"),
        ("ALTER TABLE m DROP a", ValidationError, "use ALTER MATERIALIZED TABLE"),
        ("DROP TABLE m", ValidationError, "use DROP MATERIALIZED TABLE"),
    ],
)
def test_a_wrong_statement_is_refused(session: Session, statement: str, error: type[FlinkError], message: str) -> None:
    session.create()
    with pytest.raises(error, match=message):
        session.run(statement)
